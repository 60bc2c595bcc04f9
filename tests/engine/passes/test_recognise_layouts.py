from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.recognise_layouts import recognise_layouts

HEAD = """
    x = input(2, 8, 4, 6)
    dcr = int64(2, 2, 2, 2, 4, 6)
    wide = int64(2, 2, 8, 12)
    blocks = int64(2, 8, 2, 2, 3, 2)
    deep = int64(2, 32, 2, 3)
    apart = int64(2, 8, 4, 1, 6, 1)
    twice = int64(2, 8, 4, 2, 6, 3)
    repeats = int64(1, 1, 1, 2, 1, 3)
    large = int64(2, 8, 8, 18)
    """


def graph(lines: str) -> str:
    return HEAD + lines.replace("; ", "\n    ") + "\n    output(y)\n"


RESIZE = (
    "y = resize(x, , y/scales, coordinate_transformation_mode='asymmetric', mode='nearest', "
    "nearest_mode='floor')"
)


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("a = reshape(x, dcr); b = transpose(a, perm=(0, 3, 4, 1, 5, 2)); y = reshape(b, wide)",
         "y = depth_to_space(x, blocksize=2, mode='DCR')"),
        ("a = reshape(x, dcr); b = transpose(a, perm=(0, 1, 4, 2, 5, 3)); y = reshape(b, wide)",
         "y = depth_to_space(x, blocksize=2, mode='CRD')"),
        ("a = reshape(x, blocks); b = transpose(a, perm=(0, 3, 5, 1, 2, 4)); y = reshape(b, deep)",
         "y = space_to_depth(x, blocksize=2)"),
        ("a = reshape(x, apart); b = expand(a, twice); y = reshape(b, large)", RESIZE),
        ("a = reshape(x, apart); b = tile(a, repeats); y = reshape(b, large)", RESIZE),
    ],
)  # fmt: skip
def test_recognises(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    becomes(recognise_layouts, graph(lines), after)


@pytest.mark.parametrize(
    "lines",
    [
        "a = reshape(x, dcr); b = transpose(a, perm=(0, 3, 4, 2, 5, 1)); y = reshape(b, wide)",
        "a = reshape(x, dcr); b = transpose(a, perm=(0, 3, 4, 1, 5, 2)); y = reshape(b, large_one)",
        "a = reshape(x, apart); b = expand(a, twice); y = reshape(b, wider)",
    ],
)
def test_others_stay(stays: Callable[..., None], lines: str) -> None:
    shapes = "large_one = int64(2, 2, 12, 8); wider = int64(2, 8, 18, 8); "
    stays(recognise_layouts, graph(shapes + lines))
