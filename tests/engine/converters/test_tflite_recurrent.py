"""Recurrent cells of TFLite agree with LiteRT from a state of zeros on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from palmkit.engine.converters.tflite import convert
from palmkit.engine.converters.tflite.rules import recurrent
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.model import Model
from palmkit.engine.passes import optimise
from tests.engine.converters.tflite_models import (
    RELU,
    RELU6,
    TANH,
    ModelFile,
    assert_agrees,
    assert_same,
    floats,
    litert,
    run,
)

TIME, BATCH, DEPTH, CELLS, OUTPUTS = 5, 2, 3, 4, 3


def assert_as_litert(file: ModelFile, outputs: list[str], inputs: dict[str, Array]) -> set[str]:
    """The ops that the model became."""
    model = file.pack(outputs)
    graph = convert(model)
    wanted = litert(model, inputs)
    assert_agrees(graph, inputs, wanted)
    assert_agrees(optimise(graph), inputs, wanted)
    assert_same(Model(graph, "cpu").run(inputs), wanted)
    return {node.op for node in graph.nodes}


def weights(
    file: ModelFile,
    prefix: str,
    gates: str = "ifco",
    peepholes: bool = False,
    outputs: int = CELLS,
    projection_bias: bool = False,
) -> list[str]:
    """Inputs 1 to 17 of an LSTM cell; gates that are not named are left out."""

    def each(kind: str, among: str, *dims: int) -> list[str]:
        return [
            file.tensor(f"{prefix}{kind}_{gate}", floats(*dims) * np.float32(0.5))
            if gate in among
            else ""
            for gate in "ifco"
        ]

    names = each("x", gates, CELLS, DEPTH) + each("h", gates, CELLS, outputs)
    cell = each("p", gates if peepholes else "", CELLS)
    names += [cell[0], cell[1], cell[3], *each("b", gates, CELLS)]
    has_projection = outputs != CELLS
    names.append(file.tensor(f"{prefix}proj", floats(outputs, CELLS)) if has_projection else "")
    names.append(file.tensor(f"{prefix}proj_bias", floats(outputs)) if projection_bias else "")
    return names


def states(file: ModelFile, prefix: str, outputs: int = CELLS) -> list[str]:
    return [
        file.tensor(f"{prefix}h_state", (BATCH, outputs), variable=True),
        file.tensor(f"{prefix}c_state", (BATCH, CELLS), variable=True),
    ]


LSTM_OPTIONS: dict[str, Any] = {"fusedActivationFunction": TANH}


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize(
    ("cell", "options", "op"),
    [
        ({}, {}, "lstm"),
        ({"peepholes": True}, {}, "lstm"),
        ({"gates": "fco"}, {}, "scan"),
        ({"gates": "fco", "peepholes": True}, {}, "scan"),
        ({}, {"cellClip": 0.3}, "scan"),
        ({"outputs": OUTPUTS}, {}, "scan"),
        ({"outputs": OUTPUTS, "projection_bias": True}, {"projClip": 0.2}, "scan"),
        ({"outputs": OUTPUTS, "peepholes": True}, {"cellClip": 0.5}, "scan"),
    ],
)
def test_sequence_lstm(
    cell: dict[str, Any], options: dict[str, Any], op: str, time_major: bool
) -> None:
    file = ModelFile()
    dims = (TIME, BATCH) if time_major else (BATCH, TIME)
    file.input("x", (*dims, DEPTH))
    outputs = cell.get("outputs", CELLS)
    names = ["x", *weights(file, "", **cell), *states(file, "", outputs), "", "", "", ""]
    file.tensor("y", (*dims, outputs))
    file.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", names, ["y"], "UnidirectionalSequenceLSTMOptions",
        timeMajor=time_major, **LSTM_OPTIONS, **options,
    )  # fmt: skip
    assert op in assert_as_litert(file, ["y"], {"x": floats(*dims, DEPTH)})


def test_sequence_lstm_with_layer_normalization() -> None:
    file = ModelFile()
    file.input("x", (TIME, BATCH, DEPTH))
    names = ["x", *weights(file, ""), *states(file, "")]
    names += [file.tensor(f"norm_{gate}", floats(CELLS)) for gate in "ifco"]
    file.tensor("y", (TIME, BATCH, CELLS))
    file.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", names, ["y"], "UnidirectionalSequenceLSTMOptions",
        timeMajor=True, **LSTM_OPTIONS,
    )  # fmt: skip
    assert "scan" in assert_as_litert(file, ["y"], {"x": floats(TIME, BATCH, DEPTH)})


def test_lstm_both_ways() -> None:
    file = both_ways()
    x = floats(BATCH, TIME, DEPTH)
    assert "lstm" in assert_as_litert(file, ["y", "back"], {"x": x})
    assert_merges(file, {"x": x})


def assert_merges(file: ModelFile, inputs: dict[str, Array]) -> None:
    """Merged outputs are the two side by side; what LiteRT gives for an LSTM changes each time."""
    apart = litert(file.pack(["y", "back"]), inputs)
    file.operators[0].builtinOptions.mergeOutputs = True
    file.operators[0].outputs = file.operators[0].outputs[:1]
    joined = np.concatenate([apart["y"], apart["back"]], -1)
    assert_agrees(convert(file.pack(["y"])), inputs, {"y": joined})


def both_ways(auxiliary: str = "") -> ModelFile:
    file = ModelFile()
    file.input("x", (BATCH, TIME, DEPTH))
    names = ["x", *weights(file, "fw/"), *weights(file, "bw/")]
    names += [*states(file, "fw/"), *states(file, "bw/"), auxiliary, *[""] * 8]
    for name in ("y", "back"):
        file.tensor(name, (BATCH, TIME, CELLS))
    file.operator(
        "BIDIRECTIONAL_SEQUENCE_LSTM", names, ["y", "back"], "BidirectionalSequenceLSTMOptions",
        timeMajor=False, **LSTM_OPTIONS,
    )  # fmt: skip
    return file


def test_an_auxiliary_input_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="LSTM with an auxiliary input"):
        convert(both_ways("x").pack(["y", "back"]))


def test_one_lstm_step() -> None:
    file = ModelFile()
    file.input("x", (BATCH, DEPTH))
    names = ["x", *weights(file, "", peepholes=True), *states(file, ""), "", "", "", ""]
    file.tensor("y", (BATCH, CELLS))
    file.operator("LSTM", names, ["y"], "LSTMOptions", cellClip=0.4, **LSTM_OPTIONS)
    assert_as_litert(file, ["y"], {"x": floats(BATCH, DEPTH)})


def test_one_step_of_the_older_lstm() -> None:
    file = ModelFile()
    inputs = {
        file.input("x", (BATCH, DEPTH)): floats(BATCH, DEPTH),
        file.input("h", (BATCH, CELLS)): floats(BATCH, CELLS),
    }
    file.tensor("weights", floats(4 * CELLS, DEPTH + CELLS))
    file.tensor("bias", floats(4 * CELLS))
    inputs[file.input("c", (BATCH, CELLS))] = floats(BATCH, CELLS)
    results = ["y", "c_out", "joined", "gates"]
    for name, size in zip(results, (CELLS, CELLS, DEPTH + CELLS, 4 * CELLS), strict=True):
        file.tensor(name, (BATCH, size))
    file.operator(
        "LSTM", ["x", "h", "weights", "bias", "c"], results, "LSTMOptions", kernelType=1,
        **LSTM_OPTIONS,
    )  # fmt: skip
    assert_as_litert(file, ["y", "c_out"], inputs)


def rnn_weights(file: ModelFile, prefix: str) -> list[str]:
    return [
        file.tensor(f"{prefix}w", floats(CELLS, DEPTH)),
        file.tensor(f"{prefix}r", floats(CELLS, CELLS) * np.float32(0.5)),
        file.tensor(f"{prefix}b", floats(CELLS)),
        file.tensor(f"{prefix}state", (BATCH, CELLS), variable=True),
    ]


def test_one_rnn_step() -> None:
    file = ModelFile()
    file.input("x", (BATCH, DEPTH))
    names = ["x", *rnn_weights(file, "")]
    file.tensor("y", (BATCH, CELLS))
    file.operator("RNN", names, ["y"], "RNNOptions", fusedActivationFunction=TANH)
    assert_as_litert(file, ["y"], {"x": floats(BATCH, DEPTH)})


@pytest.mark.parametrize("activation", [TANH, RELU6, 0])
@pytest.mark.parametrize("time_major", [True, False])
def test_sequence_rnn(activation: int, time_major: bool) -> None:
    file = ModelFile()
    dims = (TIME, BATCH) if time_major else (BATCH, TIME)
    file.input("x", (*dims, DEPTH))
    names = ["x", *rnn_weights(file, "")]
    file.tensor("y", (*dims, CELLS))
    file.operator(
        "UNIDIRECTIONAL_SEQUENCE_RNN", names, ["y"], "SequenceRNNOptions", timeMajor=time_major,
        fusedActivationFunction=activation,
    )  # fmt: skip
    assert_as_litert(file, ["y"], {"x": floats(*dims, DEPTH)})


def test_rnn_both_ways() -> None:
    file = ModelFile()
    file.input("x", (BATCH, TIME, DEPTH))
    names = ["x", *rnn_weights(file, "fw/"), *rnn_weights(file, "bw/"), "", "", ""]
    for name in ("y", "back"):
        file.tensor(name, (BATCH, TIME, CELLS))
    file.operator(
        "BIDIRECTIONAL_SEQUENCE_RNN", names, ["y", "back"], "BidirectionalSequenceRNNOptions",
        timeMajor=False, fusedActivationFunction=TANH,
    )  # fmt: skip
    x = floats(BATCH, TIME, DEPTH)
    assert_as_litert(file, ["y", "back"], {"x": x})
    assert_merges(file, {"x": x})


@pytest.mark.parametrize("rank", [1, 2])
def test_svdf(rank: int) -> None:
    memory, filters = 6, 4
    file = ModelFile()
    file.input("x", (BATCH, DEPTH))
    file.tensor("feature", floats(filters, DEPTH))
    file.tensor("time", floats(filters, memory))
    file.tensor("bias", floats(filters // rank))
    file.tensor("state", (BATCH, memory * filters), variable=True)
    file.tensor("y", (BATCH, filters // rank))
    file.operator(
        "SVDF", ["x", "feature", "time", "bias", "state"], ["y"], "SVDFOptions", rank=rank,
        fusedActivationFunction=0,
    )  # fmt: skip
    assert_as_litert(file, ["y"], {"x": floats(BATCH, DEPTH)})


def test_svdf_with_a_state_that_is_given() -> None:
    """Compute the state by hand: steps move up one place, and the newest comes last."""
    file = ModelFile()
    file.input("x", (1, 3))
    feature, time, state = floats(2, 3), floats(2, 4), floats(1, 8)
    file.tensor("feature", feature)
    file.tensor("time", time)
    file.input("state", (1, 8))
    file.tensor("y", (1, 2))
    file.operator("SVDF", ["x", "feature", "time", "", "state"], ["y"], "SVDFOptions", rank=1)
    x = floats(1, 3)
    steps = np.concatenate([state.reshape(2, 4)[:, 1:], (feature @ x[0])[:, None]], 1)
    assert_agrees(
        convert(file.pack(["y"])), {"x": x, "state": state}, {"y": (steps * time).sum(1)[None]}
    )


@dataclass(frozen=True)
class IntegerCell:
    """An LSTM of int8 with int16 cells; hidden: the scale of what is projected."""

    gates: str = "ifco"
    peepholes: bool = False
    outputs: int = CELLS
    normalised: bool = False
    cell_clip: float = 0.0
    projection_clip: float = 0.0
    state: tuple[float, int] = (0.008, 5)
    hidden: tuple[float, int] = (0.008, 5)
    result: tuple[float, int] = (0.008, 5)

    def pack(self) -> bytes:
        random = np.random.default_rng(8)
        file = ModelFile()

        def each(
            kind: str, among: str, dims: tuple[int, ...], dtype: str, **more: Any
        ) -> list[str]:
            most = {"int8": 127, "int16": 32767, "int32": 5_000_000 if self.normalised else 5000}
            return [
                file.tensor(
                    f"{kind}{gate}",
                    random.integers(-most[dtype], most[dtype], dims, endpoint=True).astype(dtype),
                    **more,
                )
                if gate in among
                else ""
                for gate in "ifco"
            ]

        file.input("x", (TIME, BATCH, DEPTH), "int8", scale=0.02, zero_point=-4)
        names = ["x", *each("x", self.gates, (CELLS, DEPTH), "int8", scale=0.008)]
        names += each("h", self.gates, (CELLS, self.outputs), "int8", scale=0.008)
        among = self.gates if self.peepholes else ""
        peepholes = each("p", among, (CELLS,), "int16", scale=0.00003)
        names += [peepholes[0], peepholes[1], peepholes[3]]
        names += each("b", self.gates, (CELLS,), "int32", scale=0.02 * 0.008)
        if self.outputs != CELLS:
            projection = random.integers(-127, 128, (self.outputs, CELLS)).astype(np.int8)
            names.append(file.tensor("projection", projection, scale=0.006))
            offsets = random.integers(-9000, 9000, self.outputs).astype(np.int32)
            names.append(file.tensor("offset", offsets, scale=0.006 * self.hidden[0]))
        else:
            names += ["", ""]
        (scale, zero), (cell, _) = self.state, (2.0**-11, 0)
        dims = (BATCH, self.outputs)
        names.append(file.tensor("h", dims, "int8", scale=scale, zero_point=zero, variable=True))
        names.append(file.tensor("c", (BATCH, CELLS), "int16", scale=cell, variable=True))
        among = self.gates if self.normalised else ""
        names += each("n", among, (CELLS,), "int16", scale=1e-4)
        between = [
            file.tensor(f"sums{i}", (), "int16", scale=0.0007 if self.normalised else 0)
            for i in range(4)
        ]
        scale, zero = self.hidden
        between.append(file.tensor("hidden", (), "int8", scale=scale, zero_point=zero))
        scale, zero = self.result
        file.tensor("y", (TIME, BATCH, self.outputs), "int8", scale=scale, zero_point=zero)
        file.operator(
            "UNIDIRECTIONAL_SEQUENCE_LSTM", names, ["y"], "UnidirectionalSequenceLSTMOptions",
            timeMajor=True, cellClip=self.cell_clip, projClip=self.projection_clip, **LSTM_OPTIONS,
        )  # fmt: skip
        places = [file.names.index(name) for name in between]
        file.operators[-1].intermediates = np.array(places, np.int32)
        return file.pack(["y"])


# With peepholes of more cells than outputs LiteRT reads the cells' places wrongly.
@pytest.mark.parametrize(
    "cell",
    [
        IntegerCell(),
        IntegerCell(gates="fco"),
        IntegerCell(peepholes=True),
        IntegerCell(outputs=OUTPUTS, hidden=(0.007, -7)),
        IntegerCell(outputs=OUTPUTS, hidden=(0.007, -7), projection_clip=0.4),
        IntegerCell(cell_clip=0.3),
        IntegerCell(normalised=True),
        IntegerCell(normalised=True, gates="fco", peepholes=True),
        IntegerCell(normalised=True, outputs=OUTPUTS, hidden=(0.007, -7)),
        IntegerCell(state=(0.006, 9), hidden=(0.0075, 4), result=(0.009, -6)),
    ],
    ids=str,
)
def test_lstm_of_integers(cell: IntegerCell) -> None:
    """At most a step off: LiteRT's functions are tables, and it rounds halves its own way."""
    model = cell.pack()
    x = np.random.default_rng(2).integers(-128, 128, (TIME, BATCH, DEPTH)).astype(np.int8)
    wanted, graph = litert(model, {"x": x}, reference=True)["y"], convert(model)
    for got in (run(graph, {"x": x})["y"], Model(graph, "cpu").run({"x": x})["y"]):
        steps = np.abs(got.astype(int) - wanted)
        assert steps.max() <= 1
        assert np.mean(steps > 0) <= (0.45 if cell.projection_clip else 0.15)
    assert np.std(wanted) > 5


def test_a_long_lstm_of_integers_is_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are those of the steps in a row."""
    model = IntegerCell().pack()
    x = np.random.default_rng(2).integers(-128, 128, (TIME, BATCH, DEPTH)).astype(np.int8)
    short = convert(model)
    monkeypatch.setattr(recurrent, "_MOST_UNROLLED", TIME - 1)
    long = convert(model)
    assert "scan" in {node.op for node in long.nodes}
    assert "scan" not in {node.op for node in short.nodes}
    np.testing.assert_array_equal(run(long, {"x": x})["y"], run(short, {"x": x})["y"])


@pytest.mark.parametrize("rank", [1, 2])
def test_svdf_of_integers(rank: int) -> None:
    """Its state is int16, and LiteRT has no activation for it."""
    random = np.random.default_rng(4)
    file = ModelFile()
    file.input("x", (2, 10), "int8", scale=0.05, zero_point=3)
    file.tensor("depth", random.integers(-127, 128, (8, 10)).astype(np.int8), scale=0.01)
    file.tensor("time", random.integers(-9000, 9000, (8, 6)).astype(np.int16), scale=3e-5)
    bias = random.integers(-9000, 9000, 8 // rank).astype(np.int32)
    file.tensor("bias", bias, scale=1.0)
    file.tensor("state", (2, 48), "int16", scale=0.001, variable=True)
    file.tensor("y", (2, 8 // rank), "int8", scale=0.01, zero_point=-5)
    file.operator(
        "SVDF", ["x", "depth", "time", "bias", "state"], ["y"], "SVDFOptions", rank=rank,
        fusedActivationFunction=RELU, version=3,
    )  # fmt: skip
    model, x = file.pack(["y"]), random.integers(-128, 128, (2, 10)).astype(np.int8)
    wanted = litert(model, {"x": x})["y"]
    assert len(np.unique(wanted)) > 4
    np.testing.assert_allclose(run(convert(model), {"x": x})["y"], wanted, rtol=0, atol=1)
