"""TensorFlow's recurrent blocks: cells written out, whole sequences as lstm and scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from palmkit.engine.converters.tensorflow.building import Building
from palmkit.engine.converters.tensorflow.site import Site, rule
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import ANY_RANK, Attr, Type


@rule("LSTMBlockCell")
def _lstm_cell(n: Site) -> None:
    """Write a cell: x, cs_prev, h_prev, w, wci, wcf, wco, b -> i, cs, f, o, ci, co, h."""
    _need_inputs(n, 8)
    x, cell, hidden, weight, *peepholes, bias = n.values()
    constants = _Constants.of(n)
    n.finish(*_cell(n.building, n.name, constants, x, cell, hidden, weight, peepholes, bias))


def _need_inputs(n: Site, count: int) -> None:
    if n.count != count:
        raise ModelError(f"node {n.name}: {n.op}: expected {count} inputs, got {n.count}")


def _forget_bias(n: Site) -> float:
    return 0.0 if n.op.endswith("V2") else n.real("forget_bias", 1.0)


def _clip(n: Site) -> float:
    return n.real("cell_clip", 0.0 if n.op.endswith("V2") else 3.0)


@dataclass(frozen=True)
class _Constants:
    """The options of a cell; names of constants, "" where there are none."""

    forget_bias: str
    low: str
    high: str
    has_peepholes: bool
    forget_is_third: bool

    @staticmethod
    def of(n: Site) -> _Constants:
        """Return the options of a node."""
        bias, clip, dtype = _forget_bias(n), _clip(n), n.dtype()
        return _Constants(
            n.constant(bias, dtype) if bias else "",
            n.constant(-clip, dtype) if clip > 0 else "",
            n.constant(clip, dtype) if clip > 0 else "",
            n.flag("use_peephole"),
            not n.op.endswith("V2"),
        )

    def names(self) -> list[str]:
        """Return the names of the constants that exist."""
        return [name for name in (self.forget_bias, self.low, self.high) if name]

    def renamed(self, names: Sequence[str]) -> _Constants:
        """Return the same options with other names for the constants."""
        left = iter(names)
        new = [next(left) if old else "" for old in (self.forget_bias, self.low, self.high)]
        return replace(self, forget_bias=new[0], low=new[1], high=new[2])


def _cell(
    building: Building,
    label: str,
    constants: _Constants,
    x: str,
    cell: str,
    hidden: str,
    weight: str,
    peepholes: Sequence[str],
    bias: str,
) -> tuple[str, ...]:
    """Write one step, after tensorflow/core/kernels/rnn/lstm_ops.h: i, cs, f, o, ci, co, h.

    The gates lie in the order i, c, f, o; in V2 in the order i, f, c, o.
    """

    def emit(op: str, *inputs: str, **attrs: Attr) -> str:
        return building.emit(op, inputs, attrs, label)[0]

    gates = emit("add", emit("matmul", emit("concat", x, hidden, axis=1), weight), bias)
    halves: dict[str, Attr] = {"axis": 1, "num_outputs": 4}
    parts = building.emit("split", [gates, ""], halves, label, 4)
    i, c, f, o = parts if constants.forget_is_third else [parts[k] for k in (0, 2, 1, 3)]
    if constants.forget_bias:
        f = emit("add", f, constants.forget_bias)
    if constants.has_peepholes:
        i = emit("add", i, emit("mul", cell, peepholes[0]))
        f = emit("add", f, emit("mul", cell, peepholes[1]))
    i, f, c = emit("sigmoid", i), emit("sigmoid", f), emit("tanh", c)
    state = emit("add", emit("mul", c, i), emit("mul", cell, f))
    if constants.low:
        state = emit("clip", state, constants.low, constants.high)
    if constants.has_peepholes:
        o = emit("add", o, emit("mul", state, peepholes[2]))
    o, co = emit("sigmoid", o), emit("tanh", state)
    return i, state, f, o, c, co, emit("mul", co, o)


@rule("BlockLSTM", "BlockLSTMV2")
def _block_lstm(n: Site) -> None:
    """Write a sequence: seq_len_max, x [time, batch, inputs], then the inputs of a cell.

    Steps after seq_len_max give zeros.
    """
    _need_inputs(n, 9)
    length, x, cell, hidden, weight, *peepholes, bias = n.values()
    end = n.emit("reshape", n.as_int64(length), n.int64(1))
    steps = n.emit("slice", n.emit("shape", x), n.int64(0), n.int64(1), n.int64(0))
    constants = _Constants.of(n)
    short = n.emit("slice", x, n.int64(0), end, n.int64(0))
    found = list(_scanned(n, constants, short, cell, hidden, weight, peepholes, bias))
    known, shape = n.known_value(end), n.shape(1)
    whole = known is not None and shape is not None and shape[0] is not None
    if not whole or shape is None or known is None or int(known[0]) < (shape[0] or 0):
        missing = n.emit("sub", steps, n.emit("min", end, steps))
        pads = n.emit("concat", n.int64(0, 0, 0), missing, n.int64(0, 0), axis=0)
        found = [n.emit("pad", each, pads) for each in found]
    sequence = _as_lstm(n, constants, x, cell, hidden, weight, peepholes, bias, end)
    n.finish(*found[:6], sequence or found[6])


def _scanned(
    n: Site,
    constants: _Constants,
    x: str,
    cell: str,
    hidden: str,
    weight: str,
    peepholes: Sequence[str],
    bias: str,
) -> tuple[str, ...]:
    """Return the seven outputs of every step."""
    body: Building = n.building.child()
    captured = [weight, *peepholes, bias, *constants.names()]
    anything = Type(n.dtype(), ANY_RANK)
    state = [body.add_input(name, anything) for name in ("cell", "hidden", "x")]
    inner = [body.add_input(f"captured{k}", anything) for k in range(len(captured))]
    weight, i, f, o, bias, *others = inner
    results = _cell(
        body,
        n.name,
        constants.renamed(others),
        state[2],
        state[0],
        state[1],
        weight,
        (i, f, o),
        bias,
    )
    named = {"next_cell": results[1], "next_hidden": results[6]}
    named.update({f"row{k}": result for k, result in enumerate(results)})
    return n.emit_many(
        "scan",
        9,
        cell,
        hidden,
        x,
        *captured,
        body=body.graph(named),
        num_scan_inputs=1,
        captures=len(captured),
    )[2:]


def _as_lstm(
    n: Site,
    constants: _Constants,
    x: str,
    cell: str,
    hidden: str,
    weight: str,
    peepholes: Sequence[str],
    bias: str,
    end: str,
) -> str:
    """Return the hidden states by the op lstm; "" where that op cannot express the cell.

    ONNX has the gates in the order i, o, f, c, a row each, and no clip of the cell.
    """
    w, b, shape = n.known_value(weight), n.known_value(bias), n.shape(1)
    if constants.low or w is None or b is None or shape is None or len(shape) != 3:
        return ""
    units, width = b.size // 4, w.shape[0] - b.size // 4
    if w.shape[1] != 4 * units or width < 0:
        raise ModelError(f"node {n.name}: {n.op}: weights {w.shape} and bias {b.shape} do not fit")
    order = (0, 3, 2, 1) if constants.forget_is_third else (0, 3, 1, 2)
    b = b.copy()
    place = 2 if constants.forget_is_third else 1
    b[place * units : (place + 1) * units] += b.dtype.type(_forget_bias(n))
    rows = n.derived(
        w,
        f"gates {order}",
        lambda x: np.concatenate([x.T[k * units : (k + 1) * units] for k in order]),
    )
    biases = np.concatenate([b[k * units : (k + 1) * units] for k in order])
    dtype = n.dtype()
    inputs = [
        x,
        n.constant(rows[None, :, :width], dtype),
        n.constant(rows[None, :, width:], dtype),
        n.constant(np.concatenate([biases, np.zeros_like(biases)])[None], dtype),
    ]
    batch = n.emit("slice", n.emit("shape", x), n.int64(1), n.int64(2), n.int64(0))
    inputs.append(n.emit("cast", n.emit("expand", end, batch), to="int32"))
    inputs += [n.emit("unsqueeze", state, n.int64(0)) for state in (hidden, cell)]
    if constants.has_peepholes:
        i, f, o = peepholes
        inputs.append(n.emit("unsqueeze", n.emit("concat", i, o, f, axis=0), n.int64(0)))
    y = n.emit_many("lstm", 3, *inputs, hidden_size=units)[0]
    return n.emit("squeeze", y, n.int64(1))


@rule("GRUBlockCell")
def _gru_cell(n: Site) -> None:
    """Write a cell: x, h_prev, w_ru, w_c, b_ru, b_c -> r, u, c, h.

    Source: tensorflow/core/kernels/rnn/gru_ops.h.
    """
    x, hidden, gates, candidate, gates_bias, candidate_bias = n.values()
    both = n.emit("matmul", n.emit("concat", x, hidden, axis=1), gates)
    both = n.emit("sigmoid", n.emit("add", both, gates_bias))
    r, u = n.emit_many("split", 2, both, "", axis=1, num_outputs=2)
    c = n.emit("matmul", n.emit("concat", x, n.emit("mul", r, hidden), axis=1), candidate)
    c = n.emit("tanh", n.emit("add", c, candidate_bias))
    rest = n.emit("sub", n.constant(1, n.dtype()), u)
    n.finish(r, u, c, n.emit("add", n.emit("mul", u, hidden), n.emit("mul", rest, c)))
