"""What the layers of Caffe's detectors compute, as in caffe_forward."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor
from typing import Any

import numpy as np

from tests.engine.converters.caffe_forward_shapes import FORWARD, Array, Params, layer, listed

__all__ = ["FORWARD", "listed"]


@layer("PriorBox")
def prior_box(p: Params, blobs: Any, cells: Array, picture: Array) -> Any:
    rows, columns = cells.shape[2:]
    height, width = picture.shape[2:]
    if "img_size" in p:
        height = width = p["img_size"]
    step_h, step_w = (p["step"],) * 2 if "step" in p else (height / rows, width / columns)
    ratios: list[float] = []
    for ratio in p.get("aspect_ratio", []):
        if all(abs(ratio - r) > 1e-6 for r in [1.0, *ratios]):
            ratios += [ratio, 1 / ratio] if p.get("flip", True) else [ratio]
    boxes: list[list[float]] = []
    for h, w in np.ndindex(rows, columns):
        x, y = (w + p.get("offset", 0.5)) * step_w, (h + p.get("offset", 0.5)) * step_h
        for i, size in enumerate(p["min_size"]):
            shapes = [(size, size)]
            if "max_size" in p:
                shapes.append(((size * p["max_size"][i]) ** 0.5,) * 2)
            shapes += [(size * r**0.5, size / r**0.5) for r in ratios]
            for bw, bh in shapes:
                box = [x - bw / 2, y - bh / 2, x + bw / 2, y + bh / 2]
                boxes.append([v / s for v, s in zip(box, [width, height] * 2, strict=True)])
    corners = np.array(boxes).reshape(-1)
    if p.get("clip"):
        corners = np.clip(corners, 0, 1)
    variance = p.get("variance", [0.1])
    variances = np.resize(variance, corners.size)
    return np.stack([corners, variances])[None]


def intersection_over_union(a: Sequence[float], b: Sequence[float]) -> float:
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    union = sum((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)) - w * h
    return w * h / union


def moved(p: Params, box: list[float], code: Array, variance: Array) -> list[float]:
    t = code if p.get("variance_encoded_in_target") else code * variance
    if p.get("code_type", "CORNER") == "CORNER":
        return [a + b for a, b in zip(box, t, strict=True)]
    w, h = box[2] - box[0], box[3] - box[1]
    cx, cy = t[0] * w + (box[0] + box[2]) / 2, t[1] * h + (box[1] + box[3]) / 2
    bw, bh = np.exp(t[2]) * w, np.exp(t[3]) * h
    return [cx - bw / 2, cy - bh / 2, cx + bw / 2, cy + bh / 2]


@layer("DetectionOutput")
def detection_output(
    p: Params, blobs: Any, loc: Array, conf: Array, prior: Array, *first: Array
) -> Any:
    classes, background = p["num_classes"], p.get("background_label_id", 0)
    boxes, variances = prior[0].reshape(2, -1, 4)
    shared = p.get("share_location", True)
    nms = p.get("nms_param", {})
    rows: list[list[float]] = []
    for n in range(len(loc)):
        code = loc[n].reshape(len(boxes), -1, 4)
        score = conf[n].reshape(len(boxes), classes).copy()
        if first:
            for i, (_, objectness) in enumerate(first[0][n].reshape(-1, 2)):
                if objectness < p.get("objectness_score", 0.01):
                    score[i] = np.eye(classes)[0]
        moves = first[1][n].reshape(-1, 4) if len(first) > 1 else None
        kept: list[tuple[float, int, list[float]]] = []
        for c in range(classes):
            if c == background:
                continue
            best: list[tuple[float, list[float]]] = []
            order = sorted(range(len(boxes)), key=lambda i: -score[i, c])
            order = [i for i in order if score[i, c] > p.get("confidence_threshold", -np.inf)]
            for i in order[: nms.get("top_k", len(order))]:
                box = list(boxes[i])
                for t in ([] if moves is None else [moves[i]]) + [code[i, 0 if shared else c]]:
                    box = moved(p, box, t, variances[i])
                limit = nms.get("nms_threshold", 0.3)
                if all(intersection_over_union(box, other) <= limit for _, other in best):
                    best.append((score[i, c], box))
            kept += [(s, c, box) for s, box in best]
        keep = p.get("keep_top_k", -1)
        if -1 < keep < len(kept):
            kept = sorted(sorted(kept, key=lambda k: -k[0])[:keep], key=lambda k: k[1])
        rows += [[n, c, s, *box] for s, c, box in kept]
    if not rows:
        rows = [[n, *[-1.0] * 6] for n in range(len(loc))]
    return np.array(rows)[None, None]


def rounded(value: float) -> int:
    return floor(abs(value) + 0.5) * (1 if value >= 0 else -1)


def inside(begin: float, end: float, length: int) -> range:
    return range(max(floor(begin), 0), min(ceil(end), length))


@layer("ROIPooling")
def roi_pooling(p: Params, blobs: Any, x: Array, rois: Array) -> Any:
    rows, columns, scale = p["pooled_h"], p["pooled_w"], p.get("spatial_scale", 1)
    y = np.zeros((len(rois), x.shape[1], rows, columns))
    for n, roi in enumerate(rois.reshape(-1, 5)):
        x1, y1, x2, y2 = (rounded(v * scale) for v in roi[1:])
        h, w = max(y2 - y1 + 1, 1) / rows, max(x2 - x1 + 1, 1) / columns
        for r, c in np.ndindex(rows, columns):
            down = inside(r * h + y1, (r + 1) * h + y1, x.shape[2])
            across = inside(c * w + x1, (c + 1) * w + x1, x.shape[3])
            if down and across:
                y[n, :, r, c] = np.max([x[int(roi[0]), :, i, j] for i in down for j in across], 0)
    return y


@layer("PSROIPooling")
def psroi_pooling(p: Params, blobs: Any, x: Array, rois: Array) -> Any:
    size, dim, scale = p["group_size"], p["output_dim"], p["spatial_scale"]
    y = np.zeros((len(rois), dim, size, size))
    for n, roi in enumerate(rois):
        x1, y1 = rounded(roi[1]) * scale, rounded(roi[2]) * scale
        x2, y2 = (rounded(roi[3]) + 1) * scale, (rounded(roi[4]) + 1) * scale
        h, w = max(y2 - y1, 0.1) / size, max(x2 - x1, 0.1) / size
        for d, r, c in np.ndindex(dim, size, size):
            down = inside(r * h + y1, (r + 1) * h + y1, x.shape[2])
            across = inside(c * w + x1, (c + 1) * w + x1, x.shape[3])
            plane = x[int(roi[0]), (d * size + r) * size + c]
            if down and across:
                y[n, d, r, c] = np.mean([plane[i, j] for i in down for j in across])
    return y
