"""Lifetimes and offsets: nothing live overlaps, and the arena is what it must be."""

import numpy as np
import pytest

from palmkit.engine.plan import ALIGNMENT, Buffer, Plan, Step, View, allocate


def arena(floats: int) -> View:
    return View(Buffer("arena", 4 * floats), "float32", (floats,))


def offsets(plan: Plan) -> list[int]:
    return [slot for place, slot, *_ in plan.tensors if place == "arena"]


def test_chain_reuses_two_buffers() -> None:
    views = [arena(16) for _ in range(5)]
    steps = [Step("k", "", (a,), (b,)) for a, b in zip(views, views[1:], strict=False)]
    plan = allocate([Step("k", "", (), (views[0],)), *steps], [])
    assert plan.arena_bytes == plan.lower_bound_bytes == 128


def test_in_place_chain_uses_one_buffer() -> None:
    views = [arena(16) for _ in range(5)]
    steps = [Step("k", "", (a,), (b,), in_place=0) for a, b in zip(views, views[1:], strict=False)]
    plan = allocate([Step("k", "", (), (views[0],)), *steps], [])
    assert plan.arena_bytes == 64
    assert set(offsets(plan)) == {0}


def test_input_that_is_read_later_is_not_overwritten() -> None:
    a, b, c = arena(16), arena(16), arena(16)
    steps = [
        Step("k", "", (), (a,)),
        Step("k", "", (a,), (b,), in_place=0),
        Step("k", "", (a, b), (c,)),
    ]
    plan = allocate(steps, [])
    slots = {plan.steps[i][2][0]: plan.tensors[plan.steps[i][2][0]][1] for i in range(3)}
    assert len(set(slots.values())) == 3


def test_inputs_and_outputs_are_not_in_the_arena() -> None:
    x = View(Buffer("input", 64, 0), "float32", (16,))
    y = View(Buffer("output", 64, 0), "float32", (16,))
    plan = allocate([Step("k", "", (x,), (y,), in_place=0)], [])
    assert plan.arena_bytes == 0
    assert [tensor[:2] for tensor in plan.tensors] == [("input", 0), ("output", 0)]


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_never_share_live_bytes(seed: int) -> None:
    random = np.random.default_rng(seed)
    views = [arena(int(random.integers(1, 400)))]
    steps = [Step("k", "", (), (views[0],))]
    for _ in range(40):
        count = min(len(views), int(random.integers(1, 4)))
        chosen: list[int] = random.choice(len(views), count, replace=False).tolist()
        sources = [views[i] for i in chosen]
        views.append(arena(int(random.integers(1, 400))))
        steps.append(Step("k", "", tuple(sources), (views[-1],)))
    plan = allocate(steps, [])
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, (_, inputs, outputs, _) in enumerate(plan.steps):
        for tensor in (*inputs, *outputs):
            first.setdefault(tensor, i)
            last[tensor] = i
    spans = {t: (plan.tensors[t][1], plan.tensors[t][1] + 4 * plan.tensors[t][3][0]) for t in first}
    for a in first:
        assert spans[a][0] % ALIGNMENT == 0
        assert spans[a][1] <= plan.arena_bytes
        for b in first:
            if a < b and first[a] <= last[b] and first[b] <= last[a]:
                assert spans[a][1] <= spans[b][0] or spans[b][1] <= spans[a][0]
    assert plan.lower_bound_bytes <= plan.arena_bytes
