"""Lifetimes and offsets: nothing live overlaps, and the arena is what it must be."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palmkit import engine
from palmkit.engine.backends.cpu import plan as make_plan
from palmkit.engine.backends.partition import specialise
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Type
from palmkit.engine.placing import ALIGNMENT
from palmkit.engine.plan import Buffer, Plan, Step, View, allocate
from palmkit.kits.kit import shipped_model

FOLDER = Path(__file__).parents[2].parent / "shared" / "teachers"
TEACHERS = sorted([*FOLDER.rglob("*.tflite"), *FOLDER.rglob("*.onnx")])


def arena(floats: int) -> View:
    return View(Buffer("arena", 4 * floats), "float32", (floats,))


def offsets(plan: Plan) -> list[int]:
    return [slot for place, slot, *_ in plan.tensors if place == "arena"]


def test_chain_reuses_two_buffers() -> None:
    views = [arena(16) for _ in range(5)]
    steps = [Step("k", "", (a,), (b,)) for a, b in zip(views, views[1:], strict=False)]
    plan = allocate([Step("k", "", (), (views[0],)), *steps], [])
    assert plan.arena_bytes == plan.lower_bound_bytes == 128


def test_middles_lie_where_others_did() -> None:
    views = [arena(floats) for floats in (128, 128, 64, 96, 32, 64, 32)]
    steps = [Step("k", "", (a,), (b,)) for a, b in zip(views, views[1:], strict=False)]
    plan = allocate([Step("k", "", (), (views[0],)), *steps], [])
    assert plan.arena_bytes == plan.lower_bound_bytes
    middles = {slot + 2 * dims[0] for _, slot, _, dims in plan.tensors}
    assert middles == {256, 768}


def test_middles_cost_no_bytes() -> None:
    first, between, kept, last = arena(64), arena(16), arena(32), arena(48)
    steps = [
        Step("k", "", (), (first,)),
        Step("k", "", (first,), (between,)),
        Step("k", "", (between,), (kept,)),
        Step("k", "", (kept,), (last,)),
        Step("k", "", (kept, last), ()),
    ]
    plan = allocate(steps, [])
    assert plan.arena_bytes == plan.lower_bound_bytes


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


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """Steps that read some of what was written before, some of them in place."""
    sizes = st.integers(1, 400)
    views = [arena(draw(sizes))]
    steps = [Step("k", "", (), (views[0],))]
    for _ in range(draw(st.integers(0, 30))):
        sources = tuple(draw(st.lists(st.sampled_from(views), min_size=1, max_size=3)))
        in_place = draw(st.sampled_from([None, 0]))
        same = in_place == 0 and draw(st.booleans())
        views.append(arena(sources[0].dims[0] if same else draw(sizes)))
        steps.append(Step("k", "", sources, (views[-1],), in_place=in_place))
    return steps


@given(programs())
def test_live_buffers_never_share_bytes(steps: list[Step]) -> None:
    plan = allocate(steps, [])
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    handed_on: set[tuple[int, int]] = set()
    for i, (_, inputs, outputs, _) in enumerate(plan.steps):
        for tensor in (*inputs, *outputs):
            first.setdefault(tensor, i)
            last[tensor] = i
        if steps[i].in_place is not None:
            handed_on.add((inputs[0], outputs[0]))
    spans = {t: (plan.tensors[t][1], plan.tensors[t][1] + 4 * plan.tensors[t][3][0]) for t in first}
    for a in first:
        assert spans[a][0] % ALIGNMENT == 0
        assert spans[a][1] <= plan.arena_bytes
        for b in first:
            if a < b and first[a] <= last[b] and first[b] <= last[a]:
                apart = spans[a][1] <= spans[b][0] or spans[b][1] <= spans[a][0]
                in_place = (a, b) in handed_on and last[a] == first[b]
                assert apart or in_place and spans[a][0] == spans[b][0]
    assert plan.lower_bound_bytes <= plan.arena_bytes


def assert_tight(plan: Plan) -> None:
    assert plan.arena_bytes <= 1.05 * plan.lower_bound_bytes


def test_arena_of_the_face_detector_is_tight() -> None:
    graph = engine.convert(shipped_model("face_detector"))
    for height, width in ((160, 160), (480, 640), (640, 640)):
        inputs = {"image": Type("float32", (1, height, width, 3))}
        assert_tight(make_plan(specialise(graph, inputs))[0])


@pytest.mark.skipif(not TEACHERS, reason="the networks of ../shared/teachers are not here")
@pytest.mark.parametrize("path", TEACHERS, ids=lambda path: path.stem)
def test_arena_of_published_networks_is_tight(path: Path) -> None:
    graph = engine.convert(path)
    inputs = {
        name: Type(type.dtype, tuple(dim if isinstance(dim, int) else 320 for dim in type.shape))
        for name, type in graph.inputs.items()
    }
    try:
        plan, _ = make_plan(specialise(graph, inputs))
    except UnsupportedError:
        pytest.skip("the backend runs it by parts")
    assert_tight(plan)
