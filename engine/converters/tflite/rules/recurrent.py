"""Recurrent cells, for one step or a sequence.

Cells of integers round wherever LiteRT does: gates and states are integers, too.

A plain cell becomes the op lstm, any other a scan whose body is the cell's formulas. A state that
the file keeps in a variable tensor is zero at the start of every run.

Source: tensorflow/lite/kernels/{lstm_eval,unidirectional_sequence_lstm,rnn,svdf}.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from palmkit.engine.converters.tflite.builder import Builder, fused_activation, rule
from palmkit.engine.converters.tflite.file import Operator, Quantization
from palmkit.engine.converters.tflite.writer import Writer, activate
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import UNKNOWN, Array, Attr, Graph, Type

_TANH = 4
_LAYER_NORM_EPSILON = 1e-8
_MOST_UNROLLED = 32
_GATES = ("input", "forget", "cell", "output")
# Scales of the int16 values in cells of integers: of the gates' sums, and of activations up to 1.
_GATE_STEP, _UNIT_STEP = 2.0**-12, 2.0**-15
# Scale of the sums once they are normalised.
_NORMALISED_STEP = 2.0**-10

Step = Callable[[Writer, list[str], str, dict[str, str]], tuple[list[str], str]]


def _time_major(b: Builder, o: Operator, index: int) -> str:
    x = b.value(index)
    return x if o.option("TimeMajor", False) else b.emit("transpose", x, perm=(1, 0, 2))


def _batch(b: Builder, o: Operator, index: int) -> str:
    """Return the batch's size, int64[1]."""
    dims = b.dims(b.value(index), b.rank(index))
    return dims[1 if len(dims) == 3 and o.option("TimeMajor", False) else 0]


def _state(b: Builder, o: Operator, place: int, batch: str, size: int) -> str:
    """Return the start value of a state: what the file gives, or zeros."""
    index = o.inputs[place] if o.has_input(place) else -1
    if index >= 0 and b.has_value(index):
        return b.value(index)
    return b.full(0, b.emit("concat", batch, b.int64(size), axis=0), "float32")


def _scan(
    b: Builder,
    step: Step,
    states: Sequence[str],
    x: str,
    weights: dict[str, str],
    backward: bool = False,
) -> str:
    """Return all rows that `step` gives for x[time, batch, depth]; it gets the weights by name."""
    inner = Writer()
    inner.current = b.current
    outer = [*states, x, *weights.values()]
    labels = [f"state_{i}" for i in range(len(states))] + ["x", *weights]
    types: dict[str, Type] = {}
    for label, value in zip(labels, outer, strict=True):
        type = b.types.get(value, UNKNOWN)
        if label == "x" and type.has_rank:
            type = Type(type.dtype, type.shape[1:])
        types[inner.names.fresh(label)] = Type(type.dtype, type.shape)
    inner.types.update(types)
    after, row = step(inner, labels[: len(states)], "x", {name: name for name in weights})
    row = inner.emit("identity", row)
    outputs = {name: inner.types.get(name, UNKNOWN) for name in (*after, row)}
    outputs = {name: Type(type.dtype, type.shape) for name, type in outputs.items()}
    body = Graph(types, outputs, tuple(inner.nodes), inner.used_constants(outputs))
    direction = (int(backward),)
    results = b.emit_many(
        "scan",
        len(states) + 1,
        *outer,
        body=body,
        num_scan_inputs=1,
        captures=len(weights),
        scan_input_directions=direction,
        scan_output_directions=direction,
    )
    return results[-1]


def _unrolled(
    b: Builder,
    step: Step,
    states: Sequence[str],
    x: str,
    weights: dict[str, str],
    backward: bool = False,
) -> str:
    """Do what `_scan` does in nodes for each row, which backends run without calling Python."""
    count = b.types[x].dims[0]
    rows: dict[int, str] = {}
    now = list(states)
    for place in reversed(range(count)) if backward else range(count):
        row = b.emit("gather", x, b.int64_array(np.array(place)), axis=0)
        now, y = step(b, now, row, weights)
        rows[place] = b.emit("unsqueeze", y, b.int64(0))
    return b.emit("concat", *(rows[place] for place in range(count)), axis=0)


def _product(w: Writer, x: str, weight: str, *more: str) -> str:
    y = w.emit("matmul", x, weight)
    for each in more:
        y = w.emit("add", y, each)
    return y


@dataclass(frozen=True)
class _CellLevels:
    """The quantization of a cell of integers.

    gates: levels of each existing gate's sums, before they are normalised if they are.
    hidden: levels of the output before the projection. output: levels of the state of the output;
    without a projection it has the integers of `hidden`, and the output sequence has those of the
    state, whatever scales these have.
    """

    gates: dict[str, float]
    hidden: Quantization
    output: Quantization
    cell: Quantization


def _rounded(w: Writer, x: str, scale: float, zero: int = 0, dtype: str = "int16") -> str:
    """Return x rounded as integers of this scale would be."""
    levels = w.scalar(scale), w.scalar(zero, dtype)
    return w.emit("dequantize_linear", w.emit("quantize_linear", x, *levels), *levels)


def _rounded_as(w: Writer, x: str, levels: Quantization, read: Quantization | None = None) -> str:
    """Return x rounded to levels, read as integers of the other levels."""
    into, out = (
        (w.scalar(float(q.scale)), w.scalar(int(q.zero_point), q.zero_point.dtype.name))
        for q in (levels, read or levels)
    )
    return w.emit("dequantize_linear", w.emit("quantize_linear", x, *into), *out)


def _cell_levels(b: Builder, o: Operator, first: int) -> _CellLevels | None:
    """Return the levels of a cell of integers; None if activations are floats."""
    states = (o.inputs[18:20] + (-1, -1))[:2]
    output, cell = (b.quantization(index) for index in states)
    if output is None or cell is None or b.quantization(o.inputs[0]) is None:
        return None
    if b.quantization(o.inputs[first + 1]) is None or cell.zero_point.dtype != np.int16:
        return None
    between = [b.quantization(index) for index in o.intermediates]
    between += [None] * (5 - len(between))
    normalised = o.has_input(21)
    gates = {
        name: float(each.scale) if normalised and each is not None else _GATE_STEP
        for name, each in zip(_GATES, between, strict=False)
        if name != "input" or o.has_input(first)
    }
    hidden = between[4]
    return _CellLevels(gates, output if hidden is None else hidden, output, cell)


@dataclass(frozen=True)
class _Cell:
    """The places of an LSTM cell's inputs, and its options."""

    first: int
    normalization: int
    activation: int
    cell_clip: float
    projection_clip: float
    levels: _CellLevels | None = None

    def weights(self, b: Builder, o: Operator) -> dict[str, str]:
        """Return the existing weights by gate and kind; matrices are transposed."""
        found: dict[str, str] = {}

        def add(name: str, place: int, matrix: bool = False) -> None:
            if o.has_input(place):
                index = o.inputs[place]
                found[name] = b.as_transposed(index, (1, 0)) if matrix else b.value(index)

        for i, gate in enumerate(_GATES):
            add(f"{gate}_x", self.first + i, matrix=True)
            add(f"{gate}_h", self.first + 4 + i, matrix=True)
            place = self.first + 11 + i
            scale = self._bias_scale(b, o, i) if o.has_input(place) else None
            if scale is not None:
                found[f"{gate}_bias"] = b.dequantized(o.inputs[place], scale)
            else:
                add(f"{gate}_bias", place)
            if self.normalization:
                add(f"{gate}_norm", self.normalization + i)
        for i, gate in enumerate(("input", "forget", "output")):
            add(f"{gate}_peephole", self.first + 8 + i)
        add("projection", self.first + 15, matrix=True)
        add("projection_bias", self.first + 16)
        return found

    def _bias_scale(self, b: Builder, o: Operator, gate: int) -> Array | None:
        """Return the scale of a gate's bias in a cell of integers, that of the sums it joins.

        The scale that the file states does not count.
        """
        if self.levels is None:
            return None
        if o.has_input(self.normalization + gate):
            weights = b.quantization(o.inputs[self.normalization + gate])
            return None if weights is None else weights.scale * np.float32(_NORMALISED_STEP)
        x, matrix = b.quantization(o.inputs[0]), b.quantization(o.inputs[self.first + gate])
        return None if x is None or matrix is None else x.scale * matrix.scale

    def is_plain(self, weights: dict[str, str]) -> bool:
        """Return whether the op lstm means just this cell."""
        return (
            self.activation == _TANH
            and self.levels is None
            and self.cell_clip == 0
            and "input_x" in weights
            and all(f"{gate}_bias" in weights for gate in _GATES)
            and not any(name == "projection" or name.endswith("_norm") for name in weights)
        )

    def step(
        self, w: Writer, states: list[str], x: str, weights: dict[str, str]
    ) -> tuple[list[str], str]:
        """Write one step: the next output and cell state, and the output again."""
        if self.levels is not None:
            return self._integer_step(w, self.levels, states, x, weights)
        h, c = states

        def gate(name: str, cell: str) -> str:
            y = w.emit("add", w.emit("matmul", x, weights[f"{name}_x"]),
                       w.emit("matmul", h, weights[f"{name}_h"]))  # fmt: skip
            if f"{name}_peephole" in weights:
                y = w.emit("add", y, w.emit("mul", cell, weights[f"{name}_peephole"]))
            if f"{name}_norm" in weights:
                y = w.emit("mul", _normalized(w, y), weights[f"{name}_norm"])
            if f"{name}_bias" in weights:
                y = w.emit("add", y, weights[f"{name}_bias"])
            return activate(w, y, self.activation) if name == "cell" else w.emit("sigmoid", y)

        forget = gate("forget", c)
        enter = gate("input", c) if "input_x" in weights else w.emit("sub", w.scalar(1), forget)
        cell = w.emit("add", w.emit("mul", forget, c), w.emit("mul", enter, gate("cell", c)))
        if self.cell_clip > 0:
            cell = _clipped(w, cell, self.cell_clip)
        y = w.emit("mul", gate("output", cell), activate(w, cell, self.activation))
        if "projection" in weights:
            y = w.emit("matmul", y, weights["projection"])
            if "projection_bias" in weights:
                y = w.emit("add", y, weights["projection_bias"])
            if self.projection_clip > 0:
                y = _clipped(w, y, self.projection_clip)
        return [y, cell], y

    def entered(
        self, b: Builder, levels: _CellLevels, x: str, weights: dict[str, str]
    ) -> tuple[str, dict[str, str]]:
        """Return what x adds to the gates of an integer cell, side by side, and other weights."""
        parts: list[str] = []
        for name, step in levels.gates.items():
            y = b.emit("matmul", x, weights[f"{name}_x"])
            if f"{name}_bias" in weights and f"{name}_norm" not in weights:
                y = b.emit("add", y, weights[f"{name}_bias"])
            parts.append(_rounded(b, y, step))
        matrices = [weights[f"{name}_h"] for name in levels.gates]
        entered = {f"{name}_{kind}" for name in levels.gates for kind in ("x", "h", "bias")}
        late = {f"{name}_bias" for name in levels.gates if f"{name}_norm" in weights}
        left = {name: value for name, value in weights.items() if name not in entered - late}
        left["all_h"] = b.emit("concat", *matrices, axis=-1)
        return b.emit("concat", *parts, axis=-1), left

    def _integer_step(
        self, w: Writer, levels: _CellLevels, states: list[str], x: str, weights: dict[str, str]
    ) -> tuple[list[str], str]:
        """Write a step rounded after each operation.

        x: one row of what `entered` gives.
        Source: tensorflow/lite/kernels/lstm_eval.cc, LstmStepInteger8x8_16.
        """
        h, c = states
        joined = w.emit("add", x, w.emit("matmul", h, weights["all_h"]))
        attrs: dict[str, Attr] = {"axis": -1, "num_outputs": len(levels.gates)}
        parts = w.emit_many("split", len(levels.gates), joined, **attrs)
        sums = dict(zip(levels.gates, parts, strict=True))

        def gate(name: str, cell: str) -> str:
            step = levels.gates[name]
            y = _rounded(w, sums[name], step)
            if f"{name}_peephole" in weights:
                y = w.emit("add", y, w.emit("mul", cell, weights[f"{name}_peephole"]))
                y = _rounded(w, y, step)
            if f"{name}_norm" in weights:
                y = w.emit("mul", _normalized(w, y), weights[f"{name}_norm"])
                y = _rounded(w, w.emit("add", y, weights[f"{name}_bias"]), _GATE_STEP)
            bent = w.emit("tanh" if name == "cell" else "sigmoid", y)
            return _rounded(w, bent, _UNIT_STEP)

        forget = gate("forget", c)
        whole = w.scalar(1 - _UNIT_STEP)
        enter = gate("input", c) if "input" in sums else w.emit("sub", whole, forget)
        kept = _rounded_as(w, w.emit("mul", forget, c), levels.cell)
        new = _rounded_as(w, w.emit("mul", enter, gate("cell", c)), levels.cell)
        cell = _rounded_as(w, w.emit("add", kept, new), levels.cell)
        if self.cell_clip > 0:
            cell = _clipped_levels(w, cell, self.cell_clip, levels.cell)
        bent = _rounded(w, w.emit("tanh", cell), _UNIT_STEP)
        y = w.emit("mul", gate("output", cell), bent)
        if "projection" not in weights:
            y = _rounded_as(w, y, levels.hidden, levels.output)
        else:
            y = w.emit("matmul", _rounded_as(w, y, levels.hidden), weights["projection"])
            if "projection_bias" in weights:
                y = w.emit("add", y, weights["projection_bias"])
            y = _rounded_as(w, y, levels.output)
            if self.projection_clip > 0:
                y = _clipped_levels(w, y, self.projection_clip, levels.output)
        return [y, cell], y


def _clipped(w: Writer, x: str, bound: float) -> str:
    return w.emit("clip", x, w.scalar(-bound), w.scalar(bound))


def _clipped_levels(w: Writer, x: str, bound: float, levels: Quantization) -> str:
    """Clip as LiteRT does: the integers, whatever their zero point."""
    most = min(int(bound / float(levels.scale)), int(np.iinfo(levels.zero_point.dtype).max))
    low, high = (
        float((np.float64(each) - float(levels.zero_point)) * float(levels.scale))
        for each in (-most, most)
    )
    return w.emit("clip", x, w.scalar(low), w.scalar(high))


def _normalized(w: Writer, x: str) -> str:
    """Normalise to zero mean and unit variance along the last axis."""
    axis = w.int64(-1)
    centred = w.emit("sub", x, w.emit("reduce_mean", x, axis, keepdims=1))
    variance = w.emit("reduce_mean", w.emit("mul", centred, centred), axis, keepdims=1)
    deviation = w.emit("sqrt", w.emit("add", variance, w.scalar(_LAYER_NORM_EPSILON)))
    return w.emit("div", centred, deviation)


def _cell(b: Builder, o: Operator, first: int, normalization: int) -> _Cell:
    return _Cell(
        first,
        normalization,
        fused_activation(o),
        float(o.option("CellClip", 0.0)),
        float(o.option("ProjClip", 0.0)),
        _cell_levels(b, o, first) if normalization else None,
    )


def _sizes(b: Builder, o: Operator, cell: _Cell) -> tuple[int, int]:
    """Return the length of the output, and of the cell state."""
    cells, outputs = b.static_shape(o.inputs[cell.first + 5])
    return outputs, cells


def _lstm(
    b: Builder,
    o: Operator,
    cell: _Cell,
    x: str,
    states: tuple[str, str],
    weights: dict[str, str],
    backward: bool = False,
) -> str:
    """Return all outputs of the cell over x[time, batch, depth]."""
    if not cell.is_plain(weights):
        if cell.levels is not None:
            x, weights = cell.entered(b, cell.levels, x, weights)
            type = b.types.get(x)
            if type is not None and type.is_static and 0 < type.dims[0] <= _MOST_UNROLLED:
                return _unrolled(b, cell.step, states, x, weights, backward)
        return _scan(b, cell.step, states, x, weights, backward)
    order = ("input", "output", "forget", "cell")
    first = b.int64(0)

    def stacked(kind: str, gates: Sequence[str]) -> str:
        return b.emit("concat", *(weights[f"{gate}_{kind}"] for gate in gates), axis=-1)

    def matrix(kind: str) -> str:
        joined = b.emit("transpose", stacked(kind, order), perm=(1, 0))
        return b.emit("unsqueeze", joined, first)

    bias = stacked("bias", order)
    bias = b.emit("concat", bias, b.emit("sub", bias, bias), axis=0)
    peepholes = ("input", "output", "forget")
    peephole = ""
    if all(f"{gate}_peephole" in weights for gate in peepholes):
        peephole = b.emit("unsqueeze", stacked("peephole", peepholes), first)
    y = b.emit(
        "lstm",
        x,
        matrix("x"),
        matrix("h"),
        b.emit("unsqueeze", bias, first),
        "",
        *(b.emit("unsqueeze", state, first) for state in states),
        peephole,
        hidden_size=_sizes(b, o, cell)[1],
        direction="reverse" if backward else "forward",
    )
    return b.emit("squeeze", y, b.int64(1))


def _finish_sequence(
    b: Builder, o: Operator, y: str, output: int = 0, cell: _Cell | None = None
) -> None:
    if not o.option("TimeMajor", False):
        y = b.emit("transpose", y, perm=(1, 0, 2))
    levels = None if cell is None or cell.levels is None else cell.levels.output
    b.finish(o, y, output=output, levels=levels)


@rule("UNIDIRECTIONAL_SEQUENCE_LSTM")
def _sequence_lstm(b: Builder, o: Operator) -> None:
    cell = _cell(b, o, 1, 20)
    outputs, cells = _sizes(b, o, cell)
    batch = _batch(b, o, o.inputs[0])
    states = (_state(b, o, 18, batch, outputs), _state(b, o, 19, batch, cells))
    x = _time_major(b, o, o.inputs[0])
    y = _lstm(b, o, cell, x, states, cell.weights(b, o))
    _finish_sequence(b, o, y, cell=cell)


@rule("BIDIRECTIONAL_SEQUENCE_LSTM")
def _both_ways_lstm(b: Builder, o: Operator) -> None:
    _refuse_auxiliary(b, o, 39)
    batch, x = _batch(b, o, o.inputs[0]), _time_major(b, o, o.inputs[0])
    results: list[str] = []
    for first, backward in ((1, False), (18, True)):
        cell = _cell(b, o, first, 0)
        outputs, cells = _sizes(b, o, cell)
        place = 37 if backward else 35
        states = (_state(b, o, place, batch, outputs), _state(b, o, place + 1, batch, cells))
        results.append(_lstm(b, o, cell, x, states, cell.weights(b, o), backward))
    _finish_both(b, o, results)


def _refuse_auxiliary(b: Builder, o: Operator, place: int) -> None:
    if o.has_input(place):
        raise UnsupportedError(f"node {b.current}: {o.op} with an auxiliary input")


def _finish_both(b: Builder, o: Operator, results: list[str]) -> None:
    if o.option("MergeOutputs", False):
        _finish_sequence(b, o, b.emit("concat", *results, axis=-1))
    else:
        _finish_sequence(b, o, results[0])
        _finish_sequence(b, o, results[1], 1)


@rule("LSTM")
def _one_lstm_step(b: Builder, o: Operator) -> None:
    """Write one step; the older kind has one matrix for all gates and returns its state."""
    batch = _batch(b, o, o.inputs[0])
    if o.option("KernelType", 0) == 1:
        _basic_lstm_step(b, o)
        return
    cell = _cell(b, o, 1, 20)
    outputs, cells = _sizes(b, o, cell)
    states = [_state(b, o, 18, batch, outputs), _state(b, o, 19, batch, cells)]
    x, weights = b.value(o.inputs[0]), cell.weights(b, o)
    if cell.levels is not None:
        x, weights = cell.entered(b, cell.levels, x, weights)
    _, y = cell.step(b, states, x, weights)
    b.finish(o, y, levels=None if cell.levels is None else cell.levels.output)


def _basic_lstm_step(b: Builder, o: Operator) -> None:
    x, h, weight, bias, c = (b.value(index) for index in o.inputs[:5])
    joined = b.emit("concat", x, h, axis=-1)
    gates = b.emit("gemm", joined, weight, bias, transB=1)
    attrs: dict[str, Attr] = {"axis": -1, "num_outputs": 4}
    enter, new, forget, leave = b.emit_many("split", 4, gates, **attrs)
    kept = b.emit("mul", b.emit("sigmoid", forget), c)
    cell = b.emit("add", kept, b.emit("mul", b.emit("sigmoid", enter), b.emit("tanh", new)))
    y = b.emit("mul", b.emit("sigmoid", leave), b.emit("tanh", cell))
    for place, value in enumerate((y, cell, joined, gates)[: len(o.outputs)]):
        b.finish(o, b.emit("identity", value), output=place)


def _rnn_weights(b: Builder, o: Operator, first: int) -> dict[str, str]:
    return {
        "weight_x": b.as_transposed(o.inputs[first], (1, 0)),
        "weight_h": b.as_transposed(o.inputs[first + 1], (1, 0)),
        "bias": b.value(o.inputs[first + 2]),
    }


def _rnn_step(activation: int) -> Step:
    def step(
        w: Writer, states: list[str], x: str, weights: dict[str, str]
    ) -> tuple[list[str], str]:
        recurrent = w.emit("matmul", states[0], weights["weight_h"])
        y = _product(w, x, weights["weight_x"], recurrent, weights["bias"])
        y = w.emit("identity", activate(w, y, activation))
        return [y], y

    return step


@rule("RNN")
def _rnn(b: Builder, o: Operator) -> None:
    units = b.static_shape(o.inputs[1])[0]
    state = _state(b, o, 4, _batch(b, o, o.inputs[0]), units)
    step = _rnn_step(fused_activation(o))
    _, y = step(b, [state], b.value(o.inputs[0]), _rnn_weights(b, o, 1))
    b.finish(o, y)


@rule("UNIDIRECTIONAL_SEQUENCE_RNN")
def _sequence_rnn(b: Builder, o: Operator) -> None:
    _finish_sequence(b, o, _rnn_sequence(b, o, 1, backward=False))


def _rnn_sequence(b: Builder, o: Operator, first: int, backward: bool) -> str:
    units = b.static_shape(o.inputs[first])[0]
    state = _state(b, o, first + 3, _batch(b, o, o.inputs[0]), units)
    step, x = _rnn_step(fused_activation(o)), _time_major(b, o, o.inputs[0])
    return _scan(b, step, [state], x, _rnn_weights(b, o, first), backward)


@rule("BIDIRECTIONAL_SEQUENCE_RNN")
def _both_ways_rnn(b: Builder, o: Operator) -> None:
    _refuse_auxiliary(b, o, 9)
    forward = _rnn_sequence(b, o, 1, backward=False)
    _finish_both(b, o, [forward, _rnn_sequence(b, o, 5, backward=True)])


@rule("SVDF")
def _svdf(b: Builder, o: Operator) -> None:
    """Filter over depth, then over time; the state holds the last steps.

    For integers the state is rounded, and the bias has the steps of the sums.
    """
    filters, memory = b.static_shape(o.inputs[2])
    rank = max(1, int(o.option("Rank", 1)))
    batch = _batch(b, o, o.inputs[0])
    state = _state(b, o, 4, batch, filters * memory)
    dims = b.emit("concat", batch, b.int64(filters, memory), axis=0)
    state = b.emit("reshape", state, dims)
    kept = b.emit("slice", state, b.int64(1), b.int64(memory), b.int64(2))
    new = b.emit("matmul", b.value(o.inputs[0]), b.as_transposed(o.inputs[1], (1, 0)))
    kept_as, over_time = b.quantization(o.inputs[4]), b.quantization(o.inputs[2])
    if kept_as is not None:
        new = _rounded_as(b, new, kept_as)
    steps = b.emit("concat", kept, b.emit("unsqueeze", new, b.int64(2)), axis=2)
    weighted = b.emit("mul", steps, b.value(o.inputs[2]))
    y = b.emit("reduce_sum", weighted, b.int64(2), keepdims=0)
    split = b.emit("concat", batch, b.int64(filters // rank, rank), axis=0)
    y = b.emit("reduce_sum", b.emit("reshape", y, split), b.int64(2), keepdims=0)
    if o.has_input(3):
        bias = o.inputs[3]
        if kept_as is not None and over_time is not None:
            y = b.emit("add", y, b.dequantized(bias, kept_as.scale * over_time.scale))
        else:
            y = b.emit("add", y, b.value(bias))
    # For integers LiteRT applies no activation: the output's range bounds them.
    b.finish(o, y, fused_activation(o) if kept_as is None else 0)
