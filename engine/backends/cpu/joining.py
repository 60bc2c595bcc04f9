"""Pairs of steps of which the second alone reads what the first writes become one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from palmkit.engine.plan import JOINED, Step, View

# What the first step reads is kept until the second one would have run.
_MOST_STEPS_APART = 3

# The inputs of a convolution.
IMAGE, _WEIGHTS, _BIAS, _SLOPE, RESIDUAL, GATE, OTHER = range(7)
_FLOAT_PRECISION = "high", "normal"


def input_of(step: Step, index: int) -> View | None:
    """An input; None if it is left out."""
    return step.inputs[index] if index < len(step.inputs) else None


def is_float_conv(step: Step) -> bool:
    """A convolution of float32 numbers by float32 products."""
    views = (*step.inputs, *step.outputs)
    floats = all(view is None or view.dtype == "float32" for view in views)
    return (
        step.kernel == "conv" and floats and step.attrs.get("precision", "high") in _FLOAT_PRECISION
    )


def is_pointwise(step: Step) -> bool:
    """Such a convolution that is a product of matrices: each pixel by itself, of all channels."""
    weights = input_of(step, _WEIGHTS)
    return (
        is_float_conv(step)
        and weights is not None
        and weights.dims[1:3] == (1, 1)
        and step.attrs["group"] == 1
        and step.attrs["strides"] == [1, 1]
        and step.attrs["pads"] == [0] * 4
    )


def over_residual(step: Step, read: Iterable[View | None]) -> int | None:
    """The residual that a step writes over, or None if that is also one of what it reads."""
    residual = input_of(step, RESIDUAL)
    if residual is None or any(view and view.buffer is residual.buffer for view in read):
        return None
    return step.in_place


def reading(first: Step, second: Step, image: View, index: int, other: View) -> Step:
    """The second step, a convolution, of an image and one more input in place of the first one."""
    inputs: list[View | None] = [image, *second.inputs[1:]]
    inputs += [None] * (index - len(inputs))
    return replace(
        second,
        node=f"{first.node}{JOINED}{second.node}",
        inputs=(*inputs, other),
        in_place=over_residual(second, [image, other]),
    )


@dataclass(frozen=True)
class Uses:
    """How often each buffer is read, and the steps that write it, by the buffer's id."""

    reads: Mapping[int, int]
    writers: Mapping[int, Sequence[int]]

    @staticmethod
    def of(steps: Sequence[Step]) -> Uses:
        """Count those of the steps."""
        reads = Counter(id(view.buffer) for step in steps for view in step.inputs if view)
        writers: dict[int, list[int]] = {}
        for i, step in enumerate(steps):
            for written in step.outputs:
                writers.setdefault(id(written.buffer), []).append(i)
        return Uses(reads, writers)

    def only_writer(self, view: View | None) -> int | None:
        """The step that alone writes what one step alone reads, in the arena."""
        if view is None or view.buffer.place != "arena" or self.reads[id(view.buffer)] != 1:
            return None
        place, *others = self.writers[id(view.buffer)]
        return None if others else place


def join_pairs(steps: Sequence[Step], one: Callable[[Step, Step, int], Step | None]) -> list[Step]:
    """The steps, with such pairs as one; it runs where the second one did.

    one: makes it of the first step, the second, and which input of that the first writes; None: the
    two stay.
    """
    uses = Uses.of(steps)
    joined: list[Step | None] = list(steps)
    for i, second in enumerate(steps):
        for index, view in enumerate(second.inputs):
            place = uses.only_writer(view)
            if view is None or place is None or not i - _MOST_STEPS_APART <= place < i:
                continue
            first = joined[place]
            if first and len(first.outputs) == 1 and first.outputs[0].dims == view.dims:
                both = one(first, second, index)
                if both is not None:
                    joined[place], joined[i] = None, both
                    break
    return [step for step in joined if step is not None]
