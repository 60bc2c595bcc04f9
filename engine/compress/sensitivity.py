"""The effect of each layer's rounding on the outputs, all other layers being float."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from palmkit.engine.compress.observe import checked_samples
from palmkit.engine.compress.placement import is_layer, place
from palmkit.engine.compress.quantize import Settings, prepare, quantize
from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Graph
from palmkit.engine.model import Model

Samples = Sequence[Mapping[str, Array]]


class OutputNoise:
    """The error of a graph's outputs against those of the float graph.

    Called with a graph it returns the root of the mean, over the outputs, of each output's squared
    error over its variance: 0 is exact, 1 as bad as a constant. Less is better.
    """

    def __init__(self, graph: Graph, samples: Samples) -> None:
        """Run the float graph on the samples, as the reference."""
        self.samples = samples
        self.true = _outputs(graph, samples)

    def __call__(self, graph: Graph) -> float:
        """Return a graph's error; raise ShapeError if it has other outputs."""
        found = _outputs(graph, self.samples)
        if found.keys() != self.true.keys():
            raise ShapeError(f"outputs: expected {', '.join(self.true)}, got {', '.join(found)}")
        shares: list[float] = []
        for name, true in self.true.items():
            pairs = zip(found[name], true, strict=True)
            error = float(np.mean([((a - b) ** 2).mean() for a, b in pairs]))
            flat = np.concatenate([each.reshape(-1) for each in true])
            shares.append(error / max(float(flat.var()), 1e-12))
        return float(np.sqrt(np.mean(shares)))


def _outputs(graph: Graph, samples: Samples) -> dict[str, list[Array]]:
    model = Model(graph)
    found: dict[str, list[Array]] = {name: [] for name in graph.outputs}
    for sample in samples:
        for name, value in model.run(sample).items():
            found[name].append(value.astype(np.float64))
    return found


def sensitivities(
    graph: Graph,
    samples: Iterable[Mapping[str, Array]],
    settings: Settings | None = None,
    tried: int = 8,
) -> dict[str, float]:
    """Return the output noise of each layer alone in integers, by its prepared graph's output.

    samples: calibrate; the first `tried` of them are run for the noise.
    Raises what quantize raises.
    """
    found = checked_samples(graph, samples)
    noise = OutputNoise(graph, found[:tried])
    plain = prepare(graph)
    chosen = place(plain)
    nodes = [node for node in plain.nodes if node.outputs[0] in chosen.nodes]
    layers = [node.outputs[0] for node in nodes if is_layer(node.op)]
    result: dict[str, float] = {}
    for name in layers:
        others = [each for each in layers if each != name]
        result[name] = noise(quantize(graph, found, settings=settings, keep=others))
    return result
