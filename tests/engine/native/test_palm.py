"""The C header: every shipped model runs in C as it does in Python, and hostile calls do no harm.

SANITIZER=address,undefined, or thread, runs all with the library of `make sanitize`.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from palmkit.engine.format import OLDEST_PLAN_VERSION, PLAN_VERSION
from tests.engine.native import golden
from tests.engine.native.program import (
    HEADER,
    compiled,
    compiler,
    examples,
    library,
    sources_of,
)

SANITIZER = os.environ.get("SANITIZER", "")

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C compiler"),
    pytest.mark.skipif(library(SANITIZER) is None, reason="libpalm.so is not built: make sanitize"),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return golden.write(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(sources_of("palm_test"), tmp_path_factory.mktemp("program"), SANITIZER)


def run(program: Path, test: str, paths: list[Path]) -> str:
    """What the test prints; it fails with what the program said."""
    command = [str(program), test, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize("test", ["golden", "arguments", "damaged", "threads"])
def test_of_all_models(program: Path, test: str, folders: list[Path]) -> None:
    names = {path.stem for path in golden.SHIPPED}
    assert len(names) >= 8 and names <= {folder.name for folder in folders}
    run(program, test, folders)


def test_golden_outputs_can_fail(program: Path, folders: list[Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders[0], tmp_path / "changed"))
    output = bytearray((folder / "output.0").read_bytes())
    output[0] ^= 1
    (folder / "output.0").write_bytes(output)
    with pytest.raises(AssertionError, match="not true: !memcmp"):
        run(program, "golden", [folder])


def test_files_that_c_cannot_run_say_what_to_do(program: Path, folders: list[Path]) -> None:
    refused = sorted((folders[0].parent / "refused").iterdir())
    said = run(program, "refused", refused)
    assert len(said.splitlines()) == len(refused) >= 4
    assert said.count(f"runs {OLDEST_PLAN_VERSION} to {PLAN_VERSION}: ") == 2


def test_a_long_run_is_interrupted(program: Path, folders: list[Path]) -> None:
    slow = folders[0].parent / "slow.palm"
    run(program, "interrupt", [slow, folders[0]])


@pytest.mark.parametrize("language", ["c -std=c99 -pedantic", "c++ -std=c++17"])
def test_the_header_stands_alone(language: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.c"
    source.write_text('#include "palm.h"\nint main(void) { return PALM_OK; }\n')
    command = [*(compiler() or []), "-x", *language.split(), "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{HEADER}", "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


def test_the_document_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    python, c, _ = examples()
    exec(compile(python, "c.md", "exec"), {"__name__": "__main__"})
    source = tmp_path / "net.c"
    source.write_text(c)
    program = compiled([source], tmp_path, SANITIZER)
    said = subprocess.run([program, "net.palm"], capture_output=True, text=True, check=True).stdout
    assert said.startswith("a small net, 2 plans\n") and "\nconv: " in said
    missing = subprocess.run([program, "none.palm"], capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert missing.stderr == "none.palm: cannot be read: No such file or directory\n"


def test_the_library_shows_the_headers_and_nothing_else() -> None:
    nm, built = shutil.which("nm"), library(SANITIZER)
    if nm is None or SANITIZER:
        pytest.skip("no nm" if nm is None else "sanitizers show symbols of their own")
    command = [nm, "-D", "--defined-only", f"{built}/libpalm.so"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    headers = "".join((HEADER / name).read_text() for name in ("palm.h", "palm_engine.h"))
    declared = set(re.findall(r"\b(palm_\w+)\(", headers))
    assert {line.split()[-1] for line in listed.splitlines()} == declared
