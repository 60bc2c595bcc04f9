"""The layout keeps boxes apart and lines off them; the drawings say what is in the graph."""

import random
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from palmkit.engine.drawing import FORMATS, describe
from palmkit.engine.drawing.layout import Box, Line, arrange
from palmkit.engine.ir import Array, Attr, Graph, Node, Type

SVG = "{http://www.w3.org/2000/svg}"


def diagram(count: int, seed: int) -> tuple[list[Box], list[Line]]:
    """Chains with short cuts, as networks are: each box reads one or two earlier ones."""
    choose = random.Random(seed)
    boxes = [Box(choose.randint(80, 220), choose.randint(40, 130)) for _ in range(count)]
    lines: list[Line] = []
    for target in range(1, count):
        sources = {choose.randint(max(0, target - 3), target - 1)}
        if choose.random() < 0.3:
            sources.add(choose.randint(max(0, target - 25), target - 1))
        lines += [Line(source, target, f"v{source}") for source in sorted(sources)]
    return boxes, lines


@pytest.mark.parametrize("count", [1, 2, 30, 300])
def test_boxes_do_not_overlap_and_lines_go_down(count: int) -> None:
    boxes, lines = diagram(count, count)
    width, height = arrange(boxes, lines)
    for box in boxes:
        assert box.width / 2 <= box.x <= width - box.width / 2 + 1e-6
        assert box.height / 2 <= box.y <= height - box.height / 2 + 1e-6
    for one, other in pairwise(sorted(boxes, key=lambda box: (box.row, box.x))):
        if one.row == other.row:
            assert other.x - one.x > (one.width + other.width) / 2
        else:
            assert one.y < other.y
    for line in lines:
        source, target = boxes[line.source], boxes[line.target]
        assert line.points[0] == (source.x, source.y + source.height / 2)
        assert line.points[-1][1] == target.y - target.height / 2
        assert abs(line.points[-1][0] - target.x) < target.width / 2
        assert [y for _, y in line.points] == sorted(y for _, y in line.points)


@pytest.mark.parametrize("seed", range(5))
def test_lines_pass_beside_boxes(seed: int) -> None:
    boxes, lines = diagram(120, seed)
    arrange(boxes, lines)
    for line in lines:
        for (x, top), (same, bottom) in pairwise(line.points[1:-1]):
            if x != same:
                continue
            for box in boxes:
                inside = box.y - box.height / 2 < bottom and top < box.y + box.height / 2
                assert not (inside and abs(x - box.x) < box.width / 2)


def test_a_chain_is_straight_and_a_short_cut_does_not_bend_it() -> None:
    boxes = [Box(100, 50) for _ in range(6)]
    chain = [Line(i, i + 1, f"v{i}") for i in range(5)]
    arrange(boxes, chain)
    assert len({box.x for box in boxes}) == 1
    boxes = [Box(100, 50) for _ in range(6)]
    arrange(boxes, [*chain, Line(1, 4, "v1")])
    assert len({box.x for box in boxes[:2]}) == len({box.x for box in boxes[2:4]}) == 1


def test_what_hangs_on_no_input_stands_just_above_its_reader() -> None:
    boxes = [Box(100, 50, is_input=number == 0) for number in range(8)]
    chain = [Line(i, i + 1, f"v{i}") for i in range(5)]
    arrange(boxes, [*chain, Line(6, 7, "v6"), Line(7, 5, "v7")])
    assert [box.row for box in boxes] == [0, 1, 2, 3, 4, 5, 3, 4]


def test_shape_arithmetic_sinks_to_its_reader() -> None:
    boxes = [Box(100, 50, is_input=number == 0, sinks=number == 5) for number in range(6)]
    chain = [Line(i, i + 1, f"v{i}") for i in range(4)]
    arrange(boxes, [*chain, Line(0, 5, "v0"), Line(5, 4, "v5")])
    assert [box.row for box in boxes] == [0, 1, 2, 3, 4, 3]


def test_few_lines_cross() -> None:
    """Two chains that were written in turns are drawn side by side."""
    boxes = [Box(100, 50) for _ in range(12)]
    lines = [Line(i, i + 2, f"v{i}") for i in range(10)]
    arrange(boxes, lines)
    assert {box.x for box in boxes[::2]} != {box.x for box in boxes[1::2]}
    assert all(len({x for x, _ in line.points}) == 1 for line in lines)


@pytest.fixture
def graph() -> Graph:
    nodes = (
        Node("conv", ("x", "w", "b"), ("c",), {"pads": (1, 1, 1, 1), "strides": (2, 2)}, "stem"),
        Node("clip", ("c", "low", "high"), ("d",), name="bounded <6>"),
        Node("split", ("d",), ("e", "f"), {"axis": 1, "num_outputs": 2}),
        Node("add", ("e", "f"), ("y",), name='last & "least"'),
    )
    constants: dict[str, Array] = {
        "w": np.zeros((4, 3, 3, 3), np.float32),
        "b": np.zeros(4, np.float32),
        "low": np.zeros((), np.float32),
        "high": np.full((), 6, np.float32),
        "k": np.arange(3),
    }
    outputs = {"y": Type("float32", (1, 2, "h", "w")), "k": Type("int64", (3,))}
    return Graph({"x": Type("float32", (1, 3, "h", "w"))}, outputs, nodes, constants)


def test_cards_say_what_a_node_is(graph: Graph) -> None:
    (section,) = describe(graph)
    cards, links = section.cards, section.links
    assert [card.title for card in cards] == [
        *("input", "conv", "clip", "split", "add", "output", "output", "constant")
    ]
    conv, clip = cards[1], cards[2]
    assert conv.subtitle == "stem"
    assert conv.lines == ("pads 1 · strides 2", "w 4×3×3×3", "b = [0, 0, 0, 0]")
    assert conv.type == "float32[1, 4, h/2, w/2]"
    assert "strides = 2" in conv.tooltip and "w: w: float32[4, 3, 3, 3], 0 to 0" in conv.tooltip
    assert clip.lines == ("min = 0", "max = 6")
    assert cards[3].type == "2 outputs"
    assert (cards[6].title, cards[6].subtitle) == ("output", "k")
    labels = {(cards[k.source].title, cards[k.target].title): k.label for k in links}
    assert labels["input", "conv"] == "1×3×h×w"
    assert labels["conv", "clip"] == "1×4×h/2×w/2"
    assert len([k for k in links if cards[k.target].title == "add"]) == 2
    assert all(card.kernel == "" for card in cards)


def test_svg_is_whole_and_escaped(graph: Graph) -> None:
    (section,) = sections = describe(graph, "a <net> & more", {"d"})
    cards, links = section.cards, section.links
    text = FORMATS[".svg"](sections, "4 nodes")
    root = ElementTree.fromstring(text)
    shown = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    for expected in ("a <net> & more", "conv", "stem", "bounded <6>", 'last & "least"', "1×3×h×w"):
        assert expected in shown
    nodes = [each for each in root.iter(f"{SVG}g") if "node" in each.get("class", "")]
    assert len(nodes) == len(cards)
    assert all(each.find(f"{SVG}title") is not None for each in nodes)
    assert [each.get("class") for each in nodes[1:4]] == [
        "node native",
        "node numpy",
        "node native",
    ]
    edges = [each for each in root.iter(f"{SVG}path") if each.get("class") == "edge"]
    assert len(edges) == len(links)
    assert "in numpy; all others native" in shown


def test_page_and_dot(graph: Graph) -> None:
    page = FORMATS[".html"](describe(graph, "a <net>"), "")
    assert page.startswith("<!doctype html>") and "<title>a &lt;net&gt;</title>" in page
    assert "<svg " in page and "http" not in page.replace("http://www.w3.org/2000/svg", "")
    (section,) = sections = describe(graph, 'a "net"')
    dot = FORMATS[".dot"](sections, "")
    assert dot.startswith("digraph {\n") and dot.endswith("}\n")
    assert 'label="a \\"net\\"  "' in dot and dot.count(" -> ") == len(section.links)


def test_bodies_of_control_flow_are_drawn_below() -> None:
    type, condition = Type("float32", (2,)), Type("bool", ())

    def body(op: str) -> Graph:
        return Graph({"v": type}, {"w": type}, (Node(op, ("v",), ("w",), name=f"the_{op}"),))

    branches: dict[str, Attr] = {"then_branch": body("exp"), "else_branch": body("log")}
    node = Node("if", ("c", "x"), ("y",), {**branches, "captures": 1}, "choice")
    graph = Graph({"c": condition, "x": type}, {"y": type}, (node,))
    sections = describe(graph, "net")
    assert [section.title for section in sections] == [
        *("net", "then_branch of if choice", "else_branch of if choice")
    ]
    assert [card.title for card in sections[1].cards] == ["input", "exp", "output"]
    root = ElementTree.fromstring(FORMATS[".svg"](sections, ""))
    shown = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    assert shown.index("if") < shown.index("then_branch of if choice") < shown.index("the_log")
    assert "subgraph cluster_2" in FORMATS[".dot"](sections, "")


def test_every_op_can_be_drawn() -> None:
    from palmkit.engine.drawing.content import ALL_FAMILIES, family
    from palmkit.engine.ops import registry

    assert {family(op) for op in registry()} <= set(ALL_FAMILIES)
    assert family("conv") != family("relu") != family("add") != family("reshape")
