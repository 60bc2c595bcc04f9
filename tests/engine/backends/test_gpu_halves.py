"""Backend gpu with precision="low": storage in half precision, sums in single precision."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.backends.gpu import Gpu
from palmkit.engine.backends.gpu import device as gpu_device
from palmkit.engine.backends.gpu.program import GpuProgram
from palmkit.engine.backends.gpu.storage import is_fit_for_halves
from palmkit.engine.backends.options import Options
from palmkit.engine.backends.partition import specialise
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.ops import Case, Op, run_reference
from palmkit.engine.steps.plan import Tensor
from tests.engine.backends.test_gpu import (
    EVERY,
    KIND,
    MISSING,
    NAME,
    NETWORKS,
    TEACHERS,
    chosen,
    inputs_of,
)
from tests.engine.test_ops import arrays, by_op, one_node

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{NAME}: {MISSING}")

# Of the range of an output's numbers, for random inputs; docs/gpu.md says how far each is off.
BOUND = 2e-2
# Of masks: numbers of which the sign counts, or which steps of a few levels lead to.
BOUND_OF = {"hair_segmentation": 5e-2, "selfie_segmentation": 3e-2}


def assert_close(found: Array, wanted: Array, bound: float) -> None:
    assert Type.of(found) == Type.of(wanted)
    finite = np.abs(wanted[np.isfinite(wanted)], dtype=np.float64)
    atol = bound * float(finite.max(initial=0))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=atol)


@pytest.mark.parametrize(
    "path",
    [*NETWORKS, *TEACHERS] if EVERY else [p for p in NETWORKS if p.stem == "person_finder"],
    ids=lambda path: path.stem,
)
def test_networks_are_near_those_on_the_cpu(path: Path) -> None:
    model = engine.load(path, NAME, precision="low")
    given = inputs_of(model)
    found = model.run(given)
    for name, wanted in engine.load(path).run(given).items():
        assert_close(found[name], wanted, BOUND_OF.get(path.stem, BOUND))


def between_halves(op: Op, case: Case) -> tuple[Graph, dict[str, Array], list[Array]]:
    """A case with float inputs and outputs that other steps write and read, and what comes out."""
    alone, given = one_node(op, case), list(arrays(case))
    (node,) = alone.nodes
    first, last, inputs = list[Node](), list[Node](), dict[str, Array]()
    names = list(node.inputs)
    for i, (name, value) in enumerate(zip(names, given, strict=False)):
        if value is None or name not in alone.inputs:
            continue
        inputs[name] = value
        if value.dtype == np.float32:
            with np.errstate(over="ignore"):
                rounded = value.astype(np.float16).astype(np.float32)
            given[i], inputs[name], names[i] = rounded, -rounded, f"{name}_half"
            first.append(Node("neg", (name,), (names[i],)))
    outputs = list(node.outputs)
    for i, name in enumerate(outputs):
        if name and alone.outputs[name].dtype == "float32":
            outputs[i] = f"{name}_half"
            last.append(Node("neg", (outputs[i],), (name,)))
    with np.errstate(all="ignore"):
        wanted = run_reference(node, given)
    node = replace(node, inputs=tuple(names), outputs=tuple(outputs))
    graph = replace(alone, nodes=(*first, node, *last))
    changed = {written for each in last for written in each.outputs}
    signs = (-1 if name in changed else 1 for name in alone.outputs)
    results = [value if sign > 0 else -value for value, sign in zip(wanted, signs, strict=False)]
    return graph, inputs, results


@by_op(chosen())
def test_operators_between_halves(op: Op, case: Case) -> None:
    graph, inputs, wanted = between_halves(op, case)
    program, reason = attempt_low(graph)
    if program is None:
        assert reason
        return
    floats = [each for each in (*inputs.values(), *wanted) if each.dtype.kind == "f"]
    if any((np.abs(each[np.isfinite(each)]) > 60_000).any() for each in floats):
        pytest.skip("numbers beyond half precision")
    found = program.run(inputs)
    for name, value in zip(graph.outputs, wanted, strict=False):
        if value.dtype.kind == "f":
            # A rounding to 11 bits, or of what is between steps.
            assert_close(found[name], value, 2e-3)
        else:
            np.testing.assert_array_equal(found[name], value)


def network(channels: int) -> Graph:
    """Values of so many channels in most kinds of steps that read and write vectors or elements."""
    random = np.random.default_rng(0)

    def weights(*shape: int) -> Array:
        return random.normal(0, 0.3, shape).astype(np.float32)

    c = channels
    pads = {"pads": (1, 1, 1, 1)}
    sizes = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    return Graph(
        inputs={"x": Type("float32", (1, 3, 16, 12))},
        outputs={"y": Type("float32", (1, 3 * c, 16, 12)), "z": Type("float32", (1, 9))},
        nodes=(
            Node("conv", ("x", "w0", "b0"), ("a",), pads),
            Node("relu", ("a",), ("r",)),
            Node("conv", ("r", "w1"), ("d",), {**pads, "group": c}),
            Node("sigmoid", ("d",), ("s",)),
            Node("mul", ("r", "s"), ("m",)),
            Node("max_pool", ("m",), ("p",), {"kernel_shape": (2, 2), "strides": (2, 2)}),
            Node("resize", ("p", "", "", "sizes"), ("u",), sizes),
            Node("conv", ("u", "w2"), ("v",), pads),
            Node("concat", ("v", "m", "a"), ("y",), {"axis": 1}),
            Node("global_average_pool", ("v",), ("g",)),
            Node("flatten", ("g",), ("f",)),
            Node("matmul", ("f", "w3"), ("z",)),
        ),
        constants={
            "w0": weights(c, 3, 3, 3),
            "b0": weights(c),
            "w1": weights(c, 1, 3, 3),
            "w2": weights(c, c, 3, 3),
            "w3": weights(c, 9),
            "sizes": np.array([1, c, 16, 12]),
        },
    )


def attempt_low(graph: Graph) -> tuple[GpuProgram | None, str]:
    """The graph's program with precision "low", or the reason why there is none."""
    try:
        return program_of(graph, "low"), ""
    except engine.UnsupportedError as error:
        return None, f"{error}"


def program_of(graph: Graph, precision: str) -> GpuProgram:
    backend = Gpu(KIND)
    graph = specialise(graph, graph.inputs, backend)
    return backend.compile(graph, Options(precision=precision))


def values_between(program: GpuProgram) -> list[Tensor]:
    return [
        tensor
        for tensor in program.plan.tensors
        if tensor.place == "arena" and tensor.dtype in ("float32", "float16")
    ]


@pytest.mark.parametrize("channels", [4, 6, 32])
def test_steps_of_all_widths(channels: int) -> None:
    graph = network(channels)
    given = {"x": np.random.default_rng(1).random((1, 3, 16, 12), np.float32)}
    wanted = engine.Model(graph, "reference").run(given)
    low, high = program_of(graph, "low"), program_of(graph, "high")
    found = low.run(given)
    for name in wanted:
        # A few roundings to 11 bits.
        assert_close(found[name], wanted[name], 4e-3)
        assert np.abs(found[name] - wanted[name]).max() > 0
    assert {tensor.dtype for tensor in values_between(high)} == {"float32"}
    # Those whose elements are written one by one stay as they were, such as the picture's.
    halves = [t.dtype == "float16" for t in values_between(low) if t.dims[-1] != 3]
    assert all(halves) if channels % 4 == 0 else not all(halves)
    if channels % 4 == 0:
        assert low.plan.arena_bytes <= 0.6 * high.plan.arena_bytes
    if channels == 32:
        stored, whole = (sum(p.nbytes for p in each.dispatches.pages) for each in (low, high))
        assert stored < 0.6 * whole


@pytest.mark.parametrize("precision", ["high", "low"])
def test_floats_that_a_graph_has_in_half_precision(precision: str) -> None:
    shape = (2, 19)
    graph = Graph(
        {"x": Type("float32", shape)},
        {"y": Type("float16", shape)},
        (Node("neg", ("x",), ("n",)), Node("cast", ("n",), ("y",), {"to": "float16"})),
    )
    x = np.random.default_rng(0).normal(0, 10, shape).astype(np.float32)
    found = program_of(graph, precision).run({"x": x})["y"]
    np.testing.assert_array_equal(found, -x.astype(np.float16))


def test_what_half_precision_does_not_hold_stays_as_it_is() -> None:
    values = np.random.default_rng(0).normal(0, 1, 2000).astype(np.float32)
    assert is_fit_for_halves(values) and is_fit_for_halves(values * 10_000)
    assert not is_fit_for_halves(values[:1000])
    assert not is_fit_for_halves(values * 100_000)
    assert not is_fit_for_halves(values * 1e-6)
    assert not is_fit_for_halves(np.full(2000, np.nan, np.float32))
    assert not is_fit_for_halves(np.arange(2000))


def test_a_lost_device_is_opened_again() -> None:
    given = {"x": np.random.default_rng(1).random((1, 3, 16, 12), np.float32)}
    program = program_of(network(4), "low")
    before = program.run(given)
    gpu_device.device(KIND).gpu.destroy()
    after = program.run(given)
    for name in before:
        np.testing.assert_array_equal(after[name], before[name])
