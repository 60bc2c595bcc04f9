from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.resolve_padding import resolve_padding


@pytest.mark.parametrize(
    ("rule", "pads"),
    [("SAME_UPPER", (0, 1, 1, 2)), ("SAME_LOWER", (1, 2, 0, 1)), ("VALID", (0, 0, 0, 0))],
)
def test_conv(becomes: Callable[..., Graph], rule: str, pads: tuple[int, ...]) -> None:
    becomes(
        resolve_padding,
        f"""
        x = input(1, 3, 8, 8)
        w = random(4, 3, 3, 4)
        y = conv(x, w, auto_pad={rule!r}, strides=(2, 1))
        output(y)
        """,
        f"y = conv(x, w, pads={pads}, strides=(2, 1))",
    )


def test_pools_and_transposed(becomes: Callable[..., Graph]) -> None:
    becomes(
        resolve_padding,
        """
        x = input(1, 4, 5, 5)
        w = random(4, 2, 3, 3)
        a = max_pool(x, kernel_shape=(2, 2), strides=(2, 2), auto_pad="SAME_UPPER")
        b = average_pool(x, kernel_shape=(2, 2), auto_pad="SAME_LOWER")
        c = conv_transpose(x, w, strides=(2, 2), auto_pad="SAME_UPPER")
        d = conv_transpose(x, w, strides=(2, 2), output_shape=(10, 9))
        output(a, b, c, d)
        """,
        """
        a = max_pool(x, kernel_shape=(2, 2), pads=(0, 0, 1, 1), strides=(2, 2))
        b = average_pool(x, kernel_shape=(2, 2), pads=(1, 1, 0, 0))
        c = conv_transpose(x, w, pads=(0, 0, 1, 1), strides=(2, 2))
        d = conv_transpose(x, w, pads=(1, 1, 0, 1), strides=(2, 2))
        """,
    )


def test_outputs_beyond_the_kernels_of_a_transposed_convolution(
    becomes: Callable[..., Graph],
) -> None:
    becomes(
        resolve_padding,
        """
        x = input(1, 4, 5, 5)
        w = random(4, 2, 2, 2)
        a = conv_transpose(x, w, strides=(3, 2), auto_pad="SAME_UPPER")
        b = conv_transpose(x, w, strides=(2, 2), output_shape=(9, 14))
        output(a, b)
        """,
        """
        a = conv_transpose(x, w, output_padding=(1, 0), pads=(0, 0, 0, 0), strides=(3, 2))
        b = conv_transpose(x, w, output_padding=(0, 4), pads=(1, 0, 0, 0), strides=(2, 2))
        """,
    )


def test_unknown_dims_stay(stays: Callable[..., None]) -> None:
    stays(
        resolve_padding,
        """
        x = input(1, 3, "height", 8)
        w = random(4, 3, 3, 3)
        y = conv(x, w, auto_pad="SAME_UPPER")
        output(y)
        """,
    )
