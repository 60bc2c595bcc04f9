"""Every command of the command line, with arguments that an attacker or a tired user gives it."""

from __future__ import annotations

import io
import os
import signal
import socketserver
import sys
import traceback
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.kits import cli
from tests.kits import hostile
from tests.kits.hostile import Case

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="needs named pipes, /dev/full and SIGALRM"
)
# Far beyond what any case takes; one that waits for a pipe or runs for ever ends so.
LIMIT_S = 60
# A line of usage is longer; 75: somebody else wrote at the same time.
MOST_LINES = 6
PNG = b"\x89PNG"
CODES = {0, 1, 2, 75}
PARSERS = dict(hostile.commands(cli.parser()))
ENCODINGS = ("ascii", "cp1252", "utf-8")


class Server:
    """Listens, and is over at once."""

    started = True

    def run(self, sockets: list[Any]) -> None:
        for each in sockets:
            each.close()


class Endless(BaseException):
    """A command went on for LIMIT_S."""


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The world as it is before each case."""
    folder = tmp_path_factory.mktemp("pristine")
    hostile.make_world(folder)
    return folder


class World:
    """A copy of it as the working folder."""

    def __init__(self, pristine: Path) -> None:
        self._pristine, self.before = pristine, hostile.seen(pristine)
        hostile.restore(Path(), {}, pristine, self.before)

    def restored(self) -> list[str]:
        """Put it back; the files that were new."""
        now = hostile.seen(Path())
        new = [path for path in now if path not in self.before and os.path.isfile(path)]
        hostile.restore(Path(), now, self._pristine, self.before)
        return new


@pytest.fixture
def world(pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    folder = tmp_path / "world"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PALMKIT_DELIVERY_FOLDER", str(tmp_path / "delivered"))
    monkeypatch.setenv("PALMKIT_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("PALMKIT_PASSPHRASE", "PALMKIT_REPOSITORY", "SENTRY_DSN"):
        monkeypatch.delenv(name, raising=False)
    return World(pristine)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each process does once is done once; nothing listens for strangers."""
    from palmkit.delivery.server import connections
    from palmkit.engine import operators
    from palmkit.kits.cli import camera

    def serve_forever(listening: object) -> None:
        pass

    def http_server(*given: object) -> Server:
        return Server()

    def no_camera(number: int) -> None:
        raise kits.ImageError(f"camera cannot be opened: {number}")

    monkeypatch.setattr(connections, "http_server", http_server)
    monkeypatch.setattr(socketserver.BaseServer, "serve_forever", serve_forever)
    monkeypatch.setattr(camera, "VideoReader", no_camera)
    monkeypatch.setattr(operators, "table", cache(operators.table))
    monkeypatch.setattr(cli, "parser", cache(cli.parser))


@contextmanager
def limited() -> Generator[None]:
    def ring(number: int, frame: object) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(
    arguments: tuple[str, ...], encoding: str, patch: pytest.MonkeyPatch
) -> tuple[int, str, str]:
    """The code, output and error output of the command in this process.

    Its standard input is junk.
    """
    junk = io.BytesIO(hostile.JUNK)
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="") for _ in range(2)]
    with patch.context() as streamed, limited():
        streamed.setattr(sys, "stdin", io.TextIOWrapper(junk, encoding=encoding))
        for name, stream in zip(("stdout", "stderr"), streams, strict=True):
            streamed.setattr(sys, name, stream)
        try:
            code: Any = cli.main(arguments)
        except SystemExit as ended:
            code = ended.code
    out, err = (_written(stream) for stream in streams)
    return code, out, err


def _written(stream: io.TextIOWrapper) -> str:
    """What was written as text; a picture is none."""
    stream.seek(0)
    is_picture = stream.buffer.read(len(PNG)) == PNG
    stream.seek(0)
    return "" if is_picture else stream.read()


def wrong(case: Case, encoding: str, world: World, patch: pytest.MonkeyPatch) -> str:
    """What is wrong with how a command ends; nothing if all is well."""
    try:
        code, out, err = run((*case.words, *case.arguments), encoding, patch)
    except (Exception, Endless, KeyboardInterrupt) as error:
        world.restored()
        return "".join(traceback.format_exception(error)[-3:])
    # What a good option names may be there, whole, where another one fails.
    left = [path for path in world.restored() if path not in case.written]
    told = [line for line in err.splitlines() if not line.startswith(("usage:", " "))]
    if code not in CODES:
        return f"code {code}"
    if "Traceback" in err or len(told) > MOST_LINES or (code and not told and not out):
        return f"code {code}, said {told}"
    if not (out + err).replace("\n", "").replace("\t", "").isprintable():
        return f"what steers a terminal: {(out + err)!r}"
    if not code or " ".join(case.words) in hostile.RESUMED:
        left = [path for path in left if ".part" in os.path.basename(path)]
    return f"code {code}, left {left}" if left else ""


@pytest.mark.parametrize("command", PARSERS)
@pytest.mark.usefixtures("quick")
def test_a_command_ends_in_few_lines_whatever_it_is_given(
    command: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    for number, case in enumerate(hostile.cases(command, PARSERS[command])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Options of old names say so.
            warnings.filterwarnings("ignore", "--.* is deprecated", DeprecationWarning)
            problem = wrong(case, ENCODINGS[number % len(ENCODINGS)], world, monkeypatch)
        if problem:
            found.append(f"{case}: {problem}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("suffix", "width"), [(".webp", 16_384), (".jpg", 65_536), (".gif", 65_536), (".jp2", 16)]
)
def test_a_picture_that_the_format_cannot_hold(
    suffix: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kits.write_image(tmp_path / "wide.png", np.zeros((2, width, 3), np.uint8))
    arguments = ("face", str(tmp_path / "wide.png"), "-o", str(tmp_path / f"out{suffix}"))
    code, out, err = run(arguments, "utf-8", monkeypatch)
    assert (code in (1, 2), out) == (True, "")
    assert len([line for line in err.splitlines() if line.startswith("palmkit")]) == 1
    assert os.listdir(tmp_path) == ["wide.png"]


def test_the_sweep_would_find_a_traceback_a_hang_and_half_a_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise ValueError("no")

    def leaves() -> None:
        Path("out.palm.part").touch()

    def waits() -> None:
        Path("fifo").read_bytes()

    def steers() -> None:
        sys.stderr.write("a\x1b[2J\n")

    monkeypatch.setattr(sys.modules[__name__], "LIMIT_S", 0.2)

    def main(does: Callable[[], None], arguments: object) -> int:
        does()
        return 0

    for does, told in (
        (fails, "ValueError"),
        (waits, "Endless"),
        (leaves, "left"),
        (steers, "steers"),
    ):
        monkeypatch.setattr(cli, "main", partial(main, does))
        assert told in wrong(Case(("face",), ()), "utf-8", world, monkeypatch)
