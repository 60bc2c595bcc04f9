from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes import optimise
from palmkit.engine.passes.shuffle_last import shuffle_last

SHUFFLE = """
    x = input(2, 6, 4, 5)
    split = int64(2, 3, 2, 4, 5)
    flat = int64(2, 3, 2, 20)
    whole = int64(2, 6, 4, 5)
    other = int64(2, 2, 3, 4, 5)
    """


def graph(lines: str) -> str:
    return SHUFFLE + lines.replace("; ", "\n    ") + "\n    output(y)\n"


@pytest.mark.parametrize(
    "lines",
    [
        "a = reshape(x, split); b = transpose(a, perm=(0, 2, 1, 3, 4)); y = reshape(b, whole)",
        "a = reshape(x, flat); b = transpose(a, perm=(0, 2, 1, 3)); y = reshape(b, whole)",
    ],
)
def test_shuffles_channels_last(becomes: Callable[..., Graph], lines: str) -> None:
    changed = becomes(
        shuffle_last,
        graph(lines),
        """
        y/last = transpose(x, perm=(0, 2, 3, 1))
        y/split = reshape(y/last, y/shape)
        y/shuffled = transpose(y/split, perm=(0, 1, 2, 4, 3))
        y/joined = reshape(y/shuffled, y/shape.1)
        y = transpose(y/joined, perm=(0, 3, 1, 2))
        """,
    )
    assert optimise(changed).nodes == changed.nodes


@pytest.mark.parametrize(
    "lines",
    [
        "a = reshape(x, split); b = transpose(a, perm=(0, 2, 1, 4, 3)); y = reshape(b, whole)",
        "a = reshape(x, split); b = transpose(a, perm=(0, 2, 1, 3, 4)); y = reshape(b, other)",
        "a = reshape(x, split); b = transpose(a, perm=(2, 0, 1, 3, 4)); y = reshape(b, whole)",
        "a = reshape(x, split); y = transpose(a, perm=(0, 2, 1, 3, 4))",
    ],
)
def test_others_stay(stays: Callable[..., None], lines: str) -> None:
    stays(shuffle_last, graph(lines))
