"""The hair kit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias, cast

import numpy as np

from palmkit.engine.backends import again_if_lost
from palmkit.kits.boxes import Floats
from palmkit.kits.calls import Given, Sources, called_with_pictures
from palmkit.kits.face.kit import FaceDetector
from palmkit.kits.face.turning import quarters_of, upright_faces
from palmkit.kits.image import Image, Part, Source, resize, resizings
from palmkit.kits.options import made_of, same_option
from palmkit.kits.portrait import refine
from palmkit.kits.portrait.compose import Background
from palmkit.kits.portrait.finder import Finder, Heads
from palmkit.kits.portrait.kit import (
    Segmenter,
    SegmenterArguments,
    SegmenterCall,
    segment_by,
)
from palmkit.kits.portrait.looks import mean_of_scales, mean_of_turns
from palmkit.kits.portrait.network import SegmentationNetwork
from palmkit.kits.portrait.options import HAIR_NETWORKS, HairOptions
from palmkit.kits.portrait.steady import Steady
from palmkit.kits.portrait.views import LARGE, Box, Halves, doubt, far_only, span, square_round
from palmkit.kits.quality import Quality
from palmkit.kits.quarter_turns import turned_boxes
from palmkit.kits.results import Face, Faces, Mask
from palmkit.kits.results.mask import Subject

if TYPE_CHECKING:
    from palmkit.engine.frames import Frames

# How far the other looks at a head are turned, in degrees.
TURN = 20.0
# How large the head is in two of the four looks at it: where the first one leaves little doubt, and
# where much, as what is small, blurred or enlarged is sharp again from farther off. The first was
# chosen on the dev split, the second on dev and held-out pictures, as they are and made worse.
NEARER, FARTHER = 1.3, 0.7
# How much the fast network's word counts beside the best one's. Chosen on the same pictures.
FIRST_WORD = 0.2
# From what doubt of the fast network on the best one looks at a head in a picture, and from what
# doubt of the last network on it takes four looks. Chosen on the held-out part of the training
# pictures, where nine tenths of what four looks at all heads gain remain, in half the time.
DOUBT = 0.04
MUCH = 0.12
AGAIN: Mapping[Quality, float | None] = {"auto": MUCH, "fast": None, "best": 0.0}
# The share of a view's last row from which on hair hangs down beyond it, in pictures, and how much
# larger the view is that shows what is below. Chosen on the held-out part.
HANGS, FURTHER = 0.1, 2.0

# Whose hair a look at a part of the picture shows: "face", "head" or "area", and which of these.
Look: TypeAlias = tuple[str, int]


@dataclass(frozen=True, repr=False, eq=False)
class HairSegmenterArguments(SegmenterArguments, HairOptions):
    """The arguments of HairSegmenter."""


class HairSegmenter(Segmenter):
    """Finds the hair of the people in pictures and videos, pixel by pixel.

    The network sees a square round each face that FaceDetector finds, and one round the head of
    everybody else, such as those seen from behind; where there is neither, the whole picture. Where
    hair hangs down beyond such a square in a picture, a larger one shows the rest. Where all of
    these are small, the whole picture is looked at as well, for the hair of a head so near that
    neither was noticed.
    """

    name: ClassVar[str] = "hair segmenter"
    subject: ClassVar[Subject] = "hair"

    @made_of(HairSegmenterArguments)
    def __init__(self, options: HairSegmenterArguments) -> None:
        """Make a segmenter; segmenters of the same models, threads and precision share them.

        Raises ValueError for an option that cannot be, ImageError for a background that cannot
        be read, ModelError for a model that cannot.
        """
        of_pictures = options.mode == "image"
        network, second = HAIR_NETWORKS.opened(
            lambda model, name: SegmentationNetwork(model, options, name),
            options.quality,
            options.model,
            options.best_model,
            of_pictures=of_pictures,
        )
        super().__init__(options, network)
        self._faces = FaceDetector(
            "image" if of_pictures else "video",
            quality="fast",
            max_faces=options.max_faces,
            model=options.face_model,
            **options.running(),
        )
        self._second = second
        self._again = AGAIN[options.quality if of_pictures else "fast"]
        self._looks_turned = of_pictures and options.quality != "fast"
        looks = options.max_faces is None
        self._open(Finder(options.finder_model, options) if looks else None, second)

    @property
    def releases(self) -> Mapping[str, str]:
        """The versions of the hair model and the face detector, as in Kit.releases."""
        return {**super().releases, **self._faces.releases}

    def _forget(self) -> None:
        self._faces.reset()
        self._heads = None if self._finder is None else Heads(self._finder)
        self._steady: dict[Look, Steady] = {}
        self._whole = Steady()

    def _mask(
        self, image: Image, area: tuple[int, int, int, int], time_s: float | None
    ) -> refine.Mask:
        left, top, right, bottom = area
        part = (left, top, right - left, bottom - top)
        faces = self._faces.detect(image, None if time_s is None else time_s * 1e3, roi=part)
        if self._looks_turned:
            crop = image[top:bottom, left:right]
            quarters, found = upright_faces(crop, self._faces.detect, faces)
            if quarters:
                masked = partial(self._mask_with, faces=found, time_s=None)
                return self._mask_turned(image, area, quarters, masked)
        return self._mask_with(image, area, faces, time_s)

    def _mask_with(
        self, image: Image, area: Box, faces: Faces, time_s: float | None
    ) -> refine.Mask:
        """Return the mask of an area with these faces, which are upright."""
        left, top, right, bottom = area
        part = (left, top, right - left, bottom - top)
        looks = _looks(faces, image)
        if self._heads is not None:
            crop = Halves(image[top:bottom, left:right])
            moved = faces.boxes - np.asarray([left, top, 0, 0], np.float32)
            for number, (x, y, width, height) in self._heads.update(crop, moved, time_s):
                looks["head", number] = x + left, y + top, width, height
        mask = self._round(image, looks, area, time_s)
        is_far = bool(looks) and far_only(list(looks.values()), part)
        # In a video with faces one more look at each frame would find little and take its time.
        if self._heads is not None and is_far and (time_s is None or not len(faces)):
            self._add(mask, image, area, part, self._whole, time_s, least=LARGE)
        return mask

    def around(
        self,
        image: Image,
        faces: Faces,
        area: tuple[int, int, int, int],
        time_s: float | None,
        fine: bool = True,
        twice: bool = False,
        once: bool = False,
    ) -> refine.Mask:
        """Return the hair round faces that are already found, for kits that find them anyway.

        fine: False for a mask that does not follow the picture's edges, which is faster. twice:
        True for what the network takes for hair in the mirror image of its view, too. once: True
        for one look at each head, whatever the doubt. faces: with
        the boxes that FaceDetector gives. area: left, top, right, bottom. time_s: as in Kit._run.
        Returns float32[h, w], 0 outside of the area.
        """
        quarters = quarters_of(faces[0]) if time_s is None and len(faces) else 0
        if not quarters:
            return self._round(image, _looks(faces, image), area, time_s, fine, twice, once)
        faces = replace(faces, boxes=turned_boxes(faces.boxes, quarters, area))

        def masked(picture: Image, whole: Box) -> refine.Mask:
            return self._round(picture, _looks(faces, picture), whole, None, fine, twice, once)

        return self._mask_turned(image, area, quarters, masked)

    def _round(
        self,
        image: Image,
        looks: dict[Look, Part],
        area: Box,
        time_s: float | None,
        fine: bool = True,
        twice: bool = False,
        once: bool = False,
    ) -> refine.Mask:
        """Return the hair that these looks show; without any, that in all of the area."""
        if not looks:
            left, top, right, bottom = area
            looks = {("area", 0): (left, top, right - left, bottom - top)}
        frames = None
        if time_s is not None and fine:
            boxes = [place[0] for view in looks.values() if (place := self._place(area, view))]
            pixels = sum((box[2] - box[0]) * (box[3] - box[1]) for box in boxes)
            frames = self._on_device.frames(image, pixels)

        def made() -> refine.Mask:
            mask = np.zeros(image.shape[:2], np.float32)
            seen: dict[Look, Steady] = {}
            if frames is not None:
                frames.send(image)
            for look, view in looks.items():
                steady = seen[look] = self._steady.get(look, Steady())
                self._add(mask, image, area, view, steady, time_s, fine, twice, once, frames=frames)
            self._steady = seen
            return mask

        return made() if frames is None else again_if_lost(made)

    def otherwise(
        self, image: Image, face: Face, area: Box, part: tuple[slice, slice]
    ) -> refine.Mask:
        """Return the hair round a face in other looks: the mean of some, turned or without colours.

        Hair is hair there, too; of what the network takes for it by mistake it is less sure.
        part: of the picture, where the mask is wanted. Returns float32, 0..1, smooth.
        """
        quarters, box = quarters_of(face), face.box
        if not quarters:
            return self._otherwise(image, area, box)[part]
        box = turned_boxes(box[None], quarters, area)[0]
        masked = partial(self._otherwise, box=box)
        return self._mask_turned(image, area, quarters, masked)[part]

    def _otherwise(self, image: Image, area: Box, box: Floats) -> refine.Mask:
        mask = np.zeros(image.shape[:2], np.float32)
        place = self._place(area, square_round(box, image.shape[1], image.shape[0]))
        if place is None:
            return mask
        (left, top, right, bottom), rows, columns = place
        crop = image[top:bottom, left:right]
        found = mean_of_turns(self._network, self._canvas(crop, rows, columns), TURN)
        mask[top:bottom, left:right] = refine.enlarge(
            np.ascontiguousarray(found[rows, columns]), crop
        )
        return mask

    def _infer_well(self, view: Image) -> refine.Mask:
        """Return what the network says of a view, or mostly the best one if that is in doubt.

        Where the last one asked is in doubt, too, the mean of its four looks counts.
        """
        import cv2

        network, side = self._network, self._side
        whole = network.infer(view)
        first = None
        if self._second is not None:
            if doubt(whole) < DOUBT:
                return whole
            network, first = self._second, whole
            view = resize(view, network.side, network.side)
            whole = network.infer(view)
        if self._again is not None and (unsure := doubt(whole)) >= self._again:
            scale = NEARER if unsure < MUCH else FARTHER
            whole = mean_of_scales(network, view, whole, scale)
        if network.side != side:
            whole = cast(refine.Mask, cv2.resize(whole, (side, side)))
        if first is None:
            return whole
        return cast(refine.Mask, cv2.addWeighted(first, FIRST_WORD, whole, 1 - FIRST_WORD, 0))

    def _place(self, area: Box, view: Part) -> tuple[Box, slice, slice] | None:
        """Return where a view, which may exceed the picture, shows what; None if nothing.

        That is the box of the view's part in the picture, and the rows and columns of the network's
        input where that part goes.
        """
        x, y, width, height = view
        left, top = max(round(x), area[0]), max(round(y), area[1])
        right, bottom = min(round(x + width), area[2]), min(round(y + height), area[3])
        if left >= right or top >= bottom:
            return None
        if min(right - left, bottom - top) >= 2 * self._side:
            # Halving exactly is quick, and the border's last pixels show nothing.
            right, bottom = right - (right - left) % 4, bottom - (bottom - top) % 4
        columns = span(left - x, right - x, self._side / width, self._side)
        rows = span(top - y, bottom - y, self._side / height, self._side)
        return (left, top, right, bottom), rows, columns

    def _canvas(self, crop: Image, rows: slice, columns: slice) -> Image:
        """Return the network's input for what `_place` says of a view."""
        canvas = np.zeros((self._side, self._side, 3), np.uint8)
        inside = canvas[rows, columns]
        inside[:] = resize(crop, *inside.shape[:2])
        return canvas

    def _add(
        self,
        mask: refine.Mask,
        image: Image,
        area: tuple[int, int, int, int],
        view: Part,
        steady: Steady,
        time_s: float | None,
        fine: bool = True,
        twice: bool = False,
        once: bool = False,
        least: float = 0.0,
        frames: Frames | None = None,
    ) -> None:
        """Raise the mask to the network's result for a view, which may exceed the picture.

        fine, twice, once: as around has them. least: the share of the view that a connected part of
        the result has at least; others are left out. frames: what keeps the picture on the
        network's device, if something does.
        """
        place = self._place(area, view)
        if place is None:
            return
        box, rows, columns = place
        left, top, right, bottom = box
        crop = image[top:bottom, left:right]
        if frames is None:
            canvas = self._canvas(crop, rows, columns)
            coarse = self._network.infer(canvas) if once else self._infer_well(canvas)
        else:
            to = (columns.stop - columns.start, rows.stop - rows.start)
            steps = resizings((right - left, bottom - top), to)
            coarse = self._network.infer(frames.see(box, steps, rows, columns))
            canvas = frames.seen()
        if twice:
            coarse = np.minimum(coarse, self._network.infer_mirrored(canvas))
        if time_s is not None and self._options.smoothing:
            coarse = steady.update(coarse, canvas, view, time_s)
        coarse = np.ascontiguousarray(coarse[rows, columns])
        if least:
            coarse = refine.large_parts(coarse, least)
            if not coarse.any():
                return
        small = np.ascontiguousarray(canvas[rows, columns])
        if not fine:
            found = refine.enlarge(coarse, crop)
        elif frames is None:
            found = self._enlarge(crop, coarse, small)
        else:
            found = np.empty(crop.shape[:2], np.float32)
            self._enlarge_on_device(frames, box, coarse, small, found)
        whole = mask[top:bottom, left:right]
        np.maximum(whole, found, out=whole)
        x, y, width, height = view
        ends = time_s is not None or least or round(y + height) >= area[3]
        if ends or (found[-1] > 0.5).mean() < HANGS:
            return
        # It hangs down beyond the view. The larger one is seen less closely: only what is below
        # counts.
        longer = np.zeros_like(mask)
        larger = (x + width * (1 - FURTHER) / 2, y, width * FURTHER, height * FURTHER)
        self._add(longer, image, area, larger, steady, None, fine, twice, once)
        np.maximum(mask[bottom:], longer[bottom:], out=mask[bottom:])


def _looks(faces: Faces, image: Image) -> dict[Look, Part]:
    """Return what to look at round faces; those of pictures have no ids."""
    height, width = image.shape[:2]
    return {
        ("face", index if face.id is None else face.id): square_round(face.box, width, height)
        for index, face in enumerate(faces)
    }


@dataclass(frozen=True, repr=False, eq=False)
class HairSegmenterCall(HairOptions, SegmenterCall[Given]):
    """The arguments of segment_hair."""

    background: Background | None = same_option(HairOptions, "background")


@called_with_pictures(HairSegmenterCall[Source], HairSegmenterCall[Sources])
def segment_hair(call: HairSegmenterCall[Source]) -> Mask:
    """Find the hair of the people in a picture; otherwise as segment_portrait."""
    return segment_by(HairSegmenter, HairOptions, call)
