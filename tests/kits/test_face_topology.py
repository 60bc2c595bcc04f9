from collections import Counter

import numpy as np
import pytest

from palmkit.kits.face import topology
from palmkit.kits.face.topology import MIRROR


def rims() -> set[frozenset[int]]:
    """The edges that belong to one triangle only."""
    sides = Counter(
        frozenset((int(triangle[i]), int(triangle[i - 1])))
        for triangle in topology.triangles()
        for i in range(3)
    )
    assert max(sides.values()) == 2
    return {side for side, count in sides.items() if count == 1}


def loop_sides(loop: tuple[int, ...]) -> set[frozenset[int]]:
    return {frozenset((loop[i], loop[i - 1])) for i in range(len(loop))}


def test_the_skin_ends_at_the_oval_the_eyes_and_the_mouth() -> None:
    loops = (topology.FACE_OVAL, topology.LEFT_EYE, topology.RIGHT_EYE, topology.LIPS_INNER)
    assert rims() == {side for loop in loops for side in loop_sides(loop)}
    assert topology.triangles().shape == (852, 3)
    # V - E + F of a disc with three holes is 1 - 3.
    assert topology.FIRST_IRIS - len(topology.edges()) + 852 == -2


def test_loops_run_along_edges() -> None:
    edges = {frozenset(map(int, edge)) for edge in topology.edges()}
    for name in ("lips_outer", "left_eye", "right_eye", "lips_inner", "face_oval"):
        assert loop_sides(topology.LOOPS[name]) <= edges, name


@pytest.mark.parametrize("name", ["eye", "brow", "iris"])
def test_left_is_the_mirror_image_of_right(name: str) -> None:
    right = getattr(topology, f"RIGHT_{name.upper()}")
    left = getattr(topology, f"LEFT_{name.upper()}")
    assert set(MIRROR[list(right)]) == set(left)
    if name != "iris":
        assert tuple(MIRROR[list(right)]) == left


def test_the_canonical_face_is_symmetric_and_its_own_scale() -> None:
    face = topology.canonical_face()
    np.testing.assert_allclose(face[MIRROR] * [-1, 1, 1], face, atol=1e-5)
    assert np.linalg.norm(face[33] - face[263]) == pytest.approx(9, abs=1e-4)
    # The subject's left is +x, the brow above the chin, the nose before the ears.
    assert face[263, 0] > 0 > face[33, 0]
    assert face[10, 1] > 0 > face[152, 1]
    assert face[4, 2] > face[234, 2]


def test_triangles_face_outwards() -> None:
    a, b, c = topology.canonical_face()[topology.triangles().astype(int)].transpose(1, 0, 2)
    normals = np.cross(b - a, c - a)
    # Those inside the nostrils and at the rim may look aside.
    assert (normals[:, 2] > 0).mean() > 0.97


def test_the_106_points_are_symmetric_and_in_order() -> None:
    weights = topology.weights_106()
    assert weights.shape == (106, 478)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
    points = topology.points_106(topology.canonical_face())
    pairs = [*((i, 32 - i) for i in range(17)), (33, 42), (37, 38), (64, 71), (67, 68), (52, 61)]
    pairs += [(53, 60), (55, 58), (56, 63), (72, 75), (73, 76), (74, 77), (47, 51), (48, 50)]
    pairs += [(78, 79), (80, 81), (82, 83), (84, 90), (85, 89), (95, 91), (96, 100), (104, 105)]
    for right, left in pairs:
        np.testing.assert_allclose(points[right], points[left] * [-1, 1, 1], atol=1e-5)
    for middle in (16, 43, 44, 45, 46, 49, 87, 93, 98, 102):
        assert abs(points[middle, 0]) < 1e-5
    steps = np.hypot(*np.diff(points[:33, :2], axis=0).T)
    assert steps.min() > 0.8 * steps.max()
    seen = topology.points_106(np.linspace(0, 1, 478, dtype=np.float32)[None])
    assert seen.shape == (1, 106)
    assert seen[0, 104] == pytest.approx(468 / 477)
