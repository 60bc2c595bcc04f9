"""The op rms_normalization."""

import numpy as np

from palmkit.engine.ir import Array, Type, numpy_dtype
from palmkit.engine.ops import case, op
from palmkit.engine.ops.normalization import REALS
from palmkit.engine.ops.reduction import mean
from palmkit.engine.ops.rules import need_broadcast_to, need_dtype, positive_axis
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, scale: Type, *, axis: int, epsilon: float, stash_type: str) -> Type:
    need_dtype("rms_normalization", x, among=REALS)
    need_dtype("rms_normalization", scale, among=REALS)
    need_broadcast_to("rms_normalization", scale, x)
    positive_axis("rms_normalization", axis, x)
    return Type(scale.dtype, x.shape)


@op(
    _infer,
    case((2, 3, 5), (5,)),
    case((2, 3, 19), np.linspace(0.5, 2, 19, dtype=np.float32), epsilon=1e-2),
    case((2, 3, 4, 5), (3, 4, 5), axis=1),
    case((2, 3, 5), (5,), dtype="float16"),
    traits=Traits(family=Family.NORMALISATION),
)
def rms_normalization(
    x: Array, scale: Array, *, axis: int = -1, epsilon: float = 1e-5, stash_type: str = "float32"
) -> Array:
    """y = x / sqrt(mean(x^2) + epsilon) * scale over the axes from `axis` on.

    Zhang, Sennrich: Root Mean Square Layer Normalization, 2019.
    """
    wide = x.astype(np.promote_types(numpy_dtype(stash_type), x.dtype))
    square = mean(np.square(wide), tuple(range(axis % x.ndim, x.ndim)), True)
    normal = wide / np.sqrt(square + wide.dtype.type(epsilon))
    return np.asarray(normal.astype(x.dtype) * scale).astype(scale.dtype, copy=False)
