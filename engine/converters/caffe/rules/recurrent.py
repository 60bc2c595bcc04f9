"""LSTM and RNN: over bottoms [steps, sequences, ...], with marks where sequences continue.

Caffe unrolls them into other layers; here the steps are a scan, whose body is one step.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from palmkit.engine.converters.caffe.graph import Copy, Draft
from palmkit.engine.converters.caffe.network import Layer
from palmkit.engine.converters.caffe.rules import rule
from palmkit.engine.ir import ANY_RANK, Array, Graph, Node, Type

_ANY = Type("float32", ANY_RANK)


class _Step:
    """The body of a scan under construction."""

    def __init__(self, constants: dict[str, Array]) -> None:
        self.nodes: list[Node] = []
        self.constants = constants

    def emit(self, op: str, *inputs: str, outputs: int = 1, **attrs: Any) -> Any:
        """Add a node; return its output's name, or all of them."""
        names = tuple(f"{op}.{len(self.nodes)}.{i}" for i in range(outputs))
        self.nodes.append(Node(op, inputs, names, attrs))
        return names[0] if outputs == 1 else names

    def graph(self, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        """Return the body; outputs that are the same value get names of their own."""
        named = [self.emit("identity", name) for name in outputs]
        return Graph(
            dict.fromkeys(inputs, _ANY),
            dict.fromkeys(named, _ANY),
            tuple(self.nodes),
            self.constants,
        )


def _blobs(extra: int) -> Callable[[Layer], int]:
    """Return how many blobs a layer has: one more where a third bottom is shared by all steps."""
    return lambda layer: (
        extra + _has_static(layer.message.recurrent_param, len(layer.bottoms), extra)
    )


def _has_static(options: Any, bottoms: int, blobs: int) -> bool:
    states = 2 if blobs == 3 else 1
    return bottoms - 2 - (states if options.expose_hidden else 0) == 1


def _sums(draft: Draft, x: str, bottoms: Sequence[str], width: int, is_static: bool) -> str:
    """Return the part of the gates that does not depend on the state: [steps, sequences, width]."""
    flat = draft.reshape(x, [Copy(0), Copy(1), -1])
    inputs = int(np.prod(draft.dims(x)[2:]))
    weight, bias = draft.blob(0, width, inputs), draft.weight(1, width)
    sums = draft.emit("add", draft.emit("matmul", flat, draft.constant(weight.T)), bias)
    if not is_static:
        return sums
    static = draft.emit("flatten", bottoms[0], axis=1)
    inputs = int(np.prod(draft.dims(bottoms[0])[1:]))
    weight = draft.blob(2, width, inputs)
    return draft.emit("add", sums, draft.emit("matmul", static, draft.constant(weight.T)))


def _states(draft: Draft, x: str, given: Sequence[str], count: int, width: int) -> list[str]:
    """Return the states at the start: bottoms [1, sequences, width], or zeros."""
    if given:
        return [draft.emit("squeeze", state, draft.int64(0)) for state in given]
    shape = draft.emit("concat", draft.shape(x, 1, 2), draft.int64(width), axis=0)
    return [draft.emit("expand", draft.constant(0), shape)] * count


def _scan(
    draft: Draft, states: Sequence[str], sums: str, marks: str, body: Graph
) -> tuple[str, list[str]]:
    """Return the rows of all steps, and the states at the end as [1, sequences, width]."""
    *last, rows = draft.emit_all(
        "scan", len(states) + 1, *states, sums, marks, body=body, num_scan_inputs=2, captures=0
    )
    return rows, [draft.emit("unsqueeze", state, draft.int64(0)) for state in last]


def _parts(draft: Draft, bottoms: Sequence[str], states: int, blobs: int) -> tuple[int, bool, int]:
    """Return the width, whether the first bottom is static, and how many bottoms are states."""
    options = draft.layer.message.recurrent_param
    is_static = _has_static(options, len(bottoms) + 2, blobs)
    given = states if options.expose_hidden else 0
    if len(bottoms) != given + is_static or not options.num_output:
        raise draft.bad(f"expected num_output and {2 + given} or {3 + given} bottoms")
    return int(options.num_output), is_static, given


@rule("LSTM", bottoms=(2, 5), blobs=_blobs(3))
def _lstm(draft: Draft, x: str, marks: str, *bottoms: str) -> list[str]:
    """Write the LSTM.

    Gates i, f, o, g of W_x x + W_h (mark * h) + b; c = mark * f * c + i * g; h = o * tanh(c).
    """
    width, is_static, given = _parts(draft, bottoms, 2, 3)
    sums = _sums(draft, x, bottoms, 4 * width, is_static)
    states = _states(draft, x, bottoms[len(bottoms) - given :], 2, width)
    step = _Step({"w": draft.blob(2 + is_static, 4 * width, width), "one": np.array([1])})
    mark = step.emit("unsqueeze", "mark", "one")
    told = step.emit("gemm", step.emit("mul", "h", mark), "w", transB=1)
    gates = step.emit("split", step.emit("add", told, "sums"), outputs=4, axis=1, num_outputs=4)
    i, f, o = (step.emit("sigmoid", gate) for gate in gates[:3])
    kept = step.emit("mul", step.emit("mul", f, mark), "c")
    c = step.emit("add", kept, step.emit("mul", i, step.emit("tanh", gates[3])))
    h = step.emit("mul", o, step.emit("tanh", c))
    body = step.graph(["h", "c", "sums", "mark"], [h, c, h])
    rows, last = _scan(draft, states, sums, marks, body)
    return [rows, *last]


@rule("RNN", bottoms=(2, 4), blobs=_blobs(5))
def _rnn(draft: Draft, x: str, marks: str, *bottoms: str) -> list[str]:
    """Write h = tanh(W_x x + W_h (mark * h) + b); the top is tanh(W_o h + b_o)."""
    width, is_static, given = _parts(draft, bottoms, 1, 5)
    sums = _sums(draft, x, bottoms, width, is_static)
    states = _states(draft, x, bottoms[len(bottoms) - given :], 1, width)
    first = 2 + is_static
    step = _Step(
        {
            "w": draft.blob(first, width, width),
            "w_o": draft.blob(first + 1, width, width),
            "b_o": draft.blob(first + 2, width),
            "one": np.array([1]),
        }
    )
    mark = step.emit("unsqueeze", "mark", "one")
    told = step.emit("gemm", step.emit("mul", "h", mark), "w", transB=1)
    h = step.emit("tanh", step.emit("add", told, "sums"))
    y = step.emit("tanh", step.emit("gemm", h, "w_o", "b_o", transB=1))
    rows, last = _scan(draft, states, sums, marks, step.graph(["h", "sums", "mark"], [h, y]))
    return [rows, *last]
