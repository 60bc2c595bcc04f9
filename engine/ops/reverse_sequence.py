"""The op reverse_sequence."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Known, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, sequence_lens: Type, *, batch_axis: int, time_axis: int) -> Type:
    need_dtype("reverse_sequence", sequence_lens, among=("int64",))
    need_rank("reverse_sequence", x, 2)
    if {batch_axis, time_axis} != {0, 1}:
        raise ShapeError(f"reverse_sequence: expected axes 0 and 1, got {batch_axis}, {time_axis}")
    if sequence_lens.dims != (x.dims[batch_axis],):
        raise ShapeError(f"reverse_sequence: {sequence_lens} does not fit {x}")
    if isinstance(sequence_lens, Known):
        _need_lengths(sequence_lens.value, x.dims[time_axis])
    return Type(x.dtype, x.shape)


def _need_lengths(lengths: Array, steps: int) -> None:
    if lengths.size and not 0 <= lengths.min() <= lengths.max() <= steps:
        raise ShapeError(
            f"reverse_sequence: expected lengths in 0..{steps}, got {lengths.tolist()}"
        )


_LENGTHS = np.array([1, 2, 3, 4])


@op(
    _infer,
    case((4, 4), _LENGTHS),
    case((4, 5), _LENGTHS, batch_axis=0, time_axis=1),
    case((5, 4, 2), np.array([5, 3, 1, 2])),
    case((4, 4), _LENGTHS, dtype="int64"),
    traits=Traits(family=Family.MOVEMENT),
)
def reverse_sequence(
    x: Array, sequence_lens: Array, *, batch_axis: int = 1, time_axis: int = 0
) -> Array:
    """x with the first sequence_lens[i] steps of each sequence i of the batch reversed."""
    steps = x.shape[time_axis]
    _need_lengths(sequence_lens, steps)
    time: Array = np.arange(int(steps)).reshape(-1, 1)
    lengths = sequence_lens.reshape(1, -1)
    source = np.where(time < lengths, lengths - 1 - time, time)
    turned = x.swapaxes(0, 1) if time_axis else x
    y = turned[source, np.arange(turned.shape[1])]
    return y.swapaxes(0, 1) if time_axis else y
