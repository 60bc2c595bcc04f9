"""The op lookup."""

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import need_dtype


def _infer(x: Type, table: Type) -> Type:
    need_dtype("lookup", x, among=("uint8", "int8"))
    need_dtype("lookup", table, among=("uint8", "int8"))
    rows = (x.dims[1],) if len(x.dims) > 1 else ()
    if table.dims not in ((256,), (*rows, 256)):
        raise ShapeError(f"lookup: expected a table of [256] or {[*rows, 256]} for {x}")
    return Type(table.dtype, x.shape)


_TABLE = ((np.arange(256) * 73 + 5) % 256).astype(np.uint8)
_TABLES = ((np.arange(19 * 256) * 91 + 7) % 253).astype(np.uint8).reshape(19, 256)


@op(
    _infer,
    case((2, 19, 7, 5), _TABLE, dtype="uint8"),
    case((2, 19, 7, 5), _TABLE.view(np.int8), dtype="uint8"),
    case((301,), _TABLE, dtype="int8"),
    case((2, 19, 7, 5), _TABLES, dtype="uint8"),
    case((3, 19), _TABLES, dtype="int8"),
    case((), _TABLE, dtype="uint8"),
)
def lookup(x: Array, table: Array) -> Array:
    """Each element's entry of a table of 256, whose first is that of the smallest number.

    table: uint8[256] or int8[256]; or [c, 256], one for each index along axis 1.
    """
    place = x.astype(np.int16) - np.iinfo(x.dtype).min
    if table.ndim == 1:
        return np.asarray(table[place])
    channels = np.arange(x.shape[1], dtype=np.intp)
    channel: NDArray[np.intp] = np.expand_dims(channels, tuple(range(1, x.ndim - 1)))
    return np.asarray(table[channel, place])
