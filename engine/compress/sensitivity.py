"""The effect of each layer's rounding on the outputs, all other layers being float."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from palmkit.engine.compress.pipeline import Progress
from palmkit.engine.compress.quantize import Quantizer, Settings, write_switched
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
        self.true = _outputs(Model(graph), samples)
        self._variances = {
            name: max(float(np.concatenate([each.reshape(-1) for each in true]).var()), 1e-12)
            for name, true in self.true.items()
        }

    def __call__(self, graph: Graph) -> float:
        """Return a graph's error; raise ShapeError if it has other outputs."""
        return float(np.sqrt(np.mean(self.squares(Model(graph)))))

    def squares(
        self, model: Model, inputs: Mapping[str, Array] | None = None, of: Sequence[int] = ()
    ) -> Array:
        """Return the square of a model's error on each sample, float64[n].

        inputs: those that the model has beside the samples'. of: the places of the samples to run;
        left out, all. Raises ShapeError if the model has other outputs.
        """
        places = of or range(len(self.samples))
        found = _outputs(model, [{**self.samples[place], **(inputs or {})} for place in places])
        if found.keys() != self.true.keys():
            raise ShapeError(f"outputs: expected {', '.join(self.true)}, got {', '.join(found)}")
        shares = [
            [
                float(((got - true[place]) ** 2).mean()) / self._variances[name]
                for got, place in zip(found[name], places, strict=True)
            ]
            for name, true in self.true.items()
        ]
        return np.asarray(np.mean(shares, axis=0), np.float64)


def _outputs(model: Model, samples: Samples) -> dict[str, list[Array]]:
    found: dict[str, list[Array]] = {name: [] for name in model.outputs}
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

    samples: calibrate; `tried` of them are run for the noise, see `noises`.
    Raises what quantize raises.
    """
    return noises(Quantizer(graph, samples, settings), tried=tried)


def noises(
    quantizer: Quantizer,
    method: str = "",
    tried: int = 8,
    progress: Progress = lambda share, text: None,
) -> dict[str, float]:
    """Return the output noise of each layer alone in integers, by its first output.

    It is that on all samples, judged by `tried` of them: those that lose most with all layers in
    integers, which make up most of it. Every layer has a switch in one graph, so that one plan
    serves all. method: how ranges are chosen; left out, as the quantizer's settings say.
    """
    method = method or quantizer.settings.method
    noise = OutputNoise(quantizer.graph, quantizer.samples)
    whole = noise.squares(Model(quantizer.quantized(method=method)))
    worst = np.argsort(-whole, kind="stable")[:tried].tolist()
    share = whole[worst].sum() / max(whole.sum(), 1e-30) or 1.0
    switched, switches = write_switched(quantizer, method)
    model = Model(switched)
    off = {switch: np.zeros(1, np.float32) for switch in switches.values()}
    found: dict[str, float] = {}
    for number, (layer, switch) in enumerate(switches.items()):
        progress(number / len(switches), f"how much {layer} loses")
        on = {**off, switch: np.ones(1, np.float32)}
        squares = noise.squares(model, on, worst)
        found[layer] = float(np.sqrt(squares.sum() / share / len(whole)))
    return found
