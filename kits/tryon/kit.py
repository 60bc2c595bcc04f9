"""The try-on kit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from palmkit.kits.calls import (
    Frame,
    Given,
    Picture,
    Sources,
    called_with_pictures,
    takes_pictures,
    takes_pictures_awaited,
)
from palmkit.kits.delivered import is_delivered_name
from palmkit.kits.face.mesh_kit import FaceMesh
from palmkit.kits.hands.kit import GestureRecognizer
from palmkit.kits.image import Image, Part, Source, clip_part, read_image
from palmkit.kits.kit import Kit, Mode
from palmkit.kits.options import Modes, kept, made_of, same_option
from palmkit.kits.pace import Shares, leave_out
from palmkit.kits.portrait.hair import HairSegmenter
from palmkit.kits.portrait.refine import opacity
from palmkit.kits.quality import is_best
from palmkit.kits.results import Faces, TriedOn
from palmkit.kits.stopwatch import Stopwatch
from palmkit.kits.tracks import LOST_S
from palmkit.kits.tryon.canvas import Canvas, Memory
from palmkit.kits.tryon.colour import Floats
from palmkit.kits.tryon.doubt import without_doubtful, without_hats, without_skin
from palmkit.kits.tryon.effect import Effect
from palmkit.kits.tryon.hair import coverage
from palmkit.kits.tryon.hands import HandsInFront
from palmkit.kits.tryon.heads import Hair, Wearers, hair_of_heads, picked
from palmkit.kits.tryon.look import DeliveredLook, Look
from palmkit.kits.tryon.moved import MovedHair
from palmkit.kits.tryon.options import TryOnOptions
from palmkit.kits.tryon.outline import along_outline
from palmkit.kits.tryon.regions import soften

# The detector's boxes, which the hair network's view is measured by, are so much larger than those
# round a mesh.
BOX_RATIO = 1.06
# What frames are looked at for, and how much more often than others there is time for it: one sees
# at once that a look slips off a face.
LOOKS = {"faces": 3.0, "hair": 1.0, "hands": 1.0}
# How soft the sharpest edge of hair in a picture is, a Gaussian's sigma in pixels: that of lenses.
EDGE = 0.7
# An effect that lies under hair needs to know where hair is.
_UNDER_HAIR = ("foundation", "blush", "eye_shadow", "eyeliner", "lipstick", "glasses")


@dataclass(frozen=True, repr=False, eq=False)
class TryOnArguments(Modes[TriedOn], TryOnOptions):
    """The arguments of TryOn."""


class TryOn(Kit[TriedOn]):
    """Puts make-up, hair dye and glasses on the faces of pictures and videos.

    from palmkit.kits.video import VideoReader

    with TryOn("video", look=Look.load("evening")) as mirror:
        for frame, timestamp_ms in VideoReader("clip.mp4"):
            show(mirror.wear(frame, timestamp_ms).after)

    A look is drawn on every frame of a video. With budget_ms, a frame that has no time to look for
    faces, hair or hands has those of a frame before, moved along: hair with its head, the others
    with the camera. Drawing is never left out: where it takes longer than the budget, so do frames.
    """

    name: ClassVar[str] = "try-on"
    # A look is drawn on every frame; it is meshes, hair and hands that have no time for some.
    is_paced: ClassVar[bool] = False

    @made_of(TryOnArguments)
    def __init__(self, options: TryOnArguments) -> None:
        """Make a kit; kits of the same models, threads and precision share them.

        Raises ValueError for an option that cannot be, ModelError for a model that cannot,
        TryOnError or DeliveryError for a look, as Look.load.
        """
        super().__init__(options)
        self._options = options
        mode: Mode = "image" if options.mode == "image" else "video"
        shared: dict[str, Any] = {**options.running(), "smoothing": options.smoothing}
        # In a picture all are found, as a face that wears nothing keeps its hair.
        self._mesh = FaceMesh(
            mode,
            quality=options.quality,
            max_faces=None if mode == "image" else options.max_faces,
            min_score=options.min_score,
            model=options.model,
            detector_model=options.detector_model,
            budget_ms=options.budget_ms,
            **shared,
        )
        self._hair = HairSegmenter(
            mode,
            quality="best" if is_best(options.quality, has_time=mode == "image") else "fast",
            model=options.hair_model,
            face_model=options.detector_model,
            **shared,
        )
        self._hands = (
            HandsInFront(GestureRecognizer(mode, **shared)) if options.behind_hands else None
        )
        self._shares: Shares | None = None
        if options.budget_ms is not None:
            self._shares = Shares(options.budget_ms, LOOKS)
            self._mesh._pace_by(self._shares.share("faces"))
            if self._hands is not None:
                self._hands.pace_by(self._shares.share("hands"))
        # Whoever gives a threshold has been told by it what is a face.
        self._wearers = Wearers(options.face, options.max_faces, options.min_score is None)
        self._worn: Look | None = None
        self._delivered: DeliveredLook | None = None
        if isinstance(options.look, str) and is_delivered_name(options.look):
            self._delivered = DeliveredLook(options.look)
        else:
            self._worn = Look() if options.look is None else _read(options.look)
        self._start(*filter(None, [self._delivered]))

    @property
    def look(self) -> Look:
        """The current look; assign another one at any time, from any thread, for the next frame.

        An assigned look replaces a delivered one.
        """
        worn = self._worn
        if worn is not None:
            return worn
        assert self._delivered is not None
        return self._delivered.content

    @look.setter
    def look(self, look: Look) -> None:
        self._worn = look

    @property
    def releases(self) -> Mapping[str, str]:
        """The versions of the look and of the models, as in Kit.releases."""
        found = {**super().releases, **self._mesh.releases, **self._hair.releases}
        return found if self._hands is None else {**found, **self._hands.releases}

    @takes_pictures
    def wear(self, frame: Frame[Source]) -> TriedOn:
        """Put the look on every face of a picture, or of the next frame of a video.

        The arguments are those of FaceDetector.detect; what is given is never changed.
        Raises ImageError if `image` is not a picture or `roi` lies outside it, RuntimeError in
        stream mode or after close.
        """
        return self._call(frame)

    @takes_pictures_awaited
    async def wear_async(self, frame: Frame[Source]) -> TriedOn:
        """Do what wear does without blocking the event loop."""
        return await self._call_async(frame)

    def _unfollow(self) -> None:
        super()._unfollow()
        self._mesh._unfollow()
        self._hair._unfollow()

    def _forget(self) -> None:
        self._mesh.reset()
        self._hair.reset()
        if self._hands is not None:
            self._hands.reset()
        self._wearers.reset()
        if self._shares is not None:
            self._shares.reset()
        self._moved_hair = MovedHair()
        self._memories: dict[tuple[str, int], Memory] = {}

    def _run(self, image: Image, roi: Part | None, time_s: float | None) -> TriedOn:
        if self._shares is None:
            return self._dressed(image, roi, time_s)
        self._shares.begin()
        start_s = time.perf_counter()
        try:
            return self._dressed(image, roi, time_s)
        finally:
            self._shares.end((time.perf_counter() - start_s) * 1e3)

    def _dressed(self, image: Image, roi: Part | None, time_s: float | None) -> TriedOn:
        if self._worn is None and self._delivered is not None:
            return self._delivered.wear(lambda look: self.dress(image, roi, time_s, look))
        return self.dress(image, roi, time_s, self.look)

    def dress(
        self,
        image: Image,
        roi: Part | None,
        time_s: float | None,
        look: Look,
        covered: Floats | None = None,
    ) -> TriedOn:
        """Do what Kit._run does, with another look than the kit's own.

        covered: float32[h, w], raised to how far the look covers each pixel, 0..1.
        """
        height, width = image.shape[:2]
        at_ms = None if time_s is None else time_s * 1e3
        watch = Stopwatch()
        with watch.stage("mesh"):
            everybody = self._mesh.detect(image, at_ms, roi=roi)
            if everybody.left_out:
                leave_out("faces" if everybody.left_out == "frame" else everybody.left_out)
        wearers = self._wearers.among(everybody)
        faces = picked(everybody, wearers)
        if not look or not len(faces):
            return TriedOn(width, height, image, image, faces, look, watch.stages_ms)
        picture = image.copy()
        hair = hands = None
        if self._needs_hair(look):
            with watch.stage("hair"):
                hair = self._hair_of(image, roi, faces, look, time_s)
        if self._hands is not None:
            with watch.stage("hands"):
                hands = self._hands.over(image, faces, roi, time_s)

        def lay(effects: Sequence[Effect]) -> None:
            for canvas in self._canvases(picture, faces, hair, hands, time_s, watch):
                for effect in effects:
                    effect.lay(canvas)
                canvas.write(picture)
                if covered is not None:
                    part = covered[canvas.top : canvas.bottom, canvas.left : canvas.right]
                    np.maximum(part, canvas.coverage, out=part)

        if makeup := [*replace(look, hair=None, glasses=None)]:
            lay(makeup)
        if look.hair is not None and hair is not None:
            for own in hair_of_heads(hair, everybody.boxes, wearers):
                memory = self._memory(everybody, own.row, time_s, "hair")
                share = self._opacity(image, own, everybody, clip_part(image, roi), time_s)
                if hands is not None:
                    share *= 1 - hands[own.part]
                look.hair.dye(picture[own.part], share, own.per_cm, memory, time_s)
                memory.seen_s = time_s
                if covered is not None:
                    np.maximum(covered[own.part], share, out=covered[own.part])
        if look.glasses is not None:
            lay([look.glasses])
        self._forget_the_gone(time_s)
        watch.rest("draw")
        return TriedOn(width, height, picture, image, faces, look, watch.stages_ms)

    def _needs_hair(self, look: Look) -> bool:
        """Return whether any effect depends on where hair is."""
        under = self._options.behind_hair and any(each.name in _UNDER_HAIR for each in look)
        return look.hair is not None or under

    def _hair_of(
        self, image: Image, roi: Part | None, faces: Faces, look: Look, time_s: float | None
    ) -> Floats:
        """Return where hair is."""
        heads = heads_of(faces)
        if self._shares is not None and not self._shares.has_time("hair"):
            moved = self._moved_hair.along(heads)
            if moved is not None:
                leave_out("hair")
                return moved
        area = clip_part(image, roi)
        # Single strands before a face count in pictures; frames have no time for them, and none to
        # ask twice what is hair to be dyed and what a hat, a collar or a shadow.
        dyed = look.hair is not None
        fine, twice = dyed or time_s is None, dyed and time_s is None
        start_s = time.perf_counter()
        # On development portraits several looks at hair make the dye no better.
        hair = self._hair.around(image, heads, area, time_s, fine, twice, once=True)
        if self._shares is not None:
            self._shares.spent("hair", (time.perf_counter() - start_s) * 1e3)
            self._moved_hair.looked(hair, heads)
        return hair

    def _opacity(
        self,
        image: Image,
        own: Hair,
        faces: Faces,
        area: tuple[int, int, int, int],
        time_s: float | None,
    ) -> Floats:
        """Return how much of each pixel of its part is a head's hair; new."""
        part = np.ascontiguousarray(image[own.part])
        # A frame has no time for more than the mask and its outline.
        if time_s is not None:
            share = coverage(own.mask)
        else:
            share = self._worked_out(image, part, own, faces, area)
        return along_outline(part, share, own.per_cm)

    def _worked_out(
        self, image: Image, part: Image, own: Hair, faces: Faces, area: tuple[int, int, int, int]
    ) -> Floats:
        """Return how much of each pixel is a head's hair, by colours and by other looks at it; new.

        part: the head's part of the picture.
        """
        assert faces.mesh is not None and faces.visibility is not None
        points, visibility = faces.mesh[own.row, :, :2], faces.visibility[own.row]
        corner = np.array([own.part[1].start, own.part[0].start], np.float32)
        face = heads_of(picked(faces, [own.row]))[0]
        otherwise = self._hair.otherwise(image, face, area, own.part)
        hair = without_hats(own.mask, otherwise, points - corner)
        mask = without_skin(image, own.part, hair, points, visibility)
        side = float((points.max(axis=0) - points.min(axis=0)).max())
        return soften(opacity(part, without_doubtful(part, mask, side)), EDGE)

    def _memory(self, faces: Faces, row: int, time_s: float | None, what: str = "face") -> Memory:
        """Return what is remembered of a face, or of its hair; nothing in image mode."""
        if time_s is None or faces.ids is None:
            return Memory()
        return self._memories.setdefault((what, int(faces.ids[row])), Memory())

    def _forget_the_gone(self, time_s: float | None) -> None:
        """Forget faces whose ids have ended."""
        if time_s is not None:
            self._memories = {
                key: memory
                for key, memory in self._memories.items()
                if memory.seen_s is not None and time_s - memory.seen_s <= LOST_S
            }

    def _canvases(
        self,
        picture: Image,
        faces: Faces,
        hair: Floats | None,
        hands: Floats | None,
        time_s: float | None,
        watch: Stopwatch,
    ) -> Iterator[Canvas]:
        """Yield a canvas for every visible face, those further away first."""
        assert faces.mesh is not None and faces.visibility is not None
        behind_things = self._options.behind_things
        order = np.argsort(faces.boxes[:, 2] * faces.boxes[:, 3], kind="stable")
        for row in order:
            memory = self._memory(faces, int(row), time_s)
            mesh, visibility = faces.mesh[row], faces.visibility[row]
            canvas = Canvas(
                picture, mesh, visibility, hair, memory, time_s, hands, behind_things, watch
            )
            if not canvas.is_empty:
                yield canvas
            memory.seen_s = time_s


def heads_of(faces: Faces) -> Faces:
    """Return the faces with the boxes that the hair network's view is measured by."""
    boxes = faces.boxes.copy()
    boxes[:, :2] -= boxes[:, 2:] * ((BOX_RATIO - 1) / 2)
    boxes[:, 2:] *= BOX_RATIO
    return replace(faces, boxes=boxes)


def _read(look: Look | str | os.PathLike[str]) -> Look:
    return look if isinstance(look, Look) else Look.load(look)


@dataclass(frozen=True, repr=False, eq=False)
class TryOnCall(TryOnOptions, Picture[Given]):
    """The arguments of try_on."""

    look: Look | str | os.PathLike[str] | None = same_option(TryOnOptions, "look")
    _: KW_ONLY
    lipstick: Any = None
    blush: Any = None
    eye_shadow: Any = None
    eyeliner: Any = None
    iris: Any = None
    foundation: Any = None
    hair: Any = None
    glasses: Any = None


@called_with_pictures(TryOnCall[Source], TryOnCall[Sources])
def try_on(call: TryOnCall[Source]) -> TriedOn:
    """Put make-up, hair dye and glasses on a picture, by a kit that is made once.

    Any thread may call it. Each effect given besides the look takes the place of the look's own. An
    effect is its class (palmkit.kits.tryon), a colour "#b3202a", or the name of a shade, such as
    "ruby"; see palmkit.kits.tryon.palettes. image, roi, format, rotation and flip are those of
    TryOn.wear, the options those of TryOn.
    Raises ImageError if `image` is not a picture, TryOnError if the look cannot be read, ValueError
    for an effect that cannot be.
    """
    look = Look() if call.look is None else _read(call.look)
    worn = look.adding(**{name: getattr(call, name) for name in Look.KINDS})
    picture = read_image(call.image, format=call.format, rotation=call.rotation, flip=call.flip)
    kit = kept(TryOn, TryOnOptions, call, look=None)
    return kit.dress(picture, call.roi, None, worn)
