"""Gradients of quantizing and dequantizing: straight through.

Bengio, Leonard and Courville, Estimating or Propagating Gradients Through Stochastic Neurons for
Conditional Computation, 2013. Values beyond the levels at either end get no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array, Node
from palmkit.engine.train.gradients import Backward, Rule


def _quantize(tape: Backward, node: Node, dy: str) -> Sequence[str | None]:
    x, (scale, zero) = node.inputs[0], _levels(tape, node)
    bounds = np.iinfo(tape.type(node.outputs[0]).dtype)
    low, high = ((np.float64(end) - zero) * scale for end in (bounds.min, bounds.max))
    kind = tape.type(x).dtype
    below = tape.add("less", x, tape.constant(low.astype(kind)))
    above = tape.add("greater", x, tape.constant(high.astype(kind)))
    slope = tape.add("div", dy, tape.constant(scale.astype(kind)))
    outside = tape.add("or", below, above)
    return [tape.add("where", outside, tape.number(0.0, slope), slope), None, None]


def _dequantize(tape: Backward, node: Node, dy: str) -> Sequence[str | None]:
    scale, _ = _levels(tape, node)
    return [tape.add("mul", dy, tape.constant(scale.astype(tape.type(dy).dtype))), None, None]


def _levels(tape: Backward, node: Node) -> tuple[Array, Array]:
    """Return float64 scale and zero point, in a shape that broadcasts with the node's values.

    Raises UnsupportedError if they are not constants, or belong to blocks.
    """
    given = [tape.value(name) for name in node.inputs[1:]]
    if any(value is None for value in given) or node.integer("block_size"):
        raise UnsupportedError(
            f"node {node.label}: no gradient of {node.op} but with constant "
            "scales, one or one a channel"
        )
    found = [np.asarray(value, np.float64) for value in given]
    scale, zero = found[0], found[1] if len(found) > 1 else np.zeros_like(found[0])
    if not scale.ndim:
        return scale, zero
    rank = len(tape.dims(node.inputs[0]))
    axis = node.integer("axis") % rank
    shape = [1] * rank
    shape[axis] = scale.size
    return scale.reshape(shape), zero.reshape(shape)


RULES: dict[str, Rule] = {"dequantize_linear": _dequantize, "quantize_linear": _quantize}
