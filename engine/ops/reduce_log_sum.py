"""The op reduce_log_sum."""

from typing import Any

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.reduction import reduction

_POSITIVE = np.linspace(0.1, 3, 24, dtype=np.float32).reshape(2, 3, 4)


@reduction(
    case(_POSITIVE),
    case(_POSITIVE, keepdims=0),
    case(_POSITIVE, np.array([1])),
    case(_POSITIVE, np.array([-1, 0]), keepdims=0),
    case(_POSITIVE[0], noop_with_empty_axes=1),
    case((0, 3), np.array([0])),
)
def reduce_log_sum(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The logarithm of the sum over the axes."""
    return np.log(np.sum(x, axes, keepdims=keepdims))
