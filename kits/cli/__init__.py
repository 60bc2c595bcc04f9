"""The palmkit command.

A command is a file of this folder with `add(commands)`, which describes it to argparse and leaves
its function as the default of `run`. Of these only the one that is called is imported. Exit codes:
0 done, 1 something failed or the output could not be written, 2 usage, 130 interrupted, 141 nobody
reads the output any more. A stream that is closed from the start is as /dev/null.
"""

from __future__ import annotations

import sys

# Everything else is imported within `main`, where Ctrl-C ends it silently.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from palmkit.kits.cli.command import Commands

# Those of the kits, as the table of kits has them, come before.
COMMANDS = (
    "rerank train",
    "rerank evaluate",
    "rerank score",
    "batch",
    "convert",
    "export",
    "build-runtime",
    "compress",
    "info",
    "check",
    "show",
    "ops",
    "bench",
    "models",
    "serve",
    "web",
    "doctor",
    "completion",
)

DESCRIPTION = (
    "Ready-made vision and ranking kits that run on this machine. Only `palmkit models` opens "
    "connections, `palmkit serve` takes them, and `palmkit web` those of this machine."
)
EXAMPLES = """\
examples:
  palmkit face group.jpg -o found.jpg      draw the faces found
  palmkit face photos/ --json              one JSON object a picture
  palmkit face clip.mp4 -o found.mp4       a video, faces numbered
  palmkit face group.jpg -o shared.jpg --blur
  palmkit portrait me.jpg -o away.jpg --background blur
  palmkit tryon me.jpg -o red.jpg --lipstick ruby --hair violet
  palmkit gesture --camera                 hands and what they show, live
  palmkit face - --json < me.jpg           a picture from standard input
  palmkit rerank page.json --json          a page of items, by what the user did
  palmkit convert net.onnx -o net.palm     a model of another kind
  palmkit export net.palm --c library --isa neon
  palmkit build-runtime --models net.palm -o runtime --isa neon
  palmkit compress net.onnx -o small.palm --data photos/ --max-loss 1%
  palmkit check my.palm --source my.onnx   does it give the same numbers
  palmkit info net.palm                    what is in a model
  palmkit models list                      the models that are here
  palmkit doctor                           whether all of it works here
  palmkit COMMAND --help                   more of these
"""
MORE = "Pictures, videos, folders and cameras all work. `palmkit --help` lists all commands."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    arguments: None: those of this process, which does nothing else then.
    """
    given = sys.argv[1:] if arguments is None else arguments
    try:
        from palmkit.kits.cli.process import ended
    except BaseException as error:
        # Before Python 3.12, enum, which signal imports, turns it into another error.
        if isinstance(error.__cause__ or error, KeyboardInterrupt):
            return 130
        raise
    return ended(lambda: _run(given), arguments is None)


def _run(arguments: Sequence[str]) -> int:
    import warnings

    from palmkit.engine.errors import PalmError
    from palmkit.kits.cli.command import UsageError, meant_by
    from palmkit.kits.cli.process import complain, reason

    words = _joined(arguments)
    options = parser(only=words[0] if words else "").parse_args(words)
    # The limit on pixels is ours; Pillow's warning would be a second line about it.
    warnings.filterwarnings("ignore", module="PIL")
    try:
        code: int = options.run(options)
        return code
    except UsageError as error:
        options.usage_error(str(error))
        raise
    except (PalmError, OSError, ImportError) as error:
        complain(reason(error) + meant_by(error))
        return 1


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return commands of two words, such as "rerank train", as one argument."""
    two = " ".join(arguments[:2])
    if two in COMMANDS and len(arguments) > 1:
        return [two, *arguments[2:]]
    return list(arguments)


def parser(
    arranged: Callable[[Commands], Commands] | None = None, only: str = ""
) -> argparse.ArgumentParser:
    """Return the whole command line: every kit and every command.

    arranged: returns what commands are added to in place of the parser's own; names of two words,
    such as "rerank train", are one name here. only: if it is a command, that one alone is added.
    """
    import argparse
    from importlib import import_module

    from palmkit.kits.cli.command import Parser, ShowVersion
    from palmkit.kits.table import KITS

    made = Parser(
        prog="palmkit",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action=ShowVersion, nargs=0)
    made.set_defaults(run=_guide, usage_error=made.error)
    own = made.add_subparsers(title="commands", metavar="COMMAND")
    commands = own if arranged is None else arranged(own)
    # Kits without a command of their own have one that follows from their options.
    names = dict.fromkeys(entry.command or name for name, entry in KITS.items())
    names |= dict.fromkeys(COMMANDS)
    for name in (only,) if only in names else names:
        if name in KITS and not KITS[name].command:
            import_module("palmkit.kits.cli.kit").add(commands, name)
        else:
            module = name.replace(" ", "_").replace("-", "_")
            import_module(f"palmkit.kits.cli.{module}").add(commands)
    return made


def _guide(options: argparse.Namespace) -> int:
    """Print what a bare `palmkit` shows."""
    import textwrap

    print(f"{textwrap.fill(DESCRIPTION, 90)}\n\n{EXAMPLES}\n{MORE}")
    return 0
