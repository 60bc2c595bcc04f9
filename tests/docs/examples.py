"""The examples in documents and docstrings: where they stand, and what is needed to run them."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from palmkit.demos import app
from palmkit.kits import cli

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "kits", "engine", "delivery", "demos", "models")
DOCUMENTS = sorted(
    {*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))}
)
# What stands for an address of one's own in documents.
ADDRESS = "https://models.example.com"
COMMANDS = ("palmkit", "palmkit-demo", "python", "pip", "make")
SHELL = ("", "sh", "console")

# Commands that are neither run nor parsed, by their first word, and why.
NOT_PARSED = {
    "M=$(python": "an assignment of the shell",
    "cc": "tests/engine/native compiles and runs this program",
    "cmake": "tests/engine/native builds the C library",
    "curl": "needs a connection",
    "export": "an assignment of the shell",
    "./faces": "tests/kits/native compiles and runs this program",
    "./net": "tests/engine/native compiles and runs this program",
}

# What a command with too few arguments says.
LACKING = re.compile(r".*: (the following arguments are required|expected one argument$)")
# Words that stand for one of a few.
STANDING = {"KIT": "face"}

_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of code: its language and its text, whose lines have the numbers of the file's."""

    language: str
    text: str


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a document."""
    text = path.read_text(encoding="utf-8")
    return [
        Block(match[1], "\n" * text.count("\n", 0, match.start(2)) + match[2])
        for match in _FENCE.finditer(text)
    ]


def commands(text: str) -> list[str]:
    """Return the commands of a document: those in shell blocks, and lines indented as code."""
    found = [
        line for match in _FENCE.finditer(text) if match[1] in SHELL for line in lines(match[2])
    ]
    rest = _FENCE.sub("", text).replace("\\\n", "\\\n    ")
    code = "\n".join(line for line in rest.splitlines() if line.startswith("    "))
    return found + [line for line in lines(code) if line.split()[0] in COMMANDS]


def mentions(text: str) -> list[str]:
    """Return the commands of palmkit that a document has within its sentences and tables."""
    return [
        " ".join(each.split()) for each in re.findall(r"`(palmkit [^`]+)`", _FENCE.sub("", text))
    ]


def lines(text: str) -> list[str]:
    """Return the commands of a block, each on one line without a prompt and what is said of it."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    said = (line.strip().removeprefix("$ ") for line in joined.splitlines())
    return [re.split(r"\s{2,}", line)[0] for line in said if line]


def words(line: str) -> list[str]:
    """Return the words of a command, without comments and redirections."""
    split = shlex.split(re.split(r" [<>] ", line)[0], comments=True)
    return [STANDING.get(word, word) for word in split]


@cache
def parser() -> argparse.ArgumentParser:
    """Return the parser of palmkit."""
    return cli.parser()


@cache
def epilogs() -> dict[str, str]:
    """Return the end of the help of each command; "": of palmkit."""
    actions: Any = parser()._actions  # pyright: ignore[reportPrivateUsage]
    (choices,) = [each.choices for each in actions if hasattr(each.choices, "items")]
    return {name: str(command.epilog) for name, command in [("", parser()), *choices.items()]}


def why_wrong(line: str) -> str:
    """Return what is wrong with a command, or with one of a pipe; "": nothing."""
    return "".join(map(_why_wrong, line.split(" | ")))


def _why_wrong(line: str) -> str:
    first, *rest = words(line)
    if first in NOT_PARSED:
        return ""
    if first == "palmkit":
        return _unparsed(lambda: parser().parse_args(cli._joined(rest)))  # pyright: ignore[reportPrivateUsage]
    if first == "palmkit-demo":
        return _unparsed(lambda: app.parser().parse_args(rest))
    if first == "pip":
        return _without_extra(rest)
    if first == "make":
        return "" if re.search(rf"^{rest[0]}:", _text("Makefile"), re.MULTILINE) else "no target"
    if first == "python" and rest[0] == "-m":
        return "" if importlib.util.find_spec(rest[1]) else "no such module"
    if first == "python":
        return "" if (ROOT / rest[0]).is_file() else "no such file"
    return "neither a command that is known nor in NOT_PARSED"


def _unparsed(parse: Callable[[], object]) -> str:
    said = StringIO()
    try:
        with redirect_stderr(said), redirect_stdout(StringIO()):
            parse()
    except SystemExit as ended:
        if ended.code:
            return said.getvalue().strip()
    return ""


def _without_extra(arguments: list[str]) -> str:
    wanted = {each for given in arguments for each in re.findall(r"[a-z0-9]+(?=[],])", given)}
    known = set(re.findall(r"^([a-z0-9]+) = \[", _text("pyproject.toml"), re.MULTILINE))
    return "".join(f"no extra {name} " for name in sorted(wanted - known))


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def modules(*packages: str) -> Iterator[tuple[str, Path]]:
    """Yield the name and the file of each module of packages."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if not path.is_relative_to(ROOT / "engine/native"):
                yield ".".join(("palmkit", *parts)).removesuffix(".__init__"), path


@cache
def docstrings(path: Path) -> tuple[tuple[str, str], ...]:
    """Return the name of what has a docstring, "" for the module, and the docstring, of each."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return tuple(
        (getattr(node, "name", ""), said)
        for node in _statements(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, kinds) and (said := ast.get_docstring(node))
    )


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and the statements in it; expressions, the most of a tree, have none."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from _statements(child)


def code_of(docstring: str) -> str:
    """Return the paragraphs of a docstring that are Python, as the site shows them."""
    _, *paragraphs = re.split(r"\n\s*\n", docstring.strip())
    is_code = site_docstrings().is_code
    return "\n".join(textwrap.dedent(each.strip("\n")) for each in paragraphs if is_code(each))


def site_docstrings() -> ModuleType:
    """Return docs/docstrings.py, which makes pages of docstrings."""
    name = "docs_docstrings"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "docs/docstrings.py")
        assert spec and spec.loader
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def run_command(arguments: list[str]) -> int:
    """Run palmkit in this process, and return its exit code."""
    try:
        return cli.main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def run_blocks(path: Path, names: dict[str, Any], address: str = ADDRESS) -> None:
    """Run the blocks of a document that are Python or end at a prompt, from first to last.

    address: of a repository, in place of ADDRESS.
    """
    for language, text in blocks(path):
        text = text.replace(ADDRESS, address)
        if language == "python":
            exec(compile(text, path, "exec"), names)
        elif language == "console":
            for line in lines(text):
                command, *arguments = words(line)
                assert command == "palmkit", line
                assert run_command(arguments) == 0, line


NEEDS_MODELS = pytest.mark.skipif(
    not (ROOT / "models/face_detector/face_detector.palm").is_file(),
    reason="models have not been made here",
)
