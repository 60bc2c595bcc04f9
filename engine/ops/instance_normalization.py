"""The op instance_normalization."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.normalization import by_channel, need_channels, standardised
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, scale: Type, b: Type, *, epsilon: float) -> Type:
    need_channels("instance_normalization", x, scale, b)
    return Type(x.dtype, x.shape)


@op(
    _infer,
    case((2, 3, 5, 4), np.array([1, 0.5, 2], np.float32), np.array([0, 1, -1], np.float32)),
    case((1, 19, 7), (19,), (19,), epsilon=1e-2),
    case((2, 4, 3, 2, 5), (4,), (4,)),
    traits=Traits(family=Family.NORMALISATION),
)
def instance_normalization(x: Array, scale: Array, b: Array, *, epsilon: float = 1e-5) -> Array:
    """y = (x - mean) / sqrt(variance + epsilon) * scale + b, of each plane of x[n, c, ...].

    Ulyanov, Vedaldi, Lempitsky: Instance Normalization, 2016.
    """
    y, _, _ = standardised(x, tuple(range(2, x.ndim)), epsilon)
    return np.asarray((y * by_channel(scale, x) + by_channel(b, x)).astype(x.dtype))
