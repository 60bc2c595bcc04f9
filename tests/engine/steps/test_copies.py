"""Copies that views stand for, and those that stay."""

import pytest

from palmkit.engine.backends.cpu.passes.copies import view_copies
from tests.engine.steps.text import Text, changed, unchanged

CONCAT = """
    x = input(1, 8, 8, 16)
    w = random(8, 1, 1, 16)
    v = random(4, 1, 1, 16)
    y = output(1, 8, 8, 12)
    c = arena(1, 8, 8, 12)
    a = conv(1, 8, 8, 8, image=x, weights=w)
    z = conv(1, 8, 8, 4, image=x, weights=v)
    copy(x=z, y=c[0:4])
    copy(x=a, y=c[4:12])
    unary(x=c, y=y, op="exp")
"""


def test_convolutions_write_their_parts_of_a_concat() -> None:
    after = """
        conv(image=x, weights=w, y=c[4:12])
        conv(image=x, weights=v, y=c[0:4])
        unary(x=c, y=y, op='exp')
    """
    changed(CONCAT, after, view_copies)


def test_who_reads_a_part_as_well_reads_it_in_the_whole() -> None:
    """Here a depthwise convolution, of half of what is written."""
    before = (
        CONCAT
        + """
    u = random(4, 3, 3, 1)
    d = output(1, 6, 6, 4)
    conv(image=a[4:8], weights=u, y=d, group=4)
    """
    )
    after = """
        conv(image=x, weights=w, y=c[4:12])
        conv(image=x, weights=v, y=c[0:4])
        unary(x=c, y=y, op='exp')
        conv(image=c[8:12], weights=u, y=d, group=4)
    """
    changed(before, after, view_copies)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("copy(x=a, y=c[4:12])", "copy(x=a, y=c[3:11])"),
        (
            "copy(x=a, y=c[4:12])",
            "copy(x=part(a, [8, 64], [1, 8]), y=part(c, [8, 64], [1, 12], 4))",
        ),
        ("a = conv(1, 8, 8, 8, image=x, weights=w)", "a = unary(1, 8, 8, 8, x=x[0:8], op='exp')"),
    ],
    ids=["over another part", "in another order", "not taken by the kernel"],
)
def test_other_parts_stay_copies(old: str, new: str) -> None:
    assert old in CONCAT
    after = Text.of(CONCAT.replace(old, new)).after(view_copies)
    assert "copy(x=a" in after or "copy(x=part(a" in after


SPLIT = """
    x = input(1, 8, 8, 16)
    w = random(8, 1, 1, 6)
    y = output(1, 8, 8, 8)
    a = unary(1, 8, 8, 16, x=x, op="exp")
    p = arena(1, 8, 8, 6)
    copy(x=a[10:16], y=p)
    conv(image=p, weights=w, y=y)
"""


def test_a_convolution_reads_its_part_where_it_is() -> None:
    after = """
        unary(x=x, y=a, op='exp')
        conv(image=a[10:16], weights=w, y=y)
    """
    changed(SPLIT, after, view_copies)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("copy(x=a[10:16], y=p)", "copy(x=part(a, [1, 8, 8, 6], [1024, 128, 16, 2]), y=p)"),
        ("conv(image=p, weights=w, y=y)", "softmax(x=p, y=p, outer=64, axis=6, inner=1)"),
        ("conv(image=p, weights=w, y=y)", "conv(image=p, weights=w, y=y)\n    copy(x=y, y=a[0:8])"),
    ],
    ids=["every other channel", "not taken by the kernel", "written later"],
)
def test_other_reads_stay_copies(old: str, new: str) -> None:
    assert old in SPLIT
    unchanged(SPLIT.replace(old, new), view_copies)


def test_rows_are_written_and_read_by_any_kernel() -> None:
    """They lie contiguous: of two pictures that are joined, and of the half of one."""
    before = """
        x = input(4, 6)
        c = arena(8, 6)
        y = output(4, 6)
        h = arena(4, 6)
        a = unary(4, 6, x=x, op="exp")
        b = softmax(4, 6, x=x, outer=4, axis=6, inner=1)
        copy(x=a, y=part(c, [24]))
        copy(x=part(b, [24]), y=part(c, [24], 24))
        copy(x=part(c, [24], 12), y=part(h, [24]))
        unary(x=h, y=y, op="exp")
    """
    after = """
        unary(x=x, y=part(c, [4, 6]), op='exp')
        softmax(x=x, y=part(c, [4, 6], 24), outer=4, axis=6, inner=1)
        unary(x=part(c, [4, 6], 12), y=y, op='exp')
    """
    changed(before, after, view_copies)


def test_zeros_around_come_first() -> None:
    before = """
        x = input(1, 8, 8, 16)
        w = random(8, 1, 1, 16)
        y = output(1, 8, 8, 12)
        c = arena(1, 8, 8, 12)
        a = conv(1, 8, 8, 8, image=x, weights=w)
        fill(y=c, value=0.0)
        copy(x=a, y=c[2:10])
        unary(x=c, y=y, op="exp")
    """
    after = """
        fill(y=c, value=0.0)
        conv(image=x, weights=w, y=c[2:10])
        unary(x=c, y=y, op='exp')
    """
    changed(before, after, view_copies)


def test_no_more_memory_is_live_for_it() -> None:
    """The concat would be there while the largest of the buffers is."""
    before = """
        x = input(1, 8, 8, 16)
        w = random(8, 1, 1, 16)
        v = random(400, 1, 1, 16)
        u = random(4, 1, 1, 400)
        y = output(1, 8, 8, 12)
        c = arena(1, 8, 8, 12)
        a = conv(1, 8, 8, 8, image=x, weights=w)
        m = conv(1, 8, 8, 400, image=x, weights=v)
        n = conv(1, 8, 8, 4, image=m, weights=u)
        copy(x=a, y=c[0:8])
        copy(x=n, y=c[8:12])
        unary(x=c, y=y, op="exp")
    """
    after = """
        conv(image=x, weights=w, y=a)
        conv(image=x, weights=v, y=m)
        conv(image=m, weights=u, y=n)
        copy(x=a, y=c[0:8])
        copy(x=n, y=c[8:12])
        unary(x=c, y=y, op='exp')
    """
    changed(before, after, view_copies)


def test_parts_of_parts_of_an_input_are_read_there() -> None:
    before = """
        x = input(8, 6)
        h = arena(4, 6)
        q = arena(2, 6)
        y = output(2, 6)
        copy(x=part(x, [24], 24), y=part(h, [24]))
        copy(x=part(h, [12], 12), y=part(q, [12]))
        unary(x=q, y=y, op="exp")
    """
    changed(before, "unary(x=part(x, [2, 6], 36), y=y, op='exp')", view_copies)
