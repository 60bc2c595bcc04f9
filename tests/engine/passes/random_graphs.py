"""Random graphs: ops of every family, and the structures that passes look for."""

from palmkit.engine.ir import Graph
from tests.engine.passes import sketch_ops, sketch_structures
from tests.engine.passes.sketch import Choose, Sketch

STEPS = (*sketch_ops.STEPS, *sketch_structures.STEPS)


def random_graph(choose: Choose, steps: int) -> Graph:
    """A graph grown by so many steps; `choose` gives a number of low..high, both included."""
    return Sketch(choose).graph(STEPS, steps)
