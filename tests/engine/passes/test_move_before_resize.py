from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.move_before_resize import move_before_resize

HEAD = """
    x = input(1, 6, 4, 5)
    w = random(3, 6, 1, 1)
    b = random(3)
    thin = input(1, 3, 4, 5)
    widen = random(4, 3, 1, 1)
    k = random(3, 6, 3, 3)
    double = float32(1, 1, 2, 2)
    taller = float32(2, 1)
    odd = float32(1, 1.1, 2, 2)
    size = int64(1, 6, 9, 7)
    small = int64(1, 6, 3, 3)
    """


def graph(lines: str) -> str:
    return HEAD + lines.replace("; ", "\n    ") + "\n    output(y)\n"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("r = resize(x, _, double, mode='linear'); y = conv(r, w, b)",
         "y/small = conv(x, w, b)\ny = resize(y/small, , double, mode='linear')"),
        ("r = resize(x, _, _, size, mode='linear', coordinate_transformation_mode='asymmetric');"
         " y = conv(r, w)",
         "y/small = conv(x, w)\ny = resize(y/small, , , y/sizes, "
         "coordinate_transformation_mode='asymmetric', mode='linear')"),
        ("r = resize(x, _, taller, axes=(2, 3)); y = conv(r, w, b)",
         "y/small = conv(x, w, b)\ny = resize(y/small, , taller, axes=(2, 3))"),
        ("r = resize(x, _, double); y = relu(r)",
         "y/small = relu(x)\ny = resize(y/small, , double)"),
    ],
)  # fmt: skip
def test_moves(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    becomes(move_before_resize, graph(lines), after)


@pytest.mark.parametrize(
    "lines",
    [
        "r = resize(x, _, double, mode='cubic'); y = conv(r, w)",
        "r = resize(thin, _, double, mode='linear'); y = conv(r, widen)",
        "r = resize(x, _, double, mode='linear'); y = conv(r, k)",
        "r = resize(x, _, double, mode='linear'); y = conv(r, w, pads=(1, 1, 1, 1))",
        "r = resize(x, _, double, mode='linear'); y = conv(r, w, strides=(2, 2))",
        "r = resize(x, _, odd, mode='linear'); y = conv(r, w)",
        "r = resize(x, _, _, small, mode='linear'); y = conv(r, w)",
        "r = resize(x, _, double, mode='linear'); y = relu(r)",
        "r = resize(x, _, double); q = relu(r); y = add(q, r)",
    ],
)
def test_others_stay(stays: Callable[..., None], lines: str) -> None:
    stays(move_before_resize, graph(lines))


def test_unknown_sizes_stay(text: Callable[[str], Graph]) -> None:
    unknown = text(graph("r = resize(x, _, double); y = relu(r)").replace("5)", "'w')", 1))
    assert move_before_resize(unknown).nodes == unknown.nodes
