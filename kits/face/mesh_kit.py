"""The face mesh kit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats, iou
from palmkit.kits.crop import Crop, sample
from palmkit.kits.face.actions import ratios
from palmkit.kits.face.crop import crop_from_keypoints, crop_from_mesh
from palmkit.kits.face.following import Mesh, Track, is_shrunk
from palmkit.kits.face.kit import SIZE, FaceDetector
from palmkit.kits.face.pose import head_pose
from palmkit.kits.face.topology import FIRST_IRIS, POINTS
from palmkit.kits.image import Flip, Format, Image, Part, Rotation, Source
from palmkit.kits.kit import (
    Kit,
    Mode,
    ModelSource,
    Precision,
    between,
    input_side,
    one_of,
    open_model,
    output,
    shipped_model,
    threshold,
    whole,
)
from palmkit.kits.results import ACTIONS, Faces
from palmkit.kits.tracks import Tracker

# Without a size the whole picture is seen in the first of these; in the next, if that shows no
# face, one of fewer pixels than this (smaller ones may then be missed), or what may be one.
SIZES = (160, 320, SIZE)
QUICK_FACE = 28
DOUBT = 0.5
# A face already tracked may be this much less certain than a new one before it counts as gone.
KEEP_PRESENCE = 0.6
# No point of a mesh is further from its crop's corner, in sides of the crop.
FARTHEST = 4.0
# Two meshes whose boxes overlap by more are of one face.
SAME_FACE_IOU = 0.4
# By how much a crop may be off in place (parts of its side), scale (logarithm) and angle (radians)
# to be kept for the next frame, so that a still face is seen alike, and to need no second look.
STILL = (0.02, 0.03, 0.02)
ASTRAY = (0.08, 0.14, 0.17)
_KEYPOINTS = ((263, 362, 386, 374), (33, 133, 159, 145), (4,), (291,), (61,))


class FaceMesh(Kit[Faces]):
    """Finds faces and, on each, 478 points in three dimensions, its pose and what it does.

    with FaceMesh("video") as mesh:
        faces = mesh.detect(frame, timestamp_ms)
    """

    name: ClassVar[str] = "face mesh"

    def __init__(
        self,
        mode: Mode = "image",
        *,
        threads: int = 1,
        precision: Precision = "high",
        max_faces: int | None = None,
        min_score: float | None = None,
        min_presence: float | None = None,
        min_face: float = 0,
        size: int | None = None,
        tile: int | None = None,
        detect_every: int = 20,
        smoothing: bool = True,
        focal_length: float | None = None,
        model: ModelSource | None = None,
        detector: ModelSource | None = None,
        on_result: Callable[[Faces, Image, float | None], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Make a kit; kits of the same models, threads and precision share them.

        mode, threads, precision, max_faces, min_score, min_face, tile, on_result and on_error:
        as in FaceDetector.
        min_presence: 0..1, how certain the mesh must be that it is on a face; None: the threshold
        that the model was measured at.
        size: longest side of what the detector sees, in pixels; None: 160, then 320, then 640 if
        no face or only small ones show. Give one to find small faces beside a large one.
        detect_every: video and stream: look for new faces every so many frames, and whenever one
        is lost or there is none; between, each face is only followed.
        smoothing: video and stream: steady meshes.
        focal_length: of the camera, in pixels, for the pose; see palmkit.kits.face.pose.head_pose.
        model, detector: paths of models like those shipped, or open ones; None: those shipped.
        Raises ValueError for an option that cannot be, ModelError for a model that cannot.
        """
        one_of("precision", precision, get_args(Precision))
        whole("threads", threads, 1)
        whole("detect_every", detect_every, 1)
        if min_presence is not None:
            between("min_presence", min_presence, 0, 1)
        if focal_length is not None:
            between("focal_length", focal_length, 1, 1e6)
        found_by = open_model(detector or shipped_model("face_detector"), threads, precision)
        self._min_score = threshold(found_by) if min_score is None else min_score
        between("min_score", self._min_score, 0, 1)
        quick = SIZES[:-1] if size is None and tile is None else ()
        self._quick = [
            (each, FaceDetector(min_score=self._min_score * DOUBT, size=each, model=found_by))
            for each in quick
        ]
        self._detector = FaceDetector(
            min_score=self._min_score, size=size or SIZE, tile=tile, model=found_by
        )
        if max_faces is not None:
            whole("max_faces", max_faces, 1)
        between("min_face", min_face, 0, math.inf)
        self._model = open_model(model or shipped_model("face_mesh"), threads, precision)
        self._side = input_side(self._model)
        self._min_presence = threshold(self._model) if min_presence is None else min_presence
        self._max_faces = max_faces
        self._min_face = min_face
        self._detect_every = detect_every
        self._smoothing = smoothing
        self._focal_length = focal_length
        self._forget()
        super().__init__(mode, on_result, on_error)

    def detect(
        self,
        image: Source,
        timestamp_ms: float | None = None,
        *,
        roi: Part | None = None,
        format: Format | None = None,
        rotation: Rotation = 0,
        flip: Flip | None = None,
    ) -> Faces:
        """Find the faces in a picture, or in the next frame of a video, with their meshes.

        The arguments are those of FaceDetector.detect.
        Returns Faces with mesh, visibility, pose and actions; boxes are those round the mesh,
        scores say how certain it is that it lies on a face. Empty where there is none.
        Raises ImageError if `image` is not a picture or `roi` lies outside it, RuntimeError in
        stream mode or after close.
        """
        return self._call(image, roi, timestamp_ms, format, rotation, flip)

    def _look(self, image: Image, roi: Part | None, time_s: float | None) -> Faces:
        if time_s is not None:
            return self._track(image, roi, time_s)
        found = self._search(image, roi, [])
        return self._result(image, found, [mesh.points for mesh in found], None, None)

    def _forget(self) -> None:
        self._tracker = Tracker()
        self._tracks: dict[int, Track] = {}
        self._since_search = 0
        self._time_s = 0.0

    def _search(self, image: Image, roi: Part | None, known: list[Mesh]) -> list[Mesh]:
        """Meshes of the faces in a picture, best first, those that are known left out."""
        found: list[Mesh] = []
        for face in self._detections(image, roi):
            if self._max_faces is not None and len(known) + len(found) >= self._max_faces:
                break
            corners = np.concatenate([face.box[:2], face.box[:2] + face.box[2:]])
            if not _is_new(corners, [*known, *found]):
                continue
            mesh = self._lay(image, crop_from_keypoints(face.keypoints, face.box))
            if mesh is None or mesh.presence < self._min_presence:
                continue
            if self._is_large(image, mesh.box) and _is_new(mesh.box, [*known, *found]):
                found.append(mesh)
        return found

    def _detections(self, image: Image, roi: Part | None) -> Faces:
        longest = max(image.shape[:2]) if roi is None else max(roi[2:])
        for size, detector in self._quick:
            faces = detector.detect(image, roi=roi)
            least = QUICK_FACE / min(size / longest, 2)
            sides = faces.boxes[:, 2:].max(axis=1)
            if len(faces) and sides.min() >= least and faces.scores.min() >= self._min_score:
                return faces
        return self._detector.detect(image, roi=roi)

    def _lay(self, image: Image, crop: Crop) -> Mesh | None:
        """The mesh in a crop, or, if that is off the face, in one placed better; None: no mesh."""
        mesh = self._look_once(image, crop)
        if mesh is not None and _is_off(crop, mesh.crop, ASTRAY):
            mesh = self._look_once(image, mesh.crop)
        return mesh

    def _look_once(self, image: Image, crop: Crop) -> Mesh | None:
        drawn = sample(image, crop, self._side)
        outputs = self._model.run({"image": drawn[None].astype(np.float32)})
        points = output(outputs, "points", (1, POINTS, 3))[0]
        visibility = output(outputs, "visibility", (1, POINTS))[0]
        presence = float(output(outputs, "presence", (1, 1))[0, 0])
        certain = presence >= self._min_presence * KEEP_PRESENCE
        # Not finite ones fail here too.
        near = np.abs(points).max() <= FARTHEST and np.abs(visibility).max() <= 1
        if not (certain and near):
            return None
        points = crop.to_picture(points)
        following = crop_from_mesh(points)
        if not _is_off(crop, following, STILL):
            following = crop
        return Mesh(points, visibility, min(presence, 1.0), following)

    def _follow(self, image: Image, track: Track, known: list[Track], time_s: float) -> Mesh | None:
        """The mesh of a face known from the last frame; None if it is lost."""
        mesh = self._lay(image, track.mesh.crop)
        if mesh is None or not any(each.may_hide(track) for each in known if each is not track):
            return mesh
        expected = track.expected(time_s)
        if expected is None or not is_shrunk(mesh, expected[0]):
            return mesh
        # Of a face behind another one the mesh shrinks to what is left to see.
        place, crop = expected
        again = self._look_once(image, crop)
        if again is None or not is_shrunk(again, place):
            return again
        return replace(again, crop=crop, place=place)

    def _track(self, image: Image, roi: Part | None, time_s: float) -> Faces:
        known = [track for track in self._tracks.values() if track.seen_s == self._time_s]
        found: list[Mesh] = []
        for track in known:
            mesh = self._follow(image, track, known, time_s)
            if mesh is not None and (mesh.place is not None or _is_new(mesh.box, found)):
                found.append(mesh)
        lost = len(found) < len(known) or not found or self._tracker.waiting
        due = lost or self._since_search + 1 >= self._detect_every
        if due and (self._max_faces is None or len(found) < self._max_faces):
            found += self._search(image, roi, found)
            self._since_search = 0
        else:
            self._since_search += 1
        if roi is not None:
            found = [mesh for mesh in found if _is_inside(mesh.box, roi)]
        boxes = [mesh.box if mesh.place is None else mesh.place for mesh in found]
        sure = np.array([mesh.presence >= self._min_presence for mesh in found], np.bool_)
        ids = self._tracker.update(np.array(boxes, np.float32).reshape(-1, 4), sure, time_s)
        found = [mesh for mesh, id in zip(found, ids, strict=True) if id >= 0]
        ids = ids[ids >= 0]
        points: list[Floats] = []
        tracks: list[Track] = []
        for mesh, id in zip(found, ids.tolist(), strict=True):
            track = self._tracks.setdefault(id, Track(mesh, time_s))
            track.take(mesh, time_s)
            steady = track.filter.filter(mesh.points, time_s) if self._smoothing else mesh.points
            points.append(steady)
            tracks.append(track)
        gone = [id for id, track in self._tracks.items() if time_s - track.seen_s > 1]
        for id in gone:
            del self._tracks[id]
        self._time_s = time_s
        return self._result(image, found, points, ids, tracks)

    def _result(
        self,
        image: Image,
        found: list[Mesh],
        points: list[Floats],
        ids: NDArray[np.int64] | None,
        tracks: list[Track] | None,
    ) -> Faces:
        """Pose and actions of each; pixels become those that the user gets.

        points: of the meshes, steadied; actions are read from the meshes as found.
        """
        height, width = image.shape[:2]
        poses = np.zeros((len(found), 3), np.float32)
        actions = np.zeros((len(found), len(ACTIONS)), np.bool_)
        for row, (mesh, steady) in enumerate(zip(found, points, strict=True)):
            pose = head_pose(steady, width, height, mesh.visibility, self._focal_length)
            poses[row] = pose.angles
            seen = ratios(mesh.points, pose.angles)
            if tracks is None:
                actions[row] = seen.actions()
            else:
                actions[row] = tracks[row].actions.update(seen, self._time_s)
        meshes = np.array(points, np.float32).reshape(-1, POINTS, 3)
        skin = meshes[:, :FIRST_IRIS, :2]
        size = np.array([width, height] * 2, np.float32)
        boxes = np.clip(np.concatenate([skin.min(axis=1), skin.max(axis=1)], axis=1), 0, size)
        boxes[:, 2:] -= boxes[:, :2]
        keypoints = np.stack([meshes[:, rows, :2].mean(axis=1) for rows in _KEYPOINTS], axis=1)
        scores = np.array([mesh.presence for mesh in found], np.float32)
        order = np.arange(len(found))
        if self._max_faces is not None and ids is not None:
            # Which faces count must not flicker in a video: the longest tracked come first.
            order = np.argsort(ids, kind="stable")[: self._max_faces]
        order = order[(boxes[order, 2:] > 0).all(axis=1)]
        order = order[np.argsort(-scores[order], kind="stable")]
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

    def _is_large(self, image: Image, box: Floats) -> bool:
        least = self._min_face * min(image.shape[:2]) if self._min_face < 1 else self._min_face
        return float((box[2:] - box[:2]).min()) >= least


def _is_new(box: Floats, known: list[Mesh]) -> bool:
    """No mesh is of the face in this box."""
    if not known:
        return True
    overlaps = iou(box[None], np.stack([mesh.box for mesh in known]))
    return bool(overlaps.max() <= SAME_FACE_IOU)


def _is_off(crop: Crop, other: Crop, limits: tuple[float, float, float]) -> bool:
    """Whether one crop differs from another in place, size or angle by more than the limits."""
    shift = math.hypot(other.x - crop.x, other.y - crop.y) / crop.side
    scale = abs(math.log(other.side / crop.side))
    turn = abs(math.remainder(other.angle - crop.angle, 2 * math.pi))
    return shift > limits[0] or scale > limits[1] or turn > limits[2]


def _is_inside(box: Floats, part: Part) -> bool:
    """Whether the middle of a box lies in x, y, w, h."""
    x, y = (float(value) for value in (box[:2] + box[2:]) / 2)
    return part[0] <= x <= part[0] + part[2] and part[1] <= y <= part[1] + part[3]


@lru_cache(maxsize=8)
def _kit(
    max_faces: int | None,
    min_score: float | None,
    min_presence: float | None,
    min_face: float,
    size: int | None,
    tile: int | None,
    focal_length: float | None,
) -> FaceMesh:
    return FaceMesh(
        max_faces=max_faces,
        min_score=min_score,
        min_presence=min_presence,
        min_face=min_face,
        size=size,
        tile=tile,
        focal_length=focal_length,
    )


def face_mesh(
    image: Source,
    *,
    max_faces: int | None = None,
    min_score: float | None = None,
    min_presence: float | None = None,
    min_face: float = 0,
    size: int | None = None,
    tile: int | None = None,
    focal_length: float | None = None,
    roi: Part | None = None,
    format: Format | None = None,
    rotation: Rotation = 0,
    flip: Flip | None = None,
) -> Faces:
    """Find the faces in a picture, with their meshes, by a kit that is made once.

    Any thread may call it. The options are those of FaceMesh, the rest those of FaceMesh.detect.
    Raises ImageError if `image` is not a picture, ValueError for an option that cannot be.
    """
    kit = _kit(max_faces, min_score, min_presence, min_face, size, tile, focal_length)
    return kit.detect(image, roi=roi, format=format, rotation=rotation, flip=flip)
