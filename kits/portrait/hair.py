"""The hair kit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from palmkit.kits.face.kit import FaceDetector
from palmkit.kits.image import Flip, Format, Image, Part, Rotation, Source, resize
from palmkit.kits.kit import Mode, ModelSource, Precision
from palmkit.kits.portrait import refine
from palmkit.kits.portrait.compose import Backdrop, Background
from palmkit.kits.portrait.kit import Segmenter
from palmkit.kits.portrait.result import Mask
from palmkit.kits.portrait.steady import Steady
from palmkit.kits.portrait.views import span, square_round
from palmkit.kits.results import Faces


class HairSegmenter(Segmenter):
    """Finds the hair of the people in pictures and videos, pixel by pixel.

    The network looks at a square round each face that FaceDetector finds; where there is none, at
    the whole picture.
    """

    name: ClassVar[str] = "hair segmenter"
    model_name: ClassVar[str] = "hair"

    def __init__(
        self,
        mode: Mode = "image",
        *,
        threads: int = 1,
        precision: Precision = "high",
        max_faces: int | None = None,
        background: Background | None = None,
        refine: bool = True,
        smoothing: bool = True,
        model: ModelSource | None = None,
        face_model: ModelSource | None = None,
        on_result: Callable[[Mask, Image, float | None], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Make a segmenter; the arguments are those of PortraitSegmenter, and:

        max_faces: look only round so many faces, those of the best score.
        face_model: as FaceDetector's `model`.
        """
        self._faces = FaceDetector(
            "image" if mode == "image" else "video",
            threads=threads,
            precision=precision,
            max_faces=max_faces,
            model=face_model,
        )
        super().__init__(
            mode,
            threads=threads,
            precision=precision,
            background=background,
            refine=refine,
            smoothing=smoothing,
            model=model,
            on_result=on_result,
            on_error=on_error,
        )

    def _forget(self) -> None:
        self._faces.reset()
        self._steady: dict[int | None, Steady] = {}

    def _mask(
        self, image: Image, area: tuple[int, int, int, int], time_s: float | None
    ) -> refine.Mask:
        left, top, right, bottom = area
        part = (left, top, right - left, bottom - top)
        faces = self._faces.detect(image, None if time_s is None else time_s * 1e3, roi=part)
        return self.around(image, faces, area, time_s)

    def around(
        self,
        image: Image,
        faces: Faces,
        area: tuple[int, int, int, int],
        time_s: float | None,
        fine: bool = True,
    ) -> refine.Mask:
        """The hair round faces that are found already, for kits that find them anyway.

        fine: False for a mask that does not follow the picture's edges, which is quicker.

        faces: with the boxes that FaceDetector gives. area: left, top, right, bottom. time_s: as
        in Kit._look.
        Returns float32[h, w], 0 outside of the area.
        """
        left, top, right, bottom = area
        part = (left, top, right - left, bottom - top)
        mask = np.zeros(image.shape[:2], np.float32)
        seen: dict[int | None, Steady] = {}
        for face in faces:
            steady = seen[face.id] = self._steady.get(face.id, Steady())
            view = square_round(face.box, image.shape[1], image.shape[0])
            self._add(mask, image, area, view, steady, time_s, fine)
        if not len(faces):
            seen[None] = steady = self._steady.get(None, Steady())
            self._add(mask, image, area, part, steady, time_s, fine)
        self._steady = seen
        return mask

    def _add(
        self,
        mask: refine.Mask,
        image: Image,
        area: tuple[int, int, int, int],
        view: Part,
        steady: Steady,
        time_s: float | None,
        fine: bool,
    ) -> None:
        """Raise the mask to what the network sees in a view, which may reach out of the picture."""
        x, y, width, height = view
        left, top = max(round(x), area[0]), max(round(y), area[1])
        right, bottom = min(round(x + width), area[2]), min(round(y + height), area[3])
        if left >= right or top >= bottom:
            return
        if min(right - left, bottom - top) >= 2 * self._side:
            # Halving exactly is quick, and the border's last pixels show nothing.
            right, bottom = right - (right - left) % 4, bottom - (bottom - top) % 4
        crop = image[top:bottom, left:right]
        # Where the part that is in the picture lies in the network's input.
        columns = span(left - x, right - x, self._side / width, self._side)
        rows = span(top - y, bottom - y, self._side / height, self._side)
        canvas = np.zeros((self._side, self._side, 3), np.uint8)
        inside = canvas[rows, columns]
        inside[:] = resize(crop, *inside.shape[:2])
        coarse = self._run(canvas)
        if time_s is not None and self._smoothing:
            coarse = steady.update(coarse, canvas, view, time_s)
        coarse = np.ascontiguousarray(coarse[rows, columns])
        if fine:
            found = self._enlarge(crop, coarse, np.ascontiguousarray(inside))
        else:
            found = refine.enlarge(coarse, crop)
        whole = mask[top:bottom, left:right]
        np.maximum(whole, found, out=whole)


@lru_cache(maxsize=4)
def _hair(refine: bool, max_faces: int | None) -> HairSegmenter:
    return HairSegmenter(refine=refine, max_faces=max_faces)


def segment_hair(
    image: Source,
    background: Background | None = None,
    *,
    max_faces: int | None = None,
    refine: bool = True,
    roi: Part | None = None,
    format: Format | None = None,
    rotation: Rotation = 0,
    flip: Flip | None = None,
) -> Mask:
    """Find the hair of the people in a picture; otherwise as segment_portrait.

    max_faces: as in HairSegmenter.
    """
    backdrop = None if background is None else Backdrop.of(background)
    segmenter = _hair(refine, max_faces)
    found = segmenter.segment(image, roi=roi, format=format, rotation=rotation, flip=flip)
    return replace(found, backdrop=backdrop)
