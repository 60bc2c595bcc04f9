from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from palmkit.engine.compress.placement import place
from palmkit.engine.compress.quantize import Levels, prepare, quantize
from palmkit.engine.compress.ranges import METHODS
from palmkit.engine.compress.weights import WEIGHT_METHODS
from palmkit.engine.errors import QuantizationError
from palmkit.engine.ir import Array, Graph, Node, Type, check, producers
from palmkit.engine.model import Model
from tests.engine.compress.conftest import made_network, made_samples

Samples = list[dict[str, Array]]


def noise_ratio(
    graph: Graph, quantized: Graph, samples: Sequence[Mapping[str, Array]], output: str = "logits"
) -> float:
    """Error over signal, root mean squares."""
    plain, levels = Model(graph), Model(quantized)
    true = np.concatenate([plain.run(each)[output] for each in samples])
    got = np.concatenate([levels.run(each)[output] for each in samples])
    return float(np.sqrt(((got - true) ** 2).mean() / (true**2).mean()))


@pytest.mark.parametrize("weights", WEIGHT_METHODS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_stays_near_the_float_network(
    network: Graph, samples: Samples, method: str, weights: str
) -> None:
    quantized = quantize(network, samples, method=method, weights=weights)
    check(quantized)
    assert noise_ratio(network, quantized, made_samples(8, seed=9)) < 0.05


def test_inputs_outputs_and_metadata_stay(network: Graph, samples: Samples) -> None:
    network = replace(network, metadata={"kit": "none"})
    quantized = quantize(network, samples)
    assert quantized.inputs == network.inputs
    assert quantized.outputs == network.outputs
    assert quantized.metadata == network.metadata


def test_layers_read_int8_weights_int32_biases_and_uint8_activations(
    network: Graph, samples: Samples
) -> None:
    quantized = quantize(network, samples)
    written = producers(quantized)
    layers = [node for node in quantized.nodes if node.op in ("conv", "fused_conv", "gemm")]
    assert len(layers) == 5
    for node in layers:
        x, w, b = (written[name] for name in node.inputs[:3])
        assert [each.op for each in (x, w, b)] == ["dequantize_linear"] * 3
        assert quantized.constants[w.inputs[0]].dtype == np.int8
        assert quantized.constants[w.inputs[0]].min() >= -127
        assert quantized.constants[b.inputs[0]].dtype == np.int32
        assert written[x.inputs[0]].op == "quantize_linear"
        assert quantized.constants[x.inputs[2]].dtype == np.uint8
        unit = quantized.constants[x.inputs[1]] * quantized.constants[w.inputs[1]]
        assert np.array_equal(quantized.constants[b.inputs[1]], unit)
        axis = 0
        assert quantized.constants[w.inputs[1]].shape == (
            quantized.constants[w.inputs[0]].shape[axis],
        )


def test_fewer_weight_bits_leave_outputs_of_few_weights_alone(samples: Samples) -> None:
    random = np.random.default_rng(2)
    constants = {"w": (4, 3, 5, 5), "d": (4, 1, 3, 3), "b": (4,)}
    graph = Graph(
        {"image": Type("float32", (1, 12, 12, 3))},
        {"y": Type("float32", (1, 4, 12, 12))},
        (
            Node("transpose", ("image",), ("x",), {"perm": (0, 3, 1, 2)}),
            Node("conv", ("x", "w", "b"), ("c",), {"pads": (2, 2, 2, 2)}),
            Node("conv", ("c", "d", "b"), ("y",), {"pads": (1, 1, 1, 1), "group": 4}),
        ),
        {n: random.normal(0, 0.3, shape).astype(np.float32) for n, shape in constants.items()},
    )
    coarse = quantize(graph, samples, weight_bits=4)
    most = {
        value.shape: int(np.abs(value.astype(int)).max())
        for value in coarse.constants.values()
        if value.dtype == np.int8
    }
    assert most == {(4, 3, 5, 5): 7, (4, 1, 3, 3): 127}
    fine = noise_ratio(graph, quantize(graph, samples), samples, "y")
    assert fine < noise_ratio(graph, coarse, samples, "y") < 0.2


def test_what_follows_the_last_layer_stays_float(network: Graph, samples: Samples) -> None:
    quantized = quantize(network, samples)
    written = producers(quantized)
    assert written["scores"].op == "sigmoid"
    assert written["scores"].inputs == ("logits",)
    assert written["logits"].op == "gemm"


def test_a_clamp_is_absorbed_and_another_activation_is_not(samples: Samples) -> None:
    clamped = quantize(made_network(activation="relu"), samples)
    tables = quantize(made_network(activation="hard_swish"), samples)
    written = producers(tables)
    swishes = [node for node in tables.nodes if node.op == "hard_swish"]
    assert len(swishes) == 2
    assert all(written[node.inputs[0]].op == "dequantize_linear" for node in swishes)
    # The addition before the last relu is not rounded, its sum is clamped by the levels of r3.
    written = producers(clamped)
    relus = [node for node in clamped.nodes if node.op == "relu"]
    assert [written[node.inputs[0]].op for node in relus] == ["add"]


def test_what_moves_numbers_shares_their_levels(network: Graph) -> None:
    plan = place(prepare(network))
    assert plan.values["f"] == "q"


def test_nodes_to_keep_stay_float(network: Graph, samples: Samples) -> None:
    quantized = quantize(network, samples, keep=["depthwise"])
    written = producers(quantized)
    node = next(node for node in quantized.nodes if node.name == "depthwise")
    assert node.inputs[1] not in written


def test_an_output_that_is_rounded_keeps_its_name(network: Graph, samples: Samples) -> None:
    network = replace(network, outputs={**network.outputs, "r2": Type("float32", (1, 8, 6, 6))})
    quantized = quantize(network, samples)
    assert producers(quantized)["r2"].op == "dequantize_linear"
    assert noise_ratio(network, quantized, samples, "r2") < 0.05


def test_a_range_always_holds_zero() -> None:
    for low, high in ((0.5, 2.0), (-3.0, -1.0), (-1.0, 4.0)):
        levels = Levels.over(low, high)
        ends = (np.array([0, 255]) - levels.zero) * levels.scale
        assert ends[0] <= 0 <= ends[1]
        assert ends[0] <= low + levels.scale and ends[1] >= high - levels.scale
    assert Levels.over(0.0, 0.0).scale > 0


def test_symbolic_sizes_stay(network: Graph) -> None:
    shape = ("n", "height", "width", 3)
    nodes = (
        Node("transpose", ("image",), ("x",), {"perm": (0, 3, 1, 2)}),
        Node("conv", ("x", "w0", "b0"), ("c0",), {"pads": (1, 1, 1, 1)}),
        Node("relu", ("c0",), ("r0",)),
        Node("conv", ("r0", "w1", "b1"), ("y",), {"group": 8}),
    )
    graph = Graph(
        {"image": Type("float32", shape)},
        {"y": Type("float32", ("n", 8, "h", "w"))},
        nodes,
        network.constants,
    )
    quantized = quantize(graph, made_samples(6))
    assert quantized.inputs["image"].shape == shape
    larger = {"image": np.ones((2, 20, 16, 3), np.float32)}
    assert Model(quantized).run(larger)["y"].shape == (2, 8, 18, 14)


def test_no_samples(network: Graph) -> None:
    with pytest.raises(QuantizationError, match="expected at least one, got none"):
        quantize(network, [])


def test_samples_of_one_colour(network: Graph) -> None:
    plain = [{"image": np.full((1, 12, 12, 3), each, np.float32)} for each in (0.2, 0.9)]
    with pytest.raises(QuantizationError, match="got 2 of one colour each"):
        quantize(network, plain)


def test_samples_of_another_size_or_dtype(network: Graph, samples: Samples) -> None:
    wrong = [*samples[:2], {"image": np.ones((1, 12, 10, 3), np.float32)}]
    with pytest.raises(QuantizationError, match=r"sample 2: input image: expected float32\[1, 12"):
        quantize(network, wrong)
    with pytest.raises(QuantizationError, match=r"got float64\[1, 12, 12, 3\]"):
        quantize(network, [{"image": samples[0]["image"].astype(np.float64)}])
    with pytest.raises(QuantizationError, match="sample 0: expected the inputs image, got picture"):
        quantize(network, [{"picture": samples[0]["image"]}])


def test_samples_that_are_not_finite(network: Graph, samples: Samples) -> None:
    bad = samples[1]["image"].copy()
    bad[0, 3, 3, 1] = np.nan
    with pytest.raises(QuantizationError, match="sample 1: input image: expected finite numbers"):
        quantize(network, [samples[0], {"image": bad}])


def test_values_that_become_infinite_on_the_way(network: Graph) -> None:
    huge = [{"image": each["image"] * np.float32(3e38)} for each in made_samples(2)]
    with pytest.raises(QuantizationError, match=r"sample 0: value \w+: expected finite numbers"):
        quantize(network, huge)


def test_weights_that_are_not_finite(network: Graph, samples: Samples) -> None:
    weights = network.constants["w2"].copy()
    weights[1, 2] = np.inf
    broken = replace(network, constants={**network.constants, "w2": weights})
    with pytest.raises(QuantizationError, match="weights w2: expected finite numbers, got 1 of 64"):
        quantize(broken, samples)


def test_a_graph_without_layers(samples: Samples) -> None:
    shape = Type("float32", (1, 12, 12, 3))
    graph = Graph({"image": shape}, {"y": shape}, (Node("relu", ("image",), ("y",)),))
    with pytest.raises(QuantizationError, match="no layer can be quantized"):
        quantize(graph, samples)


def test_dead_channels_and_large_biases(network: Graph, samples: Samples) -> None:
    weights = network.constants["w2"].copy()
    weights[3] = 0
    weights[4] = 1e-12
    bias = network.constants["b2"].copy()
    bias[4] = 50
    odd = replace(network, constants={**network.constants, "w2": weights, "b2": bias})
    assert noise_ratio(odd, quantize(odd, samples), samples) < 0.05


def test_unknown_methods_are_refused(network: Graph, samples: Samples) -> None:
    with pytest.raises(ValueError, match="method: expected one of min_max"):
        quantize(network, samples, method="magic")
    with pytest.raises(ValueError, match="weights: expected one of max"):
        quantize(network, samples, weights="magic")
    with pytest.raises(ValueError, match="weight_bits: expected 2..8, got 9"):
        quantize(network, samples, weight_bits=9)
