from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.merge_reshapes import merge_reshapes


def test_a_chain_is_one(becomes: Callable[..., Graph]) -> None:
    becomes(
        merge_reshapes,
        """
        x = input(2, 3, 1, 5)
        axes = int64(2)
        first = int64(0)
        target = int64(-1, 5)
        a = squeeze(x, axes)
        b = unsqueeze(a, first)
        c = flatten(b)
        y = reshape(c, target)
        output(y)
        """,
        "y = reshape(x, y/shape)",
    )


def test_a_transpose_of_ones_is_a_reshape_beside_one(becomes: Callable[..., Graph]) -> None:
    becomes(
        merge_reshapes,
        """
        x = input(1, 7, 1, 1)
        target = int64(1, 7)
        a = transpose(x, perm=(0, 2, 3, 1))
        y = reshape(a, target)
        output(y)
        """,
        "y = reshape(x, y/shape)",
    )


@pytest.mark.parametrize(("dims", "target"), [((1, 7, 2, 1), "1, 14"), ((2, 3, 4, 5), "0, 60")])
def test_a_transpose_that_moves_data_stays(
    becomes: Callable[..., Graph], dims: tuple[int, ...], target: str
) -> None:
    becomes(
        merge_reshapes,
        f"""
        x = input{dims}
        target = int64({target})
        a = transpose(x, perm=(0, 2, 3, 1))
        y = reshape(a, target)
        output(y)
        """,
        f"""
        a = transpose(x, perm=(0, 2, 3, 1))
        y = reshape(a, {"target" if target[0] == "1" else "y/shape"})
        """,
    )


def test_unknown_dims_stay(stays: Callable[..., None]) -> None:
    stays(
        merge_reshapes,
        """
        x = input("batch", 2, 3)
        y = flatten(x)
        output(y)
        """,
    )


def test_a_reshape_goes_behind_an_activation(becomes: Callable[..., Graph]) -> None:
    becomes(
        merge_reshapes,
        """
        x = input(2, 3)
        low = float32(0.0)
        target = int64(6)
        a = reshape(x, target)
        b = clip(a, low)
        y = sigmoid(b)
        output(y)
        """,
        """
        b/before = clip(x, low)
        y/before = sigmoid(b/before)
        y = reshape(y/before, target)
        """,
    )


def test_axes_that_a_reduction_drops_and_a_reshape_brings_back(
    becomes: Callable[..., Graph],
) -> None:
    becomes(
        merge_reshapes,
        """
        x = input(2, 3, 4, 5)
        axes = int64(2, -1)
        back = int64(2, 3)
        a = reduce_mean(x, axes, keepdims=0)
        b = unsqueeze(a, back)
        y = exp(b)
        output(y)
        """,
        "b = reduce_mean(x, axes)\ny = exp(b)",
    )


def test_other_axes_than_a_reduction_drops(text: Callable[[str], Graph]) -> None:
    graph = text(
        """
        x = input(2, 3, 4, 5)
        axes = int64(2, -1)
        back = int64(0, 1)
        a = reduce_mean(x, axes, keepdims=0)
        y = unsqueeze(a, back)
        output(y)
        """
    )
    assert [node.op for node in merge_reshapes(graph).nodes] == ["reduce_mean", "reshape"]
