"""Standard streams that are closed, full or read by nobody, and Ctrl-C at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palmkit import engine
from palmkit.engine.ir import Node, Type
from tests.kits.conftest import COMMAND

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signals and /dev/full")
NO_SPACE = "palmkit: standard output: no space left on device\n"
NONE = "palmkit: cannot read model none: No such file or directory\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small model."""
    type = Type("float32", (1, 3, 8, 8))
    graph = engine.Graph({"x": type}, {"y": type}, (Node("relu", ("x",), ("y",)),), {}, {})
    engine.save(graph, tmp_path / "net.palm")
    return tmp_path


def interruptible(handler: Any = signal.SIG_DFL) -> Callable[[], Any]:
    """For a child, whatever its parent does of SIGINT: what it begins with."""
    return lambda: signal.signal(signal.SIGINT, handler)


def shell(folder: Path, line: str) -> tuple[int, str, str]:
    """The code, output and error output of a shell's line; $P is the command."""
    given = {**os.environ, "P": " ".join(COMMAND)}
    done = subprocess.run(
        ["sh", "-c", line], cwd=folder, env=given, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("line", "code", "err"),
    [
        ("$P info net.palm >&-", 0, ""),
        ("$P info net.palm >&- 2>&- <&-", 0, ""),
        ("$P info net.palm <&- >/dev/null", 0, ""),
        ("$P info net.palm >/dev/full", 1, NO_SPACE),
        ("$P info none >&-", 1, NONE),
        ("$P info none 2>&-", 1, ""),
        ("$P info none 2>/dev/full", 1, ""),
        ("$P info net.palm >/dev/full 2>/dev/full", 1, ""),
        ("$P info 2>/dev/full", 2, ""),
        ("$P info 2>&-", 2, ""),
        ("$P --help >/dev/full", 1, NO_SPACE),
        ("$P --version >&-", 0, ""),
        # Its file, not what it says, was wanted.
        ("$P convert net.palm -o out.palm >&- && test -s out.palm", 0, ""),
    ],
)
def test_streams_that_take_nothing(folder: Path, line: str, code: int, err: str) -> None:
    assert shell(folder, line) == (code, "", err)


@pytest.mark.parametrize(
    ("arguments", "stream", "code"),
    [
        (("info", "net.palm"), "stdout", 141),
        (("--help",), "stdout", 141),
        (("info", "none"), "stderr", 1),
        (("info",), "stderr", 2),
    ],
)
def test_a_pipe_that_nobody_reads(
    folder: Path, arguments: tuple[str, ...], stream: str, code: int
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    other = "stderr" if stream == "stdout" else "stdout"
    streams: dict[str, Any] = {stream: writer, other: subprocess.PIPE}
    process = subprocess.Popen([*COMMAND, *arguments], cwd=folder, **streams)
    os.close(writer)
    assert [each for each in process.communicate(timeout=120) if each] == []
    assert process.returncode == code


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_names_that_the_encoding_lacks(folder: Path, encoding: str) -> None:
    name = "\u5bb6\udcff\x1b[1m.palm"
    (folder / "net.palm").rename(folder / name)
    given = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    for arguments, code in (
        (["convert", name, "-o", f"{name}.palm"], 0),
        (["info", f"./{name}/x"], 1),
        (["info", name, f"--{name}"], 2),
    ):
        done = subprocess.run(
            [*COMMAND, *map(os.fsencode, arguments)],
            cwd=folder, env=given, capture_output=True, timeout=120,
        )  # fmt: skip
        told = (done.stdout + done.stderr).decode("ascii")
        assert done.returncode == code and "Traceback" not in told
        assert "\\udcff\\x1b[1m" in told and told.replace("\n", "").isprintable()


# It imports nothing that Python has not imported before.
RING = """
import os, sys
HERE = {here!r}

def ring():
    os.kill(os.getpid(), {number})

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == HERE:
            ring()

sys.meta_path.insert(0, Finder())
sys.argv = ["palmkit", *{arguments!r}]
"""
MAIN = "from palmkit.kits.cli import main\nsys.exit(main())\n"


def interrupted(
    folder: Path, here: str, *arguments: str, before: str = "", handler: Any = signal.SIG_DFL
) -> tuple[int, str]:
    """The code and error output of a command that gets Ctrl-C as it imports a module.

    before: a script that calls ring() elsewhere. handler: of SIGINT when it begins.
    """
    script = (
        RING.format(here=here, number=int(signal.SIGINT), arguments=arguments)
        + textwrap.dedent(before)
        + MAIN
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        preexec_fn=interruptible(handler),
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "here",
    [
        "typing",
        "palmkit.kits.cli.process",
        "signal",
        "enum",
        "argparse",
        "palmkit.kits.cli.command",
        "palmkit.kits.cli.info",
        "numpy",
        "palmkit.engine.summary",
        "palmkit.engine._native",
    ],
)
def test_ctrl_c_while_importing(folder: Path, here: str) -> None:
    assert interrupted(folder, here, "info", "net.palm", "--plan") == (130, "")


def test_an_import_that_makes_another_error_of_ctrl_c(folder: Path) -> None:
    before = """
    import builtins
    ours = builtins.__import__
    def importing(name, *rest):
        try:
            return ours(name, *rest)
        except KeyboardInterrupt:
            raise ImportError("cannot be imported") from None
    builtins.__import__ = importing
    """
    assert interrupted(folder, "numpy", "info", "net.palm", before=before) == (130, "")


@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        ("json", "dumps", ("info", "net.palm", "--json")),
        ("os", "replace", ("convert", "net.palm", "-o", "out/new.palm")),
        ("os", "fsync", ("models", "create", "--no-passphrase", "-r", "out")),
    ],
)
def test_ctrl_c_while_it_runs_or_writes(
    folder: Path, module: str, name: str, arguments: tuple[str, ...]
) -> None:
    before = f"""
    import {module}
    ours = {module}.{name}
    def ringing(*arguments, **options):
        ring()
        return ours(*arguments, **options)
    {module}.{name} = ringing
    """
    assert interrupted(folder, "", *arguments, before=before) == (130, "")
    assert not [*folder.rglob("*.part*"), *folder.rglob("new.palm"), *folder.rglob("*.pem")]


def test_ctrl_c_behind_the_command(folder: Path) -> None:
    before = "import atexit\natexit.register(ring)\n"
    assert interrupted(folder, "", "--version", before=before) == (-signal.SIGINT, "")


def test_where_ctrl_c_is_ignored_it_stays_so(folder: Path) -> None:
    ignored = signal.SIG_IGN
    assert interrupted(folder, "numpy", "info", "net.palm", handler=ignored) == (0, "")
