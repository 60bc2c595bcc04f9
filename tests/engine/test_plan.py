"""Lifetimes and offsets: nothing live overlaps, and the arena is what it must be."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palmkit import engine
from palmkit.engine.backends.cpu import plan as make_plan
from palmkit.engine.backends.partition import specialise
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Type
from palmkit.engine.steps.placing import ALIGNMENT
from palmkit.engine.steps.plan import Plan, allocate
from palmkit.engine.steps.step import Buffer, Step, View
from palmkit.kits.kit import shipped_model

FOLDER = Path(__file__).parents[2].parent / "shared" / "teachers"
TEACHERS = sorted([*FOLDER.rglob("*.tflite"), *FOLDER.rglob("*.onnx")])


def arena(floats: int) -> View:
    return View(Buffer("arena", 4 * floats), "float32", (floats,))


def offsets(plan: Plan) -> list[int]:
    return [tensor.slot for tensor in plan.tensors if tensor.place == "arena"]


def step(reads: Sequence[View], writes: Sequence[View], in_place: str | None = None) -> Step:
    inputs: dict[str, View | None] = {f"x{i}": view for i, view in enumerate(reads)}
    outputs = {f"y{i}": view for i, view in enumerate(writes)}
    return Step("k", "", inputs, outputs, {}, in_place)


def test_chain_reuses_two_buffers() -> None:
    views = [arena(16) for _ in range(5)]
    steps = [step((a,), (b,)) for a, b in zip(views, views[1:], strict=False)]
    plan = allocate([step((), (views[0],)), *steps], [])
    assert plan.arena_bytes == plan.lower_bound_bytes == 128


def test_middles_lie_where_others_did() -> None:
    views = [arena(floats) for floats in (128, 128, 64, 96, 32, 64, 32)]
    steps = [step((a,), (b,)) for a, b in zip(views, views[1:], strict=False)]
    plan = allocate([step((), (views[0],)), *steps], [])
    assert plan.arena_bytes == plan.lower_bound_bytes
    middles = {each.slot + 2 * each.dims[0] for each in plan.tensors}
    assert middles == {256, 768}


def test_middles_cost_no_bytes() -> None:
    first, between, kept, last = arena(64), arena(16), arena(32), arena(48)
    steps = [
        step((), (first,)),
        step((first,), (between,)),
        step((between,), (kept,)),
        step((kept,), (last,)),
        step((kept, last), ()),
    ]
    plan = allocate(steps, [])
    assert plan.arena_bytes == plan.lower_bound_bytes


def test_in_place_chain_uses_one_buffer() -> None:
    views = [arena(16) for _ in range(5)]
    steps = [step((a,), (b,), in_place="x0") for a, b in zip(views, views[1:], strict=False)]
    plan = allocate([step((), (views[0],)), *steps], [])
    assert plan.arena_bytes == 64
    assert set(offsets(plan)) == {0}


def test_elements_of_another_size_are_not_written_over_others() -> None:
    # Both take one cache line.
    wide = arena(9)
    narrow = View(Buffer("arena", 18), "float16", (9,))
    for x, y in ((wide, narrow), (narrow, wide)):
        plan = allocate([step((), (x,)), step((x,), (y,), in_place="x0"), step((y,), ())], [])
        assert len(set(offsets(plan))) == 2


def test_input_that_is_read_later_is_not_overwritten() -> None:
    a, b, c = arena(16), arena(16), arena(16)
    steps = [
        step((), (a,)),
        step((a,), (b,), in_place="x0"),
        step((a, b), (c,)),
    ]
    plan = allocate(steps, [])
    slots = {plan.tensors[each.outputs["y0"]].slot for each in plan.steps}
    assert len(slots) == 3


def test_inputs_and_outputs_are_not_in_the_arena() -> None:
    x = View(Buffer("input", 64, 0), "float32", (16,))
    y = View(Buffer("output", 64, 0), "float32", (16,))
    plan = allocate([step((x,), (y,), in_place="x0")], [])
    assert plan.arena_bytes == 0
    assert [(each.place, each.slot) for each in plan.tensors] == [("input", 0), ("output", 0)]


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """Steps that read some of what was written before, some of them in place."""
    sizes = st.integers(1, 400)
    views = [arena(draw(sizes))]
    steps = [step((), (views[0],))]
    for _ in range(draw(st.integers(0, 30))):
        sources = tuple(draw(st.lists(st.sampled_from(views), min_size=1, max_size=3)))
        in_place = draw(st.sampled_from([None, "x0"]))
        same = in_place and draw(st.booleans())
        views.append(arena(sources[0].dims[0] if same else draw(sizes)))
        steps.append(step(sources, (views[-1],), in_place=in_place))
    return steps


@given(programs())
def test_live_buffers_never_share_bytes(steps: list[Step]) -> None:
    plan = allocate(steps, [])
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    handed_on: set[tuple[int, int]] = set()
    for i, planned in enumerate(plan.steps):
        for tensor in planned.tensors:
            first.setdefault(tensor, i)
            last[tensor] = i
        if steps[i].in_place is not None:
            handed_on.add((planned.inputs["x0"], planned.outputs["y0"]))
    places = {t: plan.tensors[t] for t in first}
    spans = {t: (each.slot, each.slot + each.size_bytes) for t, each in places.items()}
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
