"""Statistics of a graph's values on calibration samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from palmkit.engine.compress.histogram import Histogram
from palmkit.engine.errors import QuantizationError, ShapeError
from palmkit.engine.ir import UNKNOWN, Array, Graph
from palmkit.engine.model import Model

# Numbers of one sample that are counted in the histogram.
_MOST_COUNTED = 1 << 15


@dataclass
class Observation:
    """One value over all samples.

    lows, highs: the minimum and the maximum of each sample. histogram: of some evenly chosen
    numbers of each sample.
    channel_means, channel_reach: float64[c], for each channel (axis 1) the mean over all samples
    and places, and the largest distance from zero; empty for a value without channels.
    """

    lows: list[float] = field(default_factory=list[float])
    highs: list[float] = field(default_factory=list[float])
    histogram: Histogram = field(default_factory=Histogram)
    channel_means: Array = field(default_factory=lambda: np.zeros(0))
    channel_reach: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def low(self) -> float:
        """The minimum over all samples."""
        return min(self.lows)

    @property
    def high(self) -> float:
        """The maximum over all samples."""
        return max(self.highs)

    def add(self, value: Array, ranges: bool = True) -> None:
        """Add the value of one more sample.

        ranges: False for the reach of channels alone.
        """
        rest = tuple(axis for axis in range(value.ndim) if axis != 1)
        if value.ndim > 1:
            reach = np.maximum(value.max(rest), -value.min(rest)).astype(np.float64)
            known = self.channel_reach if self.channel_reach.size else 0.0
            self.channel_reach = np.maximum(known, reach)
        if not ranges:
            return
        self.lows.append(float(value.min()))
        self.highs.append(float(value.max()))
        # An odd step meets all columns of a map, of even widths at least.
        step = value.size // _MOST_COUNTED | 1
        self.histogram.add(value.reshape(-1)[::step])
        if value.ndim > 1:
            means = value.mean(rest, dtype=np.float64)
            known = self.channel_means if self.channel_means.size else np.zeros_like(means)
            self.channel_means = known + (means - known) / len(self.lows)


def checked_samples(
    graph: Graph, samples: Iterable[Mapping[str, Array]]
) -> Sequence[Mapping[str, Array]]:
    """Return the samples if they can calibrate the graph.

    Raises QuantizationError if there are none, if one lacks an input or has one of another shape or
    dtype, if a number is not finite, or if every picture (input of four axes) has one colour.
    """
    found = samples if isinstance(samples, Sequence) else list(samples)
    if not found:
        raise QuantizationError("calibration samples: expected at least one, got none")
    plain = dict.fromkeys((name for name, type in graph.inputs.items() if len(type.shape) == 4), 0)
    for number, sample in enumerate(found):
        where = f"calibration sample {number}"
        if sample.keys() != graph.inputs.keys():
            raise QuantizationError(
                f"{where}: expected the inputs {', '.join(graph.inputs)}, got {', '.join(sample)}"
            )
        sizes: dict[str, int] = {}
        for name, type in graph.inputs.items():
            value = np.asarray(sample[name])
            if value.dtype.name != type.dtype or not type.fits(value.shape, sizes):
                got = f"{value.dtype.name}[{', '.join(map(str, value.shape))}]"
                raise QuantizationError(f"{where}: input {name}: expected {type}, got {got}")
            if not value.size or not np.isfinite(value).all():
                raise QuantizationError(f"{where}: input {name}: expected finite numbers")
            if name in plain and _is_one_colour(value):
                plain[name] += 1
    for name, count in plain.items():
        if count == len(found):
            raise QuantizationError(
                f"calibration samples: input {name}: expected pictures as the model will see "
                f"them, got {count} of one colour each"
            )
    return found


def _is_one_colour(picture: Array) -> bool:
    """Return whether all places of a picture, channels last or first, are the same."""
    last = (picture == picture[:, :1, :1]).all()
    return bool(last or (picture == picture[:, :, :1, :1]).all())


def observe(
    graph: Graph,
    samples: Sequence[Mapping[str, Array]],
    values: Iterable[str],
    ranges: bool = True,
) -> dict[str, Observation]:
    """Run a float graph on samples and observe some of its values.

    values: names of inputs or of nodes' outputs. ranges: False for the reach of channels alone,
    which is faster.
    Raises QuantizationError if a value is not finite, naming it and the sample.
    """
    wanted = list(dict.fromkeys(values))
    inside = [name for name in wanted if name not in graph.inputs]
    model = Model(replace(graph, outputs=dict.fromkeys(inside, UNKNOWN)))
    found = {name: Observation() for name in wanted}
    for number, sample in enumerate(samples):
        try:
            outputs = model.run(sample) if inside else {}
        except ShapeError as error:
            raise QuantizationError(f"calibration sample {number}: {error}") from None
        for name in wanted:
            value = outputs[name] if name in outputs else np.asarray(sample[name])
            if not np.isfinite(value).all():
                raise QuantizationError(
                    f"calibration sample {number}: value {name}: expected finite numbers, got "
                    f"{int((~np.isfinite(value)).sum())} that are not"
                )
            found[name].add(value, ranges)
    return found
