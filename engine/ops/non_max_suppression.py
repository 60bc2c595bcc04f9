"""The op non_max_suppression."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Case, Undetermined, case, op
from palmkit.engine.ops.rules import need_dtype
from palmkit.engine.ops.traits import Family, Traits


def _infer(
    boxes: Type,
    scores: Type,
    max_output_boxes_per_class: Type | None = None,
    iou_threshold: Type | None = None,
    score_threshold: Type | None = None,
    *,
    center_point_box: int,
) -> Type:
    need_dtype("non_max_suppression", boxes, scores, among=("float32", "float16"))
    if (
        len(scores.dims) != 3
        or boxes.dims != (scores.dims[0], scores.dims[2], 4)
        or center_point_box not in (0, 1)
    ):
        raise ShapeError(
            "non_max_suppression: expected boxes [batch, n, 4], scores [batch, classes, n], "
            f"got {boxes}, {scores}"
        )
    raise Undetermined("non_max_suppression: the number of boxes is known at run time only")


def _cases() -> tuple[Case, ...]:
    rng = np.random.default_rng(2)
    low = rng.uniform(0, 0.6, (2, 15, 2))
    boxes = np.concatenate([low, low + rng.uniform(0.1, 0.4, (2, 15, 2))], 2).astype(np.float32)
    scores = rng.random((2, 3, 15)).astype(np.float32)
    most, overlap, score = np.array([4]), np.array([0.3], np.float32), np.array([0.4], np.float32)
    ties = np.full((2, 3, 15), 0.5, np.float32)
    return (
        case(boxes, scores, most, overlap, score),
        case(boxes, scores, np.array([100]), overlap),
        case(boxes[..., [2, 1, 0, 3]], scores, most, overlap, score),
        case(boxes, scores, most, overlap, score, center_point_box=1),
        case(boxes, scores),
        case(boxes, ties, most, overlap, score),
        case(boxes, scores, most, overlap, np.array([2], np.float32)),
    )


@op(_infer, *_cases(), traits=Traits(family=Family.REDUCTION))
def non_max_suppression(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    *,
    center_point_box: int = 0,
) -> Array:
    """The boxes to keep, as int64[kept, 3]: batch, class, box; best first in each class.

    boxes: [batch, n, 4], two corners (y, x, y, x), or centre and size (x, y, width, height) if
    center_point_box; scores: [batch, classes, n]. A box is dropped where a better one of its class
    overlaps it by more than iou_threshold, or if its score is not above score_threshold.
    """
    most = _number(max_output_boxes_per_class, 0)
    overlap, least = _number(iou_threshold, 0), _number(score_threshold, -np.inf)
    kept: list[tuple[int, int, int]] = []
    for batch, frames in enumerate(_corners(boxes, center_point_box)):
        areas = np.prod(frames[:, 2:] - frames[:, :2], 1)
        for label, points in enumerate(scores[batch]):
            order = np.argsort(-points, kind="stable")
            waiting = order[points[order] > least] if score_threshold is not None else order
            count = 0
            while len(waiting) and count < most:
                best, waiting = waiting[0], waiting[1:]
                kept.append((batch, label, int(best)))
                count += 1
                sides = np.minimum(frames[waiting, 2:], frames[best, 2:]) - np.maximum(
                    frames[waiting, :2], frames[best, :2]
                )
                shared = np.prod(np.maximum(sides, 0), 1)
                union = areas[waiting] + areas[best] - shared
                counts = (shared > 0) & (areas[waiting] > 0) & (areas[best] > 0) & (union > 0)
                waiting = waiting[~(counts & (shared / union > np.float32(overlap)))]
    return np.array(kept, np.int64).reshape(-1, 3)


def _number(value: Array | None, default: float) -> float:
    return default if value is None or not value.size else float(value.reshape(-1)[0])


def _corners(boxes: Array, center_point_box: int) -> Array:
    """Return the boxes as lower corner, upper corner, float32[batch, n, 4]."""
    frames: Array = boxes.astype(np.float32)
    first, last = frames[..., :2], frames[..., 2:]
    if center_point_box:
        first, last = first - last / 2, first + last / 2
    return np.concatenate([np.minimum(first, last), np.maximum(first, last)], -1)
