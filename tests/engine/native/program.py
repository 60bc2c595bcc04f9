"""The C programs of this folder, compiled by the platform's C compiler against palm.h."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
HEADER = ROOT / "engine" / "native"
_FLAGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-pthread", "-g")


def examples() -> list[str]:
    """Return the programs of docs/c.md: the one that makes a file, the runtime's, the library's."""
    text = (ROOT / "docs" / "c.md").read_text()
    return re.findall(r"^```(?:python|c)\n(.*?)^```$", text, re.M | re.S)


def compiler() -> list[str] | None:
    """Return the C compiler's command, $CC or cc; None if there is none."""
    command = shlex.split(os.environ.get("CC", "cc"))
    return command if shutil.which(command[0]) else None


def library(sanitizer: str = "") -> Path | None:
    """Return the folder of the C library, of `make` or `make sanitize`; None if not built."""
    build = "editable"
    if sanitizer:
        build = "sanitize-thread" if sanitizer == "thread" else "sanitize"
    folder = ROOT / "build" / build
    return folder if (folder / "libpalm.so").exists() else None


def sources_of(name: str) -> list[Path]:
    """Return NAME.c of this folder, and what it needs."""
    return [Path(__file__).parent / source for source in (f"{name}.c", "golden.c", "damage.c")]


def compiled(sources: Sequence[Path], folder: Path, sanitizer: str = "") -> Path:
    """The program of these sources in `folder`, called as the first, with the library's sanitizers.

    RuntimeError for warnings and errors of the compiler, FileNotFoundError where there is no
    compiler or library.
    """
    command, built = compiler(), library(sanitizer)
    if command is None or built is None:
        raise FileNotFoundError("no C compiler" if command is None else "libpalm.so is not built")
    program = folder / sources[0].stem
    command += [*_FLAGS, *([f"-fsanitize={sanitizer}"] if sanitizer else []), f"-I{HEADER}"]
    command += [*map(str, sources), "-o", str(program)]
    command += [f"-L{built}", "-lpalm", f"-Wl,-rpath,{built}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or done.stderr:
        raise RuntimeError(f"{shlex.join(command)}: {done.stderr}")
    return program
