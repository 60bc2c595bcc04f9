"""The kits' C library, built once by CMake, and C programs against it."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from tests.engine.native import program as engine

ROOT = engine.ROOT
SOURCES = ROOT / "kits" / "native"
SANITIZER = os.environ.get("SANITIZER", "")
_FLAGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-pthread", "-g")


def cmake() -> str | None:
    """Return CMake's command, of the environment or the system; None where something is missing."""
    found = shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")
    compilers = shlex.split(os.environ.get("CXX", "")) or ["c++", "g++", "clang++"]
    return found if any(map(shutil.which, compilers)) else None


def built() -> Path:
    """Return the folder of libpalm_kits.so, built if it is not up to date.

    RuntimeError with what was said if it cannot be built.
    """
    kind = "-sanitize" * bool(SANITIZER) + "-thread" * (SANITIZER == "thread")
    folder = ROOT / "build" / f"kits{kind}"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        command = [str(cmake()), "-S", str(SOURCES), "-B", str(folder), "-DPALM_DEV=ON"]
        run([*command, f"-DPALM_SANITIZE={SANITIZER}"])
        run([str(cmake()), "--build", str(folder), "-j2"])
    return folder


def compiled(sources: Sequence[Path], folder: Path, with_engine: bool = True) -> Path:
    """Return the C program of these sources, which uses palm_kits.h and, with_engine, palm.h."""
    compiler, libraries = engine.compiler(), [(built(), "palm_kits")]
    headers = [SOURCES]
    if with_engine:
        library = engine.library(SANITIZER)
        if library is None:
            raise FileNotFoundError("libpalm.so is not built")
        libraries.append((library, "palm"))
        headers.append(engine.HEADER)
        sources = [*sources, SOURCES / "palm_network.c"]
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    program = folder / sources[0].stem
    command = [*compiler, *_FLAGS, *([f"-fsanitize={SANITIZER}"] if SANITIZER else [])]
    command += [*(f"-I{header}" for header in headers), *map(str, sources), "-o", str(program)]
    for place, name in libraries:
        command += [f"-L{place}", f"-l{name}", f"-Wl,-rpath,{place}"]
    run([*command, "-lm"])
    return program


def run(command: Sequence[str]) -> str:
    """Return what a command prints; RuntimeError with what it said if it fails or warns."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode or "warning:" in done.stderr:
        raise RuntimeError(f"{shlex.join(command)}: {done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout
