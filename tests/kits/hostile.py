"""Attacks on the command line: a folder of traps, and arguments for every command.

Commands, arguments and options are read from the parser, so that a new one is tested automatically.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from palmkit import engine, kits
from palmkit.delivery.repository import Repository
from palmkit.engine.ir import Node, Type
from palmkit.kits.video import VideoWriter

# Mode, size and time of each path.
State: TypeAlias = dict[str, tuple[int, int, int]]
# What stands for an argument where another one is hostile: by command and destination, else by
# destination; else, of a new command, a picture.
GOOD: dict[str, str] = {
    "model": "net.palm",
    "models": "net.palm",
    "check source": "net.onnx",
    "rerank files": "page.json",
    "rerank train logs": "log.jsonl",
    "rerank evaluate log": "log.jsonl",
    "rerank score source": "pages.parquet",
    "batch source": "pictures",
    "release": "1.0.0",
    "ops name": "relu",
    "models pin model": "face_detector",
    "models rollback model": "face_detector",
    "models status model": "face_detector",
    "models pull models": "face_detector",
    "models publish release": "1.0.1",
    "models publish files": "net.palm",
    "models ceremony step": "show",
    "models ceremony file": "next.json",
    "models mirror place": "mirror",
    "place": "mirror",
    "serve folder": "server",
}
# Arguments that argparse could do without, though hardly a command.
NEEDED = ("inputs",)
OUTPUT_SUFFIXES = {
    "convert": ".palm",
    "compress": ".palm",
    "rerank train": ".palm",
    "batch": ".parquet",
    "rerank score": ".parquet",
    "rerank": ".json",
    "show": ".svg",
    "info": ".svg",
    "bench": ".html",
}
# What else a command needs to come as far as its other options, or to be quick.
MORE: dict[str, tuple[str, ...]] = {
    "tryon": ("--lipstick=ruby", "-omade/out.png"),
    "info": ("--plan",),
    "compress": ("--fp16",),
    "check": ("--runs=1",),
    "bench": ("--runs=1", "--seconds=0.01", "--turns=1", "--loads=1"),
    "models create": ("--no-passphrase", "--repository=made"),
    "serve": ("--port=0",),
    "web": ("--port=0",),
}
# A half that they leave is noted as such, and made anew the next time.
RESUMED = {"models create", "serve"}
JUNK = bytes(range(255, -1, -1)) * 8
LONG = "n" * 300
DIGITS = "9" * 5000
NUMBERS = ("-1", "0", "nan", "inf", "1e308", str(2**62), "\u00b2", "x", DIGITS)
NAMES = (
    "",
    "-",
    "none",
    "pictures",
    "empty",
    "junk",
    "junk.palm",
    "junk.npz",
    "deep.json",
    "odd.json",
    "fifo",
    "/dev/full",
    "net.palm/x",
    LONG,
    "a\nb\x1b[31m",
    "\udcff\u202e\u5bb6",
    "a=b",
    "a#b?c",
    "a/b@c",
)
OUTPUTS = ("folder", "net.palm/x", "fifo", "full", "/proc/none", LONG, "made/\udcff\n\u5bb6")
# What is looked at only where other arguments are as they are here.
DEEPER = (
    ("models promote", "net", "1.0.0", "--when=memory_mb>=nan"),
    ("models promote", "net", "1.0.0", f"--when=memory_mb>={DIGITS}"),
    ("models publish", "net", "1.0.0", "fifo.palm"),
    ("models ceremony", "start", "made/next", "--threshold=root=\u00b2"),
    ("models ceremony", "start", "made/next", f"--threshold=root={DIGITS}"),
    ("models ceremony", "sign", "next.json", "--key=fifo"),
    ("models ceremony", "finish", "odd.json"),
    ("check", "net.palm", "--source=net.onnx", "--input=x=fifo.npy"),
    ("check", "net.palm", "--source=net.onnx", "--input=x=empty.npy"),
    ("check", "net.palm", "--source=net.onnx", "--input=x=1e308"),
    ("check", "net.palm", "--source=net.onnx", "--range", "1", "0"),
    ("compress", "net.palm", "-omade/out.palm", "--int8", "--data=."),
    ("portrait", "picture.png", "--background=blur=nan", "-omade/out.png"),
    ("portrait", "--camera", "--background=transparent"),
    ("portrait", "clip.avi", "--background=transparent", "-omade/out.avi"),
    ("portrait", "-", "--background=transparent", "-o-"),
    ("face", "picture.png", "-o-"),
    ("face", "--camera=0", "-ofifo.avi"),
    ("face", "--camera=0", "--json"),
    ("face", "-", "-", "--json"),
    ("face", "pictures", "-omade/out.png"),
    ("face", "picture.png", "--mesh", "--focal-length=nan"),
    ("gesture", "picture.png", "--learn=", "-omade/out.json"),
    ("rerank", "odd.json", "page.json", "--why", "--json"),
    ("rerank evaluate", "log.jsonl", "--policy=fifo.palm"),
    ("bench", "picture.png", "--kits=face", "--threads=0"),
)
SUFFIXES = (".palm", ".parquet", ".json", ".svg", ".html", ".png", ".avi")


def make_world(folder: Path) -> None:
    """Make valid files, and traps of every kind."""
    picture = np.zeros((64, 96, 3), np.uint8)
    picture[10:40, 20:50] = 200
    (folder / "pictures").mkdir()
    for name in ("picture.png", "pictures/a.png"):
        kits.write_image(folder / name, picture)
    with VideoWriter(folder / "clip.avi", 25) as writer:
        for _ in range(3):
            writer.write(picture)
    type = Type("float32", (1, 3, 8, 8))
    graph = engine.Graph({"x": type}, {"y": type}, (Node("relu", ("x",), ("y",)),), {}, {})
    engine.save(graph, folder / "net.palm")
    engine.save(graph, folder / "net.onnx")
    items = [{"id": str(n), "price": 1.0 * n, "brand": "ab"[n % 2]} for n in range(5)]
    page: dict[str, Any] = {"items": items, "history": [], "context": {}}
    (folder / "page.json").write_text(json.dumps(page))
    (folder / "log.jsonl").write_text(json.dumps({"page": "1", **page}) + "\n")
    repository = Repository.create(folder / "repository")
    repository.publish("net", "1.0.0", [folder / "net.palm"])
    repository.promote("net", "1.0.0")
    (folder / "next.json").write_bytes(repository.root())
    _make_traps(folder)


def _make_traps(folder: Path) -> None:
    (folder / "empty").touch()
    odd = {"items": [1], "history": 3, "signed": {"roles": 2}, "gestures": 1, "palmkit_look": 1}
    for suffix in ("", *SUFFIXES, ".npz", ".npy"):
        (folder / f"junk{suffix}").write_bytes(JUNK)
        (folder / f"folder{suffix}").mkdir()
        (folder / f"full{suffix}").symlink_to("/dev/full")
        os.mkfifo(folder / f"fifo{suffix}")
    (folder / "deep.json").write_text("[" * 60_000)
    (folder / "odd.json").write_text(json.dumps(odd).replace("3", DIGITS))


def restore(folder: Path, now: State, pristine: Path, before: State) -> None:
    """Restore a folder from a pristine copy; now, before: the results of `seen` for both."""
    for path in now.keys() - before.keys():
        above = os.path.dirname(path)
        # What is new in a folder that is new goes with it.
        if not above or above in before:
            _remove(folder / path)
    for path, state in before.items():
        if now.get(path) != state:
            _remove(folder / path)
            _copy(pristine / path, folder / path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_fifo():
        os.mkfifo(target)
    elif source.is_dir() and not source.is_symlink():
        target.mkdir(exist_ok=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def seen(folder: Path) -> State:
    """Return every path below a folder: its mode, and for files size and time."""
    found: State = {}
    folders = [""]
    while folders:
        here = folders.pop()
        try:
            entries = list(os.scandir(folder / here))
        except OSError:
            continue
        for entry in entries:
            path, state = here + entry.name, entry.stat(follow_symlinks=False)
            is_file = stat.S_ISREG(state.st_mode)
            size, time = (state.st_size, state.st_mtime_ns) if is_file else (0, 0)
            found[path] = (state.st_mode, size, time)
            if stat.S_ISDIR(state.st_mode):
                folders.append(path + os.sep)
    return found


@dataclass(frozen=True)
class Case:
    """A command line, and the files that its valid arguments would write."""

    words: tuple[str, ...]
    arguments: tuple[str, ...]
    written: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return it for messages, with long arguments cut."""
        return repr([text[:60] for text in (*self.words, *self.arguments)])


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command without sub-commands: its words, and its arguments' parser."""
    found = [inner for each in actions(parser) for inner in _parsers(each).items()]
    if not found:
        yield "", parser
    for name, inner in found:
        for words, leaf in commands(inner):
            yield f"{name} {words}".strip(), leaf


def _parsers(action: argparse.Action) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of sub-commands by name; {} for other arguments."""
    choices: Any = action.choices
    is_command = isinstance(choices, dict)
    return cast(dict[str, argparse.ArgumentParser], choices) if is_command else {}


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return a parser's arguments, without --help."""
    found: list[argparse.Action] = vars(parser)["_actions"]
    return [each for each in found if each.dest != "help"]


def cases(command: str, parser: argparse.ArgumentParser) -> Iterator[Case]:
    """Yield hostile command lines, in which each argument in turn is invalid."""
    taken = actions(parser)
    suffix = OUTPUT_SUFFIXES.get(command, ".png")
    more = MORE.get(command, ())
    words = tuple(command.split(" "))

    def line(hostile: argparse.Action | None, *values: str) -> Case:
        given: list[str] = []
        written: tuple[str, ...] = ()
        for action in taken:
            if action is hostile:
                given += _written(action, values)
            elif not action.option_strings and (
                action.nargs not in ("?", "*") or action.dest in NEEDED
            ):
                given.append(_good(command, action))
            elif action.required and action.dest == "output":
                written = (f"made/out{suffix}",)
                given += _written(action, written)
            elif action.required:
                given += _written(action, (_good(command, action),))
        # The last one counts of an option that is given twice.
        return Case(words, (*more, *given), written)

    yield Case(words, ())
    yield Case(words, ("--no-such-option",))
    yield line(None)
    yield Case(words, (*line(None).arguments, "--no-such-option=\udcff\n"))
    for name, *arguments in DEEPER:
        if name == command:
            yield Case(words, tuple(arguments))
    for action in taken:
        for value in _values(action, suffix):
            yield line(action, *[value] * (action.nargs if isinstance(action.nargs, int) else 1))


def _values(action: argparse.Action, suffix: str) -> Sequence[str]:
    if action.nargs == 0:
        return ("flag",)
    if action.choices is not None:
        return ("", "none\n\udcff")
    if action.type in (int, float):
        return NUMBERS
    if action.dest == "output":
        return ("", *(f"{name}{suffix}" for name in OUTPUTS), "/dev/full", "made/out", "-")
    return (*NAMES, *NUMBERS[:6], DIGITS) if action.type is not None else (*NAMES, *NUMBERS[3:])


def _written(action: argparse.Action, values: Sequence[str]) -> list[str]:
    if not action.option_strings:
        return list(values)
    option = action.option_strings[-1]
    if action.nargs == 0:
        return [option]
    if len(values) > 1:
        return [option, *values]
    return [f"{option}={values[0]}" if option.startswith("--") else f"{option}{values[0]}"]


def _good(command: str, action: argparse.Action) -> str:
    if action.choices is not None and f"{command} {action.dest}" not in GOOD:
        return str(next(iter(action.choices)))
    for key in (f"{command} {action.dest}", action.dest):
        if key in GOOD:
            return GOOD[key] if not _is_model(command, key) else "net"
    return "picture.png"


def _is_model(command: str, key: str) -> bool:
    return key == "model" and command.startswith("models ")
