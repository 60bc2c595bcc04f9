"""The passes together: any graph keeps its numbers, and nothing is left to do."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from palmkit.engine.errors import PalmError
from palmkit.engine.ir import Dim, Graph, Node, Type, check
from palmkit.engine.ops import find, registry
from palmkit.engine.passes import PIPELINE, optimise
from tests.engine.passes.equivalence import assert_equivalent, run
from tests.engine.passes.random_graphs import random_graph
from tests.engine.passes.sketch import with_symbolic_dims
from tests.engine.test_ops import arrays, assert_close, one_node

GRAPHS = settings(
    max_examples=300,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
FEW_GRAPHS = settings(GRAPHS, max_examples=60)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Random graphs, small ones first."""
    steps = draw(st.integers(1, 12))
    return random_graph(lambda low, high: draw(st.integers(low, high)), steps)


@GRAPHS
@given(graphs())
def test_names_types_and_numbers_stay(graph: Graph) -> None:
    check(graph)
    after = optimise(graph)
    assert after.inputs == graph.inputs
    assert after.outputs == graph.outputs
    assert_equivalent(graph, after)
    assert optimise(replace(after)).nodes == after.nodes


@FEW_GRAPHS
@given(graphs())
def test_each_pass_alone(graph: Graph) -> None:
    for each in PIPELINE:
        after = each(graph)
        if after is not graph:
            assert_equivalent(graph, after)


@FEW_GRAPHS
@given(graphs(), st.sampled_from([(0,), (2, 3), (0, 1, 2, 3)]))
def test_unknown_sizes_first_and_known_ones_later(graph: Graph, axes: tuple[int, ...]) -> None:
    unknown = with_symbolic_dims(graph, axes)
    after = optimise(unknown)
    assert after.inputs == unknown.inputs
    assert list(after.outputs) == list(graph.outputs)
    known = replace(after, inputs=graph.inputs)
    assert_equivalent(graph, known)
    assert_equivalent(graph, optimise(known))


@pytest.mark.parametrize("name", sorted(registry()))
def test_every_op_by_itself(name: str) -> None:
    """Its cases as they are, and with every input a constant."""
    op = find(name)
    for case in op.cases:
        graph, inputs = one_node(op, case), arrays(case)
        values = dict(zip(graph.nodes[0].inputs, inputs, strict=True))
        fed = {name: value for name, value in values.items() if name in graph.inputs}
        feeds = {name: value for name, value in fed.items() if value is not None}
        folded = replace(graph, inputs={}, constants={**graph.constants, **feeds})
        wanted = run(graph, feeds)
        for each, inputs_fed in ((graph, feeds), (folded, {})):
            after = optimise(each)
            check(after)
            assert after.outputs == graph.outputs
            for output, value in run(after, inputs_fed).items():
                assert_close(value, wanted[output], op.pure)


def test_a_constant_may_be_an_output(becomes: Callable[..., Graph]) -> None:
    after = becomes(
        optimise,
        """
        x = input(2, 3)
        dims = shape(x)
        y = cast(dims, to="float32")
        z = relu(x)
        output(y, z)
        """,
        """
        y = identity(y/folded)
        z = relu(x)
        """,
    )
    assert optimise(after).nodes == after.nodes


@pytest.mark.parametrize(
    "node",
    [
        Node("pad", ("x",), ("y",)),
        Node("mul", ("x",), ("y",)),
        Node("prelu", ("x",), ("y",)),
        Node("conv", ("x",), ("y",)),
        Node("clip", ("x", "x", "x", "x"), ("y",)),
        Node("transpose", ("x",), ("y",), {"perm": (0, 9)}),
        Node("transpose", ("x",), ("y",), {"perm": "ab"}),
        Node("max_pool", ("x",), ("y",), {"kernel_shape": 3}),
        Node("conv", ("x", "x"), ("y",), {"auto_pad": "SAME", "pads": 1}),
        Node("no_such_op", ("x",), ("y",)),
        Node("relu", ("nothing",), ("y",)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dims", [(1, 3, 4, 4), (1, 3, "h", 4)])
def test_malformed_graphs_give_typed_errors(node: Node, dims: tuple[Dim, ...]) -> None:
    """Or, where sizes are not known yet, nothing at all."""
    after = Node("transpose", ("y",), ("z",), {"perm": (0, 2, 3, 1)})
    types = {"x": Type("float32", dims)}
    graph = Graph(types, {"z": Type("float32", dims)}, (node, after))
    if all(isinstance(dim, int) for dim in dims) or node.op == "no_such_op":
        with pytest.raises(PalmError):
            optimise(graph)
    else:
        with suppress(PalmError):
            optimise(graph)


def test_a_squeeze_and_excite_block(becomes: Callable[..., Graph]) -> None:
    becomes(
        optimise,
        """
        x = input(1, 8, 8, 3)
        w = random(6, 3, 3, 3)
        down = random(2, 6, 1, 1)
        up = random(6, 2, 1, 1)
        a = transpose(x, perm=(0, 3, 1, 2))
        b = conv(a, w, auto_pad="SAME_UPPER", strides=(2, 2))
        c = transpose(b, perm=(0, 2, 3, 1))
        d = hard_swish(c)
        e = transpose(d, perm=(0, 3, 1, 2))
        f = average_pool(e, kernel_shape=(4, 4), strides=(4, 4))
        g = conv(f, down)
        h = relu(g)
        i = conv(h, up)
        j = transpose(i, perm=(0, 2, 3, 1))
        k = sigmoid(j)
        y = mul(d, k)
        output(y)
        """,
        """
        a = transpose(x, perm=(0, 3, 1, 2))
        d/before = fused_conv(a, w, activation='hard_swish', pads=(0, 0, 1, 1), strides=(2, 2))
        f = global_average_pool(d/before)
        h = fused_conv(f, down, activation='clip', activation_params=(0.0, inf))
        k/before = fused_conv(h, up, activation='sigmoid')
        y/before = mul(d/before, k/before)
        y = transpose(y/before, perm=(0, 2, 3, 1))
        """,
    )


def test_an_activation_is_recognised_before_its_constants_fold(
    becomes: Callable[..., Graph],
) -> None:
    becomes(
        optimise,
        """
        x = input(1, 4, 6, 6)
        w = random(4, 4, 1, 1)
        v = random(4, 4, 1, 1)
        three = float32(3.0)
        zero = float32(0.0)
        six = float32(6.0)
        scale = float32(0.7)
        c = conv(x, w)
        a = add(c, three)
        g = clip(a, zero, six)
        m = mul(c, g)
        d = div(m, six)
        s = mul(d, scale)
        y = conv(s, v)
        output(y)
        """,
        """
        d = fused_conv(x, w, activation='hard_swish')
        y = conv(d, v/scaled)
        """,
    )


def test_what_is_not_known_stays() -> None:
    """Random numbers, results of unknown size, and bodies are neither merged nor folded."""
    n = Type("float32", (4,))
    body = Graph({"p": n}, {"r": n}, (Node("relu", ("p",), ("q",)), Node("relu", ("q",), ("r",))))
    nodes = (
        Node("random_normal", (), ("a",), {"shape": (4,)}),
        Node("random_normal", (), ("b",), {"shape": (4,)}),
        Node("add", ("a", "b"), ("c",)),
        Node("non_zero", ("x",), ("places",)),
        Node("transpose", ("places",), ("turned",), {"perm": (1, 0)}),
        Node("transpose", ("turned",), ("back",), {"perm": (1, 0)}),
        Node("cast", ("back",), ("floats",), {"to": "float32"}),
        Node(
            "if",
            ("choice", "x"),
            ("chosen",),
            {"then_branch": body, "else_branch": body, "captures": 1},
        ),
        Node(
            "if",
            ("choice", "x"),
            ("again",),
            {"then_branch": body, "else_branch": body, "captures": 1},
        ),
        Node("add", ("chosen", "again"), ("sum",)),
    )
    graph = Graph(
        {"x": n, "choice": Type("bool", ())},
        {"c": n, "floats": Type("float32", ("...",)), "sum": n, "x": n},
        nodes,
    )
    after = optimise(graph)
    ops = [node.op for node in after.nodes]
    assert ops == ["random_normal", "random_normal", "add", "non_zero", "cast", "if", "if", "add"]
    assert after.outputs == graph.outputs
    assert optimise(after).nodes == after.nodes
