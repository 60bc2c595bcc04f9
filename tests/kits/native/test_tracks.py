"""Ids and steady values in C are those of Python."""

import math
from ctypes import byref, c_int32

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.camera_motion import Similarity
from palmkit.kits.face.smoothing import MeshFilter
from palmkit.kits.tracks import OneEuroFilter, Tracker
from tests.kits.native import library
from tests.kits.native.library import KitsError, Library

FRAMES = 200


Seen = tuple[NDArray[np.float32], NDArray[np.bool_], Similarity]


def world(seed: int) -> list[Seen]:
    """Return a video: boxes that cross, hide one another, vanish and come back; and the camera."""
    rng = np.random.default_rng(seed)
    place, speed = rng.uniform(50, 550, (6, 2)), rng.normal(0, 4, (6, 2))
    size = rng.uniform(30, 120, 6)
    view, frames = Similarity(), list[Seen]()
    for frame in range(FRAMES):
        place += speed
        speed[(place < 0) | (place > 600)] *= -1
        size *= np.exp(rng.normal(0, 0.01, 6))
        if seed % 2:
            pan = complex(rng.normal(2, 1), rng.normal(0, 1))
            view = Similarity(1 + 0.002j * math.sin(frame), pan).after(view)
        seen = rng.uniform(size=6) > (0.3 if frame % 60 > 40 else 0.05)
        middle = place[seen] + rng.normal(0, 1, (seen.sum(), 2))
        half = size[seen, None] / 2
        boxes = view.boxes(np.concatenate([middle - half, middle + half], axis=1))
        given = np.asarray(boxes[rng.permutation(len(boxes))], np.float32)
        frames.append((given, rng.uniform(size=len(boxes)) > 0.2, view))
    return frames


@pytest.mark.parametrize("seed", range(8))
def test_ids_and_what_is_expected(c: Library, seed: int) -> None:
    tracker, ours = Tracker(), c.made("tracker", 1.0)
    time_s, ids_seen = 0.0, set[int]()
    rng = np.random.default_rng(100 + seed)
    for boxes, sure, view in world(seed):
        time_s += 1 / 30 + rng.uniform(0, 0.01)
        tracker.look_from(view, 640, 640)
        told = (view.turn.real, view.turn.imag, view.shift.real, view.shift.imag)
        size = c_int32(640)
        ours("look", byref(library.Motion(*told)), size, size)
        known, found = np.zeros((50, 4), np.float32), library.List(0, 50)
        expected = tracker.predict(time_s)
        ours("predict", time_s, known, byref(found))
        np.testing.assert_allclose(known[: found.count], expected, rtol=0, atol=1e-3)
        ids = np.zeros(len(boxes), np.int64)
        ours("update", boxes, sure.astype(np.uint8), len(boxes), time_s, ids)
        wanted = tracker.update(boxes, sure, time_s)
        assert ids.tolist() == wanted.tolist()
        kept = wanted >= 0
        values = np.ascontiguousarray(boxes[kept])
        sizes = np.ascontiguousarray(values[:, 2] - values[:, 0])
        steady = tracker.smooth(wanted[kept], values, sizes)
        ours("smooth", np.ascontiguousarray(ids[kept]), int(kept.sum()), sizes, values, 4)
        np.testing.assert_allclose(values, steady, rtol=0, atol=1e-3)
        ids_seen.update(ids[kept].tolist())
    assert len(ids_seen) >= 6


def test_one_euro(c: Library) -> None:
    rng = np.random.default_rng(0)
    python, ours = OneEuroFilter(1.2, 5.0, 1.5), c.made("filter", 1.2, 5.0, 1.5)
    values, time_s = rng.normal(100, 10, 40), 0.0
    given = values.astype(np.float32)
    for _ in range(100):
        values, time_s = values + rng.normal(0, 3, 40), time_s + rng.uniform(0.01, 0.1)
        given = values.astype(np.float32)
        expected = python.filter(given, time_s, 60.0)
        ours("run", given, 40, time_s, 60.0)
        np.testing.assert_allclose(given, expected, rtol=1e-6, atol=0)
    with pytest.raises(KitsError, match="values: expected as many as before, at a later time"):
        ours("run", given, 40, time_s, 60.0)
    with pytest.raises(KitsError, match="values: expected as many as before, at a later time"):
        ours("run", given, 39, time_s + 1, 60.0)


def test_a_mesh(c: Library) -> None:
    rng = np.random.default_rng(0)
    python, ours = MeshFilter(), c.made("mesh_filter")
    face = rng.normal(0, 50, (478, 3))
    for frame in range(80):
        turn = 0.1 * frame  # More than a whole turn.
        cos, sin = math.cos(turn), math.sin(turn)
        rotation = np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]])
        mesh = (face @ rotation * (1 + 0.01 * frame) + [300 + 3 * frame, 200, 0]).astype(np.float32)
        mesh += rng.normal(0, 0.5, mesh.shape).astype(np.float32)
        expected = python.filter(mesh, frame / 30)
        ours("run", mesh, frame / 30)
        np.testing.assert_allclose(mesh, expected, rtol=0, atol=1e-3)
