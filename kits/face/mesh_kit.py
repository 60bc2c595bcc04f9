"""The face mesh kit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats, box_round, clipped
from palmkit.kits.calls import (
    Frame,
    Given,
    Picture,
    Sources,
    called_with_pictures,
    takes_pictures,
    takes_pictures_awaited,
)
from palmkit.kits.closeup import CloseUpKit, mean, settled
from palmkit.kits.crop import Crop, sample
from palmkit.kits.delivered import Current
from palmkit.kits.face.actions import ratios
from palmkit.kits.face.crop import crop_from_keypoints, crop_from_mesh
from palmkit.kits.face.following import Mesh, Track, is_shrunk
from palmkit.kits.face.irises import centred
from palmkit.kits.face.options import MESHES, FaceMeshOptions, FaceModes
from palmkit.kits.face.pose import head_pose
from palmkit.kits.face.search import Searching
from palmkit.kits.face.topology import FIRST_IRIS, MIRROR, POINTS
from palmkit.kits.image import Image, Part, Source
from palmkit.kits.kit import input_side, output, pixels, threshold
from palmkit.kits.options import kept, made_of
from palmkit.kits.quality import is_best
from palmkit.kits.results import ACTIONS, Faces

# No point of a mesh is further from its crop's corner, in sides of the crop.
FARTHEST = 4.0
# Each of results.KEYPOINTS is the mean of four points, or of one alone.
_KEYPOINTS = ((263, 362, 386, 374), (33, 133, 159, 145), (4,) * 4, (291,) * 4, (61,) * 4)


@dataclass(frozen=True, repr=False, eq=False)
class FaceMeshArguments(FaceModes, FaceMeshOptions):
    """The arguments of FaceMesh."""


class FaceMesh(CloseUpKit[Faces, Mesh, Track]):
    """Finds faces and, on each, 478 points in three dimensions, its pose and what it does.

    In pictures, not in videos, a larger network finds the meshes, and irises are moved to where the
    eyes are dark, except with quality "fast".

    with FaceMesh("video") as mesh:
        faces = mesh.detect(frame, timestamp_ms)
    """

    name: ClassVar[str] = "face mesh"
    same_iou: ClassVar[float] = 0.4

    @made_of(FaceMeshArguments)
    def __init__(self, options: FaceMeshArguments) -> None:
        """Make a kit; kits of the same models, threads and precision share them.

        Raises ValueError for an option that cannot be, ModelError for a model that cannot.
        """
        super().__init__(options)
        self._options = options
        self._max_count = options.max_faces
        self._second_pass = options.second_pass
        self._detect_every = options.detect_every
        self._searching = Searching(options, options.mode, options.detector_model)
        is_careful = is_best(options.quality, has_time=options.budget_ms is None)
        self._is_careful = is_careful and options.mode == "image"
        name = MESHES.best if self._is_careful else MESHES.fast
        self._meshed_by = Current(options.model, name, options)
        self._start(*self._searching.networks, self._meshed_by)

    def _adopt(self) -> None:
        self._find = self._searching.search().find_any_way_up
        self._model = self._meshed_by.model
        self._side = input_side(self._model)
        given = self._options.min_presence
        self._min_presence = threshold(self._model) if given is None else given

    @takes_pictures
    def detect(self, frame: Frame[Source]) -> Faces:
        """Find the faces in a picture, or in the next frame of a video, with their meshes.

        The arguments are those of FaceDetector.detect.
        Returns Faces with mesh, visibility, pose and actions; boxes are those round the mesh,
        scores say how certain it is that it lies on a face, in pictures no more than FaceDetector
        is. Empty where there is none.
        Raises ImageError if `image` is not a picture or `roi` lies outside it, RuntimeError in
        stream mode or after close.
        """
        return self._call(frame)

    @takes_pictures_awaited
    async def detect_async(self, frame: Frame[Source]) -> Faces:
        """Do what detect does without blocking the event loop."""
        return await self._call_async(frame)

    def _candidates(self, image: Image, roi: Part | None) -> Iterator[tuple[Floats, Crop, float]]:
        found = self._find(image, roi, enough=self._max_count)
        boxes = clipped(found.boxes, image.shape[1], image.shape[0])
        # The detector tells faces from what looks like one better than the mesh, which can take a
        # face back and does not make it surer.
        for box, keypoints, score in zip(boxes, found.keypoints, found.scores, strict=True):
            left, top, right, bottom = box.tolist()
            if left < right and top < bottom:
                sides = (left, top, right - left, bottom - top)
                yield box, crop_from_keypoints(keypoints, sides), float(score)

    def _infer(self, image: Image, crop: Crop, mirrored: bool = False) -> Mesh | None:
        drawn = sample(image, crop, self._side)
        if mirrored:
            import cv2

            drawn = cast(Image, cv2.flip(drawn, 1))
        outputs = self._model.run({"image": pixels(self._model, drawn)})
        points = output(outputs, "points", (1, POINTS, 3))[0]
        visibility = output(outputs, "visibility", (1, POINTS))[0]
        presence = float(output(outputs, "presence", (1, 1))[0, 0])
        # NaN and infinities fail here, too.
        near = np.abs(points).max() <= FARTHEST and np.abs(visibility).max() <= 1
        if not (self._may_be(presence) and near):
            return None
        if mirrored:
            points, visibility = points[MIRROR], visibility[MIRROR]
            points[:, 0] = 1 - points[:, 0]
        points, presence = crop.to_picture(points), min(presence, 1.0)
        if not mirrored:
            crop = settled(crop, crop_from_mesh(points))
        return Mesh(points=points, visibility=visibility, presence=presence, crop=crop)

    def _infer_new(self, image: Image, crop: Crop) -> Mesh | None:
        mesh = super()._infer_new(image, crop)
        if mesh is None or not self._is_careful:
            return mesh
        return replace(mesh, points=centred(image, mesh.points))

    def _mean(self, one: Mesh, other: Mesh) -> Mesh:
        return replace(
            one,
            points=mean(one.points, other.points),
            visibility=mean(one.visibility, other.visibility),
            presence=(one.presence + other.presence) / 2,
        )

    def _new_track(self, sight: Mesh, time_s: float) -> Track:
        return Track(sight, time_s)

    def _follow(self, image: Image, track: Track, known: list[Track], time_s: float) -> Mesh | None:
        """Return the mesh of a face known from the last frame; None if it is lost."""
        mesh = self._infer_well(image, track.sight.crop)
        if mesh is None or not any(each.may_hide(track) for each in known if each is not track):
            return mesh
        expected = track.expected(time_s)
        if expected is None or not is_shrunk(mesh, expected[0]):
            return mesh
        # The mesh of a face behind another one shrinks to its visible part.
        place, crop = expected
        again = self._infer(image, crop)
        if again is None or not is_shrunk(again, place):
            return again
        return replace(again, crop=crop, place=place)

    def _result(
        self,
        image: Image,
        found: list[Mesh],
        ids: NDArray[np.int64] | None,
        tracks: list[Track] | None,
    ) -> Faces:
        """Return the faces; actions are read from the meshes as found, not as smoothed."""
        height, width = image.shape[:2]
        points = [mesh.points for mesh in found]
        if tracks is not None and self._options.smoothing:
            points = [track.filter.filter(track.sight.points, track.seen_s) for track in tracks]
        poses = np.zeros((len(found), 3), np.float32)
        actions = np.zeros((len(found), len(ACTIONS)), np.bool_)
        for row, (mesh, steady) in enumerate(zip(found, points, strict=True)):
            pose = head_pose(steady, width, height, mesh.visibility, self._options.focal_length)
            poses[row] = pose.angles
            seen = ratios(mesh.points, pose.angles)
            if tracks is None:
                actions[row] = seen.actions()
            else:
                actions[row] = tracks[row].actions.update(seen, tracks[row].seen_s)
        meshes = np.array(points, np.float32).reshape(-1, POINTS, 3)
        corners = box_round(meshes[:, :FIRST_IRIS])
        keypoints = np.asarray(meshes[:, _KEYPOINTS, :2].mean(axis=2), np.float32)
        scores = np.array([mesh.presence for mesh in found], np.float32)
        boxes, order = self._shown(image, corners, scores, ids)
        visibility = np.array([mesh.visibility for mesh in found], np.float32)
        return Faces(
            width,
            height,
            boxes[order],
            scores[order],
            keypoints[order],
            None if ids is None else ids[order],
            meshes[order],
            visibility.reshape(-1, POINTS)[order],
            poses[order],
            actions[order],
        )

    def _is_wanted(self, image: Image, sight: Mesh) -> bool:
        least = self._options.least_side(*image.shape[:2])
        return float((sight.box[2:] - sight.box[:2]).min()) >= least


@dataclass(frozen=True, repr=False, eq=False)
class FaceMeshCall(FaceMeshOptions, Picture[Given]):
    """The arguments of face_mesh."""


@called_with_pictures(FaceMeshCall[Source], FaceMeshCall[Sources])
def face_mesh(call: FaceMeshCall[Source]) -> Faces:
    """Find the faces in a picture, with their meshes, by a kit that is made once.

    Any thread may call it. image, roi, format, rotation and flip are those of FaceMesh.detect, the
    options those of FaceMesh.
    Raises ImageError if `image` is not a picture, ValueError for an option that cannot be.
    """
    return kept(FaceMesh, FaceMeshOptions, call).detect(call.image, **call.reading())
