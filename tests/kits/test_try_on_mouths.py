"""Teeth and tongues of people who laugh or speak, in development photographs, wear no lipstick."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits import FaceMesh, Look, TryOn, read_image
from palmkit.kits.face import topology
from palmkit.kits.image import Image
from palmkit.kits.tryon import regions
from palmkit.kits.tryon.colour import to_lab
from palmkit.kits.tryon.makeup import Lipstick

FACES = Path(__file__).parents[2].parent / "shared" / "data" / "faces"
# How far open, of the mouth's width; how wide at least, in pixels.
OPEN, WIDE = 0.14, 18
# A change in levels of 0..255 that is seen.
SEEN = 8


class Mouth(NamedTuple):
    """A picture, and where in it the lips, what is between them, and teeth are."""

    picture: Image
    lips: NDArray[np.bool_]
    between: NDArray[np.bool_]
    teeth: NDArray[np.bool_]


def open_mouths(files: list[Path]) -> Iterator[Mouth]:
    with FaceMesh(max_faces=1) as kit:
        for file in files:
            picture = read_image(file)
            found = kit.detect(picture)
            if not len(found):
                continue
            assert found.mesh is not None and found.visibility is not None
            points = found.mesh[0][:, :2]
            width = float(np.hypot(*(points[61] - points[291])))
            gap = float(np.hypot(*(points[13] - points[14])))
            seen = float(found.visibility[0][list(topology.LIPS_OUTER)].mean())
            if width >= WIDE and gap > OPEN * width and seen > 0.8:
                yield mouth(picture, np.asarray(points, np.float32), width)


def mouth(picture: Image, points: NDArray[np.float32], width: float) -> Mouth:
    """Teeth: between the lips, or at most as far outside as meshes err, lighter and less red."""
    shape = picture.shape[:2]
    inner, outer = (
        regions.fill(shape, regions.curve(points[list(loop)], True)) > 0.5
        for loop in (topology.LIPS_INNER, topology.LIPS_OUTER)
    )
    lips = outer & ~inner
    lab = to_lab(picture)
    usual = np.median(lab[lips], axis=0)
    near = cv2.dilate(inner.astype(np.uint8), np.ones((3, 3), np.uint8), iterations=1) > 0
    white = (lab[..., 0] > usual[0] + 10) & (lab[..., 1] < usual[1] - 6)
    between = cv2.erode(inner.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    return Mouth(picture, lips, between, white & (near if width > 30 else between))


@pytest.mark.skipif(not FACES.is_dir(), reason="needs ../shared/data")
def test_teeth_and_tongues_stay() -> None:
    lines = (FACES / "index.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["set"] in ("aaf", "interfaces")]
    files = [FACES / row["file"] for row in rows if row["split"] == "dev"]
    shares: list[tuple[float, float, float]] = []
    with TryOn(look=Look(lipstick=Lipstick("#5c1f3f", opacity=1.0)), behind_hands=False) as kit:
        for each in open_mouths(files):
            worn = kit.wear(each.picture).after
            changed = np.abs(worn.astype(int) - each.picture).max(axis=2) > SEEN
            if each.teeth.sum() >= 10:
                places = (each.teeth, each.between, each.lips)
                shares.append(tuple(float(changed[place].mean()) for place in places))  # type: ignore[arg-type]
    teeth, between, lips = np.mean(shares, axis=0)
    print(f"{len(shares)} mouths: changed {teeth:.3f} of teeth, {between:.3f} between, {lips:.3f}")
    assert len(shares) >= 10
    assert teeth < 0.1 and between < 0.02 and lips > 0.85
