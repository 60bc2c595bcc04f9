"""Shared parts of the commands."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from palmkit.engine.replacing import replacing
from palmkit.kits.cli.process import shown

Run: TypeAlias = Callable[[argparse.Namespace], int]
# The largest number that is finite in float32.
LARGEST = float.fromhex("0x1.fffffep+127")


class UsageError(Exception):
    """Raised when the arguments do not go together: one line, and exit code 2."""


class Parser(argparse.ArgumentParser):
    """A parser that shows its arguments as text, with escapes for what could steer a terminal."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Make the parser with the arguments of argparse's."""
        super().__init__(*arguments, **options)
        # Python 3.14 colours help.
        vars(self)["color"] = False

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(shown(message), file)


class Commands(Protocol):
    """What argparse's add_subparsers returns."""

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser:
        """Add a sub-command."""
        ...


def add_command(
    commands: Commands, name: str, run: Run, help: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """Add a sub-command whose --help ends with examples.

    `options.usage_error` of its arguments ends it with code 2.
    """
    parser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, usage_error=parser.error)
    return parser


def seed(text: str) -> int:
    """Parse a seed of random numbers, 0 or more; as an argument's type."""
    with suppress(ValueError):
        if (number := int(text)) >= 0:
            return number
    raise argparse.ArgumentTypeError(f"expected a number, 0 or more, got {text!r}")


def finite(text: str) -> float:
    """Parse a number that float32 can hold; as an argument's type."""
    with suppress(ValueError):
        if abs(number := float(text)) <= LARGEST:
            return number
    raise argparse.ArgumentTypeError(f"expected a finite number, got {text!r}")


def progress_bar(total: int | None, unit: str, quiet: bool = False) -> Any:
    """Return a tqdm bar on standard error, on a terminal only and gone when closed."""
    from tqdm import tqdm

    return tqdm(
        total=total, unit=unit, disable=True if quiet else None, leave=False, file=sys.stderr
    )


def check_writable(target: Path) -> None:
    """Raise OSError if `write_whole` could not write the file: before long work, not after it."""
    folder = Path(os.path.realpath(target)).parent
    while not folder.exists():
        folder = folder.parent
    if target.is_dir():
        number = errno.EISDIR
    elif not folder.is_dir():
        number = errno.ENOTDIR
    elif not os.access(target if _is_special(target) else folder, os.W_OK):
        number = errno.EACCES
    else:
        return
    raise OSError(number, os.strerror(number), str(target))


def _is_special(target: Path) -> bool:
    """Return whether it exists and is no file, such as /dev/stdout, and so is not replaced."""
    return target.exists() and not target.is_file()


def write_whole(target: Path, text: str) -> None:
    """Write the whole file or none; its folder is made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as part:
        part.write_text(text, encoding="utf-8")
