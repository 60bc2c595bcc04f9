"""How well a graph's outputs agree with the float model's: a metric without ground truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from palmkit.engine.ir import Array, Graph
from palmkit.engine.model import Model


class Agreement:
    """1 minus the relative error of the outputs, on samples; 1 for equal outputs."""

    def __init__(
        self,
        source: Graph,
        samples: Sequence[Mapping[str, Array]],
        matters: Mapping[str, float] | None = None,
    ) -> None:
        """Run the float model on the samples, as the reference.

        source: the float model.
        matters: the weights of outputs, at least 0; an output that is not named has weight 1.
        """
        self._samples = samples
        model = Model(source)
        self._expected = [model.run(sample) for sample in samples]
        self._spread = {
            name: _spread([each[name] for each in self._expected]) for name in source.outputs
        }
        weights = [(matters or {}).get(name, 1.0) for name in self._spread]
        self._weights = np.array(weights) / sum(weights)

    def __call__(self, graph: Graph) -> float:
        """Return 1 - rms(difference) / rms(value - its mean), at least 0, averaged over outputs."""
        model = Model(graph)
        squares = dict.fromkeys(self._spread, 0.0)
        for sample, expected in zip(self._samples, self._expected, strict=True):
            for name, value in model.run(sample).items():
                difference = value.astype(np.float64) - expected[name].astype(np.float64)
                squares[name] += float(np.mean(difference**2)) / len(self._samples)
        scores = [
            1 - np.sqrt(squares[name]) / spread if spread > 0 else float(squares[name] == 0)
            for name, spread in self._spread.items()
        ]
        good = [score if np.isfinite(score) else 0.0 for score in scores]
        return max(0.0, float(self._weights @ good))


def _spread(values: Sequence[Array]) -> float:
    everything = np.concatenate([value.astype(np.float64).ravel() for value in values])
    return float(everything.std())
