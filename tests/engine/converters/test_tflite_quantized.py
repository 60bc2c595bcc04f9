"""Quantized models give LiteRT's integers, at most one step off, and most of them exactly.

LiteRT multiplies by fixed-point factors; here real numbers are rounded. They part where a result
lies within rounding error of the middle between two steps, or right on it. How many are off is
stated a case.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from palmkit.engine.converters.tflite import convert
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Array, Graph
from palmkit.engine.model import Model
from palmkit.engine.passes import optimise
from tests.engine.converters.tflite_models import (
    RELU,
    RELU6,
    SAME,
    VALID,
    ModelFile,
    floats,
    ints,
    litert,
    run,
    schema,
)

LIMITS = {name: (np.iinfo(name).min, np.iinfo(name).max) for name in ("int8", "uint8", "int16")}


def integers(graph: Graph) -> dict[str, Array]:
    random = np.random.default_rng(3)
    return {
        name: random.integers(*LIMITS[t.dtype], t.dims, endpoint=True).astype(t.dtype)
        for name, t in graph.inputs.items()
    }


def assert_steps(model: bytes, share_off: float) -> None:
    """At most one step off, and no more than this share of the elements off at all."""
    graph = convert(model)
    inputs = integers(graph)
    wanted = litert(model, inputs)
    for each in (graph, optimise(graph)):
        got = run(each, inputs)
        for name, value in wanted.items():
            assert got[name].dtype == value.dtype
            assert got[name].shape == value.shape
            assert len(np.unique(value)) > 2
            steps = np.abs(got[name].astype(np.int64) - value.astype(np.int64))
            assert steps.max() <= 1
            assert np.mean(steps > 0) <= share_off


def layer(
    op: str, dtype: str, per_channel: bool, activation: int, own_bias_scale: bool = True
) -> bytes:
    """A convolution, or a layer by depth, over pictures of 8 channels."""
    random = np.random.default_rng(1)
    wide = dtype == "int16"
    zero = {"int8": 5, "uint8": 130, "int16": 0}[dtype]
    scale = 0.0003 if wide else 0.03
    count, axis, dims = (
        (8, 3, (1, 3, 3, 8)) if op == "DEPTHWISE_CONV_2D" else (12, 0, (12, 3, 3, 8))
    )
    scales = np.full(count, 0.005)
    if per_channel:
        scales = random.uniform(0.002, 0.006, count)
    shape = [-1 if each == axis else 1 for each in range(4)]
    weights = np.clip(np.rint(random.normal(size=dims) * 0.2 / scales.reshape(shape)), -127, 127)
    offset = 128 if dtype == "uint8" else 0
    bias = np.rint(random.normal(size=count) * 0.5 / (scale * scales))
    file = ModelFile()
    file.input("x", (1, 12, 12, 8), dtype, scale=scale, zero_point=zero)
    stored = (weights + offset).astype("uint8" if offset else "int8")
    given: Any = list(scales) if per_channel else 0.005
    file.tensor("weights", stored, scale=given, zero_point=offset, axis=axis)
    bias_scale: Any = list(scale * scales) if per_channel else scale * 0.005
    file.tensor(
        "bias", bias.astype(np.int64 if wide else np.int32),
        scale=bias_scale if own_bias_scale else 0,
    )  # fmt: skip
    zero_out = {"int8": -20, "uint8": 100, "int16": 0}[dtype]
    file.tensor("y", (1, 12, 12, count), dtype, scale=0.0005 if wide else 0.04, zero_point=zero_out)
    values: dict[str, Any] = {"depthMultiplier": 1} if count == 8 else {}
    options = "DepthwiseConv2DOptions" if count == 8 else "Conv2DOptions"
    file.operator(
        op, ["x", "weights", "bias"], ["y"], options, padding=SAME, strideH=1, strideW=1,
        fusedActivationFunction=activation, version=3, **values,
    )  # fmt: skip
    return file.pack(["y"])


@pytest.mark.parametrize("activation", [0, RELU, RELU6])
@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize(
    ("dtype", "per_channel", "share_off"),
    [("int8", True, 0.01), ("int8", False, 0.01), ("uint8", False, 0.01), ("int16", True, 0.01)],
)
def test_layer(op: str, dtype: str, per_channel: bool, activation: int, share_off: float) -> None:
    assert_steps(layer(op, dtype, per_channel, activation), share_off)


def test_a_bias_without_a_scale_has_that_of_the_products() -> None:
    assert_steps(layer("CONV_2D", "int8", True, 0, own_bias_scale=False), 0.01)


@dataclass(frozen=True)
class Quantized:
    """An operator on one or two quantized pictures of [1, 8, 8, 8]."""

    op: str
    share_off: float
    scale: float = 0.06
    zero: int = 5
    dims: tuple[int, ...] = (1, 8, 8, 8)
    options: str = ""
    constants: tuple[Array, ...] = ()
    second: tuple[float, int] | None = None
    dtypes: tuple[str, ...] = ("int8", "uint8")
    values: tuple[tuple[str, Any], ...] = ()
    zero_in: int = 3

    def pack(self, dtype: str) -> bytes:
        offset = 128 if dtype == "uint8" else 0
        file = ModelFile()
        names = [file.input("x", (1, 8, 8, 8), dtype, scale=0.04, zero_point=offset + self.zero_in)]
        if self.second:
            scale, zero = self.second
            names.append(
                file.input("z", (1, 8, 8, 8), dtype, scale=scale, zero_point=offset + zero)
            )
        names += [file.tensor(f"c{i}", value) for i, value in enumerate(self.constants)]
        file.tensor("y", self.dims, dtype, scale=self.scale, zero_point=offset + self.zero)
        values = dict(self.values)
        version = values.pop("version", 2)
        file.operator(self.op, names, ["y"], self.options, version=version, **values)
        return file.pack(["y"])


def same(op: str, share_off: float, **more: Any) -> Quantized:
    """An operator whose output has the scale of its input."""
    return Quantized(op, share_off, scale=0.04, zero=3, **more)


def pool(kernel: int, stride: int) -> tuple[tuple[str, Any], ...]:
    return (
        ("padding", SAME), ("strideH", stride), ("strideW", stride), ("filterHeight", kernel),
        ("filterWidth", kernel),
    )  # fmt: skip


INT8 = ("int8",)
UINT8 = ("uint8",)
CASES = [
    Quantized("RELU", 0, scale=0.05, zero=-20),
    Quantized("RELU6", 0, scale=0.05, zero=-20),
    Quantized("TANH", 0, scale=1 / 128, zero=0),
    Quantized("LOGISTIC", 0, scale=1 / 256, zero=-128),
    Quantized("SOFTMAX", 0, scale=1 / 256, zero=-128, options="SoftmaxOptions",
              values=(("beta", 1.0),)),
    Quantized("LOG_SOFTMAX", 0, scale=16 / 256, zero=127),
    Quantized("L2_NORMALIZATION", 0.03, scale=1 / 128, zero=0, options="L2NormOptions"),
    Quantized("EXP", 0, scale=0.5, zero=-128, dtypes=INT8),
    Quantized("ABS", 0, scale=0.05, zero=-128, dtypes=INT8),
    Quantized("LOG", 0, scale=0.05, zero=-20, zero_in=-128, dtypes=INT8),
    Quantized("RSQRT", 0.02, scale=0.05, zero=-20, zero_in=-128, dtypes=INT8),
    Quantized("GELU", 0, scale=0.05, zero=-20, options="GeluOptions"),
    Quantized("LEAKY_RELU", 0.1, scale=0.05, zero=-20, options="LeakyReluOptions",
              values=(("alpha", 0.1),)),
    same("MAX_POOL_2D", 0, dims=(1, 4, 4, 8), options="Pool2DOptions", values=pool(2, 2)),
    same("MAX_POOL_2D", 0, options="Pool2DOptions", values=pool(3, 1)),
    same("AVERAGE_POOL_2D", 0, dims=(1, 4, 4, 8), options="Pool2DOptions", values=pool(2, 2)),
    same("AVERAGE_POOL_2D", 0, options="Pool2DOptions", values=pool(3, 1)),
    Quantized("ADD", 0.1, second=(0.03, -7), options="AddOptions"),
    Quantized("ADD", 0.1, second=(0.03, -7), options="AddOptions",
              values=(("fusedActivationFunction", RELU6),)),
    Quantized("SUB", 0.1, second=(0.03, -7), options="SubOptions"),
    Quantized("MUL", 0.01, second=(0.03, -7), options="MulOptions"),
    Quantized("SQUARED_DIFFERENCE", 0.01, second=(0.03, -7), dtypes=INT8,
              options="SquaredDifferenceOptions"),
    same("MAXIMUM", 0, second=(0.04, 3), options="MaximumMinimumOptions"),
    same("MINIMUM", 0, second=(0.04, 3), options="MaximumMinimumOptions"),
    Quantized("CONCATENATION", 0.15, second=(0.03, -7), dims=(1, 8, 8, 16), dtypes=UINT8,
              options="ConcatenationOptions", values=(("axis", 3),)),
    same("CONCATENATION", 0, second=(0.04, 3), dims=(1, 8, 8, 16), dtypes=INT8,
         options="ConcatenationOptions", values=(("axis", 3),)),
    same("RESIZE_BILINEAR", 0, constants=(ints(16, 16),), dims=(1, 16, 16, 8),
         options="ResizeBilinearOptions", values=(("version", 3),)),
    same("RESIZE_BILINEAR", 0, constants=(ints(16, 16),), dims=(1, 16, 16, 8),
         options="ResizeBilinearOptions", values=(("halfPixelCenters", True), ("version", 3))),
    same("RESIZE_BILINEAR", 0.03, constants=(ints(13, 11),), dims=(1, 13, 11, 8),
         options="ResizeBilinearOptions", values=(("version", 3),)),
    same("MEAN", 0, constants=(ints(2),), dims=(1, 8, 8), options="ReducerOptions"),
    same("RESIZE_NEAREST_NEIGHBOR", 0, constants=(ints(13, 11),), dims=(1, 13, 11, 8),
         options="ResizeNearestNeighborOptions", values=(("version", 3),)),
    same("PAD", 0, constants=(ints([0, 0], [1, 1], [2, 0], [0, 0]),), dims=(1, 10, 10, 8),
         options="PadOptions"),
    Quantized("MEAN", 0.01, scale=0.01, constants=(ints(1, 2),), dims=(1, 8),
              options="ReducerOptions"),
    Quantized("SUM", 0.01, scale=0.5, constants=(ints(3),), dims=(1, 8, 8),
              options="ReducerOptions"),
    same("REDUCE_MAX", 0, constants=(ints(3),), dims=(1, 8, 8), options="ReducerOptions"),
    same("TRANSPOSE", 0, constants=(ints(0, 3, 1, 2),), options="TransposeOptions"),
    same("STRIDED_SLICE", 0, constants=(ints(0, 1, 0, 0), ints(1, 8, 8, 8), ints(1, 2, 1, 1)),
         dims=(1, 4, 8, 8), options="StridedSliceOptions"),
    Quantized("QUANTIZE", 0.02, zero=-8, options="QuantizeOptions"),
    Quantized("BATCH_MATMUL", 0.02, scale=0.2, second=(0.04, 3), dtypes=INT8,
              options="BatchMatMulOptions"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "dtype"), [(c, d) for c in CASES for d in c.dtypes], ids=lambda v: getattr(v, "op", v)
)
def test_operator(case: Quantized, dtype: str) -> None:
    assert_steps(case.pack(dtype), case.share_off)


def fully_connected(dtype: str, weights: dict[str, Any], stored: Array) -> bytes:
    """y = x @ weights + bias, x and y float32 if dtype is."""
    file = ModelFile()
    real = dtype == "float32"
    file.input("x", (3, 16), dtype, scale=0 if real else 0.03, zero_point=0 if real else 4)
    file.tensor("weights", stored, **weights)
    if real:
        file.tensor("bias", floats(8))
    else:
        file.tensor("bias", RANDOM_BIAS, scale=0.03 * 0.02)
    file.tensor("y", (3, 8), dtype, scale=0 if real else 0.05, zero_point=0 if real else -9)
    file.operator(
        "FULLY_CONNECTED", ["x", "weights", "bias"], ["y"], "FullyConnectedOptions", version=4
    )
    return file.pack(["y"])


RANDOM_BIAS = np.random.default_rng(2).integers(-900, 900, 8).astype(np.int32)
STORED = np.random.default_rng(2).integers(-127, 128, (8, 16)).astype(np.int8)


def test_fully_connected() -> None:
    assert_steps(fully_connected("int8", {"scale": 0.02}, STORED), 0.05)


def test_weights_of_a_dynamic_range_model_are_exact_here_and_activations_not_in_litert() -> None:
    """LiteRT rounds each row of x to 8 bits on its way: up to half a 127th of its greatest."""
    model = fully_connected("float32", {"scale": 0.02}, STORED)
    x = np.random.default_rng(4).normal(size=(3, 16)).astype(np.float32)
    graph = convert(model)
    got = run(graph, {"x": x})["y"]
    exact = x @ (STORED.astype(np.float32) * np.float32(0.02)).T + graph.constants["bias"]
    np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-5)
    step = np.abs(x).max(1, keepdims=True) / 127
    bound = step / 2 * np.abs(STORED * 0.02).sum(1)
    off = np.abs(litert(model, {"x": x})["y"] - got)
    assert (off <= bound + 1e-4).all()
    assert [node.op for node in graph.nodes].count("dequantize_linear") == 1
    assert graph.constants["weights"].dtype == np.int8


def test_int4_weights_are_widened() -> None:
    """Two weights a byte, the first in the low half."""
    weights = np.random.default_rng(5).integers(-8, 8, (8, 16)).astype(np.int8)
    low, high = weights.reshape(-1, 2).T & 15
    file = ModelFile()
    file.input("x", (3, 16))
    file.tensor("weights", (low | high << 4).astype(np.uint8), scale=0.02)
    file.tensors[-1].type = schema.TensorType.INT4
    file.tensors[-1].shape = np.array([8, 16], np.int32)
    file.tensor("y", (3, 8))
    file.operator("FULLY_CONNECTED", ["x", "weights"], ["y"], "FullyConnectedOptions", version=10)
    graph = convert(file.pack(["y"]))
    np.testing.assert_array_equal(graph.constants["weights"], weights)
    x = floats(3, 16)
    np.testing.assert_allclose(
        run(graph, {"x": x})["y"], x @ (weights * np.float32(0.02)).T, rtol=1e-5, atol=1e-5
    )


def test_cast_and_arguments_of_quantized_tensors() -> None:
    """A cast takes the integers as they are; the place of a maximum does not hang on the scale."""
    file = ModelFile()
    file.input("x", (2, 9), "int8", scale=0.1, zero_point=7)
    file.tensor("axis", np.array(1, np.int32))
    file.tensor("whole", (2, 9), "int32")
    file.tensor("place", (2,), "int32")
    file.operator("CAST", ["x"], ["whole"], "CastOptions", inDataType=9, outDataType=2)
    file.operator("ARG_MAX", ["x", "axis"], ["place"], "ArgMaxOptions", outputType=2)
    model = file.pack(["whole", "place"])
    graph = convert(model)
    inputs = integers(graph)
    got, wanted = run(graph, inputs), litert(model, inputs)
    np.testing.assert_array_equal(got["whole"], inputs["x"])
    for name, value in wanted.items():
        np.testing.assert_array_equal(got[name], value)


def test_from_floats_to_integers_and_back() -> None:
    file = ModelFile()
    file.input("x", (2, 50))
    file.tensor("whole", (2, 50), "uint8", scale=0.02, zero_point=100)
    file.tensor("y", (2, 50))
    file.operator("QUANTIZE", ["x"], ["whole"], "QuantizeOptions")
    file.operator("DEQUANTIZE", ["whole"], ["y"], "DequantizeOptions", version=2)
    model, inputs = file.pack(["y"]), {"x": floats(2, 50)}
    got, wanted = run(convert(model), inputs)["y"], litert(model, inputs)["y"]
    assert np.abs(got - wanted).max() <= 0.02 * 1.0001
    assert np.mean(np.abs(got - wanted) > 1e-6) <= 0.02


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale": [0.1, 0.2, 0.3]}, "3 scales along axis 0"),
        ({"scale": [0.1] * 8, "axis": 5}, "8 scales along axis 5"),
        ({"scale": -0.1}, "expected scales above 0"),
        ({"scale": float("nan")}, "expected scales above 0"),
        ({"scale": 0.1, "zero_point": 200}, "zero point 200 is no int8"),
        ({"scale": 3e38}, "stands for more than float32 has"),
    ],
)
def test_parameters_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        convert(fully_connected("float32", changes, STORED))


def test_as_many_zero_points_as_scales() -> None:
    file = ModelFile()
    file.input("x", (3, 16))
    file.tensor("weights", STORED, scale=[0.1] * 8)
    file.tensors[-1].quantization.zeroPoint = np.zeros(3, np.int64)
    file.tensor("y", (3, 8))
    file.operator("FULLY_CONNECTED", ["x", "weights"], ["y"], "FullyConnectedOptions")
    with pytest.raises(ModelError, match="8 scales, but 3 zero points"):
        convert(file.pack(["y"]))


def test_a_valid_convolution_of_integers_stays_on_the_grid() -> None:
    """The result is quantized by the output's scale, and saturates."""
    file = ModelFile()
    file.input("x", (1, 4, 4, 1), "int8", scale=1.0)
    file.tensor("weights", np.full((1, 2, 2, 1), 127, np.int8), scale=1.0)
    file.tensor("bias", np.zeros(1, np.int32), scale=1.0)
    file.tensor("y", (1, 3, 3, 1), "int8", scale=1.0)
    file.operator(
        "CONV_2D", ["x", "weights", "bias"], ["y"], "Conv2DOptions", padding=VALID, strideH=1,
        strideW=1, version=3,
    )  # fmt: skip
    got = run(convert(file.pack(["y"])), {"x": np.full((1, 4, 4, 1), 100, np.int8)})["y"]
    np.testing.assert_array_equal(got, np.full((1, 3, 3, 1), 127, np.int8))


def test_a_bias_may_name_the_axis_of_the_weights() -> None:
    """LiteRT read such files for years; now it wants an axis that is there, but asks no scale."""
    file, wanted = (layer_with_bias_axis(axis) for axis in (3, 0))
    inputs = integers(convert(wanted))
    got = run(convert(file), inputs)["y"]
    np.testing.assert_array_equal(got, run(convert(wanted), inputs)["y"])
    assert np.abs(got.astype(int) - litert(wanted, inputs)["y"]).max() <= 1


def layer_with_bias_axis(axis: int) -> bytes:
    random = np.random.default_rng(1)
    scales = list(random.uniform(0.002, 0.006, 8))
    file = ModelFile()
    file.input("x", (1, 6, 6, 8), "int8", scale=0.03, zero_point=5)
    weights = random.integers(-127, 128, (1, 3, 3, 8)).astype(np.int8)
    file.tensor("weights", weights, scale=scales, axis=3)
    bias = random.integers(-900, 900, 8).astype(np.int32)
    file.tensor("bias", bias, scale=[0.03 * scale for scale in scales], axis=axis)
    file.tensor("y", (1, 6, 6, 8), "int8", scale=0.05)
    file.operator(
        "DEPTHWISE_CONV_2D", ["x", "weights", "bias"], ["y"], "DepthwiseConv2DOptions",
        padding=SAME, strideH=1, strideW=1, depthMultiplier=1, version=3,
    )  # fmt: skip
    return file.pack(["y"])


def test_a_bias_has_the_steps_of_the_products_whatever_its_scale_says() -> None:
    """LiteRT ignores the scale of a per-axis bias: its integers are added to the sums."""
    file = ModelFile()
    file.input("x", (3, 1, 1, 16), "int8", scale=0.03, zero_point=4)
    file.tensor("weights", STORED.reshape(8, 1, 1, 16), scale=[0.02] * 8)
    file.tensor("bias", RANDOM_BIAS * 9, scale=[0.5] * 8)
    file.tensor("y", (3, 1, 1, 8), "int8", scale=0.05, zero_point=-9)
    file.operator(
        "CONV_2D", ["x", "weights", "bias"], ["y"], "Conv2DOptions", padding=SAME, strideH=1,
        strideW=1, version=3,
    )  # fmt: skip
    assert_steps(file.pack(["y"]), 0.05)


@pytest.mark.parametrize(("scale", "share_off"), [(0.0004, 0.02), (0.0301, 0.02), (0.09, 0.35)])
def test_quantized_to_int32(scale: float, share_off: float) -> None:
    """LiteRT rounds twice, to halves first: a third of what is divided by 3 comes out one off."""
    file = ModelFile()
    file.input("x", (2, 50), "int16", scale=0.03)
    file.tensor("y", (2, 50), "int32", scale=scale)
    file.operator("QUANTIZE", ["x"], ["y"], "QuantizeOptions", version=2)
    assert_steps(file.pack(["y"]), share_off)


@pytest.mark.parametrize("factor", [1e-30, 1e-12, 1e12, 1e30])
@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL", "AVERAGE_POOL_2D", "MEAN", "RESIZE_BILINEAR"])
def test_steps_that_dwarf_those_of_the_output(op: str, factor: float) -> None:
    """Integer ops take no such scales: floats do the work, or another op."""
    case = next(each for each in CASES if each.op == op)
    second = (0.03 * factor, -7) if case.second else None
    changed = replace(case, scale=0.06 / factor, second=second)
    graph = convert(changed.pack("int8"))
    inputs = integers(graph)
    wanted = run(graph, inputs)["y"]
    got = Model(graph, "cpu").run(inputs)["y"]
    # A sum of floats that is zero but for rounding has either sign.
    assert np.mean(np.abs(got.astype(int) - wanted) > 1) <= 0.02


def test_layers_whose_steps_dwarf_those_of_the_output() -> None:
    for scale in (1e-30, 1e30):
        model = fully_connected("int8", {"scale": scale}, STORED)
        graph = convert(model)
        inputs = integers(graph)
        wanted, got = run(graph, inputs)["y"], Model(graph, "cpu").run(inputs)["y"]
        assert np.abs(got.astype(int) - wanted).max() <= 1


def moved(op: str, **more: Any) -> Quantized:
    """An operator on stored integers whose output states another scale than its input."""
    return Quantized(op, 0, scale=0.09, zero=-40, **more)


@pytest.mark.parametrize(
    "case",
    [
        moved("REVERSE_V2", constants=(ints(1),), options="ReverseV2Options"),
        moved("MAX_POOL_2D", dims=(1, 4, 4, 8), options="Pool2DOptions", values=pool(2, 2)),
        moved("AVERAGE_POOL_2D", dims=(1, 4, 4, 8), options="Pool2DOptions", values=pool(2, 2)),
        moved("RESIZE_BILINEAR", dims=(1, 16, 16, 8), constants=(ints(16, 16),),
              options="ResizeBilinearOptions"),
        moved("MAXIMUM", second=(0.04, 3), options="MaximumMinimumOptions"),
        moved("MINIMUM", second=(0.04, 3), options="MaximumMinimumOptions"),
    ],
    ids=lambda case: case.op,
)  # fmt: skip
def test_integers_stay_on_the_steps_of_the_input_whatever_the_output_says(
    case: Quantized,
) -> None:
    """LiteRT's plain kernels suppose that both have the same; others rescale, or refuse it."""
    for dtype in case.dtypes:
        model = case.pack(dtype)
        graph = convert(model)
        inputs = integers(graph)
        wanted = litert(model, inputs, reference=True)["y"]
        off = np.abs(run(graph, inputs)["y"].astype(int) - wanted).max()
        assert off <= (1 if case.op == "RESIZE_BILINEAR" else 0)


@pytest.mark.parametrize("op", ["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS"])
def test_comparisons(op: str) -> None:
    """All pairs of integers agree: LiteRT compares in 256ths, where near numbers are equal."""
    file = ModelFile()
    file.input("x", (256, 1), "int8", scale=0.0235, zero_point=3)
    file.input("z", (1, 256), "int8", scale=0.0237, zero_point=-2)
    file.tensor("y", (256, 256), "bool")
    table = {"GREATER": "Greater", "LESS": "Less", "EQUAL": "Equal", "NOT_EQUAL": "NotEqual"}
    options = f"{table.get(op, 'GreaterEqual')}Options"
    file.operator(op, ["x", "z"], ["y"], options, version=2)
    model = file.pack(["y"])
    whole = np.arange(-128, 128).astype(np.int8)
    inputs = {"x": whole[:, None], "z": whole[None]}
    got, wanted = run(convert(model), inputs)["y"], litert(model, inputs, reference=True)["y"]
    assert wanted.any()
    assert not wanted.all()
    assert np.count_nonzero(got != wanted) <= 4


def test_the_logarithm_of_what_is_not_positive_is_the_least_number() -> None:
    assert_steps(Quantized("LOG", 0, scale=0.05, zero=-20, dtypes=INT8).pack("int8"), 0)
