"""The op layer_normalization."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Results, case, op
from palmkit.engine.ops.normalization import REALS, standardised
from palmkit.engine.ops.rules import need_broadcast_to, need_dtype, positive_axis
from palmkit.engine.ops.traits import Family, Traits


def _infer(
    x: Type,
    scale: Type,
    b: Type | None = None,
    *,
    axis: int,
    epsilon: float,
    stash_type: str,
) -> tuple[Type, Type, Type]:
    need_dtype("layer_normalization", x, among=REALS)
    for each in (scale, *([] if b is None else [b])):
        need_dtype("layer_normalization", each, among=REALS)
        need_broadcast_to("layer_normalization", each, x)
    axis = positive_axis("layer_normalization", axis, x)
    saved = (*x.dims[:axis], *[1] * (len(x.dims) - axis))
    stash = "float64" if x.dtype == "float64" else stash_type
    return Type(x.dtype, x.shape), Type(stash, saved), Type(stash, saved)


@op(
    _infer,
    case((2, 3, 5), (5,)),
    case((2, 3, 19), np.linspace(0.5, 2, 19, dtype=np.float32), (19,), epsilon=1e-2),
    case((2, 3, 4, 5), (3, 4, 5), (3, 4, 5), axis=1),
    case((2, 3, 4, 5), (4, 5), (4, 5), axis=-2, outputs=3),
    case((7,), (7,), (7,), axis=0),
    case((2, 3, 5), (5,), (5,), dtype="float16"),
    traits=Traits(family=Family.NORMALISATION),
)
def layer_normalization(
    x: Array,
    scale: Array,
    b: Array | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: str = "float32",
) -> Results:
    """y = (x - mean) / sqrt(variance + epsilon) * scale + b over the axes from `axis` on.

    Returns y, the mean and 1 / sqrt(variance + epsilon), the last two of stash_type.
    Ba, Kiros, Hinton: Layer Normalization, 2016.
    """
    axes = tuple(range(axis % x.ndim, x.ndim))
    normal, mean, factor = standardised(x, axes, epsilon, stash_type)
    y = normal.astype(x.dtype) * scale
    y = y if b is None else y + b
    return np.asarray(y.astype(x.dtype)), mean, factor
