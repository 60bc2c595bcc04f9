from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.merge_slices import merge_slices

HEAD = """
    x = input(2, 6, 5)
    z = input(2, 6, 5)
    zero = int64(0,)
    one = int64(1,)
    two = int64(2,)
    three = int64(3,)
    four = int64(4,)
    six = int64(6,)
    last = int64(-1,)
    begin = int64(-99,)
    sizes = int64(1, 2, 3)
    """


def graph(lines: str) -> str:
    return HEAD + lines.replace("; ", "\n    ") + "\n    output(y)\n"


CUT = "y/starts, y/ends, y/axes, y/steps"


@pytest.mark.parametrize(
    "lines",
    [
        "p = slice(x, one, six, one); y = slice(p, one, four, one)",
        "p = slice(x, one, six, one, two); y = slice(p, one, three, one, two)",
        "p = slice(x, last, begin, one, last); y = slice(p, one, four, one, two)",
        "p = slice(x, one, six, one); y = slice(p, last, begin, one, last)",
        "p = slice(x, one, six, one); y = slice(p, zero, two, two)",
        "p = slice(x, six, begin, one, last); y = slice(p, last, begin, one, last)",
    ],
)
def test_slice_of_slice(becomes: Callable[..., Graph], lines: str) -> None:
    becomes(merge_slices, graph(lines), f"y = slice(x, {CUT})")


def test_slice_of_one_part_of_a_concat(becomes: Callable[..., Graph]) -> None:
    becomes(
        merge_slices,
        graph("""nine = int64(9,); p = concat(x, z, axis=1); a = slice(p, six, nine, one)
    b = slice(p, four, begin, one, last); y = concat(a, b, axis=1)"""),
        f"a = slice(z, {CUT.replace('y/', 'a/')})\nb = slice(x, {CUT.replace('y/', 'b/')})\n"
        "y = concat(a, b, axis=1)",
    )


def test_split_that_is_read_in_part(becomes: Callable[..., Graph]) -> None:
    becomes(
        merge_slices,
        graph("a, b, c = split(x, sizes, axis=1); y = add(c, c)"),
        "c = slice(x, c/starts, c/ends, c/axes, c/steps)\ny = add(c, c)",
    )


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("p = concat(x, z, axis=1); y = concat(p, x, axis=-2)", "y = concat(x, z, x, axis=-2)"),
        ("a, b, c = split(x, sizes, axis=1); p = concat(a, b, c, axis=-2); y = relu(p)",
         "y = relu(x)"),
        ("a = slice(x, zero, two, one); b = slice(x, two, six, one); p = concat(a, b, axis=1);"
         " y = relu(p)", "y = relu(x)"),
    ],
)  # fmt: skip
def test_joined_again(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    becomes(merge_slices, graph(lines), after)


@pytest.mark.parametrize(
    "lines",
    [
        "p = slice(x, one, six, one); q = slice(p, one, four, one); y = concat(p, q, axis=1)",
        "p = concat(x, z, axis=1); y = concat(p, p, axis=0)",
        "a, b, c = split(x, sizes, axis=1); y = concat(a, c, b, axis=1)",
        "a = slice(x, zero, two, one); b = slice(x, three, six, one); y = concat(a, b, axis=1)",
        "a = slice(x, zero, two, one); b = slice(z, two, six, one); y = concat(a, b, axis=1)",
        "nine = int64(9,); p = concat(x, z, axis=1); y = slice(p, three, nine, one)",
        "p = concat(x, z, axis=1); y = slice(p, one, four, two)",
    ],
)
def test_others_stay(stays: Callable[..., None], lines: str) -> None:
    stays(merge_slices, graph(lines))


def test_unknown_sizes_stay(text: Callable[[str], Graph]) -> None:
    unknown = text(
        """
        x = input("n", 6)
        one = int64(1,)
        nine = int64(9,)
        p = slice(x, one, nine)
        y = slice(p, one, nine)
        output(y)
        """
    )
    assert merge_slices(unknown).nodes == unknown.nodes
