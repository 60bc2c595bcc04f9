"""A backend of a handful of ops on numpy, with memory of its own: what a backend takes.

The lowering is the one that all backends share. The backend adds rules for its kernels, the
kernels, and a runtime that keeps values on its "device".
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from palmkit.engine.backends import Value
from palmkit.engine.backends.options import DEFAULTS, Options
from palmkit.engine.format.model_file import ModelFile, Shapes
from palmkit.engine.format.plans import ReadyPlan
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.steps.lowering import Lowering, Rules, plain
from palmkit.engine.steps.plan import StepTime
from palmkit.engine.steps.rewriting import Lowered, Purpose
from palmkit.engine.steps.step import Kernels, View

NAME = "first"
KERNELS = Kernels([("map", "x", "y"), ("zip", "a b", "y")])
MAPS: dict[str, Callable[[Array], Array]] = {"exp": np.exp, "neg": np.negative, "tanh": np.tanh}
ZIPS: dict[str, Callable[[Array, Array], Array]] = {"add": np.add, "mul": np.multiply}
RULES = Rules()


@RULES.rule(*MAPS)
def lower_map(lowering: Lowering, node: Node) -> None:
    """A function of each element, in whatever order they lie."""
    x, y = node.inputs[0], node.outputs[0]
    lowering.need_dtype(x)
    order = lowering.order(x)
    view = lowering.get(x, order)
    lowering.step("map", {"x": view}, {"y": lowering.put(y, order)}, {"op": node.op})


@RULES.rule(*ZIPS)
def lower_zip(lowering: Lowering, node: Node) -> None:
    """A function of two arrays of one shape."""
    (a, b), y = node.inputs, node.outputs[0]
    lowering.need_dtype(a, b)
    order = plain(len(lowering.dims(y)))
    views = {"a": lowering.get(a, order), "b": lowering.get(b, order)}
    lowering.step("zip", views, {"y": lowering.put(y, order)}, {"op": node.op})


@dataclass(frozen=True)
class Held:
    """An array in the memory of the device."""

    array: Array
    backend: str = NAME

    @property
    def dtype(self) -> str:
        """The dtype that `host` gives it."""
        return self.array.dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dims."""
        return self.array.shape

    def host(self) -> Array:
        """A copy in the memory of this process; it is counted."""
        TRANSFERS["to host"] += 1
        return self.array.copy()


TRANSFERS = {"to device": 0, "to host": 0}


@dataclass
class FirstProgram:
    """Steps that run on buffers of the device."""

    lowered: Lowered
    inputs: Mapping[str, Type]
    outputs: Mapping[str, Type]
    backend: str = field(default=NAME, init=False)
    devices: tuple[str, ...] = field(default=(NAME,), init=False)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name."""
        values = self.run_on_device(inputs)
        return {name: value.host() for name, value in values.items()}

    def run_on_device(self, inputs: Mapping[str, Value]) -> Mapping[str, Held]:
        """Outputs by name, on the device."""
        buffers: dict[str, list[Array]] = {
            "input": [_held(inputs[name]) for name in self.inputs],
            "output": [np.zeros(type.dims, type.dtype) for type in self.outputs.values()],
            "constant": list(self.lowered.constants),
        }
        arena: dict[int, Array] = {}

        def array(view: View) -> Array:
            buffer = view.buffer
            if buffer.place == "arena":
                new = np.zeros(buffer.size_bytes // 4, np.float32)
                return arena.setdefault(id(buffer), new).reshape(view.dims)
            return buffers[buffer.place][buffer.index].reshape(view.dims)

        for step in self.lowered.steps:
            y, read = array(step.y), [array(view) for view in step.reads]
            op = str(step.attrs.get("op", ""))
            if step.kernel == "map":
                y[...] = MAPS[op](read[0])
            elif step.kernel == "zip":
                y[...] = ZIPS[op](*read)
            else:
                raise AssertionError(step.kernel)
        return {name: Held(y) for name, y in zip(self.outputs, buffers["output"], strict=True)}

    def profile(self, inputs: Mapping[str, Array]) -> list[StepTime]:
        """Run once; all steps are one to the clock."""
        start = time.perf_counter()
        self.run(inputs)
        return [StepTime("all", NAME, time.perf_counter() - start)]


def _held(value: Value) -> Array:
    if isinstance(value, Held):
        return value.array
    assert isinstance(value, np.ndarray)
    TRANSFERS["to device"] += 1
    return value.copy()


class First:
    """The backend."""

    def missing(self) -> str:
        """Nothing, anywhere."""
        return ""

    def supports(self, node: Node) -> bool:
        """Whether it has a rule."""
        return node.op in RULES

    def prepared(self, graph: Graph) -> Graph:
        """All passes over it."""
        from palmkit.engine.passes import optimise

        return optimise(graph)

    def compile(self, graph: Graph, options: Options = DEFAULTS) -> FirstProgram:
        """Lower the graph; RefusedError names what it has no rule for."""
        lowering = Lowering(NAME, graph, RULES, KERNELS)
        outputs = {name: lowering.declared[name] for name in graph.outputs}
        return FirstProgram(lowering.result(Purpose()), graph.inputs, outputs)

    def stored(self, file: ModelFile, shapes: Shapes, options: Options) -> None:
        """It has no plans in files."""

    def ready_plan(
        self, graph: Graph, shapes: Mapping[str, Sequence[int]], weights: str
    ) -> ReadyPlan | None:
        """It has no plans in files."""
        return None
