"""Shipped models are ready to run: the first picture needs no passes and no planner."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import palmkit.models
from palmkit.engine import Graph, Model, convert, load
from palmkit.engine.format.model_file import ModelFile
from palmkit.engine.ir import Type
from palmkit.kits.detector import RATIOS, picture_dims
from palmkit.kits.table import KITS, of_pictures
from palmkit.models.ready import entered, shapes_of

FILES = sorted(Path(palmkit.models.__file__).parent.glob("*/*.palm"))
pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_model_has_the_plans_that_its_kit_asks_for(path: Path) -> None:
    file = ModelFile(path)
    wanted = shapes_of(path.stem, file.graph)
    if wanted is None:
        wanted = [{name: type.dims for name, type in file.inputs.items()}]
    for shapes in wanted:
        key = "cpu", tuple(tuple(shapes[name]) for name in file.inputs)
        assert key in file.plans, shapes


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_plan_in_the_file_gives_what_planning_gives(path: Path) -> None:
    model, planned = load(path), Model(convert(path))
    _, shapes = [*ModelFile(path).plans][-1]
    random = np.random.default_rng(0)
    feed = {
        name: random.uniform(0, 1, shape).astype(np.float32)
        for name, shape in zip(model.inputs, shapes, strict=True)
    }
    expected = planned.run(feed)
    for name, value in model.run(feed).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", of_pictures())
def test_the_first_picture_is_looked_at_without_a_planner(name: str) -> None:
    entry = KITS[name]
    code = (
        "import json, sys, numpy as np\n"
        "from palmkit import kits\n"
        f"kits.{entry.function}(np.zeros((480, 640, 3), np.uint8), **{dict(entry.timed)})\n"
        "print(json.dumps([m for m in sys.modules if 'palmkit.engine.passes' in m]))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert json.loads(ran.stdout) == []


def test_detectors_see_multiples_of_32_both_ways_up() -> None:
    sides = [(each["height"], each["width"]) for each in picture_dims((640,))]
    assert (480, 640) in sides and (640, 480) in sides
    assert len(sides) == len(set(sides)) == 2 * len(RATIOS) - 1
    assert all(side % 32 == 0 for pair in sides for side in pair)


@pytest.mark.parametrize(("kit", "side"), [("face", 320), ("gesture", 224)])
def test_pictures_up_to_four_to_one_have_plans(kit: str, side: int) -> None:
    """Else C and browsers see black beside them."""
    [dims, *_] = KITS[kit].load_kit().first_dims().values()
    planned = {(each["height"], each["width"]) for each in dims}
    for other in range(side // 4, side + 1):
        padded = -(-other // 32) * 32
        assert {(side, padded), (padded, side)} <= planned


def test_models_of_known_sizes_have_a_plan_of_their_own() -> None:
    type = Type("float32", (1, 3))
    assert shapes_of("hair", Graph({"x": type}, {"y": type}, ())) is None


def test_the_index_gets_the_new_size_and_digest() -> None:
    index = '[a]\nsize_bytes = 1\nsha256 = "00"\n\n[b]\nsize_bytes = 2\nsha256 = "11"\n'
    changed = entered(index, "b", b"abc")
    assert changed.startswith('[a]\nsize_bytes = 1\nsha256 = "00"\n')
    assert "size_bytes = 3" in changed and "ba7816bf" in changed
    with pytest.raises(ValueError, match="no c"):
        entered(index, "c", b"")
