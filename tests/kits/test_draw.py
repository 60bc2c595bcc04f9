import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits import Faces, ImageError, draw
from palmkit.kits.face import topology
from palmkit.kits.image import Image


def one_face(height: int, width: int, scale: float = 1, id: int | None = None) -> Faces:
    return Faces(
        width,
        height,
        np.array([[60, 70, 80, 100]], np.float32) * scale,
        np.array([0.9], np.float32),
        np.array([[[80, 100], [120, 100], [100, 120], [90, 145], [110, 145]]], np.float32) * scale,
        None if id is None else np.array([id]),
    )


def gray(height: int, width: int) -> Image:
    return np.full((height, width, 3), 128, np.uint8)


def test_the_box_is_drawn_where_it_is_and_nothing_far_from_it() -> None:
    picture = gray(300, 400)
    drawn = draw.faces(picture, one_face(300, 400))
    assert (picture == 128).all()
    changed = (drawn != 128).any(axis=2)
    for x, y in [(60, 120), (140, 120), (100, 170), (80, 100), (110, 145)]:
        assert changed[y - 2 : y + 3, x - 2 : x + 3].any()
    assert not changed[:, :50].any() and not changed[190:].any() and not changed[:, 160:].any()
    assert not changed[128:132, 70:130].any()


def test_parts_can_be_left_out() -> None:
    box = draw.faces(gray(300, 400), one_face(300, 400), keypoints=False, labels=False)
    changed = (box != 128).any(axis=2)
    assert not changed[76:164, 66:134].any() and not changed[:66].any()


def test_lines_grow_with_the_picture() -> None:
    small = draw.faces(gray(900, 1200), one_face(900, 1200, 3), labels=False)
    large = draw.faces(gray(2700, 3600), one_face(2700, 3600, 9), labels=False)
    share = (small != 128).any(axis=2).mean() / (large != 128).any(axis=2).mean()
    assert 0.7 < share < 1.4


def test_ids_have_their_own_colours() -> None:
    colours = [draw.colour_of(id) for id in range(12)]
    assert len(set(colours)) == 12
    assert draw.colour_of(None) == draw.ACCENT
    drawn = draw.faces(gray(300, 400), one_face(300, 400, id=4))
    assert (drawn == draw.colour_of(4)).all(axis=2).any()


@pytest.mark.parametrize("shape", [(1, 1), (3, 500), (20, 20)])
def test_faces_beyond_the_border_and_tiny_pictures(shape: tuple[int, int]) -> None:
    far = one_face(*shape, scale=1e6)
    assert draw.faces(gray(*shape), far).shape == (*shape, 3)
    assert draw.faces(gray(*shape), one_face(*shape, scale=0.001)).shape == (*shape, 3)


def test_nothing_found_gives_a_copy() -> None:
    nothing = Faces(
        40,
        30,
        np.zeros((0, 4), np.float32),
        np.zeros(0, np.float32),
        np.zeros((0, 5, 2), np.float32),
    )
    picture = gray(30, 40)
    drawn = draw.faces(picture, nothing)
    assert (drawn == picture).all() and not np.shares_memory(drawn, picture)


def test_a_result_of_another_picture_is_refused() -> None:
    message = r"draw faces: expected uint8\[300, 400, 3\], got uint8\[400, 300, 3\]"
    with pytest.raises(ImageError, match=message):
        draw.faces(gray(400, 300), one_face(300, 400))


def one_mesh(id: int | None = None) -> Faces:
    face = topology.canonical_face() * [12, -12, -12] + [200, 120, 0]
    low, high = face[:, :2].min(axis=0), face[:, :2].max(axis=0)
    return Faces(
        400,
        300,
        np.concatenate([low, high - low])[None].astype(np.float32),
        np.array([0.9], np.float32),
        np.zeros((1, 5, 2), np.float32),
        None if id is None else np.array([id]),
        face[None].astype(np.float32),
        np.ones((1, 478), np.float32),
        np.array([[-30, 0, 0]], np.float32),
        np.array([[True, False, False, False, False]]),
    )


def changed(**parts: bool) -> NDArray[np.bool_]:
    left_out = {"tessellation": False, "contours": False, "axes": False, "labels": False}
    drawn = draw.mesh(gray(300, 400), one_mesh(), **{**left_out, **parts})
    return np.asarray((drawn != 128).any(axis=2))


def test_a_mesh_is_drawn_part_by_part() -> None:
    result = one_mesh()
    assert result.mesh is not None
    points = result.mesh[0]
    assert not changed().any()
    forehead, lid, nose = (points[index, :2].round().astype(int) for index in (151, 386, 4))
    skin, lines = changed(tessellation=True), changed(contours=True)
    assert skin[forehead[1], forehead[0]] and not lines[forehead[1], forehead[0]]
    assert lines[lid[1] - 1 : lid[1] + 2, lid[0]].any()
    axes = changed(axes=True)
    # Looking to its left, the way forward goes to the picture's right.
    assert axes[nose[1], nose[0] + 20] and axes[nose[1] - 40, nose[0]]
    assert changed(labels=True).any()
    assert not skin[:30].any() and not lines[:, :100].any()


def test_a_mesh_that_reaches_far_out_of_the_picture_is_drawn() -> None:
    result = one_mesh(3)
    assert result.mesh is not None
    result.mesh[0] *= 1e7
    assert draw.mesh(gray(300, 400), result).shape == (300, 400, 3)


def test_no_meshes_and_empty_results() -> None:
    with pytest.raises(ImageError, match="expected the result of a FaceMesh"):
        draw.mesh(gray(300, 400), one_face(300, 400))
    with pytest.raises(ImageError, match=r"expected uint8\[300, 400, 3\]"):
        draw.mesh(gray(30, 40), one_mesh())
    full = one_mesh()
    assert full.mesh is not None and full.pose is not None
    none = Faces(
        400,
        300,
        full.boxes[:0],
        full.scores[:0],
        full.keypoints[:0],
        None,
        full.mesh[:0],
        None,
        full.pose[:0],
        None,
    )
    assert (draw.mesh(gray(300, 400), none) == 128).all()
