"""The op space_to_depth."""

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import need_rank
from palmkit.engine.ops.traits import Movement, Traits


def _infer(x: Type, *, blocksize: int, mode: str) -> Type:
    need_rank("space_to_depth", x, 4, 4)
    n, c, h, w = x.dims
    if mode not in ("DCR", "CRD"):
        raise ValueError(f"unknown mode: {mode}")
    if blocksize < 1 or h % blocksize or w % blocksize:
        raise ShapeError(f"space_to_depth: blocksize {blocksize} does not divide {x}")
    return Type(x.dtype, (n, c * blocksize**2, h // blocksize, w // blocksize))


@op(
    _infer,
    case((1, 3, 4, 6), blocksize=2),
    case((2, 5, 6, 3), blocksize=3),
    case((1, 3, 4, 6), blocksize=1),
    case((2, 3, 4, 6), blocksize=2, mode="CRD"),
    traits=Traits(movement=Movement.PERMUTES),
)
def space_to_depth(x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    """Blocks of pixels as blocks of channels, the place in the block outermost; CRD: innermost."""
    n, c, h, w = x.shape
    b = blocksize
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    blocks = x.reshape(n, c, h // b, b, w // b, b).transpose(order)
    return blocks.reshape(n, c * b * b, h // b, w // b)
