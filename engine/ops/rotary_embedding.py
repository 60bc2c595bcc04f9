"""The op rotary_embedding."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.rules import need_dtype, need_rank


def _infer(
    x: Type,
    cos_cache: Type,
    sin_cache: Type,
    position_ids: Type | None = None,
    *,
    interleaved: int,
    num_heads: int,
    rotary_embedding_dim: int,
) -> Type:
    need_dtype("rotary_embedding", x, cos_cache, sin_cache, among=FLOATS)
    rank = need_rank("rotary_embedding", x, 3, 4)
    if rank == 3 and (num_heads < 1 or x.dims[2] % num_heads):
        raise ShapeError(f"rotary_embedding: num_heads {num_heads} does not divide {x}")
    length = x.dims[2] if rank == 4 else x.dims[1]
    size = x.dims[3] if rank == 4 else x.dims[2] // num_heads
    turned = rotary_embedding_dim or size
    if turned > size or turned < 0 or turned % 2:
        raise ShapeError(f"rotary_embedding: cannot turn {turned} of {size} numbers of {x}")
    wanted: tuple[int, ...] = (x.dims[0], length)
    if position_ids is not None:
        need_dtype("rotary_embedding", position_ids, among=["int64"])
        if position_ids.dims not in (wanted, (1, length)):
            raise ShapeError(f"rotary_embedding: expected {list(wanted)}, got {position_ids}")
        need_rank("rotary_embedding", cos_cache, 2, 2)
        wanted = cos_cache.dims[:1]
    for cache in (cos_cache, sin_cache):
        if cache.dims != (*wanted, turned // 2):
            raise ShapeError(
                f"rotary_embedding: expected a cache of {[*wanted, turned // 2]}, got {cache}"
            )
    return Type(x.dtype, x.shape)


_POSITIONS = np.array([[0, 1, 2], [7, 3, 0]])


@op(
    _infer,
    case((2, 4, 3, 8), (50, 4), (50, 4), _POSITIONS),
    case((2, 4, 3, 8), (50, 4), (50, 4), _POSITIONS, interleaved=1),
    case((2, 3, 32), (50, 4), (50, 4), _POSITIONS, num_heads=4),
    case((2, 4, 3, 8), (50, 2), (50, 2), _POSITIONS, rotary_embedding_dim=4, num_heads=4),
    case((2, 4, 3, 8), (2, 3, 4), (2, 3, 4)),
)
def rotary_embedding(
    x: Array,
    cos_cache: Array,
    sin_cache: Array,
    position_ids: Array | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Array:
    """Pairs of numbers of each head rotated by an angle that grows with the position.

    x: [n, heads, length, size] or [n, length, heads * size]; the caches: [positions, pairs], or
    without position_ids [n, length, pairs].
    interleaved: pairs are adjacent; otherwise the first half of a head pairs with the second.
    rotary_embedding_dim: how many numbers of a head are rotated; 0 is all.
    Su et al.: RoFormer, 2021.
    """
    heads = x.swapaxes(1, 2) if x.ndim == 4 else x.reshape(*x.shape[:2], num_heads, -1)
    count = rotary_embedding_dim or heads.shape[3]
    turned, kept = heads[..., :count], heads[..., count:]
    if position_ids is not None:
        cos_cache, sin_cache = cos_cache[position_ids], sin_cache[position_ids]
    cos, sin = cos_cache[:, :, None], sin_cache[:, :, None]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
    else:
        a, b = turned[..., : count // 2], turned[..., count // 2 :]
    real, imaginary = cos * a - sin * b, sin * a + cos * b
    if interleaved:
        result = np.stack([real, imaginary], -1).reshape(turned.shape)
    else:
        result = np.concatenate([real, imaginary], -1)
    y = np.concatenate([result, kept], -1)
    return np.ascontiguousarray(y.swapaxes(1, 2)) if x.ndim == 4 else y.reshape(x.shape)
