"""A line along a drawn lid: one line, thin at both ends, nowhere without the lid."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.face import topology
from palmkit.kits.tryon.makeup import Eyeliner
from palmkit.kits.tryon.regions import soften
from tests.kits.test_try_on_effects import SIDE, drawn, inside, laid

# The outer corner of each eye, and the inner one.
CORNERS = {"right": (33, 133), "left": (263, 362)}


def parts_of(line: NDArray[np.float32]) -> list[NDArray[np.bool_]]:
    """The connected parts of what is clearly covered."""
    count, found = cv2.connectedComponents((line > 0.1).astype(np.uint8), connectivity=8)
    return [np.asarray(found == part) for part in range(1, count)]


@pytest.mark.parametrize("wing", [0.0, 0.35, 1.0])
@pytest.mark.parametrize("width", [0.3, 0.8])
@pytest.mark.parametrize("yaw", [-40.0, 0.0, 25.0])
def test_each_eye_has_one_line_with_its_wing(wing: float, width: float, yaw: float) -> None:
    _, _, covered = laid(Eyeliner(width=width, wing=wing), yaw=yaw)
    assert len(parts_of(covered)) == 2


@pytest.mark.parametrize("eye", CORNERS)
def test_a_line_is_thin_at_both_ends_and_its_wing_goes_up_beyond_the_corner(eye: str) -> None:
    mesh = drawn()[1]
    outer, inner = (mesh[point, :2] for point in CORNERS[eye])
    _, _, covered = laid(Eyeliner(width=1.0, wing=1.0))
    half = np.s_[:, : SIDE // 2] if eye == "right" else np.s_[:, SIDE // 2 :]
    line = np.zeros_like(covered)
    line[half] = covered[half]
    thick = line.sum(axis=0)
    columns = np.flatnonzero(thick > 0.05)
    tip = columns[0] if outer[0] < inner[0] else columns[-1]
    # A centimetre is 16 pixels.
    assert 12 < abs(tip - outer[0]) < 24
    rows = np.flatnonzero(line[:, tip] > 0.01)
    assert rows.mean() < outer[1] - 5
    order = columns if tip == columns[0] else columns[::-1]
    measured = thick[order]
    most = int(measured.argmax())
    assert 3 < most < 0.7 * len(order)
    assert measured[:3].max() < 0.6 * measured[most] and measured[-3:].max() < 0.6 * measured[most]
    # It swells and thins out without a gap or a knot.
    smooth = soften(measured[None], 1.5)[0]
    assert np.diff(smooth[2:most]).min() > -0.35 and measured[1:-1].min() > 0.15


def test_a_wing_that_something_cuts_off_is_not_drawn_alone() -> None:
    mesh = drawn()[1]
    hair = np.zeros((SIDE, SIDE), np.float32)
    corner = mesh[CORNERS["right"][0], :2]
    inner = mesh[CORNERS["right"][1], :2]
    # Over the whole lid, but not over the wing.
    hair[:, int(corner[0]) : int(inner[0]) + 6] = 1
    _, _, covered = laid(Eyeliner(wing=1.0), hair=hair)
    assert covered[:, : SIDE // 2].max() < 0.1
    assert len(parts_of(covered)) == 1
    hair = np.zeros((SIDE, SIDE), np.float32)
    hair[:, : int(corner[0]) - 3] = 1
    _, _, covered = laid(Eyeliner(wing=1.0), hair=hair)
    assert len(parts_of(covered)) == 2


def test_the_far_eye_of_a_profile_has_no_line() -> None:
    for yaw in (-75.0, 75.0):
        _, _, covered = laid(Eyeliner(wing=1.0), yaw=yaw)
        (part,) = parts_of(covered)
        mesh = drawn(yaw)[1]
        near = min(CORNERS.values(), key=lambda corners: mesh[corners[0], 2])
        across = np.flatnonzero(part.any(axis=0))
        assert across[0] - 4 < mesh[near[0], 0] < across[-1] + 4


def test_the_eye_below_stays_open() -> None:
    eyes = inside(topology.RIGHT_EYE) | inside(topology.LEFT_EYE)
    inner = cv2.erode(eyes.astype(np.uint8), np.ones((7, 7), np.uint8)) > 0
    _, _, covered = laid(Eyeliner(width=1.0, wing=1.0))
    assert covered[inner].max() < 0.1
