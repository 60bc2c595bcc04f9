"""What Windows and macOS do otherwise: encodings, wildcards, names, no fork, files in use."""

import gc
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine import forks
from palmkit.engine.errors import ImageError
from palmkit.engine.ir import Graph, Node, Type
from palmkit.kits import image
from palmkit.kits.cli import inputs, parser
from palmkit.kits.cli.command import UsageError
from tests.platforms.windows import is_open, windows


def command(arguments: Sequence[str], folder: Path) -> "subprocess.CompletedProcess[bytes]":
    """Run palmkit with the streams of a console in Western Europe."""
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "palmkit", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
    )


def names() -> list[str]:
    """Every command as it is written."""
    found = [""]
    for action in parser()._actions:  # pyright: ignore[reportPrivateUsage]
        choices: Any = action.choices
        if isinstance(choices, dict):
            found += choices
    return found


@pytest.mark.parametrize("name", names())
def test_help_goes_to_an_old_console(name: str, tmp_path: Path) -> None:
    done = command([*name.split(), "--help"], tmp_path)
    assert done.returncode == 0, done.stderr.decode("cp1252")
    assert b"usage" in done.stdout.lower() and not done.stderr


def test_names_of_other_alphabets_go_to_an_old_console(tmp_path: Path) -> None:
    picture = tmp_path / "\N{GREEK SMALL LETTER ALPHA}\N{CJK UNIFIED IDEOGRAPH-4E2D}.png"
    image.write_image(picture, np.zeros((64, 64, 3), np.uint8))
    done = command(["face", picture.name], tmp_path)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert rb"\u03b1\u4e2d.png" in done.stdout
    done = command(["face", "\N{GREEK SMALL LETTER ALPHA}.jpg"], tmp_path)
    assert done.returncode and done.stderr.count(b"\n") == 1 and rb"\u03b1.jpg" in done.stderr


def test_a_model_is_not_written_over_while_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "net.palm"
    types = {"x": Type("float32", (4,))}, {"y": Type("float32", (4,))}
    graph = Graph(*types, (Node("relu", ("x",), ("y",)),), {})
    engine.save(graph, path)
    before = path.read_bytes()
    with windows():
        model = engine.load(path)
        x = {"x": np.array([-1, 0, 1, 2], np.float32)}
        if is_open(path):
            with pytest.raises(PermissionError) as raised:
                engine.save(graph, path)
            assert raised.value.filename == str(path)
        assert path.read_bytes() == before
        np.testing.assert_array_equal(model.run(x)["y"], [0, 0, 1, 2])
        assert [*tmp_path.iterdir()] == [path]
        del model
        gc.collect()
        engine.save(graph, path)


def test_wildcards_that_a_shell_left_are_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b.png", "a.png", "c.txt"):
        (tmp_path / name).touch()
    monkeypatch.setattr(inputs, "_SHELLS_EXPAND", False)
    text = str(tmp_path / "*.png")
    found, errors = inputs.gather([text])
    assert [each.path.name for each in found] == ["a.png", "b.png"] and not errors
    assert not inputs.is_single_file([text])
    assert inputs.is_single_file([str(tmp_path / "a*")])
    found, _ = inputs.gather([str(tmp_path / "*.jpg")])
    assert [each.path.name for each in found] == ["*.jpg"]


def test_names_that_differ_in_case_are_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one/A.png", "two/a.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    found, _ = inputs.gather([str(tmp_path / "one"), str(tmp_path / "two")])
    out = str(tmp_path / "out")
    if sys.platform == "linux":
        assert len(inputs.targets(found, out, False)) == 2
    monkeypatch.setattr(inputs, "_CASE_COUNTS", False)
    with pytest.raises(UsageError, match="the same file"):
        inputs.targets(found, out, False)


def test_without_fork_nothing_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "register_at_fork", raising=False)
    monkeypatch.setattr("atexit.register", print)
    spec = importlib.util.spec_from_file_location("forks_of_windows", forks.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.gate.is_closed


def test_drive_letters_are_no_addresses(tmp_path: Path) -> None:
    for text in (r"C:\pictures\me.jpg", "c:/pictures/me.jpg", r"\\server\share\me.jpg"):
        with pytest.raises(ImageError) as raised:
            image.read_image(text)
        assert "URL" not in str(raised.value)


@pytest.mark.parametrize("length", [300, 900])
def test_paths_may_be_long(tmp_path: Path, length: int) -> None:
    folder = tmp_path
    while len(str(folder)) < length:
        folder /= "a-folder-with-a-name-of-forty-characters"
    folder.mkdir(parents=True)
    picture = folder / "picture.png"
    image.write_image(picture, np.full((8, 8, 3), 7, np.uint8))
    assert image.read_image(picture).max() == 7
    types = {"x": Type("float32", (4,))}, {"y": Type("float32", (4,))}
    engine.save(Graph(*types, (Node("relu", ("x",), ("y",)),), {}), folder / "net.palm")
    assert engine.load(folder / "net.palm").inputs
