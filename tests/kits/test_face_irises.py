"""Irises move to the dark discs between the lids."""

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits import FaceMesh
from palmkit.kits.face import topology
from palmkit.kits.face.irises import centred
from palmkit.kits.image import Image
from palmkit.kits.kit import shipped_model
from palmkit.kits.quality import Quality

RIGHT, LEFT = list(topology.RIGHT_IRIS), list(topology.LEFT_IRIS)


def eyes(scale: float, off: float) -> tuple[Image, NDArray[np.float32]]:
    """Return two drawn eyes, irises `off` twelfths of an eye to the right, and a mesh of both."""
    mesh = np.zeros((topology.POINTS, 3), np.float32)
    picture = np.full((round(20 * scale), round(40 * scale), 3), (205, 160, 140), np.uint8)
    for x, iris, lids in (
        (10.0, RIGHT, topology.RIGHT_EYE),
        (30.0, LEFT, topology.LEFT_EYE),
    ):
        turns = np.linspace(np.pi, -np.pi, len(lids), endpoint=False)
        outline = np.stack([x + 6 * np.cos(turns), 10 - 2.6 * np.sin(turns)], axis=1)
        mesh[list(lids), :2] = outline * scale
        around = [(0, 0), (2.2, 0), (0, -2.2), (-2.2, 0), (0, 2.2)]
        mesh[iris, :2] = (np.array(around) + (x, 10)) * scale
        eye = np.zeros(picture.shape[:2], np.uint8)
        cv2.fillPoly(eye, [np.rint(outline * scale).astype(np.int32)], 1)
        down, across = (np.indices(eye.shape) + 0.5) / scale
        dark = np.hypot(across - x - off, down - 10) < 2.2
        picture[eye == 1] = (235, 232, 228)
        picture[(eye == 1) & dark] = (60, 45, 40)
    return picture, mesh


@pytest.mark.parametrize("scale", [4.0, 8.0])
@pytest.mark.parametrize("off", [-0.4, 0.4])
def test_irises_go_towards_where_the_eyes_are_dark(scale: float, off: float) -> None:
    picture, mesh = eyes(scale, off)
    before = mesh.copy()
    found = centred(picture, mesh)
    np.testing.assert_array_equal(mesh, before)
    for iris in (RIGHT, LEFT):
        moved = found[iris] - mesh[iris]
        np.testing.assert_allclose(moved, moved[[0] * 5], atol=1e-3)
        # More than a third of the way, and not beyond.
        assert 1 / 3 < moved[0, 0] / scale / off < 1
        assert abs(moved[0, 1]) / scale < 0.2 and moved[0, 2] == 0
    others = [row for row in range(topology.POINTS) if row not in RIGHT + LEFT]
    np.testing.assert_array_equal(found[others], mesh[others])


def test_irises_that_do_not_show_stay() -> None:
    picture, mesh = eyes(8.0, 1.0)
    plain = np.full_like(picture, 128)
    np.testing.assert_allclose(centred(plain, mesh), mesh, atol=0.1 * 8)
    # Closed lids: a line.
    mesh[[*topology.RIGHT_EYE, *topology.LEFT_EYE], 1] = 80
    np.testing.assert_array_equal(centred(picture, mesh), mesh)
    # Beside the picture.
    np.testing.assert_allclose(centred(picture, mesh + 1000), mesh + 1000, atol=0.1 * 8)


@pytest.mark.skipif(not shipped_model("face_mesh").is_file(), reason="no face_mesh.palm here")
@pytest.mark.parametrize("quality", ["auto", "best"])
def test_irises_of_pictures_are_moved_but_in_the_fast_quality(
    astronaut: Image, quality: Quality
) -> None:
    finder = shipped_model("face_detector")
    with (
        FaceMesh(quality="fast", model=shipped_model("face_mesh_best")) as plain,
        FaceMesh(quality=quality, detector_model=finder) as careful,
        FaceMesh("video", quality="fast") as plain_video,
        FaceMesh("video", quality=quality, detector_model=finder) as video,
    ):
        fast, found = plain.detect(astronaut).mesh, careful.detect(astronaut).mesh
        before, after = plain_video.detect(astronaut, 0).mesh, video.detect(astronaut, 0).mesh
    assert fast is not None and found is not None and len(fast) == 1
    np.testing.assert_array_equal(found[0], centred(astronaut, fast[0]))
    assert np.abs(found - fast)[0, RIGHT + LEFT, :2].max() > 0
    assert before is not None and after is not None
    np.testing.assert_array_equal(after, before)
