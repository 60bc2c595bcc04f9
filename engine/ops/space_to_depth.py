"""space_to_depth."""

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import need_rank


def _infer(x: Type, *, blocksize: int) -> Type:
    need_rank("space_to_depth", x, 4, 4)
    n, c, h, w = x.dims
    if blocksize < 1 or h % blocksize or w % blocksize:
        raise ShapeError(f"space_to_depth: blocksize {blocksize} does not divide {x}")
    return Type(x.dtype, (n, c * blocksize**2, h // blocksize, w // blocksize))


@op(
    _infer,
    case((1, 3, 4, 6), blocksize=2),
    case((2, 5, 6, 3), blocksize=3),
    case((1, 3, 4, 6), blocksize=1),
)
def space_to_depth(x: Array, *, blocksize: int) -> Array:
    """Blocks of pixels become blocks of channels, the place in the block outermost."""
    n, c, h, w = x.shape
    b = blocksize
    blocks = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return blocks.reshape(n, c * b * b, h // b, w // b)
