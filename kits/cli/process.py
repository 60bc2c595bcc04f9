"""A command as a process: its streams, Ctrl-C, and how it ends."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

# Only cheap modules are imported here, as every command waits for them.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, TextIO

INTERRUPTED = 130
NO_READER = 141


class Unwritable(Exception):
    """Raised when standard output takes no more."""

    def __init__(self, error: OSError) -> None:
        """Make the error.

        error: the error of writing.
        """
        super().__init__(f"standard output: {(error.strerror or str(error)).lower()}")
        self.has_no_reader = isinstance(error, BrokenPipeError)


def shown(text: str, kept: str = "\n\t") -> str:
    """Return the text with escapes for what would steer a terminal or cannot be encoded.

    kept: characters that stay.
    """
    if text.isprintable():
        return text
    return "".join(each if each in kept or each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    # Spaces of other alphabets, and what joins letters and emoji.
    harmless = character in "\u200c\u200d" or (character.isspace() and ord(character) >= 0xA0)
    if harmless and character not in "\u2028\u2029":
        return character
    return character.encode("unicode_escape").decode("ascii")


class _Output:
    """Standard output that escapes control characters in names and in the texts of model files."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(shown(text))
        except OSError as error:
            raise Unwritable(error) from None

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise Unwritable(error) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def ended(go: Callable[[], int], is_process: bool) -> int:
    """Run a command and return its exit code.

    is_process: whether it is all that this process does. Then Ctrl-C also ends it silently
    afterwards, and streams that were closed when it began are as /dev/null.
    """
    if is_process:
        _open_streams()
    before = sys.stdout
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    output: Any = _Output(before)
    sys.stdout = output
    interrupts = _Interrupts(is_process)
    try:
        try:
            return go()
        finally:
            output.flush()
    except Unwritable as error:
        _leave_unwritten(before)
        if error.has_no_reader:
            return NO_READER
        complain(error)
        return 1
    except BaseException as error:
        # Some of what an interrupt goes through, such as an import, makes another error of it.
        if interrupts.came:
            return INTERRUPTED
        if not isinstance(error, ImportError):
            raise
        # Of a processor that this cannot run on, or a library that is missing.
        complain(error)
        return 1
    finally:
        sys.stdout = before
        interrupts.over()


def write_output(data: bytes) -> None:
    """Write bytes to standard output.

    Raises Unwritable if it takes no more.
    """
    sys.stdout.flush()
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        raise Unwritable(error) from None


def reason(error: BaseException) -> str:
    """Return what went wrong, and with which file, without the system's error number."""
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f": {os.fsdecode(error.filename)}"
        return f"{error.strerror.lower()}{where}"
    return str(error)


def one_line(text: str) -> str:
    """Return the text on one line, with escapes for what would steer a terminal."""
    return shown(" ".join(text.split()), "")


def complain(message: object, by: str = "palmkit: ") -> None:
    """Print one line on standard error, which begins with its sender."""
    if isinstance(message, BaseException):
        message = reason(message)
    # There is nowhere to report that nothing can be reported.
    with suppress(OSError):
        print(f"{by}{one_line(str(message))}", file=sys.stderr)


@contextmanager
def until_interrupted() -> Generator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C came, which ends nothing by itself meanwhile.

    A second one does what it did before.
    """
    before = signal.getsignal(signal.SIGINT)
    came = False

    def come(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        signal.signal(signal.SIGINT, before)

    is_ours = False
    if callable(before):
        # Only the main thread may set handlers.
        with suppress(ValueError):
            signal.signal(signal.SIGINT, come)
            is_ours = True
    try:
        yield lambda: came
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)


class _Interrupts:
    """Records Ctrl-C that raises KeyboardInterrupt, whatever becomes of the exception."""

    def __init__(self, is_process: bool) -> None:
        self.came = False
        self._is_process = is_process
        self._is_ours = False
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # Only the main thread may set handlers.
            with suppress(ValueError):
                signal.signal(signal.SIGINT, self._come)
                self._is_ours = True

    def _come(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        signal.default_int_handler(number, frame)

    def over(self) -> None:
        if self._is_ours:
            after = signal.SIG_DFL if self._is_process else signal.default_int_handler
            signal.signal(signal.SIGINT, after)


def _open_streams() -> None:
    """Give closed streams a file before another file gets their descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _leave_unwritten(stream: Any) -> None:
    """Drop unwritten output, as Python flushes again at its end and would complain."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
