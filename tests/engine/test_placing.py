"""Where buffers lie: what is live at a time is apart, and two threads write where they wrote."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from palmkit.engine.steps.placing import Life, aligned, most_bytes, moved_bytes, place

STEPS = 12


def test_halves_that_lie_over_the_same_halves_are_not_moved() -> None:
    assert moved_bytes([Life(8192, 0, 0), Life(8192, 1, 1)]) == 0
    assert moved_bytes([Life(8192, 0, 0), Life(4096, 1, 1, offset=2048)]) == 0


def test_what_lies_in_one_half_of_another_is_moved_there_and_back() -> None:
    assert moved_bytes([Life(8192, 0, 0), Life(4096, 1, 1)]) == 2048 + 2048
    assert moved_bytes([Life(8192, 0, 0), Life(4096, 1, 1, offset=4096)]) == 2048 + 2048


@st.composite
def lives(draw: st.DrawFn) -> list[Life]:
    spans = st.tuples(st.integers(0, STEPS - 1), st.integers(0, 3))
    sizes = st.sampled_from([1 << 18, 3 << 18, 1 << 20, 3 << 20])
    drawn = draw(st.lists(st.tuples(sizes, spans), min_size=1, max_size=STEPS))
    return [
        Life(aligned(size), first, min(first + steps, STEPS - 1)) for size, (first, steps) in drawn
    ]


@given(lives())
def test_two_threads_move_no_more_for_a_twentieth_of_the_bytes(lives: list[Life]) -> None:
    lower_bound_bytes = most_bytes(lives, STEPS)
    tight_bytes = place(lives, lower_bound_bytes)
    before = moved_bytes(lives)
    shared_bytes = place(lives, lower_bound_bytes, shared=True)
    assert moved_bytes(lives) <= before
    assert shared_bytes <= max(tight_bytes, 1.05 * lower_bound_bytes)
    assert shared_bytes == max(life.offset + life.size_bytes for life in lives)
    for one, other in combinations(lives, 2):
        if one.last >= other.first and other.last >= one.first:
            first, second = sorted((one, other), key=lambda life: life.offset)
            assert first.offset + first.size_bytes <= second.offset


def test_two_threads_move_less_where_another_order_lets_them() -> None:
    megabytes = (4, 3, 2, 3)
    lives = [Life(size << 20, step, step + 1) for step, size in enumerate(megabytes)]
    lower_bound_bytes = most_bytes(lives, len(lives) + 1)
    assert place(lives, lower_bound_bytes) == lower_bound_bytes
    assert moved_bytes(lives) == 2 << 20
    assert place(lives, lower_bound_bytes, shared=True) == lower_bound_bytes
    assert moved_bytes(lives) == 0
