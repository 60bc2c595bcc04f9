"""Conversions between real numbers and their stored forms."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tflite.builder import Builder, rule
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.errors import ModelError


@rule("QUANTIZE")
def _quantize(b: Builder, o: Operator) -> None:
    """Round to the output's grid, also from another grid."""
    value = b.value(o.inputs[0])
    if b.quantization(o.outputs[0]) is None:
        raise ModelError(f"node {b.current}: QUANTIZE to a tensor without a scale")
    b.finish(o, value)


@rule("DEQUANTIZE", "DENSIFY")
def _decode(b: Builder, o: Operator) -> None:
    """Return float16 weights, perhaps sparse ones, as float32 constants."""
    x, dtype = o.inputs[0], b.stored_dtype(o.outputs[0])
    if x in b.known and b.quantization(x) is None:
        value = b.known[x].astype(dtype, copy=False)
        value.flags.writeable = False
        b.known[o.outputs[0]] = value
    elif x in b.known and o.op == "DENSIFY":
        b.known[o.outputs[0]] = b.known[x]
    elif b.dtype(x) == dtype:
        b.finish(o, b.value(x))
    else:
        b.finish(o, b.emit("cast", b.value(x), to=dtype))


@rule("CAST")
def _cast(b: Builder, o: Operator) -> None:
    """Convert the stored numbers to another type; scales are ignored."""
    x, to = b.value(o.inputs[0], real=False), b.stored_dtype(o.outputs[0])
    b.finish_stored(o, b.emit("cast", x, to=to))


@rule("BITCAST")
def _bitcast(b: Builder, o: Operator) -> None:
    x, to = b.value(o.inputs[0], real=False), b.stored_dtype(o.outputs[0])
    b.finish_stored(o, b.emit("bit_cast", x, to=to))


@rule("FAKE_QUANT")
def _fake_quant(b: Builder, o: Operator) -> None:
    """Round x to the grid of num_bits between min and max, shifted so that zero is on it.

    Source: tensorflow/lite/kernels/internal/reference/reference_ops.h and quantization_util.cc,
    NudgeQuantizationRange and FakeQuantizeArray.
    """
    low, high = np.float32(o.option("Min", 0.0)), np.float32(o.option("Max", 0.0))
    bits = int(o.option("NumBits", 8))
    if not 2 <= bits <= 16 or not low <= 0 <= high or low == high:
        raise ModelError(f"node {b.current}: FAKE_QUANT of {bits} bits, {low}..{high}")
    least, most = int(bool(o.option("NarrowRange", False))), 2**bits - 1
    scale = np.float32((high - low) / np.float32(most - least))
    zero = np.float32(least) - low / scale
    zero_point = float(np.clip(np.floor(zero + 0.5), least, most))
    nudged_low = np.float32((least - zero_point) * scale)
    nudged_high = np.float32((most - zero_point) * scale)
    x = b.emit(
        "clip", b.value(o.inputs[0]), b.scalar(float(nudged_low)), b.scalar(float(nudged_high))
    )
    steps = b.emit("sub", x, b.scalar(float(nudged_low)))
    steps = b.emit("mul", steps, b.scalar(float(np.float32(1) / scale)))
    steps = b.emit("floor", b.emit("add", steps, b.scalar(0.5)))
    y = b.emit("mul", steps, b.scalar(float(scale)))
    b.finish(o, b.emit("add", y, b.scalar(float(nudged_low))))
