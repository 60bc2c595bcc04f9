"""The Fourier transform of real tensors; complex tensors are pairs in a last axis of two.

They are made by RFFT2D, may be reshaped, and end in REAL, IMAG or COMPLEX_ABS.
"""

from __future__ import annotations

from palmkit.engine.converters.tflite.builder import Builder, rule
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.errors import UnsupportedError


def _pairs(b: Builder, index: int) -> str:
    if index not in b.complex:
        raise UnsupportedError(f"node {b.current}: a complex tensor from elsewhere than RFFT2D")
    return b.complex[index]


@rule("RFFT2D")
def _rfft2d(b: Builder, o: Operator) -> None:
    """Transform the last two axes, cut or zero-padded to the lengths; keep half of the last one."""
    height, width = b.numbers(o.inputs[1])
    rank = b.rank(o.inputs[0])
    x = b.emit("unsqueeze", b.value(o.inputs[0]), b.int64(rank))
    x = b.emit("dft", x, b.scalar(width, "int64"), b.scalar(rank - 1, "int64"), onesided=1)
    y = b.emit("dft", x, b.scalar(height, "int64"), b.scalar(rank - 2, "int64"))
    b.complex[o.outputs[0]] = y


def reshaped(b: Builder, o: Operator, shape: str) -> None:
    """Write the same pairs with another shape."""
    both = b.emit("concat", shape, b.int64(2), axis=0)
    b.complex[o.outputs[0]] = b.emit("reshape", b.complex[o.inputs[0]], both)


@rule("REAL", "IMAG")
def _part(b: Builder, o: Operator) -> None:
    place = b.scalar(0 if o.op == "REAL" else 1, "int64")
    b.finish(o, b.emit("gather", _pairs(b, o.inputs[0]), place, axis=-1))


@rule("COMPLEX_ABS")
def _complex_abs(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit("reduce_l2", _pairs(b, o.inputs[0]), b.int64(-1), keepdims=0))
