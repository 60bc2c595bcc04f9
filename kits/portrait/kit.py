"""The portrait kit, and what it shares with the hair kit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, cast

import numpy as np

from palmkit.kits.delivered import Current
from palmkit.kits.image import Flip, Format, Image, Part, Rotation, Source, clip_part
from palmkit.kits.kit import (
    Kit,
    Mode,
    ModelSource,
    Precision,
    input_side,
    output,
)
from palmkit.kits.portrait import refine
from palmkit.kits.portrait.compose import Backdrop, Background
from palmkit.kits.portrait.result import Mask
from palmkit.kits.portrait.steady import Steady
from palmkit.kits.portrait.views import (
    SECOND_SHARE,
    box_of_people,
    part_of,
    shrink,
)


class Segmenter(Kit[Mask]):
    """What the two kits share: they differ in which views of a picture their network gets."""

    model_name: ClassVar[str]

    def __init__(
        self,
        mode: Mode = "image",
        *,
        threads: int = 1,
        precision: Precision = "high",
        background: Background | None = None,
        refine: bool = True,
        smoothing: bool = True,
        model: ModelSource | None = None,
        on_result: Callable[[Mask, Image, float | None], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Make a segmenter; segmenters of the same model, threads and precision share it.

        mode: "image", "video" (steady masks) or "stream" (video in a thread).
        threads: that one run of the network uses.
        precision: of the arithmetic, as in palmkit.engine.load.
        background: what Mask.composite takes; each result then has a `picture` on it.
        refine: follow the picture's own edges; without, the network's mask is enlarged.
        smoothing: video and stream: hold masks still where the picture is.
        model: a path of a model like the one shipped, "portrait@stable" for the newest that is
        delivered (see palmkit.delivery), or an open one; None: the one shipped.
        on_result, on_error: stream mode, see submit.
        Raises ValueError for an option that cannot be, ImageError for a background that cannot
        be read, ModelError for a model that cannot.
        """
        self._backdrop = None if background is None else Backdrop.of(background)
        self._refine = refine
        self._smoothing = smoothing
        self._seen_by = Current(model, self.model_name, threads, precision)
        self._side = 0
        super().__init__(mode, on_result, on_error, self._seen_by)

    def _adopt(self) -> None:
        self._model = self._seen_by.model
        before, self._side = self._side, input_side(self._model)
        if self._side != before:
            # Masks of frames before are as large as the network's input was then.
            self._forget()

    def segment(
        self,
        image: Source,
        timestamp_ms: float | None = None,
        *,
        roi: Part | None = None,
        format: Format | None = None,
        rotation: Rotation = 0,
        flip: Flip | None = None,
    ) -> Mask:
        """Find every pixel of it in a picture, or in the next frame of a video.

        image: a path, the bytes of a picture file, a PIL.Image, or uint8[h, w, 3] RGB; see
        palmkit.kits.image.read_image for the other arrays, and for format, rotation and flip.
        timestamp_ms: of the frame, in video mode; None: 1/30 s after the last one. It may repeat
        or jump back.
        roi: x, y, w, h in pixels of the upright picture: look only there; the mask is 0 elsewhere.
        Raises ImageError if `image` is not a picture or `roi` lies outside it, RuntimeError in
        stream mode or after close.
        """
        return self._call(image, roi, timestamp_ms, format, rotation, flip)

    def _look(self, image: Image, roi: Part | None, time_s: float | None) -> Mask:
        height, width = image.shape[:2]
        mask = self._mask(image, clip_part(image, roi), time_s)
        return Mask(width, height, mask, image, self._backdrop)

    @abstractmethod
    def _mask(
        self, image: Image, area: tuple[int, int, int, int], time_s: float | None
    ) -> refine.Mask:
        """The whole picture's mask, 0 outside left, top, right, bottom."""

    def _run(self, view: Image) -> refine.Mask:
        """What the network says of uint8[side, side, 3]: float32[side, side], 0..1."""
        shape = (1, self._side, self._side, 1)
        found = output(self._model.run({"image": view[None].astype(np.float32)}), "mask", shape)
        mask: refine.Mask = found[0, :, :, 0]
        # Whoever brings another model may bring one that leaves 0..1.
        if not (mask.min() >= 0 and mask.max() <= 1):
            mask = np.clip(np.nan_to_num(mask), 0, 1)
        return mask

    def _enlarge(
        self, crop: Image, coarse: refine.Mask, small: Image, to: refine.Mask | None = None
    ) -> refine.Mask:
        if not self._refine:
            return refine.enlarge(coarse, crop, to)
        return refine.refine(crop, coarse, small, to)


class PortraitSegmenter(Segmenter):
    """Finds the people in pictures and videos, pixel by pixel.

    with PortraitSegmenter("video", background="blur") as segmenter:
        for frame, timestamp_ms in kits.video.VideoReader("clip.mp4"):
            show(segmenter.segment(frame, timestamp_ms).picture)
    """

    name: ClassVar[str] = "portrait segmenter"
    model_name: ClassVar[str] = "portrait"

    def __init__(
        self,
        mode: Mode = "image",
        *,
        threads: int = 1,
        precision: Precision = "high",
        background: Background | None = None,
        refine: bool = True,
        second_look: bool = True,
        smoothing: bool = True,
        model: ModelSource | None = None,
        on_result: Callable[[Mask, Image, float | None], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Make a segmenter; the arguments are those of Segmenter, and:

        second_look: image mode: look again at the part where the first look finds people, for a
        better mask in about twice the time.
        """
        self._second_look = second_look
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
        self._steady = Steady()

    def _run(self, view: Image) -> refine.Mask:
        import cv2

        # Along outlines the network's values go up and down from one pixel to the next.
        return cast(refine.Mask, cv2.GaussianBlur(super()._run(view), (3, 3), 0))

    def _mask(
        self, image: Image, area: tuple[int, int, int, int], time_s: float | None
    ) -> refine.Mask:
        left, top, right, bottom = area
        crop = image[top:bottom, left:right]
        view = shrink(crop, self._side)
        coarse = self._run(view)
        if time_s is None and self._second_look:
            found = self._look_again(crop, coarse, view)
        else:
            coarse = refine.without_specks(coarse)
            if time_s is not None and self._smoothing:
                place = (left, top, right - left, bottom - top)
                coarse = self._steady.update(coarse, view, place, time_s)
            found = self._enlarge(crop, coarse, view)
        if found.shape == image.shape[:2]:
            return found
        mask = np.zeros(image.shape[:2], np.float32)
        mask[top:bottom, left:right] = found
        return mask

    def _look_again(self, image: Image, coarse: refine.Mask, small: Image) -> refine.Mask:
        """The mask at the size of the picture, after another look at the people in it.

        coarse: what the network says of small, which is the picture; both float32 and uint8 of
        the network's size.
        """
        import cv2

        height, width = image.shape[:2]
        box = box_of_people(coarse, width, height)
        if box is None:
            return self._enlarge(image, coarse, small)
        left, top, right, bottom = box
        crop = image[top:bottom, left:right]
        part, view = coarse, small
        if crop.shape != image.shape:
            part, view = part_of(coarse, box, width, height), shrink(crop, self._side)
        # Mirrored, the network errs in other places.
        again = self._run(cast(Image, cv2.flip(view, 1)))
        share = SECOND_SHARE
        both = cast(refine.Mask, cv2.addWeighted(part, 1 - share, cv2.flip(again, 1), share, 0))
        both = refine.without_specks(both)
        if crop.shape == image.shape:
            return self._enlarge(crop, both, view)
        mask = refine.enlarge(coarse, image)
        self._enlarge(crop, both, view, mask[top:bottom, left:right])
        return mask


@lru_cache(maxsize=4)
def _portrait(refine: bool, second_look: bool) -> PortraitSegmenter:
    return PortraitSegmenter(refine=refine, second_look=second_look)


def segment_portrait(
    image: Source,
    background: Background | None = None,
    *,
    refine: bool = True,
    second_look: bool = True,
    roi: Part | None = None,
    format: Format | None = None,
    rotation: Rotation = 0,
    flip: Flip | None = None,
) -> Mask:
    """Find the people in a picture, with a segmenter made once; any thread may call it.

    background: what Mask.composite takes; the result then has a `picture` on it.
    The rest are those of PortraitSegmenter and of its method segment.
    Raises ImageError if `image` or the background is not a picture, ValueError for an option that
    cannot be.
    """
    backdrop = None if background is None else Backdrop.of(background)
    segmenter = _portrait(refine, second_look)
    found = segmenter.segment(image, roi=roi, format=format, rotation=rotation, flip=flip)
    return replace(found, backdrop=backdrop)
