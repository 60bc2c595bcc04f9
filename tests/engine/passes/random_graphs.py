"""Random graphs: ops of every family, and the structures that passes look for."""

from palmkit.engine.ir import Graph
from tests.engine.passes import sketch_ops, sketch_structures
from tests.engine.passes.sketch import Choose, Sketch

STEPS = (*sketch_ops.STEPS, *sketch_structures.STEPS)


def random_graph(choose: Choose, steps: int) -> Graph:
    """Return a graph grown by `steps` steps; `choose` returns a number of low..high."""
    return Sketch(choose).graph(STEPS, steps)
