"""The table of kits: all that lists kits follows from it."""

import ast
import inspect
import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from palmkit import kits
from palmkit.engine.bench.engines import find
from palmkit.kits import batch, table
from palmkit.kits.bench import jobs
from palmkit.kits.face.kit import FaceDetector
from palmkit.kits.face.options import FaceOptions
from palmkit.kits.image import Image, Part, Source
from palmkit.kits.kit import Kit
from palmkit.kits.options import Modes, Whole, made_of, option
from palmkit.kits.results import Faces
from palmkit.kits.table import KITS, Entry
from tests.kits.conftest import picture


def test_type_checkers_are_told_of_the_same_names() -> None:
    known: dict[str, str] = {}
    nodes = (
        node for module in (kits, table) for node in ast.walk(ast.parse(inspect.getsource(module)))
    )
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            known |= {alias.name: node.module for alias in node.names if alias.asname}
    for name in dir(kits):
        home = getattr(kits, name)
        expected = getattr(home, "__module__", None) or home.__name__.rpartition(".")[0]
        told = known.pop(name)
        # An alias of a type does not say where it is.
        assert told == expected or getattr(import_module(told), name) is home, name
    assert not known


@pytest.mark.parametrize("name", KITS)
def test_an_entry_names_what_is_there(name: str) -> None:
    entry = KITS[name]
    kit = entry.load_kit()
    assert callable(getattr(kit, entry.method)) and callable(getattr(kits, entry.function))
    assert {each.option for each in entry.judged} <= set(inspect.signature(kit).parameters)
    assert set(entry.timed) <= set(inspect.signature(kit).parameters)
    result = entry.load_result()
    for method in (result.to_dict, result.words):
        assert list(inspect.signature(method).parameters) == ["self"]


@dataclass(frozen=True, kw_only=True)
class LargestOptions(FaceOptions):
    """What the new kit is told."""

    most: int = option(3, "keep so many of the largest", Whole(1))


class Largest(FaceDetector):
    """A kit that was not there before."""

    most = 0


def largest(image: Source) -> Faces:
    """Its function."""
    return Largest().detect(image)


@pytest.fixture
def new_kit(monkeypatch: pytest.MonkeyPatch) -> str:
    entry = Entry("the largest faces", __name__, "Largest", "largest", "detect", results=("Faces",))
    monkeypatch.setitem(cast("dict[str, Entry]", table.KITS), "largest", entry)
    return "largest"


def test_a_line_in_the_table_makes_a_kit_known(
    new_kit: str, run: Any, red_model: Path, tmp_path: Path
) -> None:
    package: Any = kits
    assert package.Largest is Largest
    assert "Largest" in dir(kits) and "largest" in dir(kits)
    text = run(new_kit, "--help").out
    assert "--most N" in text and "keep so many of the largest (3)" in text
    assert "--max-faces" in text and "  palmkit largest me.jpg" in text
    source = tmp_path / "a.png"
    kits.write_image(source, picture(320, 640, (0, 64, 96, 32)))
    found = run(new_kit, source, "--json", "--size", 640, "--model", red_model)
    assert json.loads(found.out)["faces"][0]["box"] == [64, 96, 32, 32]
    assert run(new_kit, source, "--max-faces", 0).code == 2
    worker = batch.Worker(new_kit, {"model": red_model, "size": 640})
    (row,) = worker.rows([{"path": str(source)}])
    assert json.loads(row["result"])["faces"][0]["box"] == [64, 96, 32, 32]
    assert tuple(row) == worker.columns
    known = jobs.kit_jobs(new_kit, table.KITS[new_kit])
    assert list(known) == [new_kit, f"{new_kit}_video"]
    assert find(known[new_kit].ours).name == "palmkit"


@dataclass(frozen=True, repr=False, eq=False)
class LateArguments(Modes[Faces], FaceOptions):
    """What it takes."""


class Late(Kit[Faces]):
    """What it needs of itself is made behind the base's constructor."""

    name = "late"

    @made_of(LateArguments)
    def __init__(self, options: LateArguments) -> None:
        super().__init__(options)
        self.told: list[str] = []
        self._start()

    def _adopt(self) -> None:
        self.told.append("adopt")

    def _forget(self) -> None:
        self.told.append("forget")

    def _run(self, image: Image, roi: Part | None, time_s: float | None) -> Faces:
        raise NotImplementedError


def test_a_kit_is_told_nothing_before_it_is_made() -> None:
    kit = Late("video")
    assert kit.told == ["forget", "adopt"]
    kit.reset()
    assert kit.told == ["forget", "adopt", "forget"]


def test_a_try_on_batch_has_the_picture(tmp_path: Path) -> None:
    grey = np.full((64, 64, 3), 128, np.uint8)
    kits.write_image(tmp_path / "grey.png", grey)
    worker = batch.Worker("tryon", {"look": "evening"})
    assert worker.columns == ("name", "result", "error", "picture")
    good, bad = worker.rows([{"path": str(tmp_path / "grey.png")}, {"path": "none.png"}])
    assert np.array_equal(kits.read_image(good["picture"]), grey)
    assert json.loads(good["result"])["look"] and good["error"] is None
    assert bad["picture"] is None and "ImageError" in bad["error"]


def test_masks_of_a_batch_are_those_that_were_written(tmp_path: Path) -> None:
    levels = np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8)
    mask = kits.segment_hair(levels).mask
    (row,) = batch.Worker("hair").rows([{"picture": _png(levels)}])
    expected = np.rint(mask * 255).astype(np.uint8)
    assert np.array_equal(kits.read_image(row["mask"])[..., 0], expected)


def _png(levels: Any) -> bytes:
    import cv2

    return cv2.imencode(".png", levels[..., ::-1])[1].tobytes()
