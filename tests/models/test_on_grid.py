from __future__ import annotations

import numpy as np
import pytest

from palmkit.engine.ir import Array
from palmkit.engine.model import Model
from tests.engine.compress.conftest import made_network, made_samples

torch = pytest.importorskip("torch")

from palmkit.models.training.on_grid import OnGrid, on_grid  # noqa: E402


def whole_levels(network: OnGrid) -> dict[str, Array]:
    """Of the weights that the exported graph has on a grid, their levels."""
    constants = network.quantized().constants
    return {
        name: constants[name] / getattr(network, f"unit_{number}").numpy()
        for number, name in enumerate(network.names)
        if network.on_grid[number]
    }


def test_weights_stay_on_their_grid_and_come_nearer_to_the_float_network() -> None:
    torch.manual_seed(4)
    samples = made_samples(16)
    graph = made_network()
    network = on_grid(graph, samples, width=4.0)
    batch = {"image": torch.from_numpy(np.concatenate([each["image"] for each in samples]))}
    truth = np.concatenate([Model(graph).run(each)["logits"] for each in samples])

    def outputs() -> Array:
        model = Model(network.quantized())
        return np.concatenate([model.run(each)["logits"] for each in samples])

    before = outputs()
    with torch.no_grad():
        found = network(batch, ["logits"])["logits"].numpy()
    # The file has its biases as float16: off by half of 2^-10 of themselves, layer behind layer.
    np.testing.assert_allclose(found, before, rtol=0, atol=2**-10 * np.abs(before).max())
    optimiser = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        apart = network(batch, ["logits"])["logits"] - torch.from_numpy(truth)
        apart.square().mean().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert ((outputs() - truth) ** 2).mean() < 0.5 * ((before - truth) ** 2).mean()
    levels = whole_levels(network)
    assert levels
    for name, each in levels.items():
        assert np.array_equal(each, np.rint(each)) and np.abs(each).max() <= 127, name
        assert not np.signbit(each[each == 0]).any()


def test_the_teacher_is_the_network_before_rounding() -> None:
    samples = made_samples(8)
    graph = made_network()
    network = on_grid(graph, samples, width=4.0)
    batch = {"image": torch.from_numpy(samples[0]["image"])}
    said = network.float_network()(batch, ["logits"])["logits"].numpy()
    np.testing.assert_allclose(said, Model(graph).run(samples[0])["logits"], rtol=0, atol=1e-5)
    assert not np.allclose(network(batch, ["logits"])["logits"].detach().numpy(), said, atol=1e-5)
