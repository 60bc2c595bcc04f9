from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.recognise_interleaves import recognise_interleaves

SHUFFLE = """
    a = input(2, 6, 4, 5)
    b = input(2, 6, 4, 5)
    c = input(2, 12, 4, 5)
    parts = int64(2, {split}, 4, 5)
    whole = int64(2, 12, 4, 5)
    j = concat({inputs}, axis=1)
    s = reshape(j, parts)
    t = transpose(s, perm=({perm}, 3, 4))
    y = reshape(t, whole)
    """
PLAIN = {"split": "2, 6", "inputs": "a, b", "perm": "0, 2, 1"}


def test_a_shuffle(becomes: Callable[..., Graph]) -> None:
    becomes(
        recognise_interleaves,
        SHUFFLE.format(**PLAIN) + "\n    output(y)",
        "y = interleave(a, b, axis=1, count=6, first=0)",
    )


def test_halves_of_a_shuffle(becomes: Callable[..., Graph]) -> None:
    becomes(
        recognise_interleaves,
        SHUFFLE.format(**PLAIN)
        + """
    zero = int64(0,)
    six = int64(6,)
    end = int64(9223372036854775807,)
    one = int64(1,)
    low = slice(y, zero, six, one)
    high = slice(y, six, end, one)
    output(low, high)
    """,
        """
        low = interleave(a, b, axis=1, count=3, first=0)
        high = interleave(a, b, axis=1, count=3, first=3)
        """,
    )


def test_a_split_of_an_interleave(becomes: Callable[..., Graph]) -> None:
    becomes(
        recognise_interleaves,
        """
        a = input(3, 8)
        b = input(3, 8)
        parts = int64(4, 12)
        y = interleave(a, b, axis=1, first=0, count=8)
        (p, q) = split(y, parts, axis=1)
        output(p, q)
        """,
        """
        p = interleave(a, b, axis=1, count=2, first=0)
        q = interleave(a, b, axis=1, count=6, first=2)
        """,
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"split": "3, 4", "perm": "0, 2, 1"},
        {"split": "6, 2", "perm": "0, 2, 1"},
        {"perm": "1, 0, 2", "split": "2, 6"},
    ],
)
def test_other_shuffles_stay(stays: Callable[..., None], changed: dict[str, str]) -> None:
    text = SHUFFLE.format(**{**PLAIN, **changed}) + "\n    output(t)"
    stays(recognise_interleaves, text.replace("    y = reshape(t, whole)\n", ""))
    if changed["perm"] == "0, 2, 1":
        stays(recognise_interleaves, SHUFFLE.format(**{**PLAIN, **changed}) + "\n    output(y)")


@pytest.mark.parametrize(
    "cut",
    [
        "slice(y, odd, end, one)",
        "slice(y, zero, odd, one)",
        "slice(y, zero, two, two)",
        "slice(y, zero, end, one, two)",
    ],
)
def test_other_cuts_stay(stays: Callable[..., None], cut: str) -> None:
    stays(
        recognise_interleaves,
        """
        a = input(2, 6, 4)
        b = input(2, 6, 4)
        zero = int64(0,)
        one = int64(1,)
        two = int64(2,)
        odd = int64(3,)
        end = int64(100,)
        y = interleave(a, b, axis=1, count=6, first=0)
        z = {}
        output(z)
        """.replace("{}", cut),
    )
