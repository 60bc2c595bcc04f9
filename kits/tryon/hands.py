"""Hands in front of faces, as a mask."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.hands.crop import palm_size
from palmkit.kits.hands.kit import GestureRecognizer
from palmkit.kits.image import Image, Part, clip_part
from palmkit.kits.pace import Allowance, Pace, leave_out
from palmkit.kits.results import Faces, Hands
from palmkit.kits.tryon.colour import Floats
from palmkit.kits.tryon.regions import fixed, soften

# How far round a face's box is looked for hands, in its sides.
AROUND = 0.8
# Of a palm's length: how thick a finger is, and how soft its edge.
FINGER, EDGE = 0.26, 0.02
# What covers so much of a face that is seen as well as that is the face, taken for a hand. In 3,500
# pictures of hands and portraits, hands that cover more than .25 of a face leave what is under them
# seen to .94 at most, faces taken for hands to .99 and more.
MOST_COVERED, SEEN = 0.25, 0.95
_PALM = (0, 1, 5, 9, 13, 17)
_FINGERS = ((1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12), (13, 14, 15, 16), (17, 18, 19, 20))


class HandsInFront:
    """Finds hands near faces: in a video it follows them."""

    def __init__(self, kit: GestureRecognizer) -> None:
        """Wrap a kit that finds the hands, in pictures or in a video."""
        self._kit = kit
        self._allowance: Allowance | None = None
        self._pace: Pace[Hands] | None = None

    def pace_by(self, allowance: Allowance) -> None:
        """Look only at frames that there is time for; else hands move along with the camera."""
        self._allowance = allowance
        self._pace = Pace(allowance)

    @property
    def releases(self) -> Mapping[str, str]:
        """The versions of its models, as in Kit.releases."""
        return self._kit.releases

    def reset(self) -> None:
        """Forget the hands of earlier frames."""
        self._kit.reset()
        if self._allowance is not None:
            self._pace = Pace(self._allowance)

    def over(
        self, image: Image, faces: Faces, area: Part | None, time_s: float | None
    ) -> Floats | None:
        """Return where hands are in front of faces: float32[h, w], 0..1; None without any.

        area: x, y, w, h in pixels, outside of which nothing is searched.
        """
        assert faces.mesh is not None and faces.visibility is not None
        inside = clip_part(image, area)
        low, high = np.array(inside[:2]), np.array(inside[2:])
        begin = (faces.boxes[:, :2] - AROUND * faces.boxes[:, 2:]).min(axis=0).clip(low, high)
        end = (faces.boxes[:, :2] + (1 + AROUND) * faces.boxes[:, 2:]).max(axis=0).clip(low, high)
        left, top = np.floor(begin).astype(int).tolist()
        width, height = (np.ceil(end).astype(int) - (left, top)).tolist()
        if width < 1 or height < 1:
            return None
        at_ms = None if time_s is None else time_s * 1e3
        hands = None if self._pace is None else self._pace.begin(image, area)
        if hands is None:
            hands = self._kit.recognize(image, at_ms, roi=(left, top, width, height))
            if self._pace is not None:
                self._pace.looked(image, area, hands)
        else:
            leave_out("hands")
        found: Floats | None = None
        for landmarks in hands.landmarks:
            mask = hand_mask(image.shape[:2], landmarks)
            if any(
                _is_the_face(mask, mesh, visibility)
                for mesh, visibility in zip(faces.mesh, faces.visibility, strict=True)
            ):
                continue
            found = mask if found is None else np.maximum(found, mask)
        return found


def hand_mask(shape: tuple[int, ...], landmarks: NDArray[np.float32]) -> Floats:
    """Return palm and fingers of 21 landmarks, as thick as fingers: float32[h, w], 0..1."""
    import cv2

    palm = palm_size(landmarks)
    thick = max(int(round(FINGER * palm)), 1)
    mask = np.zeros(shape[:2], np.uint8)
    points = fixed(np.asarray(landmarks[:, :2], np.float32))
    hull = cv2.convexHull(points[list(_PALM)])
    cv2.fillPoly(mask, [hull], 255, cv2.LINE_8, 4)
    lines = [points[list(finger)] for finger in _FINGERS]
    cv2.polylines(mask, [hull], True, 255, thick, cv2.LINE_8, 4)
    cv2.polylines(mask, lines, False, 255, thick, cv2.LINE_8, 4)
    return soften(mask * np.float32(1 / 255), EDGE * palm)


def _is_the_face(mask: Floats, mesh: Floats, visibility: Floats) -> bool:
    """Return whether a supposed hand is a face: it covers much of it, and the mesh sees it all."""
    height, width = mask.shape
    columns = mesh[:, 0].astype(int).clip(0, width - 1)
    rows = mesh[:, 1].astype(int).clip(0, height - 1)
    under = mask[rows, columns] > 0.5
    covered = float(under.mean())
    return covered > MOST_COVERED and float(visibility[under].mean()) > SEEN
