"""The op lrn."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, *, size: int, alpha: float, beta: float, bias: float) -> Type:
    need_dtype("lrn", x, among=FLOATS)
    need_rank("lrn", x, 2)
    if size < 1:
        raise ValueError(f"size is out of range: {size}")
    return Type(x.dtype, x.shape)


@op(
    _infer,
    case((1, 19, 5, 4), size=5),
    case((2, 7, 5, 4), size=3, alpha=0.5, beta=0.5, bias=2.0),
    case((2, 3, 5, 4), size=7, alpha=1.0),
    traits=Traits(family=Family.NORMALISATION),
)
def lrn(
    x: Array, *, size: int, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0
) -> Array:
    """y = x / (bias + alpha / size * sum of x^2 over the `size` channels round each)^beta.

    Krizhevsky, Sutskever, Hinton: ImageNet Classification with Deep CNNs, 2012.
    """
    square = np.square(x)
    total = np.zeros_like(x)
    channels = x.shape[1]
    for offset in range(max(-((size - 1) // 2), -channels), min(size // 2, channels) + 1):
        first, last = max(0, -offset), min(channels, channels - offset)
        if first < last:
            total[:, first:last] += square[:, first + offset : last + offset]
    return np.asarray(x / (bias + alpha / size * total) ** beta, x.dtype)
