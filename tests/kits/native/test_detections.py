"""What a detector's outputs mean, and which of its finds are one thing, in C as in Python."""

import ctypes
from ctypes import byref, c_size_t

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.boxes import nms, weighted_nms
from palmkit.kits.detection import Candidates, decode, merge
from tests.kits.native import library
from tests.kits.native.library import KitsError, Library

Outputs = dict[str, NDArray[np.float32]]


def outputs_of(seed: int, height: int, width: int, keypoints: int) -> Outputs:
    """Return what a detector might: many cells about few things, some of them damaged."""
    rng = np.random.default_rng(seed)
    things = rng.uniform(0, 1, (6, 3)) * [width, height, 40] + [0, 0, 8]
    outputs: Outputs = {}
    for stride in (8, 16, 32):
        rows, columns = height // stride, width // stride
        y, x = (np.mgrid[:rows, :columns] + 0.5) * stride
        scores = rng.uniform(0, 0.3, (rows, columns))
        boxes = rng.normal(1, 0.1, (rows, columns, 4))
        for middle_x, middle_y, size in things:
            near = np.hypot(x - middle_x, y - middle_y) < size
            scores = np.where(near, rng.uniform(0.4, 1, scores.shape), scores)
            sides = [x - middle_x + size, y - middle_y + size, middle_x + size - x]
            way = np.stack([*sides, middle_y + size - y], axis=2)
            way = way + rng.normal(0, size / 20, way.shape)
            boxes = np.where(near[..., None], way / stride, boxes)
        damaged = rng.uniform(size=scores.shape) < 0.02
        boxes[damaged] = rng.choice([np.nan, np.inf, -9.0], 4)
        points = rng.normal(0, 1, (rows, columns, 2 * keypoints))
        made = (("score", scores[..., None]), ("box", boxes), ("points", points))
        outputs |= {f"{name}_{stride}": each.astype(np.float32)[None] for name, each in made}
    return outputs


def detections(room: int, keypoints: int) -> tuple[library.Detections, Candidates]:
    """Return buffers of C's, and the same as candidates."""
    found = Candidates(
        np.zeros((room, 4), np.float32),
        np.zeros(room, np.float32),
        np.zeros((room, keypoints, 2), np.float32),
    )
    addresses = [each.ctypes.data for each in (found.boxes, found.scores, found.keypoints)]
    return library.Detections(library.List(0, room), *addresses, keypoints), found


def heads_of(outputs: Outputs) -> "ctypes.Array[library.Head]":
    heads: list[library.Head] = []
    for stride in (8, 16, 32):
        height, width = outputs[f"score_{stride}"].shape[1:3]
        maps = [outputs[f"{name}_{stride}"].ctypes.data for name in ("score", "box", "points")]
        heads.append(library.Head(stride, width, height, *maps))
    return (library.Head * 3)(*heads)


def check(ours: Candidates, count: int, expected: Candidates, off: float) -> None:
    assert count == len(expected)
    for name in ("boxes", "scores", "keypoints"):
        found, wanted = getattr(ours, name)[:count], getattr(expected, name)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=off, err_msg=name)


@pytest.mark.parametrize("keypoints", [2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_cells_become_things(c: Library, seed: int, keypoints: int) -> None:
    outputs = outputs_of(seed, 224, 320, keypoints)
    expected = decode(outputs, 0.35, keypoints)
    assert len(expected) > 20
    to, ours = detections(5000, keypoints)
    c.call("decode", heads_of(outputs), 3, 0.35, byref(to))
    check(ours, to.list.count, expected, 0)
    c.call("merge", byref(to))
    # The means are summed in another order.
    check(ours, to.list.count, merge(expected), 1e-3)
    assert 0 < to.list.count < len(expected)


def test_room_that_does_not_suffice(c: Library) -> None:
    outputs = outputs_of(0, 224, 320, 5)
    to, ours = detections(3, 5)
    with pytest.raises(KitsError, match="detections: there are .* and room for 3") as caught:
        c.call("decode", heads_of(outputs), 3, 0.35, byref(to))
    assert caught.value.status == library.ERROR_SHAPE
    assert to.list.count == len(decode(outputs, 0.35, 5)) and not ours.scores.any()


@pytest.mark.parametrize("seed", range(6))
def test_suppression(c: Library, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 200, (120, 2))
    boxes = np.concatenate([low, low + rng.uniform(-2, 80, (120, 2))], axis=1).astype(np.float32)
    scores = rng.choice(np.linspace(0, 1, 17), 120).astype(np.float32)
    values = rng.normal(0, 100, (120, 7)).astype(np.float32)
    rows, kept = np.zeros(120, np.uint64), c_size_t()
    means = np.zeros((120, 7), np.float32)
    c.call("nms", boxes, scores, 120, 0.4, None, 0, 0.0, rows, None, byref(kept))
    assert rows[: kept.value].tolist() == nms(boxes, scores, 0.4).tolist()
    expected, wanted = weighted_nms(boxes, scores, values, 0.3, 0.5)
    c.call("nms", boxes, scores, 120, 0.3, values, 7, 0.5, rows, means, byref(kept))
    assert rows[: kept.value].tolist() == expected.tolist()
    np.testing.assert_allclose(means[: kept.value], wanted, rtol=1e-5, atol=1e-3)
