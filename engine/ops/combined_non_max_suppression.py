"""combined_non_max_suppression: TensorFlow's CombinedNonMaxSuppression.

Source: BatchedNonMaxSuppressionOp of tensorflow/core/kernels/image/non_max_suppression_op.cc.
"""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Case, Results, case, op
from palmkit.engine.ops.non_max_suppression import non_max_suppression
from palmkit.engine.ops.rules import known_number, need_dtype


def _most(of_class: int, of_picture: int, classes: int, pad_per_class: int) -> int:
    return min(of_picture, of_class * classes) if pad_per_class else of_picture


def _infer(
    boxes: Type,
    scores: Type,
    max_output_size_per_class: Type,
    max_total_size: Type,
    iou_threshold: Type,
    score_threshold: Type,
    *,
    pad_per_class: int,
    clip_boxes: int,
) -> tuple[Type, ...]:
    need_dtype("combined_non_max_suppression", boxes, scores, among=("float32",))
    if (
        len(boxes.dims) != 4
        or len(scores.dims) != 3
        or boxes.dims[:2] != scores.dims[:2]
        or boxes.dims[2] not in (1, scores.dims[2])
        or boxes.dims[3] != 4
    ):
        raise ShapeError(
            "combined_non_max_suppression: expected boxes [batch, n, 1 or classes, 4], "
            f"scores [batch, n, classes], got {boxes}, {scores}"
        )
    of_class, of_picture = (
        int(known_number(each, "combined_non_max_suppression: sizes").reshape(()))
        for each in (max_output_size_per_class, max_total_size)
    )
    batch, most = boxes.dims[0], _most(of_class, of_picture, scores.dims[2], pad_per_class)
    found = Type("float32", (batch, most))
    return Type("float32", (batch, most, 4)), found, found, Type("int32", (batch,))


def _cases() -> tuple[Case, ...]:
    rng = np.random.default_rng(5)
    corners = rng.uniform(0, 0.6, (2, 20, 1, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0.1, 0.6, corners.shape)], 3)
    boxes = boxes.astype(np.float32)
    scores = rng.random((2, 20, 3)).astype(np.float32)
    numbers = np.array(0.4, np.float32), np.array(0.3, np.float32)
    five, eight, thirty = (np.array(number) for number in (5, 8, 30))
    return (
        case(boxes, scores, five, eight, *numbers, outputs=4),
        case(boxes, scores, five, thirty, *numbers, pad_per_class=1, outputs=4),
        case(boxes.repeat(3, 2), scores, five, thirty, *numbers, clip_boxes=0, outputs=4),
    )


@op(_infer, *_cases())
def combined_non_max_suppression(
    boxes: Array,
    scores: Array,
    max_output_size_per_class: Array,
    max_total_size: Array,
    iou_threshold: Array,
    score_threshold: Array,
    *,
    pad_per_class: int = 0,
    clip_boxes: int = 1,
) -> Results:
    """The best boxes of all classes of each picture: boxes, scores, classes and their number.

    boxes: [batch, n, 1 or classes, 4], two corners (y, x, y, x); scores: [batch, n, classes].
    clip_boxes: clip the boxes to 0..1. pad_per_class: return no more rows than the classes together
    may have. Rows behind the last box are zeros.
    """
    batch, _, classes = scores.shape
    of_class, of_picture = (
        int(each.reshape(())) for each in (max_output_size_per_class, max_total_size)
    )
    most = _most(of_class, of_picture, classes, pad_per_class)
    found_boxes = np.zeros((batch, most, 4), np.float32)
    found_scores, labels = np.zeros((2, batch, most), np.float32)
    counts = np.zeros(batch, np.int32)
    options = np.array(of_class), iou_threshold.reshape(1), score_threshold.reshape(1)
    for picture in range(batch):
        rows: list[tuple[float, int, Array]] = []
        for label in range(classes):
            own = boxes[picture, :, min(label, boxes.shape[2] - 1)]
            score = scores[picture, :, label]
            kept = np.asarray(non_max_suppression.reference(own[None], score[None, None], *options))
            rows += [(float(score[i]), label, own[i]) for i in kept[:, 2]]
        rows.sort(key=lambda row: -row[0])
        counts[picture] = len(rows[:most])
        for place, (best, label, box) in enumerate(rows[:most]):
            found_scores[picture, place], labels[picture, place] = best, label
            found_boxes[picture, place] = np.clip(box, 0, 1) if clip_boxes else box
    return found_boxes, found_scores, labels, counts
