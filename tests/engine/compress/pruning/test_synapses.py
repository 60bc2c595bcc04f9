from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from palmkit.engine.compress.pipeline import State
from palmkit.engine.compress.prune_synapses import (
    Block,
    SynapseMethod,
    SynapsePruner,
    SynapsePruning,
    choose_weights,
    in_blocks,
    kept_share,
    layer_adaptive,
    of_blocks,
    prunable,
)
from palmkit.engine.compress.tuning import Tuner
from palmkit.engine.errors import ShapeError, UnsupportedError
from palmkit.engine.ir import Array, Graph
from palmkit.engine.model import Model

Sample = Callable[..., dict[str, Array]]


def distance(a: Graph, b: Graph, samples: list[dict[str, Array]]) -> float:
    first, second = Model(a), Model(b)
    return float(
        np.mean(
            [np.square(first.run(s)["logits"] - second.run(s)["logits"]).mean() for s in samples]
        )
    )


def density(graph: Graph, names: dict[str, int]) -> float:
    there = sum(np.count_nonzero(graph.constants[name]) for name in names)
    return there / sum(graph.constants[name].size for name in names)


def test_schedule() -> None:
    assert kept_share(1.0, 0.1, 0.0) == 1.0 and kept_share(1.0, 0.1, 1.0) == pytest.approx(0.1)
    assert kept_share(1.0, 0.1, 0.5) == pytest.approx(0.1 + 0.9 / 8)
    assert kept_share(0.5, 0.1, 7.0) == pytest.approx(0.1)


def test_layer_adaptive_by_hand() -> None:
    scores = layer_adaptive(np.array([4.0, 1.0, 0.0, 5.0]))
    np.testing.assert_allclose(scores, [4 / 9, 1 / 10, 0, 1])
    # The best of every layer is worth the same.
    assert layer_adaptive(np.array([1e-9, 2e-9])).max() == pytest.approx(1)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("block", [(1, 1), (1, 4), (4, 1), (3, 2), (64, 64)])
def test_blocks(axis: int, block: Block) -> None:
    values = np.random.default_rng(0).random((7, 5, 3, 3))
    sums = in_blocks(values, axis, block)
    assert sums.sum() == pytest.approx(values.sum())
    keep = sums > np.median(sums) - 1e-9
    mask = of_blocks(keep, values.shape, axis, block)
    assert mask.shape == values.shape
    assert ((in_blocks(mask, axis, block) > 0) == keep).all()
    assert in_blocks(~mask, axis, block)[keep].sum() == 0


def test_choice_is_global() -> None:
    draw = np.random.default_rng(0)
    scores = {"a": draw.random((6, 8)), "b": 3 * draw.random((4, 8))}
    keep = choose_weights(scores, {"a": 0, "b": 0}, 0.25)
    kept = np.concatenate([scores[name][keep[name]] for name in scores])
    lost = np.concatenate([scores[name][~keep[name]] for name in scores])
    assert len(kept) == 20 and kept.min() > lost.max()


@pytest.mark.parametrize("method", ["magnitude", "snip", "movement"])
def test_methods(classifier: Graph, sample: Sample, method: SynapseMethod) -> None:
    """Each prunes to the share asked for and stays nearer than weights drawn at random would."""
    samples = [sample(classifier, seed) for seed in range(6)]
    tuner = Tuner(classifier, classifier, samples, rate=2e-3)
    pruner = SynapsePruner(classifier, method, tuner=tuner)
    pruner.gradually(0.5, 120)
    graph = pruner.pruned()
    assert density(graph, pruner.axes) == pytest.approx(0.5, abs=0.01)
    assert pruner.density == pytest.approx(0.5, abs=0.01)
    draw = np.random.default_rng(0)
    constants = dict(classifier.constants)
    for name in pruner.axes:
        constants[name] = constants[name] * (draw.random(constants[name].shape) < 0.5)
    wild = distance(classifier, replace(classifier, constants=constants), samples)
    assert distance(classifier, graph, samples) < 0.3 * wild


def test_snip_sees_what_the_outputs_hang_on(classifier: Graph, sample: Sample) -> None:
    """Weights of which the outputs hear nothing are worth nothing, however large they are."""
    name = classifier.nodes[9].inputs[1]
    reader = classifier.nodes[-3].inputs[1]
    constants = dict(classifier.constants)
    loud, deaf = constants[name].copy(), constants[reader].copy()
    loud[3] *= 100
    # Channel 3 of the right side is the eleventh of the concatenation.
    deaf[:, 8 + 3] = 0
    graph = replace(classifier, constants={**constants, name: loud, reader: deaf})
    samples = [sample(graph, seed) for seed in range(4)]
    scores = SynapsePruner(graph, "snip", tuner=Tuner(graph, graph, samples)).scores()
    assert not scores[name][3].any() and scores[name][2].any()


def test_gradual_pruning_beats_one_shot(classifier: Graph, sample: Sample) -> None:
    samples = [sample(classifier, seed) for seed in range(6)]
    once = SynapsePruner(classifier)
    once.prune(0.4)
    tuner = Tuner(classifier, classifier, samples, rate=2e-3)
    slowly = SynapsePruner(classifier, tuner=tuner)
    slowly.gradually(0.4, 120)
    assert distance(classifier, slowly.pruned(), samples) < 0.5 * distance(
        classifier, once.pruned(), samples
    )


@pytest.mark.parametrize("block", [(1, 4), (4, 1)])
def test_block_sparsity(classifier: Graph, block: Block) -> None:
    pruner = SynapsePruner(classifier, block=block)
    pruner.prune(0.5)
    graph = pruner.pruned()
    for name, axis in prunable(classifier).items():
        there = in_blocks(graph.constants[name] != 0, axis, block)
        whole = in_blocks(np.ones(graph.constants[name].shape), axis, block)
        assert set(np.unique(there / whole)) <= {0.0, 1.0}


def test_step(classifier: Graph, sample: Sample) -> None:
    samples = [sample(classifier, seed) for seed in range(6)]

    def evaluate(other: Graph) -> float:
        return -distance(classifier, other, samples)

    state = State(classifier, classifier, samples, evaluate, 0.0, 0.0, floor=-1e-2)
    after = SynapsePruning(steps=40, rate=2e-3).apply(state)
    assert state.allows(after.graph)
    names = prunable(after.graph)
    assert density(after.graph, names) < 0.75
    assert "are zero" in after.notes[0]
    assert SynapsePruning(steps=0).apply(replace(state, floor=1.0)).graph is classifier


def test_what_is_wrong(classifier: Graph) -> None:
    with pytest.raises(UnsupportedError, match="needs samples"):
        SynapsePruner(classifier, "snip")
    with pytest.raises(ShapeError, match="block"):
        SynapsePruner(classifier, block=(0, 1))
