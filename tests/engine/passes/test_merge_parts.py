from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.merge_parts import merge_parts

PARTS = """
    x = input(1, 6, 4, 4)
    sizes = int64(2, 4)
    k = random(2, 1, 3, 3)
    l = random(4, 1, 3, 3)
    b = random(4)
    low = float32(0.0)
    high = float32(6.0)
    a, c = split(x, sizes, axis=1)
    """


def parts(lines: str) -> str:
    return PARTS + lines.replace("; ", "\n    ") + "\n    output(y)\n"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            "p = conv(c, l, b, group=4); q = conv(a, k, group=2); y = concat(p, q, axis=1)",
            """
            q/merged = conv(x, q/merged/weights, q/merged/bias, group=6)
            q, p = split(q/merged, sizes, axis=1)
            y = concat(p, q, axis=1)
            """,
        ),
        (
            "p = clip(a, low, high); q = clip(c, low, high); y = concat(q, p, axis=1)",
            """
            p/merged = clip(x, low, high)
            p, q = split(p/merged, sizes, axis=1)
            y = concat(q, p, axis=1)
            """,
        ),
    ],
)
def test_parts_are_treated_at_once(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    becomes(merge_parts, parts(lines), "\n".join(each.strip() for each in after.splitlines()))


@pytest.mark.parametrize(
    "lines",
    [
        "p = clip(a, low, high); q = clip(c, low); y = concat(q, p, axis=1)",
        "p = relu(a); q = sigmoid(c); y = concat(q, p, axis=1)",
        "p = relu(a); q = relu(c); y = concat(q, p, c, axis=1)",
        "p = conv(c, l, b, group=4); q = conv(a, k, group=2, pads=(1, 1, 1, 1)); y = add(p, b)",
        "p = relu(a); y = exp(p)",
    ],
)
def test_other_parts_stay(text: Callable[[str], Graph], lines: str) -> None:
    before = text(parts(lines.replace("add(p, b)", "relu(p)")))
    assert merge_parts(before).nodes == before.nodes


@pytest.mark.parametrize(
    ("lines", "outputs"),
    [
        ("p = relu(a); q = relu(c)", "p, q, c"),
        ("p = leaky_relu(a, alpha=0.5); q = leaky_relu(c, alpha=0.25)", "p, q"),
        ("p = conv(a, k, group=2); q = conv(c, m)", "p, q"),
        ("p = conv(a, k, g, group=2); q = conv(c, l, group=4)", "p, q"),
    ],
)
def test_parts_with_other_readers_or_other_work_stay(
    stays: Callable[..., None], lines: str, outputs: str
) -> None:
    text = PARTS + "m = random(4, 4, 3, 3)\n    g = input(2)\n    "
    stays(merge_parts, text + lines.replace("; ", "\n    ") + f"\n    output({outputs})\n")


def test_activations_of_parts_along_any_axis(becomes: Callable[..., Graph]) -> None:
    text = """
        x = input(1, 6, 4, 4)
        sizes = int64(1, 3)
        a, c = split(x, sizes, axis=2)
        p = leaky_relu(a, alpha=0.5)
        q = leaky_relu(c, alpha=0.5)
        output(p, q)
        """
    after = """
        p/merged = leaky_relu(x, alpha=0.5)
        p, q = split(p/merged, sizes, axis=2)
        """
    becomes(merge_parts, text, after)


def test_convolutions_of_parts_of_the_picture_stay(stays: Callable[..., None]) -> None:
    text = """
        x = input(1, 2, 4, 9)
        sizes = int64(5, 4)
        k = random(2, 1, 3, 3)
        l = random(2, 1, 3, 3)
        a, c = split(x, sizes, axis=3)
        p = conv(a, k, group=2)
        q = conv(c, l, group=2)
        output(p, q)
        """
    stays(merge_parts, text)
