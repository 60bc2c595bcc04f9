"""How errors of layers' outputs count, and rounding that makes use of it."""

from dataclasses import replace

import numpy as np
import pytest

from palmkit.engine import Graph, Model
from palmkit.engine.compress.curvature import output_moments, output_steps
from palmkit.engine.compress.in_turn import rounded_in_turn, steps_in_turn
from palmkit.engine.compress.layers import find_layers
from palmkit.engine.compress.rounding import MOST_LEVEL, Feedback, costs_left, grid_of, nearest_on
from palmkit.engine.ir import Array, Node, Type

CODE, OUTPUTS = 24, 40


def coded() -> Graph:
    """A wide product to a code whose numbers say nearly the same, and one of that to outputs."""
    draw = np.random.default_rng(0)
    shared = draw.normal(size=(OUTPUTS, 3)) @ draw.normal(size=(3, CODE))
    constants: dict[str, Array] = {
        "w": draw.normal(size=(CODE, 60)).astype(np.float32),
        "b": draw.normal(size=CODE).astype(np.float32),
        "p": (shared + 0.05 * draw.normal(size=shared.shape)).astype(np.float32),
    }
    nodes = (
        Node("gemm", ("x", "w", "b"), ("code",), {"transB": 1}),
        Node("gemm", ("code", "p"), ("y",), {"transB": 1}),
    )
    inputs = {"x": Type("float32", (1, 60))}
    return Graph(inputs, {"y": Type("float32", (1, OUTPUTS))}, nodes, constants)


def samples(count: int, seed: int) -> list[dict[str, Array]]:
    draw = np.random.default_rng(seed)
    return [{"x": draw.normal(size=(1, 60)).astype(np.float32)} for _ in range(count)]


def quiet(share: float, what: str) -> None:
    pass


def test_moments_are_those_of_the_gradients() -> None:
    graph = coded()
    layer = find_layers(graph)[0]
    found = output_moments(graph, [layer], samples(4000, 1), quiet)["w"]
    values = np.stack([Model(graph).run(each)["y"] for each in samples(4000, 1)])
    p = graph.constants["p"].astype(np.float64)
    expected = p.T @ p / OUTPUTS / values.astype(np.float64).var()
    diagonal = np.diag(found[0]) / 1.05
    off = found[0] - np.diag(np.diag(found[0]))
    assert np.allclose(diagonal, np.diag(expected), rtol=0.15)
    assert np.corrcoef(off.ravel(), (expected - np.diag(np.diag(expected))).ravel())[0, 1] > 0.99


def test_of_convolutions_all_places_count() -> None:
    draw = np.random.default_rng(2)
    constants: dict[str, Array] = {"w": draw.normal(size=(8, 5, 3, 3)).astype(np.float32)}
    nodes = (Node("conv", ("x", "w"), ("y",), {"pads": (1, 1, 1, 1)}),)
    kind = Type("float32", (1, 5, 6, 6))
    graph = Graph({"x": kind}, {"y": Type("float32", (1, 8, 6, 6))}, nodes, constants)
    seen = [{"x": draw.normal(size=(1, 5, 6, 6)).astype(np.float32)} for _ in range(300)]
    (found,) = output_moments(graph, find_layers(graph), seen, quiet)["w"]
    own = np.diag(found)
    # Every output is one of the model's: all alike, and none says anything of another.
    assert np.allclose(own, own.mean(), rtol=0.2)
    assert np.abs(found - np.diag(own)).max() < 0.1 * own.mean()


def test_what_does_not_matter_moves_nothing() -> None:
    graph = coded()
    graph = replace(graph, outputs={**graph.outputs, "code": Type("float32", (1, CODE))})
    layer = find_layers(graph)[0]
    seen = samples(50, 3)
    alone = output_moments(graph, [layer], seen, quiet, {"code": 0.0})["w"]
    both = output_moments(graph, [layer], seen, quiet)["w"]
    assert np.trace(both[0]) > 1.2 * np.trace(alone[0])


def test_rows_take_up_what_others_lose() -> None:
    graph, fresh = coded(), samples(200, 4)
    layers = find_layers(graph)[:1]
    seen = samples(1500, 5)
    together = output_moments(graph, layers, seen[:400], quiet)
    model = Model(graph)

    def error(weights: dict[str, Array] | None) -> float:
        steps = {"w": np.full((1, CODE), 0.7)}
        now = Model(rounded_in_turn(graph, layers, steps, seen, quiet, weights))
        off = [now.run(each)["y"] - model.run(each)["y"] for each in fresh]
        return float(np.sqrt(np.mean(np.square(off))))

    assert error(together) < 0.6 * error(None)


def test_both_ways_gives_whole_steps_too() -> None:
    draw = np.random.default_rng(6)
    groups = draw.normal(size=(2, 7, 9))
    square = draw.normal(size=(2, 9, 30))
    weight = draw.normal(size=(2, 7, 20))
    units = grid_of(groups, np.full((2, 7), 0.3))
    assert units is not None
    feedback = [Feedback.of(each) for each in np.matmul(square, square.transpose(0, 2, 1))]
    near = nearest_on(units, groups, feedback, np.matmul(weight, weight.transpose(0, 2, 1)))
    levels = near / units
    assert np.array_equal(levels, np.rint(levels)) and not np.signbit(near[near == 0]).any()
    # Where errors of the rows have nothing to do with one another, it is as without.
    apart = np.broadcast_to(np.eye(7), (2, 7, 7))
    assert np.array_equal(
        nearest_on(units, groups, feedback, apart), nearest_on(units, groups, feedback)
    )


def test_what_is_never_seen_is_rounded_to_the_nearest() -> None:
    groups = np.random.default_rng(11).normal(size=(1, 5, 8))
    units = np.full((1, 5, 1), 0.3)
    nothing = [Feedback.of(np.zeros((8, 8)))], np.zeros((1, 5, 5))
    assert np.allclose(nearest_on(units, groups, *nothing), np.rint(groups / 0.3) * 0.3)


def test_steps_of_rows_are_wide_enough_for_all_weights() -> None:
    groups = np.random.default_rng(7).normal(size=(1, 4, 50))
    groups[0, 1, 3] = 1000
    steps = np.array([[0.1, 0.1, 1e-9, 3.0]])
    units = grid_of(groups, steps)
    assert units is not None
    assert (np.abs(groups) <= (MOST_LEVEL + 0.5) * units).all()
    assert units[0, 3, 0] == pytest.approx(3, rel=0.35)


def test_costs_left_are_those_of_errors_that_later_ones_cannot_take_up() -> None:
    moments = np.array([[4.0, 1.0], [1.0, 1.0]])
    first, second = costs_left(moments)
    # The dearer one is rounded first; the other then bears only its own.
    assert first == pytest.approx(4 - 1**2, rel=0.05)
    assert second == pytest.approx(1, rel=0.05)


def test_steps_follow_what_rows_cost_at_the_same_middle() -> None:
    graph = coded()
    layer = find_layers(graph)[0]
    together = np.diag(np.geomspace(1, 100, CODE))[None]
    steps = output_steps(layer, graph.constants["w"], together)[0]
    assert np.exp(np.log(steps).mean()) == pytest.approx(1)
    assert steps[0] > 3 * steps[-1]


def test_what_is_hardly_seen_gets_wide_steps() -> None:
    graph = coded()
    quieter = {**graph.constants, "p": graph.constants["p"] / 100}
    louder = Node("gemm", ("x", "v"), ("loud",), {"transB": 1})
    constants = {**quieter, "v": np.random.default_rng(8).normal(size=(OUTPUTS, 60))}
    constants["v"] = constants["v"].astype(np.float32)
    nodes = (*graph.nodes[:-1], replace(graph.nodes[-1], outputs=("quiet",)), louder)
    nodes = (*nodes, Node("add", ("quiet", "loud"), ("y",)))
    graph = Graph(graph.inputs, graph.outputs, nodes, constants)
    layers = find_layers(graph)
    told: list[float] = []
    steps = steps_in_turn(
        graph, layers, samples(300, 9), samples(50, 10), lambda s, _: told.append(s), {}
    )
    assert steps["w"].shape == (1, CODE) and steps["v"].shape == (1, OUTPUTS)
    assert steps["w"].mean() > 4 * steps["v"].mean()
    assert told == pytest.approx([0, 1 / 3, 2 / 3])
