"""The two layouts of pictures, and the window attributes that depend on them."""

from __future__ import annotations

from palmkit.engine.converters.tensorflow.site import Site
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Attr

_LAST = ("NHWC", "NDHWC", "NWC")
_FIRST = ("NCHW", "NCDHW", "NCW")


def is_channels_last(n: Site) -> bool:
    """Return whether the node's data_format has the channels last, the default."""
    layout = n.text("data_format", "NHWC")
    if layout not in (*_LAST, *_FIRST):
        raise n.unsupported(f"data_format {layout}")
    return layout in _LAST


def channels_first(n: Site, value: str, rank: int = 4) -> str:
    """Return a picture of the node's layout with the channels at axis 1; it has this rank then."""
    n.building.assume_rank(value, n.dtype(), rank)
    if not is_channels_last(n):
        return value
    return n.emit("transpose", value, perm=(0, rank - 1, *range(1, rank - 1)))


def as_before(n: Site, value: str, rank: int = 4) -> str:
    """Return a picture with the channels at axis 1 in the node's layout."""
    if not is_channels_last(n):
        return value
    return n.emit("transpose", value, perm=(0, *range(2, rank), 1))


def spatial(n: Site, numbers: tuple[int, ...], what: str, rank: int = 4) -> tuple[int, ...]:
    """Return the spatial ones of a number an axis; those of batch and channels must be 1."""
    if not numbers:
        return (1,) * (rank - 2)
    if len(numbers) != rank:
        raise ModelError(f"node {n.name}: {n.op}: expected {rank} {what}, got {list(numbers)}")
    if is_channels_last(n):
        inner, others = numbers[1:-1], {numbers[0], numbers[-1]}
    else:
        inner, others = numbers[2:], {*numbers[:2]}
    if others != {1}:
        raise n.unsupported(f"{what} {list(numbers)}")
    return inner


def padding(n: Site, rank: int = 4) -> dict[str, Attr]:
    """Return the attributes that pad as the node does."""
    kind = n.text("padding", "VALID")
    if kind == "SAME":
        return {"auto_pad": "SAME_UPPER"}
    if kind == "VALID":
        return {}
    if kind != "EXPLICIT":
        raise n.unsupported(f"padding {kind}")
    amounts = n.list("explicit_paddings")
    if len(amounts) != 2 * rank:
        raise ModelError(
            f"node {n.name}: {n.op}: explicit_paddings: expected {2 * rank} numbers, "
            f"got {len(amounts)}"
        )
    first = 1 if is_channels_last(n) else 2
    pairs = [amounts[2 * axis : 2 * axis + 2] for axis in range(first, first + rank - 2)]
    return {"pads": (*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))}


def channel_vector(n: Site, value: str, rank: int) -> str:
    """Reshape one number a channel to broadcast to a picture of the node's layout."""
    if is_channels_last(n) or rank < 3:
        return value
    array = n.known_value(value)
    if array is not None:
        return n.building.constant(array.reshape(-1, *[1] * (rank - 2)), f"{value}/channels")
    return n.emit("reshape", value, n.int64(-1, *[1] * (rank - 2)))
