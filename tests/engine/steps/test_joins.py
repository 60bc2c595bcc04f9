"""The passes that join steps, before and after, as text."""

import numpy as np
import pytest

from palmkit.engine.backends.cpu.passes.gates import join_gates
from palmkit.engine.backends.cpu.passes.interleaves import join_interleaves
from palmkit.engine.backends.cpu.passes.separable import join_separable
from palmkit.engine.backends.cpu.passes.sums import join_clamps, join_resized_sums
from tests.engine.steps.text import Text, changed, unchanged

SEPARABLE = """
    x = arena(1, 8, 8, 16)
    d = random(16, 3, 3, 1)
    w = random(24, 1, 1, 16)
    b = random(24)
    y = output(1, 8, 8, 24)
    a = conv(1, 8, 8, 16, image=x, weights=d, group=16, pads=[1, 1, 1, 1], activation="relu")
    conv(image=a, weights=w, bias=b, y=y, activation="sigmoid")
"""


def test_a_depthwise_and_a_pointwise_convolution_are_one_step() -> None:
    after = """
        separable_conv(image=x, depthwise_weights=d, weights=w, bias=b, y=y, strides=[1, 1],
            dilations=[1, 1], pads=[1, 1, 1, 1], depthwise_activation='relu',
            depthwise_activation_params=[], activation='sigmoid', activation_params=[])
    """
    changed(SEPARABLE, after, join_separable)


def test_a_residual_is_written_over_unless_it_is_the_image() -> None:
    text = """
        x = arena(1, 8, 8, 16)
        z = arena(1, 8, 8, 16)
        d = random(16, 3, 3, 1)
        w = random(16, 1, 1, 16)
        y = arena(1, 8, 8, 16)
        a = conv(1, 8, 8, 16, image=x, weights=d, group=16, pads=[1, 1, 1, 1])
        conv(image=a, weights=w, residual={residual}, y=y, in_place="residual")
    """
    after = """
        separable_conv(image=x, depthwise_weights=d, weights=w, residual={residual}, y=y,
            strides=[1, 1], dilations=[1, 1], pads=[1, 1, 1, 1], depthwise_activation='',
            depthwise_activation_params=[], activation='', activation_params=[]{in_place})
    """
    over = ", in_place='residual'"
    changed(text.format(residual="z"), after.format(residual="z", in_place=over), join_separable)
    changed(text.format(residual="x"), after.format(residual="x", in_place=""), join_separable)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("group=16, ", "group=8, "),  # not depthwise
        ("image=a, weights=w", "image=a, weights=w, strides=[2, 2]"),  # not each pixel by itself
        ("8, 8,", "2, 2,"),  # fewer rows than threads share
    ],
)
def test_other_convolutions_stay_two_steps(old: str, new: str) -> None:
    assert old in SEPARABLE
    unchanged(SEPARABLE.replace(old, new), join_separable)


def test_zeros_are_skipped_by_a_step_of_their_own_where_they_are_many() -> None:
    text = """
        x = arena(1, 28, 28, 256)
        d = random(256, 3, 3, 1)
        w = {weights}(256, 1, 1, 256)
        y = output(1, 28, 28, 256)
        a = conv(1, 28, 28, 256, image=x, weights=d, group=256, pads=[1, 1, 1, 1])
        conv(image=a, weights=w, y=y)
    """
    unchanged(text.format(weights="zeros"), join_separable)
    dense = Text.of(text.format(weights="random"))
    assert dense.after(join_separable).startswith("separable_conv(")


def test_what_another_step_reads_stays() -> None:
    for join, text in ((join_separable, SEPARABLE), (join_gates, GATED)):
        unchanged(text + '    t = unary(1, image=a, op="relu")\n'.replace("image", "x"), join)


GATED = """
    x = arena(1, 8, 8, 16)
    g = arena(1, 1, 1, 16)
    w = random(24, 1, 1, 16)
    y = output(1, 8, 8, 24)
    a = binary(1, 8, 8, 16, a=x, b=g, op="mul", shape=[64, 16], a_strides=[16, 1], b_strides=[0, 1])
    conv(image=a, weights=w, y=y)
"""


def test_a_pointwise_convolution_takes_in_gates() -> None:
    changed(GATED, "conv(image=x, weights=w, gate=g, y=y)", join_gates)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('op="mul"', 'op="add"'),
        ("b_strides=[0, 1]", "b_strides=[1, 0]"),  # a gate for each pixel
        ("random(24, 1, 1, 16)", "random(24, 3, 3, 16)"),  # a window, not each pixel by itself
        ("1, 8, 8", "2, 8, 8"),  # two pictures
    ],
)
def test_other_products_stay_a_step(old: str, new: str) -> None:
    assert old in GATED
    unchanged(GATED.replace(old, new), join_gates)


def test_where_the_picture_is_less_than_the_weights_it_takes_the_gates() -> None:
    few = GATED.replace("8, 8,", "2, 2,").replace("16", "112").replace("24", "144")
    unchanged(few, join_gates)


INTERLEAVED = """
    p = arena(1, 8, 8, 16)
    q = arena(1, 8, 8, 16)
    w = random(24, 1, 1, 16)
    y = output(1, 8, 8, 24)
    a = interleave(1, 8, 8, 16, part0=p[0:8], part1=q[0:8], inner=1)
    conv(image=a, weights=w, y=y)
"""


def test_a_pointwise_convolution_reads_two_pictures() -> None:
    after = "conv(image=p[0:8], weights=w, second_image=q[0:8], y=y)"
    changed(INTERLEAVED, after, join_interleaves)


def test_weights_come_in_the_order_of_the_pictures() -> None:
    text = Text.of(INTERLEAVED)
    by_turns, by_picture = (
        lowered.constants[0].reshape(24, 16)
        for lowered in (text.lowered, join_interleaves(text.lowered))
    )
    np.testing.assert_array_equal(by_picture[:, :8], by_turns[:, ::2])
    np.testing.assert_array_equal(by_picture[:, 8:], by_turns[:, 1::2])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("part1=q[0:8]", "part1=q[0:8], part2=p[0:8]"),
        ("inner=1", "inner=2"),
        ("q = arena(1, 8, 8, 16)", "q = arena(1, 8, 8, 8)"),  # pixels not as far apart
        ("random(24, 1, 1, 16)", "random(24, 3, 3, 16)"),
    ],
)
def test_other_interleaves_stay_a_step(old: str, new: str) -> None:
    assert old in INTERLEAVED
    unchanged(INTERLEAVED.replace(old, new), join_interleaves)


SUM = """
    a = arena(1, 4, 4, 8)
    b = arena(1, 4, 4, 8)
    y = output(1, 4, 4, 8)
    s = binary(1, 4, 4, 8, a=a, b=b, op="add", shape=[128], a_strides=[1], b_strides=[1],
               in_place="a")
    unary(x=s, y=y, {clamp}, in_place="x")
"""


@pytest.mark.parametrize(
    ("clamp", "params"),
    [('op="relu"', "[0.0, inf]"), ('op="clip", min=0.5, max=6.0', "[0.5, 6.0]")],
)
def test_a_sum_takes_in_its_clamp(clamp: str, params: str) -> None:
    after = f"""
        binary(a=a, b=b, y=y, op='add', shape=[128], a_strides=[1], b_strides=[1],
            activation='clip', activation_params={params}, in_place='a')
    """
    changed(SUM.format(clamp=clamp), after, join_clamps)


def test_a_sum_takes_in_no_other_activation() -> None:
    unchanged(SUM.format(clamp='op="sigmoid"'), join_clamps)


RESIZED = """
    x = arena(1, 2, 2, 8)
    z = arena(1, 4, 4, 8)
    i = random(4)
    y = output(1, 4, 4, 8)
    r = resize(1, 4, 4, 8, image=x, rows=i, columns=i, mode="nearest")
    binary(a=z, b=r, y=y, op="add", shape=[128], a_strides=[1], b_strides=[1], activation="clip",
           activation_params=[0.0, 6.0], in_place="a")
"""


def test_a_resize_takes_in_the_sum_and_its_clamp() -> None:
    after = """
        resize(image=x, rows=i, columns=i, addend=z, y=y, mode='nearest', activation='clip',
            activation_params=[0.0, 6.0], in_place='addend')
    """
    changed(RESIZED, after, join_resized_sums)


def test_a_resize_takes_in_one_sum_alone() -> None:
    """The second of two sums in a row stays a step: a resize has room for one addend."""
    added = """
    v = arena(1, 4, 4, 8)
    w = output(1, 4, 4, 8)
    """
    summed = """
    binary(a=y, b=v, y=w, op="add", shape=[128], a_strides=[1], b_strides=[1], in_place="a")
    """
    steps = RESIZED.replace("y = output(1, 4, 4, 8)", "y = arena(1, 4, 4, 8)" + added.rstrip())
    steps = steps.rstrip() + summed
    after = """
        resize(image=x, rows=i, columns=i, addend=z, y=y, mode='nearest', activation='clip',
            activation_params=[0.0, 6.0], in_place='addend')
        binary(a=y, b=v, y=w, op='add', shape=[128], a_strides=[1], b_strides=[1], in_place='a')
    """
    changed(steps, after, join_resized_sums)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('op="add"', 'op="sub"'),
        ("a_strides=[1]", "a_strides=[0]"),  # what is added is repeated
        ("z = arena(1, 4, 4, 8)", "z = arena(1, 4, 4, 1)"),
    ],
)
def test_other_sums_stay_a_step(old: str, new: str) -> None:
    assert old in RESIZED
    unchanged(RESIZED.replace(old, new), join_resized_sums)
