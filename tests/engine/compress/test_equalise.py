from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from palmkit.engine.compress.bias_correction import correct_biases
from palmkit.engine.compress.equalise import equalise
from palmkit.engine.compress.observe import observe
from palmkit.engine.compress.placement import place
from palmkit.engine.compress.quantize import prepare, quantize
from palmkit.engine.compress.sensitivity import OutputNoise
from palmkit.engine.ir import Array, Graph
from palmkit.engine.model import Model
from tests.engine.compress.conftest import made_samples

Samples = list[dict[str, Array]]


def uneven(network: Graph) -> Graph:
    """Return the same function with channels of very different ranges."""
    constants = dict(network.constants)
    by = np.array([60, 0.02, 1, 8, 0.1, 30, 1, 0.5], np.float32)
    # The depthwise layer's output.
    for name in ("w1", "b1"):
        constants[name] = constants[name] * by.reshape(-1, *[1] * (constants[name].ndim - 1))
    constants["w2"] = constants["w2"] / by.reshape(1, -1, 1, 1)
    # The stem's, the residual's, the context's: all one group.
    for name in ("w0", "b0", "w2", "b2", "w3", "b3"):
        constants[name] = constants[name] * by.reshape(-1, *[1] * (constants[name].ndim - 1))
    constants["w1"] = constants["w1"] / by.reshape(-1, 1, 1, 1)
    constants["w3"] = constants["w3"] / by.reshape(1, -1, 1, 1)
    constants["w4"] = constants["w4"] / by.reshape(1, -1)
    return replace(network, constants=constants)


def test_the_function_stays(network: Graph, samples: Samples) -> None:
    plain = prepare(uneven(network))
    seen = observe(plain, samples, place(plain).values)
    even = equalise(plain, seen)
    assert even is not plain
    for sample in samples[:4]:
        true, got = Model(plain).run(sample)["logits"], Model(even).run(sample)["logits"]
        assert np.allclose(true, got, rtol=1e-4, atol=1e-4)


def test_channels_between_layers_get_like_ranges(network: Graph, samples: Samples) -> None:
    plain = prepare(uneven(network))
    seen = observe(plain, samples, place(plain).values)
    after = observe(equalise(plain, seen), samples, ["r1"])["r1"].channel_reach
    before = seen["r1"].channel_reach
    assert before.max() / before.min() > 500
    assert after.max() / after.min() < before.max() / before.min() / 10


def test_quantized_uneven_channels_lose_less(network: Graph, samples: Samples) -> None:
    graph = uneven(network)
    noise = OutputNoise(graph, made_samples(8, seed=4))
    rough, even = (
        noise(quantize(graph, samples, method="min_max", equalised=each, corrected=False))
        for each in (False, True)
    )
    assert even < 0.5 * rough


@pytest.mark.parametrize("weights", ["max", "admm"])
def test_corrected_biases_keep_the_means(
    network: Graph, samples: Samples, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With few levels the error of the weights is plain to see.
    for name in ("bias_correction", "quantize"):
        module = f"palmkit.engine.compress.{name}"
        monkeypatch.setattr(f"{module}.levels_of", _coarse)
    plain = prepare(network)
    placement = place(plain)
    seen = observe(plain, samples, placement.values)
    fixed = correct_biases(plain, placement, seen, weights)
    changed = {name for name in fixed.constants if name.endswith(".corrected")}
    assert len(changed) == 5
    mean = float(np.mean([Model(network).run(each)["logits"] for each in samples]))
    errors: list[float] = []
    for corrected in (False, True):
        quantized = Model(
            quantize(network, samples, method="min_max", equalised=False, corrected=corrected)
        )
        got = np.mean([quantized.run(each)["logits"] for each in samples])
        errors.append(abs(float(got) - mean))
    assert errors[1] < 0.5 * errors[0]


def _coarse(rows: Array, scales: Array, most: int) -> Array:
    """Levels in steps of 16."""
    return np.asarray(np.clip(np.rint(rows / scales[:, None] / 16) * 16, -most, most))
