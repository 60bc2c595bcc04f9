"""palmkit completion: what a shell needs to complete commands, options and files."""

from __future__ import annotations

import argparse
from typing import Any, cast

from palmkit.engine.errors import PalmError
from palmkit.kits.cli.command import Commands, add_command

SHELLS = ("bash", "zsh", "fish", "tcsh")
DESCRIPTION = """\
Print a script that lets a shell complete palmkit's commands, options, their words and files. Where
it goes depends on the shell; it takes effect in the next one that is started. Needs the extra
`completion`: pip install "palmkit[completion]".
"""
EXAMPLES = """\
  palmkit completion bash > ~/.local/share/bash-completion/completions/palmkit
  palmkit completion zsh > ~/.zfunc/_palmkit       a folder of $fpath
  palmkit completion fish > ~/.config/fish/completions/palmkit.fish
  palmkit completion tcsh > ~/.palmkit.csh         and in ~/.tcshrc: source ~/.palmkit.csh
"""
# What stands for files and folders in help; of "FILE.html" the first part.
FILES = (
    "B",
    "FILE",
    "HTML",
    "IMAGE",
    "IN",
    "JSON",
    "LOG",
    "LOOK",
    "MODEL",
    "OUT",
    "PLAN",
    "SOURCE",
)
FOLDERS = ("DIR", "FOLDER", "PLACE")


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "completion",
        run,
        help="let a shell complete commands, options and files",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="%(choices)s")


def run(options: argparse.Namespace) -> int:
    """Print the script of a shell."""
    from palmkit.kits.cli import parser

    try:
        import shtab
    except ModuleNotFoundError:
        raise PalmError('completion needs shtab: pip install "palmkit[completion]"') from None
    made = parser(_Nested)
    _mark(made, shtab.FILE, shtab.DIRECTORY)
    print(shtab.complete(made, options.shell))
    return 0


class _Nested:
    """Adds "train" to "rerank" for a command "rerank train": a shell has two words there."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._made: dict[str, argparse.ArgumentParser] = {}
        self._inner: dict[str, Commands] = {}

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser:
        first, _, second = name.partition(" ")
        if not second:
            self._made[name] = self._commands.add_parser(name, **options)
            return self._made[name]
        if first not in self._inner:
            self._inner[first] = self._made[first].add_subparsers(metavar="COMMAND")
        return self._inner[first].add_parser(second, **options)


def _mark(parser: argparse.ArgumentParser, file: Any, folder: Any) -> None:
    """Say of each argument of a parser, and of its commands, what is completed there.

    file, folder: how shtab marks an argument that is one.
    """
    actions: list[argparse.Action] = vars(parser)["_actions"]
    for action in actions:
        choices: Any = action.choices
        kind = str(action.metavar or "").partition(".")[0].partition("|")[0]
        if isinstance(choices, dict):
            for inner in cast("dict[str, argparse.ArgumentParser]", choices).values():
                _mark(inner, file, folder)
        elif kind in FILES + FOLDERS and action.nargs != 0 and choices is None:
            vars(action)["complete"] = file if kind in FILES else folder
        if words := vars(action).get("words"):
            action.choices = words
