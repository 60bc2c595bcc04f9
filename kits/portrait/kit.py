"""The portrait kit, and what it shares with the hair kit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from palmkit.engine.backends import again_if_lost
from palmkit.kits.calls import (
    Frame,
    Given,
    Picture,
    Sources,
    called_with_pictures,
    takes_pictures,
    takes_pictures_awaited,
)
from palmkit.kits.face.kit import FaceDetector
from palmkit.kits.face.turning import (
    GLANCE_SIZE,
    GLANCE_SURE,
    GLANCE_SURER,
    upright,
)
from palmkit.kits.image import Image, Part, Source, clip_part
from palmkit.kits.kit import Kit, ModelSource
from palmkit.kits.options import Modes, kept, made_of, same_option
from palmkit.kits.portrait import refine
from palmkit.kits.portrait.compose import Backdrop, Background
from palmkit.kits.portrait.finder import Finder
from palmkit.kits.portrait.following import Following
from palmkit.kits.portrait.held import Holding, box_with_room, held_by
from palmkit.kits.portrait.network import MaskNetwork, SegmentationNetwork
from palmkit.kits.portrait.on_device import OnDevice
from palmkit.kits.portrait.options import PORTRAIT_NETWORKS, PortraitOptions, SegmenterOptions
from palmkit.kits.portrait.search import Found, PeopleSearch
from palmkit.kits.portrait.steady import Steady
from palmkit.kits.portrait.views import Box, Halves, shrinkings
from palmkit.kits.quarter_turns import turned
from palmkit.kits.results import INSIDE, Mask
from palmkit.kits.results.mask import Subject

if TYPE_CHECKING:
    from palmkit.engine.frames import Frames


@dataclass(frozen=True, repr=False, eq=False)
class SegmenterArguments(Modes[Mask], SegmenterOptions):
    """The arguments of both segmenters."""


class Segmenter(Kit[Mask]):
    """Common base of both kits, which differ in the views of a picture that their network gets."""

    subject: ClassVar[Subject]

    def __init__(self, options: SegmenterArguments, network: SegmentationNetwork) -> None:
        """Set up what both kits have; the subclass ends with `_open`.

        network: that of the kit, or of its first look.
        """
        super().__init__(options)
        self._options = options
        self._backdrop = None if options.background is None else Backdrop.of(options.background)
        self._network = network
        self._finder: Finder | None = None
        self._on_device = OnDevice()

    def _open(self, finder: Finder | None, *others: MaskNetwork | None) -> None:
        """Start, with a finder if the views of the network follow from where people are.

        others: further networks that the kit runs.
        """
        self._finder = finder
        every = (self._network, finder, *others)
        self._networks = tuple(each for each in every if each is not None)
        self._start(*(each.current for each in self._networks))

    def _adopt(self) -> None:
        before = self._network.side
        for each in self._networks:
            each.adopt()
        if self._network.side != before:
            # Masks of frames before are as large as the network's input was then.
            self._forget()
        if self._mode != "image":
            self._on_device.adopt(self._network.current.model)

    @property
    def _side(self) -> int:
        """The side of what the network sees, in pixels."""
        return self._network.side

    @takes_pictures
    def segment(self, frame: Frame[Source]) -> Mask:
        """Find every pixel of it in a picture, or in the next frame of a video.

        image: a path, the bytes of a picture file, an open binary file, a PIL.Image, or uint8[h, w,
        3] RGB; see palmkit.kits.image.read_image for the other arrays, and for format, rotation and
        flip. In image mode also a list of these, for a list of results.
        timestamp_ms: of the frame, in video mode; None: 1/30 s after the last one. It may repeat
        or jump back.
        roi: x, y, w, h in pixels of the upright picture: search only there; the mask is 0
        elsewhere.
        Raises ImageError if `image` is not a picture or `roi` lies outside it, RuntimeError in
        stream mode or after close.
        """
        return self._call(frame)

    @takes_pictures_awaited
    async def segment_async(self, frame: Frame[Source]) -> Mask:
        """Do what segment does without blocking the event loop."""
        return await self._call_async(frame)

    def _run(self, image: Image, roi: Part | None, time_s: float | None) -> Mask:
        height, width = image.shape[:2]
        mask = self._mask(image, clip_part(image, roi), time_s)
        return Mask(width, height, mask, image, self._backdrop, self.subject)

    @abstractmethod
    def _mask(
        self, image: Image, area: tuple[int, int, int, int], time_s: float | None
    ) -> refine.Mask:
        """Return the whole picture's mask, 0 outside left, top, right, bottom."""

    def _mask_turned(
        self, image: Image, area: Box, quarters: int, masked: Callable[[Image, Box], refine.Mask]
    ) -> refine.Mask:
        """Return the mask of an area as it is found in that turned by so many quarters.

        masked: returns the mask of an area of a picture.
        """
        left, top, right, bottom = area
        part = turned(image[top:bottom, left:right], quarters)
        mask = np.zeros(image.shape[:2], np.float32)
        found = masked(part, (0, 0, part.shape[1], part.shape[0]))
        mask[top:bottom, left:right] = np.rot90(found, -quarters)
        return mask

    def _enlarge(
        self, crop: Image, coarse: refine.Mask, small: Image, to: refine.Mask | None = None
    ) -> refine.Mask:
        if not self._options.refine:
            return refine.enlarge(coarse, crop, to)
        return refine.refine(crop, coarse, small, to)

    def _enlarge_on_device(
        self, frames: Frames, box: Box, coarse: refine.Mask, small: Image, to: refine.Mask
    ) -> None:
        if not self._options.refine:
            refine.enlarge_on_device(frames, box, coarse, to)
        else:
            refine.refine_on_device(frames, box, coarse, small, to)


@dataclass(frozen=True, repr=False, eq=False)
class PortraitSegmenterArguments(SegmenterArguments, PortraitOptions):
    """The arguments of PortraitSegmenter."""


class PortraitSegmenter(Segmenter):
    """Finds the people in pictures and videos, pixel by pixel.

    Faces say which way up a picture is, unless the quality is "fast".

    from palmkit.kits.video import VideoReader

    with PortraitSegmenter("video", background="blur") as segmenter:
        for frame, timestamp_ms in VideoReader("clip.mp4"):
            show(segmenter.segment(frame, timestamp_ms).picture)
    """

    name: ClassVar[str] = "portrait segmenter"
    subject: ClassVar[Subject] = "person"

    @made_of(PortraitSegmenterArguments)
    def __init__(self, options: PortraitSegmenterArguments) -> None:
        """Make a segmenter; segmenters of the same models, threads and precision share them.

        Raises ValueError for an option that cannot be, ImageError for a background that cannot
        be read, ModelError for a model that cannot.
        """
        of_pictures = options.mode == "image"
        looks = options.second_pass

        def opened(model: ModelSource | None, name: str) -> SegmentationNetwork:
            return SegmentationNetwork(model, options, name, is_uneven=True)

        network, second = PORTRAIT_NETWORKS.opened(
            opened,
            options.quality,
            options.model,
            options.best_model,
            of_pictures=of_pictures,
        )
        super().__init__(options, network)
        held, model = options.include == "held", options.held_model
        self._holding = Holding(model, options) if held else None
        finder = Finder(options.finder_model, options) if looks else None
        is_best = options.quality == "best"
        # Who is far away the smaller of the shipped networks sees better.
        has_far = is_best and looks and options.model is None
        far = opened(None, PORTRAIT_NETWORKS.fast) if has_far else None
        best = network if is_best else second
        self._search = PeopleSearch(far or network, best, finder, is_best=is_best)
        # They say which way up people are.
        is_careful, model = options.quality != "fast", options.face_model
        self._faces = None
        if of_pictures and looks and is_careful:
            running = options.running()
            self._faces = FaceDetector(quality="fast", size=GLANCE_SIZE, model=model, **running)
        self._open(finder, self._holding, second, far)

    @property
    def releases(self) -> Mapping[str, str]:
        """The versions of the models, with the face detector's, as in Kit.releases."""
        found = super().releases
        return found if self._faces is None else {**found, **self._faces.releases}

    def _forget(self) -> None:
        self._steady, self._steady_things = Steady(), Steady()
        self._following = Following(self._search, self._options.smoothing)

    def _mask(
        self, image: Image, area: tuple[int, int, int, int], time_s: float | None
    ) -> refine.Mask:
        if time_s is not None:
            return self._with_held(self._people(image, area, time_s), image, area, time_s)
        if self._faces is not None:
            left, top, right, bottom = area
            crop, find = image[top:bottom, left:right], self._faces.detect
            quarters, _ = upright(crop, find, find(crop), GLANCE_SURE, GLANCE_SURER)
            if quarters:
                return self._mask_turned(image, area, quarters, self._mask_upright)
        return self._mask_upright(image, area)

    def _mask_upright(self, image: Image, area: Box) -> refine.Mask:
        left, top, right, bottom = area
        seen = self._search.find(Halves(image[top:bottom, left:right]))
        return self._with_held(self._drawn(image, area, seen), image, area, None)

    def _with_held(
        self, mask: refine.Mask, image: Image, area: Box, time_s: float | None
    ) -> refine.Mask:
        if self._holding is not None:
            self._add_held(self._holding, mask, image, area, time_s)
        return mask

    def _people(self, image: Image, area: Box, time_s: float) -> refine.Mask:
        """Return the mask of the people alone in the next frame of a video."""
        left, top, right, bottom = area
        crop = Halves(image[top:bottom, left:right])
        if not self._following.is_due(area):
            return self._drawn(image, area, self._following.follow(crop, time_s))
        frames = self._on_device.frames(image, (right - left) * (bottom - top))
        if frames is not None:
            return self._mask_on_device(frames, image, area, time_s)
        whole = (0, 0, right - left, bottom - top)
        view = crop.part(whole, self._side)
        coarse = refine.without_specks(self._network.infer(view))
        seen = self._following.begin(crop, Found(whole, view, coarse), time_s)
        if not seen:
            seen = [Found(whole, view, self._steadied(coarse, view, area, time_s))]
        return self._drawn(image, area, seen)

    def _drawn(self, image: Image, area: Box, seen: list[Found]) -> refine.Mask:
        """Return the mask of what is seen in parts of an area, which may overlap."""
        left, top = area[:2]
        covered = seen[0].box == (0, 0, image.shape[1], image.shape[0])
        mask = (np.empty if covered else np.zeros)(image.shape[:2], np.float32)
        for box, view, coarse in seen:
            rows, columns = slice(top + box[1], top + box[3]), slice(left + box[0], left + box[2])
            place = mask[rows, columns]
            if len(seen) == 1:
                self._enlarge(image[rows, columns], coarse, view, place)
            else:
                np.maximum(place, self._enlarge(image[rows, columns], coarse, view), out=place)
        return mask

    def _mask_on_device(
        self, frames: Frames, image: Image, area: Box, time_s: float
    ) -> refine.Mask:
        """Return the mask of a frame of a video that the network's device keeps."""
        left, top, right, bottom = area
        steps, whole = shrinkings(right - left, bottom - top, self._side), slice(0, self._side)

        def looked() -> tuple[refine.Mask, Image]:
            frames.send(image)
            said = self._network.infer(frames.see(area, steps, whole, whole))
            return refine.without_specks(said), frames.seen()

        # What is known of frames before is brought up once, though the device is lost.
        coarse, view = again_if_lost(looked)
        found = Found((0, 0, right - left, bottom - top), view, coarse)
        if seen := self._following.begin(Halves(image[top:bottom, left:right]), found, time_s):
            return self._drawn(image, area, seen)
        coarse = self._steadied(coarse, view, area, time_s)
        covered = (right - left, bottom - top) == (image.shape[1], image.shape[0])
        mask = (np.empty if covered else np.zeros)(image.shape[:2], np.float32)
        place, is_kept = mask[top:bottom, left:right], True

        def enlarge() -> None:
            nonlocal is_kept
            if not is_kept:
                frames.send(image)
            is_kept = False
            self._enlarge_on_device(frames, area, coarse, view, place)

        again_if_lost(enlarge)
        return mask

    def _steadied(self, coarse: refine.Mask, view: Image, area: Box, time_s: float) -> refine.Mask:
        if not self._options.smoothing:
            return coarse
        left, top, right, bottom = area
        return self._steady.update(coarse, view, (left, top, right - left, bottom - top), time_s)

    def _add_held(
        self, holding: Holding, mask: refine.Mask, image: Image, area: Box, time_s: float | None
    ) -> None:
        """Add what people hold to their mask, of whom it takes nothing away.

        In videos it is looked for everywhere, as they are.
        """
        import cv2

        left, top, right, bottom = area
        people = mask[top:bottom, left:right]
        whole = (0, 0, right - left, bottom - top)
        box = whole if time_s is not None else box_with_room(people > INSIDE, whole)
        if box is None:
            return
        view = holding.view(Halves(image[top:bottom, left:right]), box)
        things = holding.things(view)
        rows, columns = slice(box[1], box[3]), slice(box[0], box[2])
        around = people[rows, columns]
        size = (things.shape[1], things.shape[0])
        seen = cast(refine.Mask, cv2.resize(around, size, interpolation=cv2.INTER_AREA))
        held = held_by(things, seen)
        if time_s is not None and self._options.smoothing:
            place = (left, top, right - left, bottom - top)
            small = cast(Image, cv2.resize(view, size, interpolation=cv2.INTER_AREA))
            held = self._steady_things.update(held, small, place, time_s)
        if not held.any():
            return
        fine = cast(refine.Mask, cv2.resize(held, (view.shape[1], view.shape[0])))
        found = self._enlarge(image[top:bottom, left:right][rows, columns], fine, view)
        # Where a person ends and a thing begins both are half there.
        np.minimum(around + found, 1, out=around)


@dataclass(frozen=True, repr=False, eq=False)
class SegmenterCall(SegmenterOptions, Picture[Given]):
    """The arguments of both kits' functions."""

    def __post_init__(self) -> None:
        """Read the background, once for all pictures of a list."""
        super().__post_init__()
        if self.background is not None:
            object.__setattr__(self, "background", Backdrop.of(self.background))


@dataclass(frozen=True, repr=False, eq=False)
class PortraitSegmenterCall(PortraitOptions, SegmenterCall[Given]):
    """The arguments of segment_portrait."""

    background: Background | None = same_option(SegmenterOptions, "background")


@called_with_pictures(PortraitSegmenterCall[Source], PortraitSegmenterCall[Sources])
def segment_portrait(call: PortraitSegmenterCall[Source]) -> Mask:
    """Find the people in a picture, with a segmenter made once; any thread may call it.

    image, roi, format, rotation and flip are those of PortraitSegmenter.segment, the options those
    of PortraitSegmenter.
    Raises ImageError if `image` or the background is not a picture, ValueError for an option that
    cannot be.
    """
    return segment_by(PortraitSegmenter, PortraitOptions, call)


def segment_by(
    kit: Callable[..., Segmenter], kind: type[SegmenterOptions], call: SegmenterCall[Source]
) -> Mask:
    """Do the work of a segmenter's function; all backgrounds share one kit."""
    segmenter = kept(kit, kind, call, background=None)
    backdrop = None if call.background is None else Backdrop.of(call.background)
    return replace(segmenter.segment(call.image, **call.reading()), backdrop=backdrop)
