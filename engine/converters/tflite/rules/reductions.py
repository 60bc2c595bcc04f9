"""Operators that reduce along axes."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tflite.builder import Builder, rule
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.converters.tflite.steps import on_one_grid, rounded, steps
from palmkit.engine.ir import Attr

_REDUCTIONS = {
    "MEAN": "reduce_mean",
    "SUM": "reduce_sum",
    "REDUCE_MAX": "reduce_max",
    "REDUCE_MIN": "reduce_min",
    "REDUCE_PROD": "reduce_prod",
}


@rule(*_REDUCTIONS)
def _reduce(b: Builder, o: Operator) -> None:
    if o.op == "MEAN" and on_one_grid(b, o):
        mean = _reduced(b, o, "reduce_mean", steps(b, o.inputs[0]))
        b.finish_stored(o, rounded(b, o, mean))
        return
    b.finish(o, _reduced(b, o, _REDUCTIONS[o.op], b.value(o.inputs[0])))


def _reduced(b: Builder, o: Operator, op: str, x: str) -> str:
    """Write a reduction; without axes nothing is reduced."""
    index = o.inputs[1]
    attrs: dict[str, Attr] = {"keepdims": int(o.option("KeepDims", False))}
    if b.is_constant(index):
        axes = sorted({b.axis(axis, o.inputs[0]) for axis in b.numbers(index)})
        if not axes:
            return b.emit("identity", x)
        return b.emit(op, x, b.int64(*axes), **attrs)
    return b.emit(op, x, b.as_vector(index), noop_with_empty_axes=1, **attrs)


@rule("REDUCE_ANY", "REDUCE_ALL")
def _reduce_truth(b: Builder, o: Operator) -> None:
    x = b.emit("cast", b.value(o.inputs[0]), to="int32")
    op = "reduce_max" if o.op == "REDUCE_ANY" else "reduce_min"
    b.finish(o, b.emit("cast", _reduced(b, o, op, x), to="bool"))


@rule("ARG_MAX", "ARG_MIN")
def _arg(b: Builder, o: Operator) -> None:
    axis = b.axis(b.number(o.inputs[1]), o.inputs[0])
    y = b.emit(o.op.lower(), b.value(o.inputs[0]), axis=axis, keepdims=0)
    b.finish(o, in_declared_dtype(b, y, o))


def in_declared_dtype(b: Builder, value: str, o: Operator, output: int = 0) -> str:
    """Return an int64 value in the dtype that the operator's output has in the file."""
    dtype = b.stored_dtype(o.outputs[output])
    return value if dtype == "int64" else b.emit("cast", value, to=dtype)


@rule("CUMSUM")
def _cumsum(b: Builder, o: Operator) -> None:
    axis = b.emit("reshape", b.as_int64(o.inputs[1]), b.int64())
    y = b.emit(
        "cum_sum",
        b.value(o.inputs[0]),
        axis,
        exclusive=int(o.option("Exclusive", False)),
        reverse=int(o.option("Reverse", False)),
    )
    b.finish(o, y)


@rule("BUCKETIZE")
def _bucketize(b: Builder, o: Operator) -> None:
    """Count the boundaries, which ascend, that are not above the element."""
    x = b.emit("cast", b.value(o.inputs[0]), to="float32")
    boundaries = b.array(np.array(o.options("Boundaries"), np.float32))
    reached = b.emit("greater_or_equal", b.emit("unsqueeze", x, b.int64(-1)), boundaries)
    counts = b.emit("reduce_sum", b.emit("cast", reached, to="int32"), b.int64(-1), keepdims=0)
    b.finish(o, counts)
