"""Training with weights on a grid, so that a float network keeps its quality in fewer bytes.

`palmkit.engine.compress.rounding` puts weights on grids without training. Here they stay on the
same grids and move from point to point: rounding passes gradients straight through (Bengio et al.
2013, Estimating or Propagating Gradients Through Stochastic Neurons).

    network = on_grid(graph, samples, width=1.0)
    outputs = network({"image": images}, ["points"])   # train as any other module
    graph = network.quantized()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from palmkit.engine.compress.layers import find_layers, moments
from palmkit.engine.compress.rounding import (
    MOST_LEVEL,
    feedbacks,
    grids,
    in_half,
    layer_steps,
    rounded,
)
from palmkit.engine.ir import Array, Graph
from palmkit.models.training.fake_quant import NOTHING, FakeQuantized, whole

# The number of samples that measure the effect of each layer's rounding.
PROBED = 12


class OnGrid(FakeQuantized):
    """A float graph with some weights on multiples of given units; the rest is free."""

    def __init__(self, graph: Graph, started: Graph, grids: Mapping[str, Array]) -> None:
        """Wrap a graph.

        graph: the float one, which teaches; started: the graph with weights on the grids, where
        training begins; grids: by the weights' names, arrays that broadcast to them.
        """
        constants = dict(graph.constants)
        for name, unit in grids.items():
            # Weights start in the cells where rounding put them, on the side of their float values.
            level = started.constants[name] / unit
            off = np.clip(constants[name] / unit - level, -0.4, 0.4)
            constants[name] = ((level + off) * unit).astype(np.float32)
        super().__init__(graph.with_nodes(graph.nodes, constants), NOTHING, {})
        self.original = graph
        self.on_grid = [name in grids for name in self.names]
        for number, name in enumerate(self.names):
            step = torch.from_numpy(np.array(grids.get(name, 1.0), np.float32))
            self.register_buffer(f"unit_{number}", step)

    def _weights(self) -> Iterable[tuple[str, Tensor]]:
        for number, (name, value) in enumerate(super()._weights()):
            unit = getattr(self, f"unit_{number}")
            if self.on_grid[number]:
                value = whole(value / unit).clamp(-MOST_LEVEL, MOST_LEVEL) * unit
            yield name, value

    def float_network(self) -> FakeQuantized:
        """Return the network before any rounding, frozen, as a teacher."""
        return self._frozen(self.original)

    def quantized(self) -> Graph:
        """Return the trained graph: float32, to be saved with weights="smallest".

        Constants on no grid, such as biases, are rounded to float16.
        """
        graph = self.plain()
        named = zip(self.names, self.on_grid, strict=True)
        free = {name for name, is_on_grid in named if not is_on_grid}
        graph = in_half(graph, without=graph.constants.keys() - free)
        # Storage does not count -0.0 as a zero.
        trained = {name: graph.constants[name] + 0 for name in self.names}
        return graph.with_nodes(graph.nodes, {**graph.constants, **trained})


def on_grid(graph: Graph, samples: Sequence[Mapping[str, Array]], width: float) -> OnGrid:
    """Return the graph with each layer's steps `width` times those of `layer_steps`."""
    from palmkit.engine.passes import optimise

    plain = optimise(graph)
    layers = find_layers(plain)
    feedback = feedbacks(moments(plain, layers, samples))
    steps = layer_steps(plain, layers, samples[:PROBED], feedback, lambda share, what: None)
    steps = {name: step * width for name, step in steps.items()}
    started = rounded(plain, layers, steps, feedback)
    return OnGrid(plain, started, grids(plain, layers, steps))
