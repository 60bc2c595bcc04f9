"""Operators on shapes, and those that make tensors of a given shape."""

from __future__ import annotations

from palmkit.engine.converters.tflite.builder import Builder, rule
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.converters.tflite.rules.reductions import in_declared_dtype
from palmkit.engine.converters.tflite.rules.spectra import reshaped
from palmkit.engine.ir import Attr


@rule("SHAPE")
def _shape(b: Builder, o: Operator) -> None:
    shape = b.emit("shape", b.value(o.inputs[0], real=False))
    b.finish(o, in_declared_dtype(b, shape, o))


@rule("RANK")
def _rank(b: Builder, o: Operator) -> None:
    rank = b.emit("size", b.emit("shape", b.value(o.inputs[0], real=False)))
    b.finish(o, in_declared_dtype(b, rank, o))


@rule("RESHAPE")
def _reshape(b: Builder, o: Operator) -> None:
    """Write a reshape, whose shape is an input or an option."""
    if o.has_input(1):
        dims = b.numbers(o.inputs[1]) if b.is_constant(o.inputs[1]) else ()
        shape = b.as_vector(o.inputs[1])
    else:
        dims = o.options("NewShape")
        shape = b.int64(*dims)
    if o.inputs[0] in b.complex:
        reshaped(b, o, shape)
        return
    attrs: dict[str, Attr] = {"allowzero": 1} if 0 in dims else {}
    b.finish(o, b.emit("reshape", b.value(o.inputs[0]), shape, **attrs))


@rule("SQUEEZE")
def _squeeze(b: Builder, o: Operator) -> None:
    axes = o.options("SqueezeDims")
    b.finish(o, b.emit("squeeze", b.value(o.inputs[0]), *([b.int64(*axes)] if axes else [])))


@rule("EXPAND_DIMS")
def _expand_dims(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit("unsqueeze", b.value(o.inputs[0]), b.int64(*b.numbers(o.inputs[1]))))


@rule("BROADCAST_TO")
def _broadcast_to(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit("expand", b.value(o.inputs[0]), b.as_int64(o.inputs[1])))


@rule("BROADCAST_ARGS")
def _broadcast_args(b: Builder, o: Operator) -> None:
    """Write the shape that two shapes broadcast to."""
    first, second = (b.full(0, b.as_int64(index), "bool") for index in o.inputs)
    b.finish(o, in_declared_dtype(b, b.emit("shape", b.emit("or", first, second)), o))


@rule("FILL")
def _fill(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit("expand", b.value(o.inputs[1]), b.as_int64(o.inputs[0])))


@rule("ZEROS_LIKE")
def _zeros_like(b: Builder, o: Operator) -> None:
    shape = b.emit("shape", b.value(o.inputs[0], real=False))
    b.finish(o, b.full(0, shape, b.dtype(o.outputs[0])))


@rule("RANGE")
def _range(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit("range", *(b.value(index) for index in o.inputs)))
