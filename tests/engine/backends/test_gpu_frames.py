"""Frames on backend gpu: parts that networks see are OpenCV's, and judged pixels the CPU's."""

import gc
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit import engine
from palmkit.engine.backends.gpu import device as gpu_device
from palmkit.engine.backends.gpu.frames import GpuFrames
from palmkit.engine.frames import Box, Resizing
from palmkit.engine.guided import guided_upsample
from palmkit.engine.ir import Graph, Node, Type
from palmkit.kits.image import Image, resizings
from palmkit.kits.portrait.views import shrinkings
from tests.engine.backends.gpu_objects import objects
from tests.engine.backends.test_gpu import KIND, MISSING, NAME
from tests.engine.backends.test_gpu_runs import lose_device, use_unknown_library

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{NAME}: {MISSING}")

SIDE = 32
WHOLE = slice(0, SIDE)
# Half a level of 255, and what single precision is off by.
MOST_OFF = 0.502
FRAMES = [(64, 64), (1, 1), (5, 3), (1, 77), (640, 360), (641, 359), (854, 480), (33, 900)]
# Width and height of a frame, and a box in it.
BOXES: list[tuple[tuple[int, int], Box]] = [
    *((size, (0, 0, *size)) for size in FRAMES),
    ((57, 41), (56, 40, 57, 41)),
    ((57, 41), (3, 0, 4, 41)),
    ((57, 41), (0, 17, 57, 18)),
    ((1001, 503), (13, 7, 13 + 512, 7 + 256)),
    ((1001, 503), (500, 1, 1001, 502)),
    ((320, 240), (1, 3, 97, 99)),
]
boxes = pytest.mark.parametrize(("size", "box"), BOXES, ids=str)


def noise(width: int, height: int, seed: int = 0) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def by_opencv(image: Image, steps: list[Resizing]) -> NDArray[Any]:
    methods = {"area": cv2.INTER_AREA, "linear": cv2.INTER_LINEAR}
    found: NDArray[Any] = image
    for width, height, method in steps:
        found = cv2.resize(found, (width, height), interpolation=methods[method])
    return found


def frames(side: int = SIDE) -> GpuFrames:
    return GpuFrames(KIND, "gpu", side, side)


@pytest.fixture(params=["runtime", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a test with each driver, on a device opened for it."""
    monkeypatch.setattr(gpu_device, "_devices", {})
    if request.param == "python":
        use_unknown_library(monkeypatch)
    yield


@boxes
@pytest.mark.parametrize("squared", [True, False])
def test_a_part_is_what_opencv_makes_of_it(size: tuple[int, int], box: Box, squared: bool) -> None:
    """Both ways of kits: by halves and between pixels, and by areas."""
    image, kept = noise(*size), frames()
    left, top, right, bottom = box
    width, height = right - left, bottom - top
    steps = resizings((width, height), (SIDE - 5, 7))
    if squared:
        steps = shrinkings(width, height, SIDE)
    expected = by_opencv(image[top:bottom, left:right], steps).astype(int)
    rows, columns = slice(0, SIDE), slice(0, SIDE)
    if not squared:
        rows, columns = slice(20, 27), slice(5, SIDE)
    kept.send(image)
    array = kept.see(box, steps, rows, columns)
    seen = kept.seen()
    assert (array.dtype, array.shape) == ("float32", (1, SIDE, SIDE, 3))
    np.testing.assert_array_equal(array.host()[0], seen.astype(np.float32))
    off = np.abs(seen[rows, columns] - expected)
    # Where the last step is by areas, sums of floats may be rounded the other way.
    by_areas = bool(steps) and steps[-1].method == "area"
    assert off.max() <= by_areas and (off > 0).mean() < 1e-3
    rest = seen.copy()
    rest[rows, columns] = 0
    assert not rest.any()


@boxes
@pytest.mark.parametrize("slopes", [(16, 16), (1, 1), (3, 31)])
def test_judged_pixels_are_those_of_the_cpu(
    size: tuple[int, int], box: Box, slopes: tuple[int, int]
) -> None:
    image, kept, random = noise(*size), frames(), np.random.default_rng(1)
    left, top, right, bottom = box
    offset = random.uniform(-0.2, 1.2, (SIDE, SIDE - 3)).astype(np.float32)
    slope = random.uniform(-5e-3, 5e-3, slopes).astype(np.float32)
    slope[: slopes[0] // 2] = 0
    expected = np.empty((bottom - top, right - left), np.float32)
    guided_upsample(offset, [slope], image[top:bottom, left:right], expected)
    kept.send(image)
    found = kept.upsample(offset, slope, box)
    assert found.dtype == np.uint8 and found.shape == expected.shape
    assert np.abs(found - 255 * expected).max() <= MOST_OFF


def doubled() -> Graph:
    one = Type("float32", (1, SIDE, SIDE, 3))
    return Graph({"image": one}, {"y": one}, (Node("add", ("image", "image"), ("y",)),))


def test_a_model_runs_on_what_its_device_has(way: None) -> None:
    model, here = engine.Model(doubled(), NAME), engine.Model(doubled(), "cpu")
    kept = model.frames("image")
    assert isinstance(kept, GpuFrames) and kept.is_software == (KIND == "software")
    for seed in range(3):
        image = noise(640, 360, seed)
        kept.send(image)
        for box in ((0, 0, 640, 360), (100, 50, 300, 250), (0, 0, 640, 360)):
            array = kept.see(box, shrinkings(box[2] - box[0], box[3] - box[1], SIDE), WHOLE, WHOLE)
            found, seen = model.run({"image": array})["y"], kept.seen()
            np.testing.assert_array_equal(found[0], 2 * seen.astype(np.float32))
            # A model elsewhere takes it as well.
            np.testing.assert_array_equal(here.run({"image": array})["y"], found)
            judged = kept.upsample(np.ones((4, 4), np.float32), np.zeros((1, 1), np.float32), box)
            assert judged.shape == (box[3] - box[1], box[2] - box[0]) and (judged == 255).all()


def test_what_keeps_no_frames() -> None:
    assert engine.Model(doubled(), "cpu").frames("image") is None
    any_side = Type("float32", (1, "h", "w", 3))
    late = replace(doubled(), inputs={"image": any_side}, outputs={"y": any_side})
    assert engine.Model(late, NAME).frames("image") is None
    flat = Type("float32", (1, SIDE))
    other = Graph({"x": flat}, {"y": flat}, (Node("relu", ("x",), ("y",)),))
    assert engine.Model(other, NAME).frames("x") is None
    with pytest.raises(engine.ShapeError, match="no input 'image'; the model's inputs: x"):
        engine.Model(other, NAME).frames("image")


def test_arrays_of_other_shapes_are_refused() -> None:
    kept, model = frames(SIDE // 2), engine.Model(doubled(), NAME)
    kept.send(noise(64, 64))
    array = kept.see((0, 0, 64, 64), shrinkings(64, 64, 16), slice(0, 16), slice(0, 16))
    with pytest.raises(engine.ShapeError, match=r"expected float32\[1, 32, 32, 3\], got .*16, 16"):
        model.run({"image": array})


def test_frames_of_new_sizes_and_a_lost_device(way: None) -> None:
    kept, grid = frames(), np.full((4, 4), 0.4, np.float32)
    for size in ((64, 48), (31, 17), (64, 48)):
        image = noise(*size)
        for lose in (False, True, False):
            kept.send(image)
            if lose:
                lose_device()
                with pytest.raises(engine.DeviceLostError):
                    kept.upsample(grid, grid, (0, 0, *size))
                kept.send(image)
            kept.see((0, 0, *size), shrinkings(*size, SIDE), WHOLE, WHOLE)
            expected = by_opencv(image, shrinkings(*size, SIDE))
            np.testing.assert_array_equal(kept.seen(), expected)
            assert (kept.upsample(grid, 0 * grid, (0, 0, *size)) == 102).all()


def test_what_is_no_frame_or_part_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, image, grid = frames(), noise(40, 30), np.zeros((2, 2), np.float32)
    one = [Resizing(SIDE, SIDE, "linear")]
    for call in (
        lambda: kept.see((0, 0, 40, 30), one, WHOLE, WHOLE),
        kept.seen,
        lambda: kept.upsample(grid, grid, (0, 0, 40, 30)),
    ):
        with pytest.raises(RuntimeError, match="no frame on the device: send one first"):
            call()
    wrong: Any = image.astype(np.float32)
    with pytest.raises(TypeError, match="frame: expected uint8, got float32"):
        kept.send(wrong)
    for shape in ((40, 30), (40, 30, 4), (0, 30, 3)):
        with pytest.raises(engine.ShapeError, match=r"frame: expected \[h, w, 3\], got \["):
            kept.send(np.zeros(shape, np.uint8))
    kept.send(image)
    with pytest.raises(RuntimeError, match="nothing of the frame was seen: see a part first"):
        kept.seen()
    for box in ((0, 0, 41, 30), (-1, 0, 4, 4), (5, 5, 5, 6), (0, 8, 4, 4)):
        with pytest.raises(ValueError, match=r"expected a box in 40x30 pixels, got \("):
            kept.see(box, one, WHOLE, WHOLE)
        with pytest.raises(ValueError, match=r"expected a box in 40x30 pixels, got \("):
            kept.upsample(grid, grid, box)
    for rows, columns in ((slice(0, 31), WHOLE), (slice(1, 33), WHOLE), (WHOLE, slice(-1, 31))):
        with pytest.raises(ValueError, match="expected a place in 32x32 for 32x32 pixels, got"):
            kept.see((0, 0, 40, 30), one, rows, columns)
    with pytest.raises(engine.UnsupportedError, match="before the last step"):
        kept.see((0, 0, 40, 30), [Resizing(30, 30, "area"), *one], WHOLE, WHOLE)
    with pytest.raises(engine.UnsupportedError, match="halved 6 times"):
        halves = [Resizing(1, SIDE * 2**i, "area") for i in reversed(range(6))]
        tall = frames()
        tall.send(np.zeros((SIDE * 64, 1, 3), np.uint8))
        tall.see((0, 0, 1, SIDE * 64), [*halves, *one], WHOLE, WHOLE)
    with pytest.raises(engine.ShapeError, match="offset: expected .* of 1024 numbers at most"):
        kept.upsample(np.zeros((33, 32), np.float32), grid, (0, 0, 4, 4))
    halves_of: Any = grid.astype(np.float16)
    with pytest.raises(TypeError, match="slopes: expected float32, got float16"):
        kept.upsample(grid, halves_of, (0, 0, 4, 4))
    device = gpu_device.device(KIND)
    monkeypatch.setattr(device, "target", replace(device.target, binding_bytes=1 << 16))
    with pytest.raises(
        engine.UnsupportedError, match="frames of 200x200 pixels, over the device's"
    ):
        frames().send(noise(200, 200))


def test_frames_take_no_more_of_the_device_and_give_it_back() -> None:
    def one(kept: GpuFrames, seed: int) -> None:
        kept.send(noise(320, 240, seed))
        for box in ((0, 0, 320, 240), (seed, 3, 90, 80)):
            kept.see(box, shrinkings(box[2] - box[0], box[3] - box[1], SIDE), WHOLE, WHOLE)
            kept.seen()
            kept.upsample(grid, grid, box)

    gc.collect()
    grid, before = np.zeros((4, 4), np.float32), objects()
    gc.disable()
    try:
        kept = frames()
        one(kept, 0)
        during = objects()
        assert all(during[kind] > before[kind] for kind in ("bindGroups", "buffers"))
        for seed in range(20):
            one(kept, seed)
        assert objects() == during
        del kept
        assert {**objects(), "computePipelines": 0} == {**before, "computePipelines": 0}
    finally:
        gc.enable()


KEPT: list[GpuFrames] = []


def _in_child() -> str:
    try:
        KEPT[0].send(noise(8, 8))
    except engine.BackendError as error:
        return str(error)
    return ""


def test_they_do_not_survive_a_fork() -> None:
    KEPT[:] = [frames()]
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as process:
        assert "do not survive a fork" in process.submit(_in_child).result()
