"""The op depth_to_space."""

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import need_rank
from palmkit.engine.ops.traits import Movement, Traits


def _infer(x: Type, *, blocksize: int, mode: str) -> Type:
    need_rank("depth_to_space", x, 4, 4)
    n, c, h, w = x.dims
    if mode not in ("DCR", "CRD"):
        raise ValueError(f"unknown mode: {mode}")
    if blocksize < 1 or c % blocksize**2:
        raise ShapeError(f"depth_to_space: blocksize {blocksize} does not divide {x}")
    return Type(x.dtype, (n, c // blocksize**2, h * blocksize, w * blocksize))


@op(
    _infer,
    case((1, 12, 3, 5), blocksize=2),
    case((2, 12, 3, 5), blocksize=2, mode="CRD"),
    case((1, 18, 2, 2), blocksize=3),
    case((1, 4, 3, 5), blocksize=1),
    traits=Traits(movement=Movement.PERMUTES),
)
def depth_to_space(x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    """Blocks of channels as blocks of pixels; DCR: depth innermost, CRD: depth outermost."""
    n, c, h, w = x.shape
    b, depth = blocksize, c // blocksize**2
    if mode == "DCR":
        blocks = x.reshape(n, b, b, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(n, depth, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, depth, h * b, w * b)
