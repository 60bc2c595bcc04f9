"""The native backend: a static graph becomes a plan, and C++ runs it without asking Python."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from palmkit.engine.backends.cpu.program import NativeProgram
from palmkit.engine.backends.options import DEFAULTS, Options
from palmkit.engine.errors import BackendError
from palmkit.engine.ir import Graph, Node, Type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palmkit.engine.format.model_file import ModelFile, Shapes
    from palmkit.engine.format.plans import ReadyPlan
    from palmkit.engine.steps.plan import Plan
    from palmkit.engine.steps.rewriting import Lowered, Purpose


# The name of the backend; plans in files are tagged with it (native/plans.h has it, too).
NAME = "cpu"


class CpuProgram(NativeProgram):
    """A plan that was made now, and what runs it."""

    def __init__(self, graph: Graph, options: Options) -> None:
        """Lower, plan and pack `graph`."""
        from palmkit.engine import _native
        from palmkit.engine.steps.rewriting import Purpose

        narrow = narrow_dtype(_native.isas()) if options.precision == "low" else ""
        purpose = Purpose(options.threads, options.tune)
        self.plan, outputs = plan(graph, narrow, options.precision == "high", purpose)
        super().__init__(
            _native.Program(*self.plan.native(), threads=options.threads),
            tuple(graph.inputs),
            outputs,
            options,
            lambda: [(step.node, step.kernel) for step in self.plan.steps],
        )


def narrow_dtype(isas: Sequence[str]) -> str:
    """The dtype of precision="low" that the instruction sets have arithmetic of; "" for none."""
    dtypes = {"avx512bf16": "bfloat16", "neon_fp16": "float16"}
    return next((dtypes[isa] for isa in isas if isa in dtypes), "")


def lower(
    graph: Graph, narrow: str = "", exact: bool = True, purpose: Purpose | None = None
) -> tuple[Lowered, dict[str, Type]]:
    """The steps of a static graph, one for each thing that kernels do, and its outputs' types.

    narrow: the dtype in which products may be computed, if not in float32. exact: else products may
    be of wide tiles, too. purpose: left out, a plan for two threads and no file.
    Raises RefusedError, which names every node that has no rule.
    """
    # A model whose plan is in its file does without all of this.
    import_module("palmkit.engine.backends.cpu.rules")
    from palmkit.engine.backends.cpu.registry import RULES, kernels
    from palmkit.engine.steps.lowering import Lowering
    from palmkit.engine.steps.rewriting import Purpose

    lowering = Lowering(NAME, graph, RULES, kernels(), narrow, exact)
    outputs = {name: lowering.declared[name] for name in graph.outputs}
    return lowering.result(purpose or Purpose()), outputs


def plan(
    graph: Graph, narrow: str = "", exact: bool = True, purpose: Purpose | None = None
) -> tuple[Plan, dict[str, Type]]:
    """The plan of a static graph, and the types of its outputs; arguments are those of `lower`."""
    from palmkit.engine.backends.cpu.passes import STEP_PASSES

    lowered, outputs = lower(graph, narrow, exact, purpose)
    for each in STEP_PASSES:
        lowered = each(lowered)
    return lowered.placed(), outputs


class Cpu:
    """SIMD kernels: scalar, AVX2 or AVX-512, chosen when the model is loaded."""

    def missing(self) -> str:
        """The library, where it does not load."""
        try:
            import_module("palmkit.engine._native")
        except ImportError as error:
            return f"{error}"
        return ""

    def supports(self, node: Node) -> bool:
        """It has a rule for the op; shapes and dtypes may still be refused by compile."""
        from palmkit.engine.backends.cpu.rules import RULES

        return node.op in RULES

    def prepared(self, graph: Graph) -> Graph:
        """All passes over it."""
        from palmkit.engine.passes import optimise

        return optimise(graph)

    def compile(self, graph: Graph, options: Options = DEFAULTS) -> CpuProgram:
        """Make a static graph ready; one UnsupportedError names every node it cannot run."""
        missing = self.missing()
        if missing:
            raise BackendError(f"backend cpu: {missing}")
        return CpuProgram(graph, options)

    def stored(
        self, file: ModelFile, shapes: Shapes, options: Options
    ) -> tuple[NativeProgram, dict[str, Type]] | None:
        """A plan in a file as a program; plans in files are of precision "high"."""
        number = file.plans.get((NAME, shapes))
        if number is None or options.precision != "high" or options.tune:
            return None
        program, outputs = file.program(number, options.threads)
        inputs, steps = tuple(file.inputs), partial(file.steps, number)
        return NativeProgram(program, inputs, outputs, options, steps), outputs

    def ready_plan(
        self, graph: Graph, shapes: Mapping[str, Sequence[int]], weights: str
    ) -> ReadyPlan | None:
        """A plan to lie in a file; None if the model needs other backends as well."""
        from palmkit.engine.backends.cpu.ready import ready_plan

        return ready_plan(graph, shapes, weights)
