"""The try-on kit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from palmkit.kits.delivered import is_delivered_name
from palmkit.kits.face.mesh_kit import FaceMesh
from palmkit.kits.image import Flip, Format, Image, Part, Rotation, Source, clip_part, read_image
from palmkit.kits.kit import Kit, Mode, ModelSource, Precision
from palmkit.kits.portrait.hair import HairSegmenter
from palmkit.kits.results import Faces
from palmkit.kits.stopwatch import Stopwatch
from palmkit.kits.tracks import LOST_S
from palmkit.kits.tryon.canvas import Canvas, Memory
from palmkit.kits.tryon.colour import Floats
from palmkit.kits.tryon.effect import Effect
from palmkit.kits.tryon.hands import HandsInFront
from palmkit.kits.tryon.look import DeliveredLook, Look
from palmkit.kits.tryon.result import TriedOn

# The detector's boxes, which the hair network's view is measured by, are so much larger than those
# round a mesh.
BOX_RATIO = 1.06
# An effect that lies under hair needs to know where hair is.
_UNDER_HAIR = ("foundation", "blush", "eye_shadow", "eyeliner", "lipstick", "glasses")


class TryOn(Kit[TriedOn]):
    """Puts make-up, hair dye and glasses on the faces of pictures and videos.

    with TryOn("video", look=Look.load("evening")) as mirror:
        for frame, timestamp_ms in kits.video.VideoReader("clip.mp4"):
            show(mirror.wear(frame, timestamp_ms).picture)
    """

    name: ClassVar[str] = "try-on"

    def __init__(
        self,
        mode: Mode = "image",
        *,
        look: Look | str | os.PathLike[str] | None = None,
        threads: int = 1,
        precision: Precision = "high",
        max_faces: int | None = None,
        min_score: float | None = None,
        smoothing: bool = True,
        behind_hair: bool = True,
        behind_hands: bool = True,
        behind_things: bool = True,
        model: ModelSource | None = None,
        detector: ModelSource | None = None,
        hair_model: ModelSource | None = None,
        on_result: Callable[[TriedOn, Image, float | None], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Make a kit; kits of the same models, threads and precision share them.

        mode: "image", "video" (nothing swims or flickers) or "stream" (video in a thread).
        look: what is worn, or what Look.load takes; it may be changed between frames, see the
        property. "evening@stable": the newest that is delivered (see palmkit.delivery), taken
        between frames; until one is, the preset of that name.
        max_faces, min_score, model, detector: as in FaceMesh. hair_model: as HairSegmenter's
        model.
        smoothing: video and stream: steady meshes and masks.
        behind_hair: strands in front of the face stay over the make-up; without, it is quicker.
        behind_hands: so do hands, as far as their landmarks are found. behind_things: so does what
        has another colour than the face's skin, as cups, masks and sunglasses.
        Raises ValueError for an option that cannot be, ModelError for a model that cannot,
        LookError or DeliveryError for a look, as Look.load.
        """
        within = mode if mode == "image" else "video"
        self._mesh = FaceMesh(
            within,
            threads=threads,
            precision=precision,
            max_faces=max_faces,
            min_score=min_score,
            smoothing=smoothing,
            model=model,
            detector=detector,
        )
        self._hair = HairSegmenter(
            within,
            threads=threads,
            precision=precision,
            smoothing=smoothing,
            model=hair_model,
            face_model=detector,
        )
        self._behind_hair, self._behind_things = behind_hair, behind_things
        self._hands = HandsInFront(within, threads, precision, smoothing) if behind_hands else None
        self._worn: Look | None = None
        self._delivered: DeliveredLook | None = None
        if isinstance(look, str) and is_delivered_name(look):
            self._delivered = DeliveredLook(look)
        else:
            self._worn = Look() if look is None else _read(look)
        self._forget()
        super().__init__(mode, on_result, on_error, *filter(None, [self._delivered]))

    @property
    def look(self) -> Look:
        """What is worn; assign another one at any time, from any thread: the next frame has it.

        One that is assigned takes the place of what is delivered.
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
        """As Kit.releases: of the look, and of the models."""
        found = {**super().releases, **self._mesh.releases, **self._hair.releases}
        return found if self._hands is None else {**found, **self._hands.releases}

    def wear(
        self,
        image: Source,
        timestamp_ms: float | None = None,
        *,
        roi: Part | None = None,
        format: Format | None = None,
        rotation: Rotation = 0,
        flip: Flip | None = None,
    ) -> TriedOn:
        """Put the look on every face of a picture, or of the next frame of a video.

        The arguments are those of FaceDetector.detect; what is given is never changed.
        Raises ImageError if `image` is not a picture or `roi` lies outside it, RuntimeError in
        stream mode or after close.
        """
        return self._call(image, roi, timestamp_ms, format, rotation, flip)

    def _forget(self) -> None:
        self._mesh.reset()
        self._hair.reset()
        if self._hands is not None:
            self._hands.reset()
        self._memories: dict[int | None, Memory] = {}

    def _look(self, image: Image, roi: Part | None, time_s: float | None) -> TriedOn:
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
        """As Kit._look, with another look than the kit's own.

        covered: float32[h, w], raised to how far the look covers each pixel, 0..1.
        """
        height, width = image.shape[:2]
        at_ms = None if time_s is None else time_s * 1e3
        watch = Stopwatch()
        with watch.stage("mesh"):
            faces = self._mesh.detect(image, at_ms, roi=roi)
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
            hair = hair if hands is None else hair * (1 - hands)
            memory = self._memory(None, time_s)
            look.hair.dye(picture, hair, memory, time_s)
            memory.seen_s = time_s
            if covered is not None:
                np.maximum(covered, look.hair.weight(hair), out=covered)
        if look.glasses is not None:
            lay([look.glasses])
        self._forget_the_gone(time_s)
        watch.rest("draw")
        return TriedOn(width, height, picture, image, faces, look, watch.stages_ms)

    def _needs_hair(self, look: Look) -> bool:
        """Whether anything worn depends on where hair is."""
        under = self._behind_hair and any(each.name in _UNDER_HAIR for each in look)
        return look.hair is not None or under

    def _hair_of(
        self, image: Image, roi: Part | None, faces: Faces, look: Look, time_s: float | None
    ) -> Floats:
        """Where hair is."""
        boxes = faces.boxes.copy()
        boxes[:, :2] -= boxes[:, 2:] * ((BOX_RATIO - 1) / 2)
        boxes[:, 2:] *= BOX_RATIO
        area = clip_part(image, roi)
        fine = look.hair is not None
        return self._hair.around(image, replace(faces, boxes=boxes), area, time_s, fine)

    def _memory(self, face: int | None, time_s: float | None) -> Memory:
        """What is remembered of a face; in image mode nothing."""
        if time_s is None:
            return Memory()
        return self._memories.setdefault(face, Memory())

    def _forget_the_gone(self, time_s: float | None) -> None:
        """Drop what is remembered of faces whose ids have ended."""
        if time_s is not None:
            self._memories = {
                face: memory
                for face, memory in self._memories.items()
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
        """A canvas for every face that can be seen, those further away first."""
        assert faces.mesh is not None and faces.visibility is not None
        order = np.argsort(faces.boxes[:, 2] * faces.boxes[:, 3], kind="stable")
        for row in order:
            key = None if faces.ids is None else int(faces.ids[row])
            memory = self._memory(key, time_s)
            mesh, visibility = faces.mesh[row], faces.visibility[row]
            canvas = Canvas(
                picture, mesh, visibility, hair, memory, time_s, hands, self._behind_things, watch
            )
            if not canvas.is_empty:
                yield canvas
            memory.seen_s = time_s


def _read(look: Look | str | os.PathLike[str]) -> Look:
    return look if isinstance(look, Look) else Look.load(look)


@lru_cache(maxsize=4)
def _kit(max_faces: int | None) -> TryOn:
    return TryOn(max_faces=max_faces)


def try_on(
    image: Source,
    look: Look | str | os.PathLike[str] | None = None,
    *,
    lipstick: Any = None,
    blush: Any = None,
    eye_shadow: Any = None,
    eyeliner: Any = None,
    iris: Any = None,
    foundation: Any = None,
    hair: Any = None,
    glasses: Any = None,
    max_faces: int | None = None,
    roi: Part | None = None,
    format: Format | None = None,
    rotation: Rotation = 0,
    flip: Flip | None = None,
) -> TriedOn:
    """Put make-up, hair dye and glasses on a picture, by a kit that is made once.

    Any thread may call it. look: a whole look, or what Look.load takes; each effect given besides
    takes the place of the look's own. An effect is its class (palmkit.kits.tryon), a colour
    "#b3202a", or the name of a shade, such as "ruby"; see palmkit.kits.tryon.palettes.
    Raises ImageError if `image` is not a picture, LookError if the look cannot be read, ValueError
    for an effect that cannot be.
    """
    worn = (Look() if look is None else _read(look)).adding(
        lipstick=lipstick,
        blush=blush,
        eye_shadow=eye_shadow,
        eyeliner=eyeliner,
        iris=iris,
        foundation=foundation,
        hair=hair,
        glasses=glasses,
    )
    picture = read_image(image, format=format, rotation=rotation, flip=flip)
    return _kit(max_faces).dress(picture, roi, None, worn)
