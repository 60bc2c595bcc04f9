from collections.abc import Callable

import numpy as np
import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.move_levels import make_unsigned, move_levels

HEAD = """
    x = input(1, 4, 6, 6, dtype="uint8")
    z = input(1, 4, 6, 6, dtype="uint8")
    e = input(1, 4, 6, 6, dtype="int8")
    v = input(1, 4, 6, 6)
    sx = float32(0.5)
    sy = float32(0.25)
    zx = uint8(100)
    ze = int8(3)
    two = float32(0.5, 0.25, 1.0, 2.0)
    around = int64(0, 0, 1, 1, 0, 0, 1, 1)
    fits = float32(2.0)
    between = float32(-0.75)
    shape = int64(1, 144)
    parts = int64(1, 3)
    start = int64(1, 1)
    end = int64(3, 5)
    along = int64(1, 2)
    sizes = int64(1, 4, 12, 12)
    f = dequantize_linear(x, sx, zx)
    g = dequantize_linear(z, sx, zx)
    h = dequantize_linear(z, sy, zx)
    """


def graph(lines: str) -> str:
    return HEAD + lines.replace("; ", "\n    ") + "\n"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            "y = quantize_linear(v, sx, ze); output(y)",
            "y/unsigned = quantize_linear(v, sx, y/zero_point)\ny = lookup(y/unsigned, y/table)",
        ),
        (
            "y = dequantize_linear(e, sx, ze); output(y)",
            "e/unsigned = lookup(e, e/table)\ny = dequantize_linear(e/unsigned, sx, y/zero_point)",
        ),
    ],
)
def test_signed_levels_are_unsigned_ones(
    becomes: Callable[..., Graph], lines: str, after: str
) -> None:
    assert becomes(make_unsigned, graph(lines), after).constants["y/zero_point"] == 131


def test_tables_that_undo_one_another_leave(text: Callable[[str], Graph]) -> None:
    lines = "q = quantize_linear(v, sx, ze); y = dequantize_linear(q, sx, ze); output(y)"
    after = make_unsigned(make_unsigned(make_unsigned(text(graph(lines)))))
    assert [node.op for node in after.nodes] == ["quantize_linear", "dequantize_linear"]
    zeros = [after.constants[node.inputs[2]] for node in after.nodes]
    assert [(zero.dtype.name, int(zero)) for zero in zeros] == [("uint8", 131)] * 2


@pytest.mark.parametrize(
    "lines",
    [
        "y = quantize_linear(v, sx, zx); output(y)",
        "y = dequantize_linear(e, two, _, axis=1); output(y)",
    ],
)
def test_unsigned_ones_and_those_of_many_scales_stay(
    stays: Callable[..., None], lines: str
) -> None:
    stays(make_unsigned, graph(lines))


@pytest.mark.parametrize(
    ("moved", "on_levels"),
    [
        ("reshape(f, shape)", "reshape(x, shape)"),
        ("slice(f, start, end, along)", "slice(x, start, end, along)"),
        ("depth_to_space(f, blocksize=2)", "depth_to_space(x, blocksize=2)"),
        ("max_pool(f, kernel_shape=(2, 2))", "max_pool(x, kernel_shape=(2, 2))"),
        ("global_max_pool(f)", "max_pool(x, kernel_shape=(6, 6))"),
        ("pad(f, around, fits)", "pad(x, around, fill)"),
        ("pad(f, around, _, mode='reflect')", None),
        ("concat(f, g, axis=1)", "concat(x, z, axis=1)"),
        ("resize(f, _, _, sizes)", "resize(x, , , sizes)"),
    ],
)
def test_what_only_moves_moves_levels(
    becomes: Callable[..., Graph], moved: str, on_levels: str | None
) -> None:
    on_levels = on_levels or "pad(x, around, fill, mode='reflect')"
    after = f"y/levels = {on_levels}\ny = dequantize_linear(y/levels, sx, zx)"
    becomes(move_levels, graph(f"y = {moved}; output(y)"), after)


def test_every_part_is_dequantized_for_itself(becomes: Callable[..., Graph]) -> None:
    after = """
        a/levels, b/levels = split(x, parts, axis=1)
        a = dequantize_linear(a/levels, sx, zx)
        b = dequantize_linear(b/levels, sx, zx)
        y = relu(a)
        """
    becomes(move_levels, graph("a, b = split(f, parts, axis=1); y = relu(a); output(y, b)"), after)


def test_padding_is_with_the_level_of_the_number(text: Callable[[str], Graph]) -> None:
    after = move_levels(text(graph("y = pad(f, around, fits); output(y)")))
    np.testing.assert_array_equal(after.constants["fill"], np.array(104, np.uint8))


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("r = reshape(v, shape)", "reshape(v/levels, shape)"),
        ("r = space_to_depth(v, blocksize=2)", "space_to_depth(v/levels, blocksize=2)"),
        ("r = max_pool(v, kernel_shape=(2, 2))", "max_pool(v/levels, kernel_shape=(2, 2))"),
    ],
)
def test_levels_rise_through_what_keeps_all(
    becomes: Callable[..., Graph], lines: str, after: str
) -> None:
    text = graph(f"{lines}; y = quantize_linear(r, sx, zx); output(y)")
    becomes(move_levels, text, f"v/levels = quantize_linear(v, sx, zx)\ny = {after}")


@pytest.mark.parametrize(
    "lines",
    [
        "y = pad(f, around, between); output(y)",
        "y = concat(f, h, axis=1); output(y)",
        "y = resize(f, _, _, sizes, mode='linear'); output(y)",
        "y = relu(f); output(y)",
        "y = max_pool(f, kernel_shape=(2, 2), auto_pad='SAME_UPPER'); output(y)",
        "y, i = max_pool(f, kernel_shape=(2, 2)); output(y, i)",
        "r = slice(v, start, end, along); y = quantize_linear(r, sx, zx); output(y)",
        "r = reshape(v, shape); y = quantize_linear(r, sx, zx); output(y, r)",
    ],
)
def test_others_stay(stays: Callable[..., None], lines: str) -> None:
    stays(move_levels, graph(lines))


def test_a_window_in_the_padding_alone_has_no_level(stays: Callable[..., None]) -> None:
    stays(move_levels, graph("y = max_pool(f, kernel_shape=(2, 2), pads=(2, 0, 0, 0)); output(y)"))


def test_transposes_sink_by_themselves(text: Callable[[str], Graph]) -> None:
    """Else the pass would turn round what cancel_transposes does, for ever."""
    before = text(graph("y = transpose(f, perm=(0, 2, 3, 1)); output(y)"))
    assert move_levels(before) is before
