"""What a kit makes of a compressed model, against what it makes of the float one.

Pictures need no truth: the float model's results are it. Scores are 1 where nothing differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import Graph, Model
from palmkit.engine.errors import CompressionError
from palmkit.kits.image import Image

Run = Callable[[Any], Callable[[Image], Any]]
Agree = Callable[[Any, Any], float]
Samples = list[dict[str, NDArray[Any]]]
# Inputs of the model that one picture may give: a kit may look at many parts of it.
_MOST_OF_ONE = 4


@dataclass(frozen=True)
class Job:
    """One model of a kit.

    kit: from a model to what looks at a picture; agree: how alike two results are, 0 to 1.
    """

    title: str
    kit: Run
    agree: Agree


class KitAgreement:
    """A metric: how alike the results on some pictures are to those of the float model."""

    def __init__(self, job: Job, graph: Graph, pictures: Sequence[Image]) -> None:
        """Look at the pictures with the float model.

        Raises CompressionError if it finds nothing in any of them.
        """
        self._job = job
        self._pictures = pictures
        recorder = _Recorder(Model(graph))
        look = job.kit(recorder)
        self._expected: list[Any] = []
        self.samples: Samples = []
        for picture in pictures:
            recorder.seen.clear()
            self._expected.append(look(picture))
            self.samples += recorder.seen[:_MOST_OF_ONE]
        self.samples = _of_one_size(self.samples)
        if all(job.agree(each, None) == 1 for each in self._expected):
            raise CompressionError(
                f"data: the float model finds nothing in any of {len(pictures)} pictures"
            )

    def __call__(self, graph: Graph) -> float:
        """The mean over the pictures."""
        look = self._job.kit(Model(graph))
        pairs = zip(self._expected, self._pictures, strict=True)
        return float(np.mean([self._job.agree(was, look(picture)) for was, picture in pairs]))


def _of_one_size(samples: Samples) -> Samples:
    """Inputs padded to the largest, as the steps that train want them alike.

    With zeros behind, which is how the kits' detectors fill up a picture; what has one size
    everywhere stays as it is.
    """
    if not samples:
        return samples
    largest = {name: np.max([each[name].shape for each in samples], axis=0) for name in samples[0]}

    def padded(name: str, value: NDArray[Any]) -> NDArray[Any]:
        more = largest[name] - value.shape
        return np.pad(value, [(0, int(count)) for count in more]) if more.any() else value

    return [{name: padded(name, value) for name, value in each.items()} for each in samples]


class _Recorder:
    """A model that keeps what it was given."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.seen: Samples = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._model.metadata

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        self.seen.append({name: np.array(value) for name, value in inputs.items()})
        return self._model.run(inputs)


def _boxes_agree(was: Any, found: Any) -> float:
    """Overlap of the boxes: intersection over union of each with its best, over all boxes."""
    count, others = len(was.boxes), _count(found)
    if not count or not others:
        return float(count == others)
    return float(sum(iou for _, _, iou in _pairs(was.boxes, found.boxes))) / max(count, others)


def _count(found: Any) -> int:
    return 0 if found is None else len(found.boxes)


def _points_agree(points: str) -> Agree:
    """1 less the mean distance of points over the box's size, of boxes that are the same."""

    def agree(was: Any, found: Any) -> float:
        count, others = len(was.boxes), _count(found)
        if not count or not others:
            return float(count == others)
        total = 0.0
        for a, b, iou in _pairs(was.boxes, found.boxes):
            if iou < 0.3:
                continue
            size = float(np.sqrt(was.boxes[a][2] * was.boxes[a][3]))
            difference = getattr(was, points)[a][:, :2] - getattr(found, points)[b][:, :2]
            total += max(0.0, 1 - float(np.linalg.norm(difference, axis=1).mean()) / size)
        return total / max(count, others)

    return agree


def _masks_agree(was: Any, found: Any) -> float:
    """Intersection over union of what each pixel is."""
    a = was.mask
    b = np.zeros_like(a) if found is None else found.mask
    union = float(np.maximum(a, b).sum())
    return float(np.minimum(a, b).sum()) / union if union > 0 else 1.0


def _pairs(boxes: NDArray[np.float32], others: NDArray[np.float32]) -> list[tuple[int, int, float]]:
    """Each box with the one of the others that it overlaps most, none twice."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(
        boxes[:, None, :2] + boxes[:, None, 2:], others[None, :, :2] + others[None, :, 2:]
    )
    shared = np.prod(np.maximum(high - low, 0), axis=2)
    areas = np.prod(boxes[:, 2:], axis=1)[:, None] + np.prod(others[:, 2:], axis=1)[None]
    ious = shared / np.maximum(areas - shared, 1e-9)
    found: list[tuple[int, int, float]] = []
    while ious.size and ious.max() > 0:
        a, b = np.unravel_index(int(ious.argmax()), ious.shape)
        found.append((int(a), int(b), float(ious[a, b])))
        ious[a, :] = ious[:, b] = 0
    return found


def _face(model: Any) -> Callable[[Image], Any]:
    from palmkit.kits.face.kit import FaceDetector
    from palmkit.kits.face.search import SIZES

    # As closely as it looks by itself at most, so that all pictures count alike.
    return FaceDetector(model=model, size=SIZES[-1]).detect


def _mesh(model: Any) -> Callable[[Image], Any]:
    from palmkit.kits.face.mesh_kit import FaceMesh

    return FaceMesh(model=model).detect


def _portrait(model: Any) -> Callable[[Image], Any]:
    from palmkit.kits.portrait.kit import PortraitSegmenter

    return PortraitSegmenter(model=model).segment


def _hair(model: Any) -> Callable[[Image], Any]:
    from palmkit.kits.portrait.hair import HairSegmenter

    return HairSegmenter(model=model).segment


def _gesture(model: Any) -> Callable[[Image], Any]:
    from palmkit.kits.hands.kit import GestureRecognizer

    return GestureRecognizer(model=model).recognize


def _hand(model: Any) -> Callable[[Image], Any]:
    from palmkit.kits.hands.kit import GestureRecognizer

    return GestureRecognizer(detector=model).recognize


JOBS: Mapping[str, Job] = {
    "face": Job("the face detector; overlap of the boxes", _face, _boxes_agree),
    "mesh": Job("the face mesh; distance of the points", _mesh, _points_agree("mesh")),
    "portrait": Job("the portrait mask; overlap", _portrait, _masks_agree),
    "hair": Job("the hair mask; overlap", _hair, _masks_agree),
    "hand": Job("the hand detector; overlap of the hands", _hand, _boxes_agree),
    "gesture": Job("hand landmarks; distance", _gesture, _points_agree("landmarks")),
}
