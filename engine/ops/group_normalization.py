"""The op group_normalization."""

from math import prod

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.normalization import by_channel, need_channels, standardised
from palmkit.engine.ops.traits import Family, Traits


def _infer(
    x: Type,
    scale: Type,
    bias: Type,
    *,
    num_groups: int,
    epsilon: float,
    stash_type: str,
) -> Type:
    need_channels("group_normalization", x, scale, bias)
    if num_groups < 1 or x.dims[1] % num_groups:
        raise ShapeError(f"group_normalization: num_groups {num_groups} does not divide {x}")
    return Type(x.dtype, x.shape)


@op(
    _infer,
    case((2, 6, 5, 4), (6,), (6,), num_groups=3),
    case((1, 19, 7), np.linspace(0.5, 2, 19, dtype=np.float32), (19,), num_groups=1, epsilon=1e-2),
    case((2, 4, 3, 2, 5), (4,), (4,), num_groups=4),
    case((2, 4, 3, 2), (4,), (4,), num_groups=2, dtype="float16"),
    traits=Traits(family=Family.NORMALISATION),
)
def group_normalization(
    x: Array,
    scale: Array,
    bias: Array,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: str = "float32",
) -> Array:
    """y = (x - mean) / sqrt(variance + epsilon) * scale + bias, of each group of channels.

    scale, bias: [c] for x[n, c, ...].
    Wu, He: Group Normalization, 2018.
    """
    groups = x.reshape(x.shape[0], num_groups, prod(x.shape[1:]) // num_groups)
    y = standardised(groups, (2,), epsilon, stash_type)[0].reshape(x.shape).astype(x.dtype)
    return np.asarray(y * by_channel(scale, x) + by_channel(bias, x))
