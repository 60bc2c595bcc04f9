"""The op dynamic_quantize_lstm."""

from typing import Any

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Case, Results, op
from palmkit.engine.ops.dequantize_linear import dequantize_linear
from palmkit.engine.ops.dynamic_quantize_linear import dynamic_quantize_linear
from palmkit.engine.ops.lstm import lstm, run
from palmkit.engine.ops.rules import need_dtype


def _infer(x: Type, w: Type, r: Type, *more: Type | None, **attrs: Any) -> tuple[Type, ...]:
    need_dtype("dynamic_quantize_lstm", x, among=["float32"])
    types = lstm.infer(x, w, r, *more, **attrs)
    return types if isinstance(types, tuple) else (types,)


def _rounded(x: Array) -> Array:
    """Return x rounded to 8 bits over its own range."""
    return np.asarray(dequantize_linear.reference(*dynamic_quantize_linear.reference(x)))


@op(
    _infer,
    *(Case(each.inputs, each.attrs, each.outputs) for each in lstm.cases[:7]),
    like={name: each for name, each in lstm.attributes.items() if name != "layout"},
)
def dynamic_quantize_lstm(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    initial_c: Array | None = None,
    p: Array | None = None,
    *,
    clip: float,
    direction: str,
    input_forget: int,
    **attrs: Any,
) -> Results:
    """lstm whose gates read x as a whole, and h at each step, rounded to 8 bits of their range.

    It is ONNX Runtime's operator DynamicQuantizeLSTM with its weights dequantized; see
    docs/ContribOperators.md.
    """
    return run(
        (_rounded(x), w, r, b, sequence_lens, initial_h, initial_c, p),
        _rounded,
        activations=attrs["activations"],
        alphas=attrs["activation_alpha"],
        betas=attrs["activation_beta"],
        clip=clip,
        direction=direction,
        input_forget=input_forget,
    )
