from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from palmkit.engine.compress.mixed_precision import quantize_within
from palmkit.engine.compress.placement import is_layer
from palmkit.engine.compress.quantize import Quantizer, Settings
from palmkit.engine.compress.sensitivity import OutputNoise, noises, sensitivities
from palmkit.engine.compress.speed import Costs, Part, measured
from palmkit.engine.errors import QuantizationError, ShapeError
from palmkit.engine.ir import Array, Graph
from palmkit.engine.passes import optimise

Samples = list[dict[str, Array]]
PLAIN = Settings("min_max", equalised=False, corrected=False)


def fragile(network: Graph) -> Graph:
    """Its pointwise layer has one weight far larger than the others of each channel."""
    weights = network.constants["w2"].copy()
    weights[:, 0] *= 400
    depthwise = network.constants["w1"].copy()
    depthwise[0] /= 400
    bias = network.constants["b1"].copy()
    bias[0] /= 400
    changed = {"w2": weights, "w1": depthwise, "b1": bias}
    return replace(network, constants={**network.constants, **changed})


def test_the_fragile_layer_is_the_most_sensitive(network: Graph, samples: Samples) -> None:
    found = sensitivities(fragile(network), samples, PLAIN)
    assert len(found) == 5
    assert max(found, key=lambda name: found[name]) == "r2"


def test_a_limit_keeps_the_fragile_layer_float(network: Graph, samples: Samples) -> None:
    graph = fragile(network)
    noise = OutputNoise(graph, samples)
    everything = quantize_within(graph, samples, 10.0, settings=PLAIN)
    assert everything.kept == ()
    mixed = quantize_within(graph, samples, 0.25 * everything.error, settings=PLAIN)
    assert mixed.kept[0] == "r2" and len(mixed.kept) < 4
    assert noise(mixed.graph) == pytest.approx(mixed.error)
    assert mixed.error <= 0.25 * everything.error


def test_an_impossible_limit_says_what_was_reached(network: Graph, samples: Samples) -> None:
    with pytest.raises(QuantizationError, match="expected at most 1e-09, reached 0.0"):
        quantize_within(network, samples, 1e-9)


def test_noise_of_the_graph_itself_is_nothing(network: Graph, samples: Samples) -> None:
    noise = OutputNoise(network, samples)
    assert noise(network) == 0
    with pytest.raises(ShapeError, match="outputs: expected scores, logits, got logits"):
        noise(replace(network, outputs={"logits": network.outputs["logits"]}))
    constants = {**network.constants, "w4": np.zeros_like(network.constants["w4"])}
    assert noise(replace(network, constants=constants)) > 0.9


def given(quantizer: Quantizer, slow: str = "", conversion_s: float = 0.0) -> Costs:
    """Return costs as if every layer took 2 with floats and 1 in integers, a slow one 4."""
    parts = [
        Part((node.outputs[0],), 2.0, 4.0 if node.outputs[0] == slow else 1.0)
        if is_layer(node.op)
        else Part((node.outputs[0],), 0.0, 0.0)
        for node in quantizer.graph.nodes
    ]
    return Costs(parts, lambda count: conversion_s, {})


def test_layers_alone_lose_what_they_lose_in_a_graph(network: Graph, samples: Samples) -> None:
    quantizer = Quantizer(fragile(network), samples, PLAIN)
    noise = OutputNoise(quantizer.graph, samples)
    layers = [node.outputs[0] for node in quantizer.graph.nodes if is_layer(node.op)]
    found = noises(quantizer, tried=len(samples))
    assert list(found) == layers
    for name, got in found.items():
        others = [each for each in layers if each != name]
        # In a graph its result is not rounded, but nodes round it are as well.
        assert got == pytest.approx(noise(quantizer.quantized(others)), rel=0.5)


def test_a_layer_that_is_slower_in_integers_stays_float(network: Graph, samples: Samples) -> None:
    mixed = quantize_within(
        network, samples, 10.0, settings=PLAIN, costs=lambda q: given(q, slow="r1")
    )
    assert mixed.kept == ("r1",)
    assert [layer.why for layer in mixed.layers if not layer.integer] == ["no faster in int8"]
    assert sum(layer.integer for layer in mixed.layers) == 4
    ops = {node.name: node.op for node in optimise(mixed.graph).nodes}
    assert ops["depthwise"] == "fused_conv" and ops["pointwise"] == "quantized_conv"


def test_integers_that_gain_less_than_their_conversions_stay_float(
    network: Graph, samples: Samples
) -> None:
    # Whole, the run of five layers gains 5, and only the picture is converted.
    whole = quantize_within(
        network, samples, 10.0, settings=PLAIN, costs=lambda q: given(q, conversion_s=3.0)
    )
    assert whole.kept == ()
    with pytest.raises(QuantizationError, match="no layer takes less time in integers"):
        quantize_within(
            network, samples, 10.0, settings=PLAIN, costs=lambda q: given(q, conversion_s=6.0)
        )


def test_a_limit_keeps_what_loses_most_for_its_time(network: Graph, samples: Samples) -> None:
    graph = fragile(network)
    everything = quantize_within(graph, samples, 10.0, settings=PLAIN)
    limit = 0.25 * everything.error
    mixed = quantize_within(graph, samples, limit, settings=PLAIN, costs=given)
    assert mixed.error <= limit and "r2" in mixed.kept
    (fragile_one,) = (layer for layer in mixed.layers if layer.name == "pointwise")
    assert not fragile_one.integer and fragile_one.why == "loses most for its time"
    assert fragile_one.noise == max(layer.noise or 0.0 for layer in mixed.layers)
    assert (fragile_one.float_ms, fragile_one.integer_ms) == (2000.0, 1000.0)


def test_the_method_that_loses_least_is_taken(network: Graph, samples: Samples) -> None:
    noise = OutputNoise(network, samples)
    methods = ("kl", "min_max", "percentile")
    found = quantize_within(network, samples, 10.0, methods=methods)
    quantizer = Quantizer(network, samples)
    errors = {method: noise(quantizer.quantized(method=method)) for method in methods}
    assert found.method == min(methods, key=lambda method: errors[method])
    assert found.error == pytest.approx(min(errors.values()))


def test_measured_costs_cover_every_layer(network: Graph, samples: Samples) -> None:
    pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")
    quantizer = Quantizer(network, samples)
    costs = measured(quantizer)
    names = [name for part in costs.parts for name in part.nodes]
    assert sorted(names) == sorted(node.outputs[0] for node in quantizer.graph.nodes)
    layers = {node.outputs[0] for node in quantizer.graph.nodes if is_layer(node.op)}
    for part in costs.parts:
        if layers & set(part.nodes):
            assert part.float_s > 0 and part.integer_s > 0
    assert 0 < costs.conversion_s(64) <= costs.conversion_s(1 << 20)
