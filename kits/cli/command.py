"""Shared parts of the commands."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeAlias

from palmkit.engine.replacing import replacing
from palmkit.kits.cli.process import one_line, shown
from palmkit.kits.nearest import did_you_mean, nearest

Run: TypeAlias = Callable[[argparse.Namespace], int]
# The largest number that is finite in float32.
LARGEST = float.fromhex("0x1.fffffep+127")
# So many names of a folder are compared with one that is not there.
COMPARED = 10_000


class UsageError(Exception):
    """Raised when the arguments do not go together: one line, and exit code 2."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, with what was probably meant.

    Files may stand between options: `palmkit face a.jpg --json b.jpg`. Its texts show escapes for
    what could steer a terminal.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Make the parser with the arguments of argparse's."""
        super().__init__(*arguments, **options)
        # Python 3.14 colours help.
        vars(self)["color"] = False

    def error(self, message: str) -> NoReturn:
        """Print one line on standard error, and exit with code 2."""
        self.exit(2, f"{self.prog}: {one_line(message.removeprefix('argument '))}\n")

    def parse_known_args(self, *arguments: Any, **options: Any) -> Any:
        """Parse as argparse does, but what is left is an error here, where it was given."""
        found, left = super().parse_known_args(*arguments, **options)
        if left:
            self._take(found, left)
        return found, []

    def _take(self, found: argparse.Namespace, left: list[str]) -> None:
        """Take words that stand behind an option for files, where these may be many."""
        end = left.index("--") if "--" in left else len(left)
        options = [word for word in left[:end] if word.startswith("-") and word != "-"]
        words = left[:end] + left[end + 1 :]
        if options:
            self.error(self._unknown(options[0]))
        actions: list[argparse.Action] = vars(self)["_actions"]
        many = [each for each in actions if not each.option_strings and each.nargs in ("*", "+")]
        if not many or many[-1].type is not None:
            self.error(f"expected no more arguments, got {words[0]!r}")
        # A new list: argparse may have put in the default.
        setattr(found, many[-1].dest, [*getattr(found, many[-1].dest), *words])

    def _unknown(self, word: str) -> str:
        name = word.partition("=")[0]
        if os.path.lexists(word):
            return f"no option {name}; write ./{word} for the file"
        known: dict[str, argparse.Action] = vars(self)["_option_string_actions"]
        shown_ones = [each for each in known if known[each].help != argparse.SUPPRESS]
        meant = did_you_mean(name, shown_ones)
        return f"no option {name}{meant or f'; see {self.prog} --help'}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(each) for each in action.choices]
        meant = did_you_mean(str(value), known)
        if isinstance(action.choices, dict):
            told = f"no command {value}{meant or f'; see {self.prog} --help'}"
            raise argparse.ArgumentError(None, told)
        told = f"expected one of {', '.join(known)}, got {value!r}{meant}"
        raise argparse.ArgumentError(action, told)

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(shown(message), file)


class ShowVersion(argparse.Action):
    """Show the version and end. It is not looked up before, as argparse's own action has it."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        """Make the action with the arguments of argparse's."""
        help = "show program's version number and exit"
        super().__init__(option_strings, argparse.SUPPRESS, help=help, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """Show it."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            said = version("palmkit")
        except PackageNotFoundError:
            said = "(not installed)"
        print(f"{parser.prog} {said}")
        parser.exit()


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


def meant_file(name: str, *words: str) -> str:
    """Return the end of a message about a file that is not there: ", did you mean a.jpg?".

    words: that may have been meant as well. "": the file is there, or none is like it.
    """
    path = Path(name)
    try:
        if path.exists():
            return ""
        with os.scandir(path.parent) as entries:
            here = [each.name for each in islice(entries, COMPARED)]
    except (OSError, ValueError):
        here = []
    # Of names that differ in their suffix alone, the one with this suffix.
    here.sort(key=lambda each: Path(each).suffix == path.suffix)
    known = {Path(each).stem: str(path.with_name(each)) for each in here}
    known |= {each: each for each in words}
    found = nearest(path.stem, known)
    return "" if found is None else f", did you mean {known[found]}?"


def meant_by(error: BaseException) -> str:
    """Return the end of a message about an error: which file was meant, if one is missing."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, FileNotFoundError) and found.filename is not None:
            return meant_file(os.fsdecode(found.filename))
        found = found.__cause__ or found.__context__
    return ""


def proposing(action: argparse.Action, words: Iterable[str]) -> None:
    """Let a shell complete these words where an argument stands; others may be given as well."""
    vars(action)["words"] = tuple(words)


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


@contextmanager
def above_bars() -> Generator[None]:
    """Clear progress bars while lines are printed on standard output."""
    # A bar takes .03 s to import: where there is none, none is looked for.
    if "tqdm" not in sys.modules:
        yield
        return
    from tqdm import tqdm

    with tqdm.external_write_mode(file=sys.stdout):
        yield


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
