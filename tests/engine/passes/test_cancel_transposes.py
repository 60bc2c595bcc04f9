from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes import optimise
from palmkit.engine.passes.cancel_transposes import cancel_transposes

# A picture that comes channels-first out of a layer, is worked on channels-last, and goes into one.
HEAD = """
    x = input(2, 3, 4, 5)
    other = input(2, 3, 4, 5)
    row = random(1, 1, 3)
    single = float32([2.0])
    low = float32(0.0)
    pads = int64(0, 1, 2, 0, 0, 0, 1, 3)
    space = int64(1, 2)
    last = int64(-1)
    one = int64(1)
    ends = int64(2, 4)
    minus = int64(-1)
    u = transpose(x, perm=(0, 2, 3, 1))
    v = transpose(other, perm=(0, 2, 3, 1))
    """


def graph(*lines: str) -> str:
    return HEAD + "\n    ".join([*lines, "output(y)"])


@pytest.mark.parametrize(
    ("node", "after"),
    [
        ("relu(u)", "relu(x)"),
        ("clip(u, low)", "clip(x, low)"),
        ("add(u, v)", "add(x, other)"),
        ("add(u, u)", "add(x, x)"),
        ("mul(u, single)", "mul(x, single)"),
        ("sub(row, u)", "sub(row/transposed, x)"),
        ("prelu(u, row)", "prelu(x, row/transposed)"),
        ("max(u, v, row)", "max(x, other, row/transposed)"),
        ("concat(u, v, axis=3)", "concat(x, other, axis=1)"),
        ("concat(u, v, axis=-2)", "concat(x, other, axis=3)"),
        ("softmax(u)", "softmax(x, axis=1)"),
        ("pad(u, pads)", "pad(x, pads/transposed)"),
        ("slice(u, one, minus, last)", "slice(x, one, minus, w/axes)"),
        ("slice(u, space, ends)", "slice(x, space, ends, w/axes)"),
        ("reduce_mean(u, space)", "reduce_mean(x, space/transposed)"),
        ("cast(u, to='float64')", "cast(x, to='float64')"),
    ],
)
def test_both_leave(becomes: Callable[..., Graph], node: str, after: str) -> None:
    becomes(
        cancel_transposes,
        graph(f"w = {node}", "y = transpose(w, perm=(0, 3, 1, 2))"),
        f"y = {after}",
    )


def test_split(becomes: Callable[..., Graph]) -> None:
    becomes(
        cancel_transposes,
        graph(
            "a, b = split(u, axis=1, num_outputs=2)",
            "c = mul(a, b)",
            "y = transpose(c, perm=(0, 3, 1, 2))",
        ),
        """
        a/before, b/before = split(x, axis=2, num_outputs=2)
        y = mul(a/before, b/before)
        """,
    )


def test_dropped_axes_may_leave_nothing_to_transpose(becomes: Callable[..., Graph]) -> None:
    becomes(
        cancel_transposes,
        graph("y = reduce_mean(u, space, keepdims=0)"),
        "y = reduce_mean(x, space/transposed, keepdims=0)",
    )


def test_dropped_axes_may_leave_a_smaller_transpose(becomes: Callable[..., Graph]) -> None:
    becomes(
        cancel_transposes,
        graph("y = reduce_sum(u, one, keepdims=0)"),
        """
        y/before = reduce_sum(x, one/transposed, keepdims=0)
        y = transpose(y/before, perm=(0, 2, 1))
        """,
    )


def test_consecutive_ones_merge(becomes: Callable[..., Graph]) -> None:
    becomes(
        cancel_transposes,
        """
        x = input(2, 3, 4)
        a = transpose(x, perm=(1, 2, 0))
        y = transpose(a)
        output(y)
        """,
        "y = transpose(x, perm=(0, 2, 1))",
    )


def test_channels_first_rises_to_the_input(
    text: Callable[[str], Graph], same_numbers: Callable[..., None]
) -> None:
    graph = text(
        """
        x = input(1, 4, 5, 3)
        pads = int64(0, 1, 1, 0, 0, 1, 1, 0)
        row = random(3)
        w = random(2, 3, 3, 3)
        a = sub(x, row)
        b = pad(a, pads)
        c = transpose(b, perm=(0, 3, 1, 2))
        y = conv(c, w)
        output(y)
        """
    )
    after = optimise(graph)
    assert [node.op for node in after.nodes] == ["transpose", "sub", "conv"]
    same_numbers(graph, after)


@pytest.mark.parametrize("node", ["reshape(u, minus)", "add(u, x4)", "matmul(u, m)"])
def test_barriers(text: Callable[[str], Graph], node: str) -> None:
    after = cancel_transposes(
        text(graph("x4 = input(2, 4, 5, 3)", "m = random(3, 7)", f"y = {node}"))
    )
    assert [each.op for each in after.nodes] == ["transpose", node.partition("(")[0]]


def test_no_transpose_rises_through_what_drops_axes(text: Callable[[str], Graph]) -> None:
    graph = text(
        """
        x = input("n", 3, 4, 5, 1)
        last = int64(4,)
        a = squeeze(x, last)
        b = transpose(a, perm=(0, 3, 1, 2))
        c = reduce_mean(x, last, keepdims=0)
        y = transpose(c, perm=(0, 3, 1, 2))
        output(b, y)
        """
    )
    assert cancel_transposes(graph).nodes == graph.nodes
