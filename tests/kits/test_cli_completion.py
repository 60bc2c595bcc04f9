"""What shells complete: the scripts are run where their shells are."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from palmkit.kits.cli.completion import SHELLS

needs_shtab = pytest.mark.usefixtures("shtab")
# What a word is completed to, with the words before it.
COMPLETED: list[tuple[tuple[str, ...], list[str]]] = [
    (("gest",), ["gesture"]),
    (("face", "--pix"), ["--pixelate"]),
    (("face", "--detector"), ["--detector-model"]),
    (("face", "--precision", "h"), ["high"]),
    (("face", "phot"), ["photo.png", "photos"]),
    (("face", "photo.png", "phot"), ["photo.png", "photos"]),
    (("face", "photo.png", "-o", "phot"), ["photo.png", "photos"]),
    (("portrait", "photo.png", "--background", "photo."), ["photo.png"]),
    (("tryon", "photo.png", "--lipstick", "rub"), ["ruby"]),
    (("compress", "photo.png", "--data", "phot"), ["photos"]),
    (("rerank", "train", "--leng"), ["--length"]),
    (("rerank", "evaluate", "--leng"), []),
    (("models", "publ"), ["publish"]),
    (("completion", "ba"), ["bash"]),
]
BASH = """
compopt() { :; }
source ./script
COMP_WORDS=(palmkit "$@")
COMP_CWORD=$#
_shtab_palmkit
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = """
source ./script
complete -C "palmkit $argv" | string split -f 1 \\t
"""


@pytest.fixture
def shtab() -> Any:
    return pytest.importorskip("shtab", reason="shtab is not here")


@pytest.fixture
def script(run: Any, shtab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write the script of a shell in a folder with some files."""
    monkeypatch.chdir(tmp_path)
    Path("photo.png").touch()
    Path("photos").mkdir()

    def write(shell: str) -> str:
        if shutil.which(shell) is None:
            pytest.skip(f"{shell} is not here")
        result = run("completion", shell)
        assert (result.code, result.err) == (0, "")
        Path("script").write_text(result.out)
        return str(result.out)

    return write


@pytest.mark.parametrize(("shell", "code"), [("bash", BASH), ("fish", FISH)])
def test_words_are_completed(script: Any, shell: str, code: str) -> None:
    script(shell)
    for words, wanted in COMPLETED:
        given = [shell, "-c", code, *([shell] if shell == "bash" else []), *words]
        done = subprocess.run(given, capture_output=True, text=True, timeout=60)
        found = [line.removesuffix("/") for line in done.stdout.splitlines() if line]
        assert (sorted(found), done.stderr) == (wanted, ""), words


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_reads_it(script: Any, shell: str) -> None:
    script(shell)
    check = ["tcsh", "-f", "-c", "source script"] if shell == "tcsh" else [shell, "-n", "script"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@needs_shtab
@pytest.mark.parametrize("shell", SHELLS)
def test_it_is_as_it_was_made(run: Any, shell: str) -> None:
    """Nothing in it is escaped for a terminal, and former names are not in it."""
    out = run("completion", shell).out
    assert "\\x" not in out and "second-look" not in out and "rotation" in out


def test_without_shtab_it_says_what_to_do(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    result = run("completion", "bash")
    assert (result.code, result.out) == (1, "")
    assert result.err == 'palmkit: completion needs shtab: pip install "palmkit[completion]"\n'


def test_another_shell(run: Any) -> None:
    result = run("completion", "bsh")
    assert result.code == 2
    assert "SHELL: expected one of bash, zsh, fish, tcsh, got 'bsh', did you mean" in result.err
