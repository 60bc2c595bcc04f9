"""Quantized networks of TensorFlow's own converter give what LiteRT's reference kernels give.

data/tflite/make_networks.py made them: every operator that it quantizes, as int8 ("int8": scales by
axis, "tensor": one scale), int16 by int8, uint8 by its older way, and with weights alone quantized
("dynamic", and "dynamic_tensor" with one scale). Where LiteRT refuses a network, it runs here all
the same.
"""

from __future__ import annotations

import io
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine.converters.tflite import convert
from palmkit.engine.ir import Array, Graph
from palmkit.engine.model import Model
from tests.engine.converters.tflite_models import flatbuffers, interpreter_module, schema

_ARCHIVE = Path(__file__).parent / "data" / "tflite" / "networks.npz.xz"
with np.load(io.BytesIO(lzma.decompress(_ARCHIVE.read_bytes()))) as _arrays:
    NETWORKS = {name: _arrays[name].tobytes() for name in _arrays.files}

# Steps that LiteRT's 16-bit tables of functions are off from the functions, at most; of 65536.
TABLES = {
    "exp": 2, "gelu": 2, "tanh": 2, "conv_valid": 2, "lstm_unrolled": 4, "rnn_unrolled": 4,
    "gru_unrolled": 6, "softmax": 2, "softmax_hot": 8, "attention": 10, "softplus": 13, "log": 490,
    "state": 2, "residual_block": 2,
}  # fmt: skip
# Several operators in a row: what is one step off in one is more in the next.
CHAINS = ("add_relu.uint8", "prelu.uint8", "split.uint8", "variance.int8", "variance.tensor")
# Kernels of LiteRT's of which there are no plain ones, or wrong ones.
NOT_BY_REFERENCE = (
    "sum", "sum_channels", "local_response", "tile", "ceil", "round", "elu", "depth_to_space",
)  # fmt: skip
# LiteRT ends the process: a constant of zeros has a scale of zero. And it reads what memory holds
# behind the one scale of weights by depth.
DEADLY = ("layer_normalization.int16", "by_depth_wide.dynamic_tensor")


def inputs_of(graph: Graph, seed: int, size: float, positive: bool = False) -> dict[str, Array]:
    """Random inputs; integers over the `size`th part of their range, or of its upper half."""
    random = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name, type in graph.inputs.items():
        if "int" not in type.dtype:
            found[name] = (random.uniform(0.1, 3, type.dims) * size).astype(type.dtype)
            continue
        limits = np.iinfo(type.dtype)
        middle = (limits.max + limits.min + 1) // 2
        away = random.integers(limits.min, limits.max, type.dims, endpoint=True) - middle
        away = np.rint(away * size)
        found[name] = ((abs(away) if positive else away) + middle).astype(type.dtype)
    return found


def litert_of(
    name: str, runs: list[dict[str, Array]], model: bytes = b""
) -> list[dict[str, Array]] | None:
    """What LiteRT gives for each set of inputs; None if it refuses the network.

    model: a changed file of the network.
    """
    if name in DEADLY:
        return None
    kind = interpreter_module.OpResolverType
    plain = name.partition(".")[0] not in NOT_BY_REFERENCE
    kernels = kind.BUILTIN_REF if plain else kind.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = interpreter_module.Interpreter(
        model_content=model or NETWORKS[name], num_threads=1, experimental_op_resolver_type=kernels
    )
    found: list[dict[str, Array]] = []
    try:
        interpreter.allocate_tensors()
        for inputs in runs:
            for detail in interpreter.get_input_details():
                interpreter.set_tensor(detail["index"], inputs[detail["name"]])
            interpreter.reset_all_variables()
            interpreter.invoke()
            details = interpreter.get_output_details()
            found.append({d["name"]: interpreter.get_tensor(d["index"]) for d in details})
    except RuntimeError:
        return None
    return found


def most_steps(name: str) -> int:
    network, _, kind = name.partition(".")
    if kind == "int16":
        return TABLES.get(network, 1)
    return 2 if name in CHAINS else 1


def assert_near(name: str, got: Array, wanted: Array) -> None:
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    if "int" in wanted.dtype.name:
        assert np.abs(got.astype(np.int64) - wanted).max(initial=0) <= most_steps(name)
        return
    # LiteRT rounds activations to 8 bits before weights of integers, which only large ones are.
    share = 1e-2 if "_wide.dynamic" in name else 1e-5
    scale = np.ptp(np.nan_to_num(wanted)) if wanted.size else 1
    np.testing.assert_allclose(got, wanted, rtol=0, atol=share * (scale or 1))


@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str) -> None:
    graph = convert(NETWORKS[name])
    divides = name.startswith(("div.", "floor_div."))
    runs = [inputs_of(graph, 0, 1, divides), inputs_of(graph, 1, 0.1, divides)]
    wanted = litert_of(name, runs)
    model = Model(graph, "cpu")
    for place, inputs in enumerate(runs):
        got = model.run(inputs)
        if wanted is None:
            assert {key: value.shape for key, value in got.items()}
            continue
        for key, value in wanted[place].items():
            assert_near(name, got[key], value)


def changed(
    model: bytes, inputs: float = 1.0, outputs: float = 1.0, least: bool | None = None
) -> bytes:
    """The file with other scales of its graph's inputs and outputs.

    least: of 8 bits their zero points, too, are the least integer, or the greatest.
    """
    parsed = schema.ModelT.InitFromObj(schema.Model.GetRootAs(model, 0))
    graph = parsed.subgraphs[0]
    for places, factor in ((graph.inputs, inputs), (graph.outputs, outputs)):
        for place in places:
            quantization: Any = graph.tensors[place].quantization
            if quantization is not None and quantization.scale is not None:
                quantization.scale = (quantization.scale * factor).astype(np.float32)
                limits = _BYTES.get(graph.tensors[place].type)
                if least is not None and limits is not None:
                    zero = limits.min if least else limits.max
                    quantization.zeroPoint = np.array([zero], np.int64)
    builder = flatbuffers.Builder(1024)
    builder.Finish(parsed.Pack(builder), b"TFL3")
    return bytes(builder.Output())


_BYTES = {schema.TensorType.INT8: np.iinfo(np.int8), schema.TensorType.UINT8: np.iinfo(np.uint8)}
# Of what is no number there, or whose levels LiteRT knows better than the file.
NO_OTHER_ZERO = ("pow", "softmax.uint8", "softmax_hot.uint8", "residual_block.uint8")


def assert_agrees(name: str, model: bytes) -> None:
    """What the changed file gives is what LiteRT gives, unless that refuses it."""
    graph = convert(model)
    inputs = inputs_of(graph, 0, 1, name.startswith(("div.", "floor_div.")))
    with np.errstate(all="ignore"):
        got = Model(graph, "cpu").run(inputs)
    for wanted in litert_of(name, [inputs], model) or ():
        for key, value in wanted.items():
            assert_near(name, got[key], value)


BYTES = [n for n in NETWORKS if ".int8" in n or ".uint8" in n or ".tensor" in n]


@pytest.mark.parametrize("name", [n for n in BYTES if not n.startswith(NO_OTHER_ZERO)])
def test_zero_points_at_the_ends_of_the_range(name: str) -> None:
    for least in (True, False):
        assert_agrees(name, changed(NETWORKS[name], least=least))


RESCALED = (
    "conv", "conv_1d", "conv_groups", "conv_spread", "conv_strided", "conv_transpose",
    "conv_transpose_valid", "by_depth", "by_depth_twice", "dense", "dense_of_rows", "dense_plain",
    "add", "add_n", "add_row", "add_constant", "sub", "sub_one", "mul", "mul_row", "mean",
    "mean_channels", "mean_of_relu", "sum", "sum_channels", "leaky_relu", "abs", "relu", "elu",
    "hard_swish", "square", "lstm", "lstm_last", "lstm_backwards", "lstm_unrolled", "gru_unrolled",
    "average_pool", "average_pool_same", "max_pool", "max_pool_same", "resize_bilinear", "maximum",
    "minimum", "top_k", "where", "reshape", "transpose", "pad", "gather",
)  # fmt: skip


@pytest.mark.parametrize(
    "name", [n for n in NETWORKS if n.partition(".")[0] in RESCALED and ".dynamic" not in n]
)
def test_outputs_whose_steps_are_coarser_and_finer(name: str) -> None:
    for factor in (7.3, 0.11):
        assert_agrees(name, changed(NETWORKS[name], outputs=factor))


SOME = (
    "add", "mul", "conv", "by_depth", "conv_transpose", "dense", "residual_block", "average_pool",
    "mean", "resize_bilinear", "prelu", "leaky_relu", "softmax", "max_pool", "concat",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["int8", "int16", "uint8"])
@pytest.mark.parametrize("network", SOME)
def test_what_converts_runs_whatever_the_scales(network: str, kind: str) -> None:
    """Kernels of integers take no scale that a float could overflow with."""
    name = f"{network}.{kind}"
    if name not in NETWORKS:
        assert kind == "int16"
        return
    for factors in ((1e-30, 1.0), (1e30, 1.0), (1.0, 1e-30), (1e12, 1e-12), (1e-36, 1e-36)):
        graph = convert(changed(NETWORKS[name], *factors))
        inputs = inputs_of(graph, 0, 1)
        with np.errstate(all="ignore"):
            wanted = Model(graph, "reference").run(inputs)
        for key, value in Model(graph, "cpu").run(inputs).items():
            # A sum that is zero but for rounding has either sign.
            assert np.mean(np.abs(value.astype(np.int64) - wanted[key]) > 1) <= 0.02
