"""tflite_detection_post_process: TFLite's custom operator TFLite_Detection_PostProcess.

Source: tensorflow/lite/kernels/detection_postprocess.cc.
"""

from typing import Any

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Case, Results, case, op
from palmkit.engine.ops.non_max_suppression_v5 import intersection_over_union
from palmkit.engine.ops.rules import need_dtype


def _cases() -> tuple[Case, ...]:
    rng = np.random.default_rng(4)
    anchors = rng.uniform(0.2, 0.8, (20, 4)).astype(np.float32)
    options: dict[str, Any] = {
        "max_detections": 6,
        "num_classes": 3,
        "nms_score_threshold": 0.1,
        "nms_iou_threshold": 0.5,
        "y_scale": 10.0,
        "x_scale": 10.0,
        "h_scale": 5.0,
        "w_scale": 5.0,
    }
    return (
        case((1, 20, 4), (1, 20, 4), anchors, outputs=4, **options),
        case((1, 20, 4), (1, 20, 3), anchors, outputs=4, **options, use_regular_nms=1),
    )


def _infer(
    boxes: Type,
    scores: Type,
    anchors: Type,
    *,
    max_detections: int,
    max_classes_per_detection: int,
    detections_per_class: int,
    use_regular_nms: int,
    nms_score_threshold: float,
    nms_iou_threshold: float,
    num_classes: int,
    y_scale: float,
    x_scale: float,
    h_scale: float,
    w_scale: float,
) -> tuple[Type, Type, Type, Type]:
    need_dtype("tflite_detection_post_process", boxes, scores, anchors, among=("float32",))
    count = anchors.dims[0]
    if (
        anchors.dims != (count, 4)
        or boxes.dims[:2] != (1, count)
        or scores.dims[:2] != (1, count)
        or len(scores.dims) != 3
        or boxes.dims[2] < 4
        or scores.dims[2] - num_classes not in (0, 1)
    ):
        raise ShapeError(
            f"tflite_detection_post_process: {num_classes} classes, {boxes}, {scores}, {anchors}"
        )
    if min(y_scale, x_scale, h_scale, w_scale) <= 0 or not 0 < nms_iou_threshold <= 1:
        raise ValueError("a scale or nms_iou_threshold is out of range")
    if min(max_detections, max_classes_per_detection, num_classes) < 1:
        raise ValueError("a number of detections or classes is out of range")
    most = max_detections * max_classes_per_detection
    return (
        Type("float32", (1, most, 4)),
        Type("float32", (1, most)),
        Type("float32", (1, most)),
        Type("float32", (1,)),
    )


@op(_infer, *_cases())
def tflite_detection_post_process(
    boxes: Array,
    scores: Array,
    anchors: Array,
    *,
    max_detections: int,
    max_classes_per_detection: int = 1,
    detections_per_class: int = 100,
    use_regular_nms: int = 0,
    nms_score_threshold: float,
    nms_iou_threshold: float,
    num_classes: int,
    y_scale: float,
    x_scale: float,
    h_scale: float,
    w_scale: float,
) -> Results:
    """The detections of an SSD, best first: boxes, classes, scores, and how many boxes were found.

    boxes, anchors: centre y, x, height, width; boxes are offsets to the anchors by the scales.
    scores: a column each class, preceded by one for the background if there is one more.
    The boxes found are corners (ymin, xmin, ymax, xmax). With use_regular_nms boxes suppress each
    other within each class only, otherwise across classes, and each box found is listed once for
    each of its max_classes_per_detection best classes. After the last one there are zeros.
    """
    corners = _decoded(boxes[0, :, :4], anchors, np.array([y_scale, x_scale, h_scale, w_scale]))
    classes = scores[0, :, scores.shape[2] - num_classes :]
    if use_regular_nms:
        best: list[tuple[int, int]] = []
        for label in range(num_classes):
            kept = _suppressed(
                corners, classes[:, label], nms_score_threshold, nms_iou_threshold,
                detections_per_class,
            )  # fmt: skip
            best += [(anchor, label) for anchor in kept]
            best.sort(key=lambda pair: -classes[pair])
            best = best[:max_detections]
        rows, count = best, len(best)
    else:
        order = np.argsort(-classes, axis=1, kind="stable")[:, :max_classes_per_detection]
        kept = _suppressed(
            corners, classes.max(1), nms_score_threshold, nms_iou_threshold, max_detections
        )
        rows = [(anchor, int(label)) for anchor in kept for label in order[anchor]]
        count = len(kept)
    most = max_detections * max_classes_per_detection
    found = np.zeros((1, most, 4), np.float32)
    labels, values = np.zeros((1, most), np.float32), np.zeros((1, most), np.float32)
    for place, (anchor, label) in enumerate(rows):
        found[0, place] = corners[anchor]
        labels[0, place], values[0, place] = label, classes[anchor, label]
    return found, labels, values, np.array([count], np.float32)


def _decoded(boxes: Array, anchors: Array, scales: Array) -> Array:
    y, x, h, w = (boxes / scales.astype(np.float32)).T
    centre_y, centre_x = y * anchors[:, 2] + anchors[:, 0], x * anchors[:, 3] + anchors[:, 1]
    half_h, half_w = 0.5 * np.exp(h) * anchors[:, 2], 0.5 * np.exp(w) * anchors[:, 3]
    edges = (centre_y - half_h, centre_x - half_w, centre_y + half_h, centre_x + half_w)
    return np.stack(edges, 1).astype(np.float32)


def _suppressed(
    corners: Array, scores: Array, least: float, overlap: float, most: int
) -> list[int]:
    """Return the boxes of sufficient score that no better one suppresses, best first."""
    order = [int(i) for i in np.argsort(-scores, kind="stable") if scores[i] >= np.float32(least)]
    kept: list[int] = []
    for index in order:
        if len(kept) >= most:
            break
        if all(
            intersection_over_union(corners[index], corners[other]) <= np.float32(overlap)
            for other in kept
        ):
            kept.append(index)
    return kept
