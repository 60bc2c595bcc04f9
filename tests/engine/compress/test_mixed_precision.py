from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from palmkit.engine.compress.mixed_precision import quantize_within
from palmkit.engine.compress.quantize import Settings
from palmkit.engine.compress.sensitivity import OutputNoise, sensitivities
from palmkit.engine.errors import QuantizationError, ShapeError
from palmkit.engine.ir import Array, Graph

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
