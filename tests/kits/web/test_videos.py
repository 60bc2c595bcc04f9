"""Kits of videos in workers find, track and steady what those of Python do."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.kits.image import Image
from tests.engine.web.package import needs_package, node
from tests.kits.conftest import faces_that_cross
from tests.kits.native.test_kits import OFF_VIDEO, camera, hands_picture
from tests.kits.web.test_kits import OFF, OFF_MASK, OFF_SCORE, column, near

pytestmark = needs_package

FRAMES, FRAME_MS = 10, 40.0


@pytest.fixture(scope="module")
def faces() -> list[Image]:
    return list(islice(faces_that_cross(20), FRAMES))


@pytest.fixture(scope="module")
def hands() -> list[Image]:
    return [hands_picture(6.0 * index) for index in range(FRAMES)]


@pytest.fixture(scope="module")
def folder(
    faces: list[Image], hands: list[Image], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    made = tmp_path_factory.mktemp("videos")
    for name, film in (("faces", faces), ("hands", hands)):
        pictures = np.stack(film)
        opaque = np.full((*pictures.shape[:3], 1), 255, np.uint8)
        (made / f"{name}.rgba").write_bytes(np.concatenate([pictures, opaque], axis=3).tobytes())
    return made


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(node("../../kits/web/videos.mjs", folder))
    return said


@pytest.fixture(params=[True, False])
def smoothing(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def of(found: dict[str, Any], kit: str, smoothing: bool) -> list[Any]:
    frames: list[Any] = found[str(smoothing).lower()][kit]
    assert len(frames) == FRAMES
    return frames


def test_faces(
    found: dict[str, Any],
    faces: list[Image],
    smoothing: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    got = of(found, "FaceDetector", smoothing)
    with camera(monkeypatch, True), kits.FaceDetector("video", smoothing=smoothing) as detector:
        for index, picture in enumerate(faces):
            expected = detector.detect(picture, FRAME_MS * index)
            assert len(expected) == 2 and expected.ids is not None
            assert column(got[index], "id") == expected.ids.tolist()
            near(column(got[index], "box"), expected.boxes)
            near(column(got[index], "keypoints"), expected.keypoints)
            near(column(got[index], "score"), expected.scores, OFF_SCORE)


def test_meshes(
    found: dict[str, Any],
    faces: list[Image],
    smoothing: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    got, off = of(found, "FaceMesh", smoothing), list[float]()
    with camera(monkeypatch, True), kits.FaceMesh("video", smoothing=smoothing) as mesh:
        for index, picture in enumerate(faces):
            expected = mesh.detect(picture, FRAME_MS * index)
            assert len(expected) == 2 and expected.ids is not None and expected.mesh is not None
            assert column(got[index], "id") == expected.ids.tolist()
            points = np.reshape(column(got[index], "mesh"), expected.mesh.shape)
            near(points, expected.mesh, OFF_VIDEO)
            off.append(float(np.abs(points - expected.mesh).max()))
    assert np.median(off) < OFF


def test_hands(
    found: dict[str, Any],
    hands: list[Image],
    smoothing: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    got = of(found, "GestureRecognizer", smoothing)
    recognizer = kits.GestureRecognizer("video", smoothing=smoothing)
    with camera(monkeypatch, True), recognizer:
        for index, picture in enumerate(hands):
            expected = recognizer.recognize(picture, FRAME_MS * index)
            assert len(expected) == 2 and expected.ids is not None
            assert column(got[index], "id") == expected.ids.tolist()
            assert column(got[index], "gesture") == list(expected.gestures)
            near(column(got[index], "landmarks"), expected.landmarks, 0.1)


def test_portraits(
    found: dict[str, Any], folder: Path, faces: list[Image], smoothing: bool
) -> None:
    assert found
    masks = np.fromfile(folder / f"portrait.{str(smoothing).lower()}", np.float32)
    got = masks.reshape(FRAMES, 360, 640)
    with kits.PortraitSegmenter("video", smoothing=smoothing) as segmenter:
        for index, picture in enumerate(faces):
            near(got[index], segmenter.segment(picture, FRAME_MS * index).mask, OFF_MASK)


def test_smoothing_makes_a_difference(found: dict[str, Any], folder: Path) -> None:
    for kit in ("FaceDetector", "FaceMesh", "GestureRecognizer"):
        assert of(found, kit, True) != of(found, kit, False), kit
    steadied, plain = ((folder / f"portrait.{each}").read_bytes() for each in ("true", "false"))
    assert steadied != plain
