"""The op detection_output."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Undetermined, case, op
from palmkit.engine.ops.rules import need_dtype

CODE_TYPES = ("corner", "center_size", "corner_size")


def _infer(
    locations: Type,
    scores: Type,
    priors: Type,
    refinements: Type | None = None,
    *,
    num_classes: int,
    share_location: int,
    background_label_id: int,
    code_type: str,
    variance_encoded_in_target: int,
    confidence_threshold: float,
    nms_threshold: float,
    top_k: int,
    eta: float,
    keep_top_k: int,
) -> Type:
    given = [each for each in (locations, scores, priors, refinements) if each is not None]
    need_dtype("detection_output", *given, among=("float32",))
    if num_classes < 1 or code_type not in CODE_TYPES or not 0 < eta <= 1 or nms_threshold < 0:
        raise ValueError("num_classes, code_type, eta or nms_threshold is out of range")
    if len(priors.dims) != 3 or priors.dims[:2] != (1, 2) or priors.dims[2] % 4:
        raise ShapeError(f"detection_output: expected priors of [1, 2, 4 * boxes], got {priors}")
    boxes = priors.dims[2] // 4
    pictures = locations.dims[0] if locations.dims else 0
    sets = 1 if share_location else num_classes
    if locations.elements != pictures * boxes * sets * 4 or not pictures:
        raise ShapeError(
            f"detection_output: expected 4 numbers for each of {boxes} boxes, got {locations}"
        )
    if scores.elements != pictures * boxes * num_classes:
        raise ShapeError(
            f"detection_output: expected {num_classes} scores for each of {boxes} boxes, "
            f"got {scores}"
        )
    if refinements is not None and refinements.elements != pictures * boxes * 4:
        raise ShapeError(
            f"detection_output: expected 4 refinements for each of {boxes} boxes, got {refinements}"
        )
    raise Undetermined("detection_output: the number of detections is known at run time")


def _decode(code: Array, priors: Array, variances: Array, code_type: str, scaled: bool) -> Array:
    """Return boxes [boxes, 4], decoded from the network's output, all float32."""
    code = code if scaled else code * variances
    if code_type == "corner":
        return np.asarray(priors + code)
    low, high = priors[:, :2], priors[:, 2:]
    size = high - low
    if code_type == "corner_size":
        return np.asarray(priors + code * np.tile(size, 2))
    centre = code[:, :2] * size + (low + high) / 2
    half = np.exp(code[:, 2:]) * size / 2
    return np.concatenate([centre - half, centre + half], 1)


def _areas(boxes: Array) -> Array:
    sides = boxes[:, 2:] - boxes[:, :2]
    return np.where((sides < 0).any(1), 0, sides.prod(1))


def _overlaps(box: Array, area: Array, boxes: Array, areas: Array) -> Array:
    """Return the intersection of one box with others over their union."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    common = np.where((sides > 0).all(1), sides.prod(1), np.float32(0))
    return np.where(common > 0, common / (area + areas - common), np.float32(0))


def _suppress(
    boxes: Array, scores: Array, threshold: float, nms_threshold: float, top_k: int, eta: float
) -> list[int]:
    """Return the boxes to keep, best first: those that overlap no better one too much."""
    candidates = np.flatnonzero(scores > threshold)
    candidates = candidates[np.argsort(-scores[candidates], kind="stable")]
    candidates = candidates[:top_k] if top_k > -1 else candidates
    boxes = boxes[candidates]
    areas = _areas(boxes)
    kept: list[int] = []
    limit = np.float32(nms_threshold)
    for i in range(len(boxes)):
        if (_overlaps(boxes[i], areas[i], boxes[kept], areas[kept]) <= limit).all():
            kept.append(i)
            if eta < 1 and limit > 0.5:
                limit *= np.float32(eta)
    return [int(i) for i in candidates[kept]]


_ROWS = np.linspace(0, 0.8, 5, dtype=np.float32)
_PRIORS = np.stack(
    [
        np.stack([_ROWS, _ROWS, _ROWS + 0.2, _ROWS + 0.2], 1).reshape(-1),
        np.tile(np.array([0.1, 0.1, 0.2, 0.2], np.float32), 5),
    ]
)[None]


@op(
    _infer,
    case((2, 20), (2, 15), _PRIORS, num_classes=3),
    case((1, 20), (1, 15), _PRIORS, num_classes=3, code_type="center_size", top_k=3, keep_top_k=4),
    case((1, 60), (1, 15), _PRIORS, num_classes=3, share_location=0, confidence_threshold=0.5),
    case(
        (1, 20),
        (1, 5),
        _PRIORS,
        num_classes=1,
        background_label_id=-1,
        code_type="corner_size",
        variance_encoded_in_target=1,
        nms_threshold=0.7,
        eta=0.9,
    ),
    case((2, 20), (2, 10), _PRIORS, num_classes=2, confidence_threshold=99.0),
    case((2, 20), (2, 15), _PRIORS, (2, 20), num_classes=3, code_type="center_size"),
)
def detection_output(
    locations: Array,
    scores: Array,
    priors: Array,
    refinements: Array | None = None,
    *,
    num_classes: int,
    share_location: int = 1,
    background_label_id: int = 0,
    code_type: str = "corner",
    variance_encoded_in_target: int = 0,
    confidence_threshold: float = -np.inf,
    nms_threshold: float = 0.3,
    top_k: int = -1,
    eta: float = 1.0,
    keep_top_k: int = -1,
) -> Array:
    """The detections of SSD: the layer DetectionOutput of Caffe's SSD branch (weiliu89/caffe).

    locations: for each picture, box and (unless shared) class the four coded numbers.
    scores: for each picture and box a score a class.
    priors: the result of prior_box.
    refinements: for each picture and box four coded numbers that move the prior before the
    locations do: the first stage of RefineDet (sfzhang15/RefineDet).
    top_k, keep_top_k: the most boxes to keep of a class, and of a picture; -1: all.
    eta: below 1, the threshold of the suppression shrinks by it with each kept box while above 0.5.
    Returns float32[1, 1, detections, 7]: picture, class, score, xmin, ymin, xmax, ymax, by picture,
    class and falling score; if there are none at all, one row a picture with the number of the
    picture and -1 for the rest.
    """
    boxes = priors.shape[2] // 4
    corners, variances = priors.reshape(2, boxes, 4)
    pictures = len(locations)
    locations = locations.reshape(pictures, boxes, -1, 4)
    scores = scores.reshape(pictures, boxes, num_classes)
    moves = None if refinements is None else refinements.reshape(pictures, boxes, 4)
    scaled = bool(variance_encoded_in_target)
    rows: list[Array] = []
    for picture in range(pictures):
        anchors = corners
        if moves is not None:
            anchors = _decode(moves[picture], corners, variances, code_type, scaled)
        decoded = [
            _decode(code, anchors, variances, code_type, scaled)
            for code in locations[picture].swapaxes(0, 1)
        ]
        found: list[tuple[float, int, int]] = []
        for label in range(num_classes):
            if label != background_label_id:
                of_label = scores[picture, :, label]
                kept = _suppress(
                    decoded[0 if share_location else label],
                    of_label,
                    confidence_threshold,
                    nms_threshold,
                    top_k,
                    eta,
                )
                found += [(float(of_label[i]), label, i) for i in kept]
        if -1 < keep_top_k < len(found):
            found = sorted(found, key=lambda each: -each[0])[:keep_top_k]
            found.sort(key=lambda each: each[1])
        for score, label, i in found:
            box = decoded[0 if share_location else label][i]
            rows.append(np.array([picture, label, score, *box], np.float32))
    if not rows:
        rows = [np.array([picture, *[-1] * 6], np.float32) for picture in range(pictures)]
    return np.stack(rows)[None, None]
