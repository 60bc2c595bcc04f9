"""The metric for compressing a kit's model: how well results agree with the float model's.

Pictures need no labels: the float model's results are the reference. Scores are 1 where nothing
differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import Graph, Model
from palmkit.engine.errors import CompressionError
from palmkit.kits.boxes import corners, iou
from palmkit.kits.image import Image
from palmkit.kits.table import Entry, Judged, judged

Run = Callable[[Any], Callable[[Image], Any]]
Agree = Callable[[Any, Any], float]
# The similarity of box a of one result and box b of another in one respect, 1 at most.
Part = Callable[[Any, int, Any, int], float]
Samples = list[dict[str, NDArray[Any]]]
# Inputs of the model that one picture may give: a kit may see many parts of it.
_MOST_OF_ONE = 4
# Boxes that overlap less are of different things.
_SAME = 0.3


@dataclass(frozen=True)
class Job:
    """One model of a kit.

    kit: makes a function from pictures to results of a model; agree: similarity of two results, 0
    to 1.
    """

    title: str
    kit: Run
    agree: Agree


class KitAgreement:
    """A metric: the similarity of the results on some pictures to those of the float model."""

    def __init__(self, job: Job, graph: Graph, pictures: Sequence[Image]) -> None:
        """Run the kit on the pictures with the float model.

        Raises CompressionError if it finds nothing in any of them.
        """
        self._job = job
        self._pictures = pictures
        recorder = _Recorder(Model(graph))
        run = job.kit(recorder)
        self._expected: list[Any] = []
        self.samples: Samples = []
        for picture in pictures:
            recorder.seen.clear()
            self._expected.append(run(picture))
            self.samples += recorder.seen[:_MOST_OF_ONE]
        self.samples = _of_one_size(self.samples)
        if all(job.agree(each, None) == 1 for each in self._expected):
            raise CompressionError(
                f"data: the float model finds nothing in any of {len(pictures)} pictures"
            )

    def __call__(self, graph: Graph) -> float:
        """Return the mean over the pictures."""
        run = self._job.kit(Model(graph))
        pairs = zip(self._expected, self._pictures, strict=True)
        return float(np.mean([self._job.agree(was, run(picture)) for was, picture in pairs]))


def _of_one_size(samples: Samples) -> Samples:
    """Return inputs padded to the largest, as training steps need equal sizes.

    They are padded with zeros at the end, as the kits' detectors fill up a picture; inputs of one
    size stay as they are.
    """
    if not samples:
        return samples
    largest = {name: np.max([each[name].shape for each in samples], axis=0) for name in samples[0]}

    def padded(name: str, value: NDArray[Any]) -> NDArray[Any]:
        more = largest[name] - value.shape
        return np.pad(value, [(0, int(count)) for count in more]) if more.any() else value

    return [{name: padded(name, value) for name, value in each.items()} for each in samples]


class _Recorder:
    """A model that records its inputs."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.seen: Samples = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._model.metadata

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        self.seen.append({name: np.array(np.asarray(value)) for name, value in inputs.items()})
        return self._model.run(inputs)


def _overlap(was: Any, a: int, found: Any, b: int) -> float:
    """Return the intersection over union of the boxes."""
    return float(_ious(was.boxes[a : a + 1], found.boxes[b : b + 1])[0, 0])


def _points(name: str) -> Part:
    """Compare by 1 minus the mean distance of the points, including z, over the box's size."""

    def alike(was: Any, a: int, found: Any, b: int) -> float:
        size = float(np.sqrt(was.boxes[a][2] * was.boxes[a][3]))
        difference: NDArray[np.float32] = getattr(was, name)[a] - getattr(found, name)[b]
        return 1 - float(np.linalg.norm(difference, axis=1).mean()) / size

    return alike


def _shares(name: str) -> Part:
    """Compare by 1 minus the mean difference of numbers from 0 to 1."""

    def alike(was: Any, a: int, found: Any, b: int) -> float:
        difference: NDArray[np.float32] = getattr(was, name)[a] - getattr(found, name)[b]
        return 1 - float(np.abs(difference).mean())

    return alike


def _label(name: str) -> Part:
    """Compare by 1 where both have the same label."""

    def alike(was: Any, a: int, found: Any, b: int) -> float:
        return float(getattr(was, name)[a] == getattr(found, name)[b])

    return alike


def _agree_in(*parts: Part) -> Agree:
    """Return the mean over all boxes of the least similar part, for matching boxes.

    All outputs of a model must be among the parts: compression removes what nobody measures.
    """

    def agree(was: Any, found: Any) -> float:
        count, others = len(was.boxes), 0 if found is None else len(found.boxes)
        if found is None or not count or not others:
            return float(count == others)
        pairs = [pair for pair in _pairs(was.boxes, found.boxes) if pair[2] >= _SAME]
        least = (min(part(was, a, found, b) for part in parts) for a, b, _ in pairs)
        return sum(max(0.0, each) for each in least) / max(count, others)

    return agree


def _masks_agree(was: Any, found: Any) -> float:
    """Return the intersection over union of what each pixel is."""
    a = was.mask
    b = np.zeros_like(a) if found is None else found.mask
    union = float(np.maximum(a, b).sum())
    return float(np.minimum(a, b).sum()) / union if union > 0 else 1.0


def _ious(boxes: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the IoUs of boxes of x, y, w, h: float32[n, m]."""
    return iou(corners(boxes), corners(others))


def _pairs(boxes: NDArray[np.float32], others: NDArray[np.float32]) -> list[tuple[int, int, float]]:
    """Pair each box with the one of the others that it overlaps most, none twice."""
    ious = _ious(boxes, others)
    found: list[tuple[int, int, float]] = []
    while ious.size and ious.max() > 0:
        a, b = np.unravel_index(int(ious.argmax()), ious.shape)
        found.append((int(a), int(b), float(ious[a, b])))
        ious[a, :] = ious[:, b] = 0
    return found


# What parts of results are compared by, and what is not compared thing by thing.
_MEASURES: Mapping[str, Callable[[str], Part]] = {
    "overlap": lambda name: _overlap,
    "points": _points,
    "shares": _shares,
    "label": _label,
}


def _agreement(alike: Sequence[str]) -> Agree:
    """Return the similarity of results by parts as named in palmkit.kits.table."""
    named = [each.partition(":") for each in alike]
    if [measure for measure, _, _ in named] == ["areas"]:
        return _masks_agree
    return _agree_in(*(_MEASURES[measure](name) for measure, _, name in named))


def _job(entry: Entry, judged: Judged) -> Job:
    def kit(model: Any) -> Callable[[Image], Any]:
        made = entry.load_kit()(**{judged.option: model, **judged.options})
        found: Callable[[Image], Any] = getattr(made, entry.method)
        return found

    return Job(judged.title, kit, _agreement(judged.alike))


JOBS: Mapping[str, Job] = {name: _job(*found) for name, found in judged().items()}
