"""Recurrent cells of TFLite agree with LiteRT from a state of zeros on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palmkit.engine.converters.tflite import convert
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.model import Model
from palmkit.engine.passes import optimise
from tests.engine.converters.tflite_models import (
    RELU6,
    TANH,
    ModelFile,
    assert_agrees,
    assert_same,
    floats,
    litert,
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
    """By hand: the steps move up one place, the newest comes last."""
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
