from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from palmkit.engine.compress.channel_rules import channels_of
from palmkit.engine.compress.narrow import masked, narrow
from palmkit.engine.compress.pipeline import State
from palmkit.engine.compress.prune_neurons import (
    NeuronPruning,
    channel_weights,
    channel_worth,
    choose,
    compensated,
    observe_channels,
    prune_channels,
    remove_unread,
)
from palmkit.engine.compress.tuning import Tuner, within
from palmkit.engine.errors import ShapeError, UnsupportedError
from palmkit.engine.ir import Array, Graph
from palmkit.engine.model import Model

Sample = Callable[..., dict[str, Array]]


def elements(graph: Graph) -> int:
    return sum(value.size for value in graph.constants.values())


def distance(a: Graph, b: Graph, samples: list[dict[str, Array]]) -> float:
    first, second = Model(a), Model(b)
    return float(
        np.mean(
            [np.square(first.run(s)["logits"] - second.run(s)["logits"]).mean() for s in samples]
        )
    )


def test_weights_that_leave_are_those_counted(everything: Graph) -> None:
    channels = channels_of(everything)
    counts = channel_weights(channels)
    for root in sorted(channels.free):
        fewer = elements(everything) - elements(narrow(channels, {root}))
        assert fewer <= counts[root] <= 1.1 * fewer


def test_share_of_weights(classifier: Graph, sample: Sample) -> None:
    samples = [sample(classifier, seed) for seed in range(4)]
    for share in (0.1, 0.3, 0.5):
        small = prune_channels(classifier, share, samples)
        assert share - 0.02 <= 1 - elements(small) / elements(classifier) <= share + 0.1
    assert elements(prune_channels(classifier, 0.3)) < 0.72 * elements(classifier)


def test_a_fifth_of_each_value_stays(classifier: Graph) -> None:
    channels = channels_of(classifier)
    small = narrow(channels, choose(channels, channel_worth(channels), 1.0))
    after = channels_of(small)
    for name, labelled in channels.values.items():
        assert len(after.values[name].labels) >= round(0.2 * len(labelled.labels))


def test_a_silent_channel_goes_first(classifier: Graph, sample: Sample) -> None:
    """One that is always the same is worth nothing, and its bias makes up for it."""
    # The first convolution of the concatenation's right side.
    name = classifier.nodes[9].inputs[1]
    value = classifier.constants[name].copy()
    value[4] = 0
    bias = classifier.constants[classifier.nodes[9].inputs[2]].copy()
    bias[4] = 3.0
    graph = replace(
        classifier,
        constants={**classifier.constants, name: value, classifier.nodes[9].inputs[2]: bias},
    )
    samples = [sample(graph, seed) for seed in range(3)]
    channels = channels_of(graph)
    seen = observe_channels(channels, samples)
    worth = channel_worth(channels, "response", seen)
    silent = channels.root(channels.values[graph.nodes[9].outputs[0]].labels[4])
    assert worth[silent] == pytest.approx(0, abs=1e-9) and max(worth.values()) > 0.1
    mended = compensated(channels, {silent}, seen)
    inputs = sample(graph, 9)
    whole = Model(graph).run(inputs)["logits"]
    np.testing.assert_allclose(
        Model(narrow(channels_of(mended), {silent})).run(inputs)["logits"],
        whole,
        rtol=1e-4,
        atol=1e-5,
    )
    assert np.abs(Model(masked(channels, {silent})).run(inputs)["logits"] - whole).max() > 1e-2


def test_response_loses_less_than_magnitude(classifier: Graph, sample: Sample) -> None:
    samples = [sample(classifier, seed) for seed in range(12)]
    lost = {
        method: distance(classifier, prune_channels(classifier, 0.3, samples, method), samples)
        for method in ("response", "magnitude")
    }
    assert lost["response"] < distance(classifier, prune_channels(classifier, 0.3), samples)
    assert lost["response"] < lost["magnitude"]


def test_what_nobody_reads_leaves(everything: Graph, sample: Sample) -> None:
    channels = channels_of(everything)
    draw = np.random.default_rng(1)
    gone = {root for root in channels.free if draw.random() < 0.4}
    zeroed = masked(channels, gone)
    small = remove_unread(zeroed)
    assert elements(small) <= elements(narrow(channels, gone))
    inputs = sample(everything)
    first, second = Model(zeroed).run(inputs), Model(small).run(inputs)
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=1e-4, atol=1e-5)
    assert remove_unread(small) is small


def test_fine_tuning_brings_it_back(classifier: Graph, sample: Sample) -> None:
    samples = [sample(classifier, seed) for seed in range(6)]
    small = prune_channels(classifier, 0.3, samples)
    before = distance(classifier, small, samples)
    tuner = Tuner(small, classifier, samples, rate=3e-3)
    tuner.tune(120)
    assert distance(classifier, tuner.graph, samples) < 0.3 * before


def state_of(graph: Graph, samples: list[dict[str, Array]], floor: float) -> State:
    def evaluate(other: Graph) -> float:
        return -distance(graph, other, samples)

    return State(graph, graph, samples, evaluate, 0.0, 0.0, floor)


def test_step_goes_as_far_as_allowed(classifier: Graph, sample: Sample) -> None:
    samples = [sample(classifier, seed) for seed in range(6)]
    step = NeuronPruning(steps=40, rate=3e-3)
    loose, tight = (state_of(classifier, samples, floor) for floor in (-3e-1, -1e-2))
    far, near = step.apply(loose), step.apply(tight)
    assert elements(far.graph) < elements(near.graph) <= elements(classifier)
    assert loose.allows(far.graph) and tight.allows(near.graph)
    assert "channels gone" in far.notes[0]
    assert step.apply(replace(loose, floor=1.0)).graph is classifier


def test_bad_samples(classifier: Graph) -> None:
    with pytest.raises(ShapeError, match="at least one"):
        observe_channels(channels_of(classifier), [])
    with pytest.raises(ShapeError, match="at least one"):
        Tuner(classifier, classifier, [])
    with pytest.raises(ShapeError):
        prune_channels(classifier, 0.2, [{"image": np.zeros((1, 3, 7), np.float32)}])


def test_nothing_to_train(build: Callable[[], object]) -> None:
    from palmkit.engine.ir import Node, Type

    type = Type("float32", (1, 4))
    graph = Graph({"x": type}, {"y": type}, (Node("relu", ("x",), ("y",)),))
    with pytest.raises(UnsupportedError, match="no weights"):
        Tuner(graph, graph, [{"x": np.zeros((1, 4), np.float32)}])


def test_only_what_is_over_its_loss_is_fine_tuned(
    classifier: Graph, sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [sample(classifier, seed) for seed in range(6)]
    small = prune_channels(classifier, 0.2, samples)
    lost = distance(classifier, small, samples)
    tried: list[int] = []

    def settle(tuner: Tuner, steps: int) -> None:
        tried.append(steps)

    monkeypatch.setattr(Tuner, "settle", settle)
    allowed = state_of(classifier, samples, -1.01 * lost)
    assert within(small, allowed, 40, 3e-3) == (small, "") and not tried
    hopeless = state_of(classifier, samples, -lost / 100)
    assert within(small, hopeless, 40, 3e-3) == (None, "") and not tried
    near = state_of(classifier, samples, -lost / 2)
    assert within(small, near, 40, 3e-3) == (None, "") and tried == [40]
    assert within(small, near, 0, 3e-3) == (None, "") and tried == [40]


def test_fine_tuning_brings_what_is_near_within_its_loss(classifier: Graph, sample: Sample) -> None:
    samples = [sample(classifier, seed) for seed in range(6)]
    small = prune_channels(classifier, 0.3, samples)
    state = state_of(classifier, samples, -distance(classifier, small, samples) / 2)
    tuned, _ = within(small, state, 120, 3e-3)
    assert tuned is not None and state.allows(tuned)


@pytest.mark.parametrize("rate", [3e-3, 0.03, 1e6])
def test_a_rate_that_is_too_high_does_no_harm(
    classifier: Graph, sample: Sample, rate: float
) -> None:
    samples = [sample(classifier, seed) for seed in range(6)]
    small = prune_channels(classifier, 0.2, samples)
    before = distance(classifier, small, samples)
    tuner = Tuner(small, classifier, samples, rate=rate)
    tuner.settle(40)
    after = distance(classifier, tuner.graph, samples)
    assert after == before if rate > 1 else after < before
