"""Branches of small steps, each run by a thread, give what all steps in a row give."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.backends.cpu import Cpu, lower
from palmkit.engine.backends.cpu import plan as make_plan
from palmkit.engine.backends.cpu.passes.branches import share_out
from palmkit.engine.backends.cpu.summary import plan_summaries
from palmkit.engine.backends.options import Options
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Array, Attr, Graph, Node, Type
from palmkit.engine.steps.plan import Plan
from palmkit.engine.steps.rewriting import Purpose
from palmkit.engine.steps.step import BRANCH
from tests.engine.backends.plans import run

native = pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")

FOLDER = Path(__file__).parents[3].parent / "shared" / "teachers"
CHANNELS, SIDE = 32, 8
THREADS = (1, 2, 3, 5)
TWO = Options(threads=2)
ALONE = Purpose(threads=1)


def heads(depth: int = 4, large: int = 48, joined: bool = False) -> Graph:
    """Two large convolutions, then two branches of small ones that begin with the same picture.

    Each small one adds what it reads; the second branch ends in another function. joined: both
    are added in the end.
    """
    rng = np.random.default_rng(0)
    constants: dict[str, Array] = {}

    def conv(x: str, y: str, z: str = "", stride: int = 1) -> Node:
        shape = (CHANNELS, 3 if x == "x" else CHANNELS, 3, 3)
        constants[f"w{y}"] = (rng.normal(size=shape) / 12).astype(np.float32)
        constants[f"b{y}"] = rng.normal(size=CHANNELS).astype(np.float32)
        attrs: dict[str, Attr] = {"pads": (1,) * 4, "strides": (stride,) * 2}
        attrs |= {"activation": "clip", "activation_params": (0.0, 6.0)}
        inputs = (x, f"w{y}", f"b{y}") if not z else (x, f"w{y}", f"b{y}", z)
        return Node("fused_conv", inputs, (y,), attrs, y)

    nodes = [conv("x", "a"), conv("a", "t", stride=large // SIDE)]
    for branch in "pq":
        before = "t"
        for i in range(depth):
            nodes.append(conv(before, f"{branch}{i}", before))
            before = f"{branch}{i}"
    # One after the other, by turns.
    nodes[2:] = [
        each for pair in zip(nodes[2 : 2 + depth], nodes[2 + depth :], strict=True) for each in pair
    ]
    nodes += [Node("exp", (f"p{depth - 1}",), ("u",)), Node("tanh", (f"q{depth - 1}",), ("v",))]
    if joined:
        nodes.append(Node("mul", ("u", "v"), ("y",), {}, "join"))
    type = Type("float32", (1, CHANNELS, SIDE, SIDE))
    outputs = {"y": type} if joined else {"u": type, "v": type}
    return Graph({"x": Type("float32", (1, 3, large, large))}, outputs, tuple(nodes), constants)


def branches_of(plan: Plan) -> list[int]:
    return [step.branch for step in plan.steps]


def feed_of(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    return {n: rng.normal(size=t.dims).astype(np.float32) for n, t in graph.inputs.items()}


@pytest.mark.parametrize("joined", [False, True])
def test_a_thread_a_branch_gives_what_all_in_a_row_give(joined: bool) -> None:
    graph = heads(joined=joined)
    plan, _ = make_plan(graph)
    found = branches_of(plan)
    assert {found.count(1), found.count(2)} <= {4, 5, 6} and found.count(0) >= 2
    one, _ = make_plan(graph, purpose=ALONE)
    assert not any(branches_of(one))
    feed = feed_of(graph)
    wanted = run(one, graph, feed, 1)
    for threads in THREADS:
        program = native.Program(*plan.native())
        session = program.session(threads, True)
        for _ in range(100):
            got = {
                name: np.full(type.dims, np.nan, np.float32) for name, type in graph.outputs.items()
            }
            session.run([feed["x"]], [*got.values()])
            for name, value in got.items():
                np.testing.assert_allclose(value, wanted[name], rtol=1e-5, atol=1e-5)


def test_a_plan_shows_its_branches() -> None:
    ((*_, last),) = ([step.branch for step in plan.steps] for plan in plan_summaries(heads(), TWO))
    assert last in (1, 2)
    (alone,) = plan_summaries(heads())
    assert not any(step.branch for step in alone.steps)


def test_it_takes_no_more_memory() -> None:
    graph = heads()
    assert make_plan(graph)[0].arena_bytes == make_plan(graph, purpose=ALONE)[0].arena_bytes
    # Where the branches are the largest part it would.
    tight = heads(depth=6, large=8)
    assert any(BRANCH in step.attrs for step in share_out(lower(tight)[0]).steps)
    plan, _ = make_plan(tight)
    assert not any(branches_of(plan))
    assert plan.arena_bytes == make_plan(tight, purpose=ALONE)[0].arena_bytes


def test_what_branches_touch_does_not_overlap() -> None:
    plan, _ = make_plan(heads())
    touched: dict[int, set[tuple[int, int]]] = {1: set(), 2: set()}
    written: dict[int, set[tuple[int, int]]] = {1: set(), 2: set()}
    for step in plan.steps:
        outputs = [*step.outputs.values()]
        for tensors, into in ((step.tensors, touched), (outputs, written)):
            for each in (plan.tensors[i] for i in tensors):
                if step.branch and each.place == "arena":
                    into[step.branch].add((each.slot, each.slot + each.size_bytes))
    for branch in (1, 2):
        for begin, end in written[branch]:
            for other_begin, other_end in touched[3 - branch]:
                assert end <= other_begin or other_end <= begin


def marked(plan: Plan, branch: Callable[[int], int]) -> Plan:
    """The plan with each step's branch by its number."""
    steps = [
        replace(step, attrs={**step.attrs, BRANCH: branch(i)}) for i, step in enumerate(plan.steps)
    ]
    return replace(plan, steps=tuple(steps))


def test_marks_that_are_wrong_do_no_harm() -> None:
    """Steps that need one another run in a row, whatever a plan says of them."""
    graph = heads(joined=True)
    plan, _ = make_plan(graph, purpose=ALONE)
    feed = feed_of(graph)
    wanted = run(plan, graph, feed, 1)["y"]
    wrong = marked(plan, lambda i: 1 + i % 2)
    for _ in range(50):
        np.testing.assert_allclose(run(wrong, graph, feed, 2)["y"], wanted, rtol=1e-5, atol=1e-5)
    for mark in (3, -1, 1 << 40):
        with pytest.raises(ModelError, match="branch"):
            run(marked(plan, lambda _: mark), graph, feed, 2)  # noqa: B023  called at once


def test_one_chain_and_large_steps_stay_as_they_are() -> None:
    chain = heads(depth=1)
    chain = replace(chain, nodes=chain.nodes[:3], outputs={"p0": chain.outputs["u"]})
    used = {name for node in chain.nodes for name in node.inputs}
    chain = replace(chain, constants={n: v for n, v in chain.constants.items() if n in used})
    assert not any(branches_of(make_plan(chain)[0]))
    assert not any(branches_of(Cpu().compile(heads(), Options(threads=1)).plan))
    assert any(branches_of(Cpu().compile(heads(), TWO).plan))


@pytest.mark.parametrize("name", ["iris_landmark", "face_landmark", "face_detection_short_range"])
def test_networks_with_heads(name: str) -> None:
    path = FOLDER / f"{name}.tflite"
    if not path.exists():
        pytest.skip("shared/teachers is not there")
    one, two = (engine.load(path, threads=threads) for threads in (1, 2))
    rng = np.random.default_rng(2)
    feed = {n: rng.random(t.dims, np.float32) for n, t in one.inputs.items()}
    wanted = one.run(feed)
    for _ in range(50):
        for output, value in two.run(feed).items():
            spread = float(np.ptp(wanted[output])) or 1.0
            assert float(np.abs(value - wanted[output]).max()) <= 2e-6 * spread
