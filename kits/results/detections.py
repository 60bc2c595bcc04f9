"""Results as objects of the package supervision, which is imported only here, when it is asked for.

It is no dependency of PalmKit: `pip install supervision`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.forks import importing
from palmkit.kits.boxes import corners

if TYPE_CHECKING:
    from supervision import Detections as Detections
    from supervision import KeyPoints as KeyPoints


def detections(
    boxes: NDArray[np.float32],
    scores: NDArray[np.float32] | None,
    *,
    class_id: NDArray[np.int64],
    class_name: Sequence[str],
    ids: NDArray[np.int64] | None = None,
    mask: NDArray[np.bool_] | None = None,
    data: Mapping[str, NDArray[Any] | None] | None = None,
) -> Detections:
    """Return supervision.Detections of n things.

    boxes: float32[n, 4] of x, y, w, h. class_name: n names. mask: bool[n, h, w]. data: further
    arrays[n, ...] by their names; those that are None are left out.
    Raises ImportError without the package.
    """
    also = {name: values for name, values in (data or {}).items() if values is not None}
    made: Detections = _supervision().Detections(
        xyxy=corners(boxes),
        mask=mask,
        confidence=scores,
        class_id=class_id,
        tracker_id=ids,
        data={"class_name": np.array(class_name, np.str_), **also},
    )
    return made


def key_points(
    points: NDArray[np.float32],
    scores: NDArray[np.float32],
    class_id: NDArray[np.int64],
    visibility: NDArray[np.float32] | None = None,
) -> KeyPoints:
    """Return supervision.KeyPoints of n things with m points each.

    points: float32[n, m, 2]. scores: float32[n]. visibility: float32[n, m], or None.
    Raises ImportError without the package.
    """
    kind = _supervision().KeyPoints
    sure: dict[str, Any] = {"keypoint_confidence": visibility, "detection_confidence": scores}
    # Before its release 0.29 it had no scores of things, and one name for those of points.
    if "keypoint_confidence" not in inspect.signature(kind).parameters:
        sure = {"confidence": visibility}
    made: KeyPoints = kind(xy=points, class_id=class_id, **sure)
    return made


def _supervision() -> Any:
    try:
        with importing:
            import supervision
    except ModuleNotFoundError as error:
        if error.name != "supervision":
            raise
        raise ImportError("this needs supervision: pip install supervision") from None
    return supervision
