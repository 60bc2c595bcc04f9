"""Functions of one element, and functions along the last axis."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tflite.builder import Builder, fused_activation, rule
from palmkit.engine.converters.tflite.file import Operator

_UNARY = {
    "RELU": "relu",
    "LOGISTIC": "sigmoid",
    "TANH": "tanh",
    "HARD_SWISH": "hard_swish",
    "ELU": "elu",
    "EXP": "exp",
    "SQRT": "sqrt",
    "NEG": "neg",
    "ABS": "abs",
    "FLOOR": "floor",
    "CEIL": "ceil",
    "ROUND": "round",
    "SIN": "sin",
    "COS": "cos",
    "SIGN": "sign",
    "LOGICAL_NOT": "not",
}


@rule(*_UNARY)
def _unary(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit(_UNARY[o.op], b.value(o.inputs[0])))


@rule("LOG")
def _log(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit("log", _positive(b, o)))


def _positive(b: Builder, o: Operator) -> str:
    """Return x; of a quantized x, numbers not above zero become the least, as in LiteRT."""
    x = b.value(o.inputs[0])
    if b.quantization(o.inputs[0]) is None:
        return x
    return b.emit("max", x, b.scalar(float(np.finfo(np.float32).tiny)))


_CLIPS = {"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}


@rule(*_CLIPS)
def _clip(b: Builder, o: Operator) -> None:
    dtype = b.dtype(o.inputs[0])
    low, high = (b.scalar(bound, dtype) for bound in _CLIPS[o.op])
    b.finish(o, b.emit("clip", b.value(o.inputs[0]), low, high))


@rule("LEAKY_RELU")
def _leaky_relu(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit("leaky_relu", b.value(o.inputs[0]), alpha=float(o.option("Alpha", 0.0))))


@rule("GELU")
def _gelu(b: Builder, o: Operator) -> None:
    approximate = "tanh" if o.option("Approximate", False) else "none"
    b.finish(o, b.emit("gelu", b.value(o.inputs[0]), approximate=approximate))


@rule("RSQRT")
def _rsqrt(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit("reciprocal", b.emit("sqrt", _positive(b, o))))


@rule("SQUARE")
def _square(b: Builder, o: Operator) -> None:
    x = b.value(o.inputs[0])
    b.finish(o, b.emit("mul", x, x))


@rule("L2_NORMALIZATION")
def _l2_normalization(b: Builder, o: Operator) -> None:
    x = b.value(o.inputs[0])
    squares = b.emit("reduce_sum", b.emit("mul", x, x), b.int64(-1), keepdims=1)
    norm = b.emit("sqrt", b.emit("max", squares, b.scalar(1e-6)))
    b.finish(o, b.emit("div", x, norm), fused_activation(o))


@rule("SOFTMAX")
def _softmax(b: Builder, o: Operator) -> None:
    x, beta = b.value(o.inputs[0]), o.option("Beta", 1.0)
    if beta != 1:
        x = b.emit("mul", x, b.scalar(beta))
    b.finish(o, b.emit("softmax", x, axis=-1))


@rule("LOG_SOFTMAX")
def _log_softmax(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit("log_softmax", b.value(o.inputs[0]), axis=-1))
