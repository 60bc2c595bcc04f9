"""Checks that many type rules make; each raises ShapeError that names the op and the types."""

from collections.abc import Sequence

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import known_value


def need_dtype(op: str, *types: Type, among: Sequence[str]) -> str:
    """Return the one dtype of all `types`; raise unless it is `among` these."""
    for type in types:
        if type.dtype not in among:
            raise ShapeError(f"{op}: expected one of {', '.join(among)}, got {type}")
        if type.dtype != types[0].dtype:
            raise ShapeError(f"{op}: expected one dtype, got {types[0]} and {type}")
    return types[0].dtype


def need_rank(op: str, type: Type, least: int, most: int | None = None) -> int:
    """Return the rank of `type`, which must lie in least..most (without `most`: least or above)."""
    rank = len(type.shape)
    if rank < least or (most is not None and rank > most):
        wanted = f"{least}" if most == least else f"{least}..{'' if most is None else most}"
        raise ShapeError(f"{op}: expected rank {wanted}, got {type}")
    return rank


def need_one(what: str, type: Type) -> None:
    """Raise an error unless `type` is of one element."""
    if type.elements != 1:
        raise ShapeError(f"{what}: expected one number, got {type}")


def positive_axis(op: str, axis: int, type: Type, extra: int = 0) -> int:
    """Return the axis counted from the front; `extra` axes may lie past the rank."""
    rank = len(type.shape) + extra
    if not -rank <= axis < rank:
        raise ShapeError(f"{op}: axis {axis} is outside of {type}")
    return axis % rank if rank else 0


def positive_axes(op: str, axes: Sequence[int], type: Type, extra: int = 0) -> tuple[int, ...]:
    """Return the axes counted from the front; each may occur once."""
    found = tuple(positive_axis(op, int(axis), type, extra) for axis in axes)
    if len(set(found)) != len(found):
        raise ShapeError(f"{op}: an axis of {type} is named twice: {tuple(map(int, axes))}")
    return found


def broadcast(op: str, *types: Type) -> tuple[int, ...]:
    """Return the shape that all broadcast to, as in numpy."""
    # numpy also refuses sizes that no memory holds, with the same error.
    given = [type.dims for type in types]
    if given.count(given[0]) == len(given):
        return given[0]
    rank = max(map(len, given))
    shapes = [(1,) * (rank - len(dims)) + dims for dims in given]
    dims: list[int] = []
    for sizes in zip(*shapes, strict=True):
        wide = {*sizes} - {1}
        if len(wide) > 1:
            raise ShapeError(f"{op}: cannot broadcast {' with '.join(map(str, types))}")
        dims.append(wide.pop() if wide else 1)
    return tuple(dims)


def need_broadcast_to(op: str, small: Type, big: Type) -> None:
    """Raise an error unless `small` broadcasts to exactly the shape of `big`."""
    if broadcast(op, small, big) != big.dims:
        raise ShapeError(f"{op}: cannot broadcast {small} to {big}")


def known_integers(type: Type, what: str) -> Array:
    """Return the value of an input that holds dims, axes or places.

    what: the op and the input, for messages.
    Raises Undetermined if only a run gives the value.
    """
    need_dtype(what, type, among=("int32", "int64"))
    need_rank(what, type, 0, 1)
    return known_value(type, what)


def known_number(type: Type, what: str) -> Array:
    """Return the value of an input that is one number.

    Raises Undetermined if only a run gives it.
    """
    need_one(what, type)
    return known_value(type, what)
