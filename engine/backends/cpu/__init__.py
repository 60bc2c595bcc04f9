"""The native backend: a static graph becomes a plan, and C++ runs it without asking Python."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from palmkit.engine.backends.cpu.program import NativeProgram
from palmkit.engine.backends.options import DEFAULTS, Options
from palmkit.engine.errors import BackendError
from palmkit.engine.ir import Graph, Node, Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palmkit.engine.plan import Plan


class CpuProgram(NativeProgram):
    """A plan that was made now, and what runs it."""

    def __init__(self, graph: Graph, options: Options) -> None:
        """Lower, plan and pack `graph`."""
        from palmkit.engine import _native

        narrow = narrow_dtype(_native.isas()) if options.precision == "low" else ""
        self.plan, outputs = plan(graph, narrow, options.precision == "high", options.threads)
        if options.tune:
            from palmkit.engine.backends.cpu.search import tuned

            self.plan = tuned(self.plan, options.threads)
        super().__init__(
            _native.Program(
                self.plan.tensors,
                self.plan.steps,
                self.plan.constants,
                self.plan.arena_bytes,
                threads=options.threads,
            ),
            tuple(graph.inputs),
            outputs,
            options.threads,
            lambda: [
                (node, step[0]) for node, step in zip(self.plan.nodes, self.plan.steps, strict=True)
            ],
        )


def narrow_dtype(isas: Sequence[str]) -> str:
    """The dtype of precision="low" that the instruction sets have arithmetic of; "" for none."""
    dtypes = {"avx512bf16": "bfloat16", "neon_fp16": "float16"}
    return next((dtypes[isa] for isa in isas if isa in dtypes), "")


def plan(
    graph: Graph, narrow: str = "", exact: bool = True, threads: int = 2
) -> tuple[Plan, dict[str, Type]]:
    """The plan of a static graph, and the types of its outputs.

    narrow: the dtype in which products may be computed, if not in float32. exact: else products may
    be of wide tiles, too. threads: that it is for, at most; more than one may run any plan.
    Raises RefusedError, which names every node that has no rule.
    """
    # A model whose plan is in its file does without all of this.
    import_module("palmkit.engine.backends.cpu.rules")
    from palmkit.engine.backends.cpu.branches import share_out
    from palmkit.engine.backends.cpu.concats import join_concats
    from palmkit.engine.backends.cpu.gates import join_gates
    from palmkit.engine.backends.cpu.interleaves import join_interleaves
    from palmkit.engine.backends.cpu.lowering import Lowering
    from palmkit.engine.backends.cpu.separable import join_separable
    from palmkit.engine.backends.cpu.sums import join_sums
    from palmkit.engine.plan import allocate

    lowering = Lowering(graph, narrow, exact)
    outputs = {name: lowering.declared[name] for name in graph.outputs}
    steps = join_separable(lowering.steps, lowering.constants)
    steps = join_sums(join_concats(join_gates(join_interleaves(steps))))
    shared = threads > 1
    if shared:
        steps = share_out(steps)
    return allocate(steps, lowering.constants, lowering.borders, shared), outputs


class Cpu:
    """SIMD kernels: scalar, AVX2 or AVX-512, chosen when the model is loaded."""

    def available(self) -> bool:
        """Wherever the extension loads."""
        try:
            import_module("palmkit.engine._native")
        except ImportError:
            return False
        return True

    def supports(self, node: Node) -> bool:
        """It has a rule for the op; shapes and dtypes may still be refused by compile."""
        from palmkit.engine.backends.cpu.rules import RULES

        return node.op in RULES

    def compile(self, graph: Graph, options: Options = DEFAULTS) -> CpuProgram:
        """Make a static graph ready; one UnsupportedError names every node it cannot run."""
        if not self.available():
            raise BackendError("backend cpu: the native module is missing, reinstall palmkit")
        return CpuProgram(graph, options)
