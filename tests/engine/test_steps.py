"""The plan as people read it, and drawn."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from palmkit.engine.backends.cpu.summary import COST_MODEL, ONLY_ONE, TUNED, plan_summaries
from palmkit.engine.backends.options import Options
from palmkit.engine.drawing.arena import draw_arena, live_bytes
from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Graph, Node, Type

pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def graph() -> Graph:
    """5x5 convolution, ReLU that is fused, exponential, 1x1 convolution to the output."""
    random = np.random.default_rng(0)
    pads = {"pads": (2, 2, 2, 2)}
    return Graph(
        {"x": Type("float32", (1, 16, 24, 24))},
        {"y": Type("float32", (1, 8, 24, 24))},
        (
            Node("conv", ("x", "w"), ("a",), pads, name="wide"),
            Node("relu", ("a",), ("b",), name="bend"),
            Node("exp", ("b",), ("c",), name="grow"),
            Node("conv", ("c", "p"), ("y",), name="point"),
        ),
        {
            "w": random.normal(size=(24, 16, 5, 5)).astype(np.float32),
            "p": random.normal(size=(8, 24, 1, 1)).astype(np.float32),
        },
    )


def test_steps_say_what_runs_and_where(graph: Graph) -> None:
    (plan,) = plan_summaries(graph)
    steps = {step.node: step for step in plan.steps if step.kernel in ("conv", "unary")}
    wide, grow, point = steps["wide"], steps["grow"], steps["point"]
    assert (wide.algorithm, wide.chosen_by) == ("rows", COST_MODEL)
    assert wide.flop == 2 * 24 * 24 * 24 * 16 * 25
    assert wide.expected_s is not None and 1e-6 < wide.expected_s < 1e-2
    assert (point.algorithm, point.chosen_by) == ("gemm", ONLY_ONE)
    assert (grow.algorithm, grow.flop, grow.expected_s) == ("", 0, None)
    assert plan.flop == wide.flop + point.flop
    assert wide.outputs[0].shape == (1, 24, 24, 24)
    assert wide.outputs[0].size_bytes == 24**3 * 4


def test_what_is_written_over_an_input_says_so(graph: Graph) -> None:
    (plan,) = plan_summaries(graph)
    in_place = [step for step in plan.steps if step.in_place is not None]
    for step in in_place:
        source = step.inputs[step.in_place or 0]
        assert source is not None
        assert (source.place, source.at) == ("arena", step.outputs[0].at)
    assert [step.kernel for step in in_place] == ["unary"]


def test_buffers_hold_every_output_and_do_not_overlap(graph: Graph) -> None:
    (plan,) = plan_summaries(graph)
    for number, step in enumerate(plan.steps):
        for y in step.outputs:
            if y.place == "arena":
                assert any(
                    each.offset <= y.at
                    and y.at + y.size_bytes <= each.offset + each.size_bytes
                    and each.first <= number <= each.last
                    for each in plan.buffers
                )
    for i, each in enumerate(plan.buffers):
        for other in plan.buffers[:i]:
            apart = (
                each.offset >= other.offset + other.size_bytes
                or other.offset >= each.offset + each.size_bytes
            )
            assert apart or each.first > other.last or other.first > each.last
    assert max(live_bytes(plan)) == plan.lower_bound_bytes <= plan.arena_bytes


def test_a_tuned_plan_says_so(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PALMKIT_CACHE_HOME", str(tmp_path))
    (plan,) = plan_summaries(graph, Options(tune=True))
    by = {step.node: step.chosen_by for step in plan.steps if step.kernel == "conv"}
    assert by == {"wide": TUNED, "point": ONLY_ONE}


def test_parts_have_plans_of_their_own(graph: Graph) -> None:
    name = "middle"
    det = Node("det", ("x",), (name,), name="numpy")
    types = {"y": graph.outputs["y"], name: Type("float32", (1, 16))}
    parts = Graph(graph.inputs, types, (*graph.nodes, det), graph.constants)
    plans = plan_summaries(parts)
    assert plans and all(step.node != "numpy" for plan in plans for step in plan.steps)


def test_open_sizes_have_no_plan(graph: Graph) -> None:
    inputs = {"x": Type("float32", (1, 16, "height", 24))}
    with pytest.raises(ShapeError, match="a plan needs a size for every dim"):
        plan_summaries(Graph(inputs, graph.outputs, graph.nodes, graph.constants))


def test_the_arena_is_drawn_to_scale(graph: Graph) -> None:
    (plan,) = plan_summaries(graph)
    root = ElementTree.fromstring(draw_arena([plan], "a <name>"))
    blocks = [each for each in root.iter(f"{SVG}rect") if each.get("class") == "block"]
    assert len(blocks) == len(plan.buffers)
    scale = {
        round(float(block.get("height", 0)) / each.size_bytes, 4)
        for block, each in zip(blocks, plan.buffers, strict=True)
    }
    assert max(scale) - min(scale) < 2e-4
    texts = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    assert "a <name>" in texts
    assert any("lower bound" in text for text in texts)
    titles = ["".join(each.itertext()) for each in root.iter(f"{SVG}title")]
    assert any("wide: conv rows" in title for title in titles)
