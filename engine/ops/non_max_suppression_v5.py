"""non_max_suppression_v5: TFLite's operators NON_MAX_SUPPRESSION_V4 and V5.

Source: tensorflow/lite/kernels/internal/reference/non_max_suppression.h; soft suppression after
Bodla et al., Soft-NMS, 2017.
"""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Case, Results, case, op
from palmkit.engine.ops.rules import known_number, need_dtype
from palmkit.engine.ops.traits import Family, Traits


def _cases() -> tuple[Case, ...]:
    rng = np.random.default_rng(2)
    corners = rng.uniform(0, 0.6, (12, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0.1, 0.4, (12, 2))], 1)
    scores = rng.permutation(np.linspace(0.05, 0.95, 12)).astype(np.float32)

    def options(most: int, overlap: float, score: float, sigma: float) -> Case:
        numbers = [np.array(x, np.float32) for x in (overlap, score, sigma)]
        return case(boxes.astype(np.float32), scores, np.array(most, np.int32), *numbers, outputs=3)

    return (
        options(12, 0.3, 0.1, 0.0),
        options(4, 0.5, 0.0, 0.0),
        options(15, 1.0, 0.2, 0.4),
        options(3, 0.3, 2.0, 0.0),
    )


def _infer(
    boxes: Type,
    scores: Type,
    max_output_size: Type,
    iou_threshold: Type,
    score_threshold: Type,
    soft_nms_sigma: Type,
) -> tuple[Type, Type, Type]:
    need_dtype("non_max_suppression_v5", boxes, scores, among=("float32",))
    if boxes.dims[1:] != (4,) or scores.dims != boxes.dims[:1]:
        raise ShapeError(
            f"non_max_suppression_v5: expected boxes [n, 4], scores [n], got {boxes}, {scores}"
        )
    most = int(known_number(max_output_size, "non_max_suppression_v5: size").reshape(()))
    return Type("int32", (most,)), Type("float32", (most,)), Type("int32", ())


@op(_infer, *_cases(), traits=Traits(family=Family.REDUCTION))
def non_max_suppression_v5(
    boxes: Array,
    scores: Array,
    max_output_size: Array,
    iou_threshold: Array,
    score_threshold: Array,
    soft_nms_sigma: Array,
) -> Results:
    """The boxes to keep, best first, with their scores and their number.

    boxes: [n, 4], two corners (y, x, y, x). A box is dropped where one that is kept overlaps it by
    iou_threshold or more; with a sigma above 0 its score first falls by exp(-iou^2 / (2 sigma)) for
    each kept box. After the last one the results are filled up with zeros.
    """
    most, overlap = int(max_output_size.reshape(())), float(iou_threshold.reshape(()))
    least, sigma = score_threshold.reshape(()), float(soft_nms_sigma.reshape(()))
    waiting = [(scores[i], int(i), 0) for i in range(len(scores)) if scores[i] > least]
    kept: list[int] = []
    found: list[float] = []
    while waiting and len(kept) < most:
        best = max(range(len(waiting)), key=lambda place: waiting[place][0])
        before, index, checked = waiting.pop(best)
        score, is_hidden = before, False
        for other in reversed(kept[checked:]):
            shared = intersection_over_union(boxes[index], boxes[other])
            is_hidden = shared >= overlap
            if not is_hidden and sigma > 0:
                score = np.float32(score * np.exp(np.float32(-0.5 / sigma * shared * shared)))
            if is_hidden or score <= least:
                break
        if is_hidden:
            continue
        if score == before:
            kept.append(index)
            found.append(float(score))
        elif score > least:
            waiting.append((score, index, len(kept)))
    indices, values = np.zeros(most, np.int32), np.zeros(most, np.float32)
    indices[: len(kept)], values[: len(kept)] = kept, found
    return indices, values, np.array(len(kept), np.int32)


def intersection_over_union(a: Array, b: Array) -> float:
    """Return the IoU of two boxes of two corners; 0 if one of them has no area."""
    low = np.minimum(a[:2], a[2:]), np.minimum(b[:2], b[2:])
    high = np.maximum(a[:2], a[2:]), np.maximum(b[:2], b[2:])
    areas = [np.prod(top - bottom) for top, bottom in zip(high, low, strict=True)]
    if min(areas) <= 0:
        return 0.0
    shared = np.prod(np.maximum(np.minimum(*high) - np.maximum(*low), 0))
    return float(shared / (areas[0] + areas[1] - shared))
