"""Quantized values as passes see them: integers between dequantize_linear and quantize_linear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from palmkit.engine.ir import Array, Node
from palmkit.engine.ops.quantization import MOST_SCALE
from palmkit.engine.passes.rewrite import Draft, input_at

_BYTES = ("uint8", "int8")


@dataclass(frozen=True)
class Levels:
    """An integer value, and the real numbers that it stands for: (integer - zero_point) * scale."""

    name: str
    scale: np.float32
    zero_point: int

    def is_like(self, other: Levels) -> bool:
        """Return whether equal integers stand for equal numbers in both."""
        return (self.scale, self.zero_point) == (other.scale, other.zero_point)

    def real(self) -> Array:
        """Return the number of each uint8, float32[256], as dequantize_linear computes it."""
        steps = np.arange(256, dtype=np.int32) - self.zero_point
        return np.asarray(steps.astype(np.float32) * self.scale)

    def nearest(self, x: Array) -> Array:
        """Return the uint8 of each number, as quantize_linear computes it."""
        with np.errstate(all="ignore"):
            steps = np.rint(x.astype(np.float32) / self.scale).astype(np.float64) + self.zero_point
        return np.asarray(np.clip(np.nan_to_num(steps, nan=0), 0, 255).astype(np.uint8))

    def bounds(self, least: float, most: float) -> tuple[int, int]:
        """Return the range of the integers of numbers within least..most."""
        low, high = self.nearest(np.array([least, most], np.float32))
        return int(low), max(int(low), int(high))


def are_computed_with(*scales: float | np.float32 | Array) -> bool:
    """Return whether integer ops take these ratios of scales; too large ones are for floats."""
    return all(bool((np.abs(scale) <= MOST_SCALE).all()) for scale in scales)


def levels_of(draft: Draft, node: Node | None, op: str, name: str = "") -> Levels | None:
    """Return the uint8 integers of one scale that a node of this op reads or writes, or None.

    name: what they are called, if not as the node's input.
    """
    if node is None or node.op != op or set(node.attrs) - {"axis"}:
        return None
    scale = draft.constant(node.inputs[1])
    zero = draft.constant(input_at(node, 2))
    if scale is None or scale.size != 1 or scale.dtype != np.float32:
        return None
    if input_at(node, 2) and (zero is None or zero.dtype != np.uint8):
        return None
    number = scale.reshape(-1)[0]
    if not np.isfinite(number) or number <= 0:
        return None
    return Levels(name or node.inputs[0], number, 0 if zero is None else int(zero.reshape(-1)[0]))


def dequantized(draft: Draft, name: str) -> Levels | None:
    """Return the uint8 integers that a float value is made from, or None."""
    node = draft.producer(name)
    levels = levels_of(draft, node, "dequantize_linear")
    type = None if levels is None else draft.type(levels.name)
    return None if type is None or type.dtype != "uint8" else levels


def written(draft: Draft, node: Node) -> Levels | None:
    """Return the uint8 integers that a quantize_linear writes, or None."""
    type = draft.type(node.inputs[0])
    if type is None or type.dtype != "float32":
        return None
    return levels_of(draft, node, "quantize_linear", node.outputs[0])


@dataclass(frozen=True)
class Weights:
    """Constant weights int8[m, ...] with no zero point, and the scale of each of the m."""

    levels: Array
    scales: Array


def weights_of(draft: Draft, name: str, axis: int) -> Weights | None:
    """Return the integers of a constant float value, one scale for each index along `axis`, or one.

    uint8 weights, or weights with a zero point, qualify if their differences from it fit int8.
    """
    node = draft.producer(name)
    if node is None or node.op != "dequantize_linear" or set(node.attrs) - {"axis"}:
        return None
    levels, scale = (draft.constant(each) for each in node.inputs[:2])
    zero = draft.constant(input_at(node, 2))
    if levels is None or scale is None or levels.dtype.name not in _BYTES:
        return None
    if scale.dtype != np.float32 or (input_at(node, 2) and zero is None):
        return None
    own = node.integer("axis")
    if scale.size > 1 and own % levels.ndim != axis % levels.ndim:
        return None
    if not np.isfinite(scale).all() or (scale <= 0).any():
        return None
    along = [-1 if each == axis % levels.ndim else 1 for each in range(levels.ndim)]
    steps = levels.astype(np.int32)
    if zero is not None:
        steps = steps - zero.astype(np.int32).reshape(along if zero.size > 1 else ())
    if steps.size and (steps.min() < -128 or steps.max() > 127):
        return None
    spread = np.broadcast_to(scale.reshape(-1), (levels.shape[axis],))
    return Weights(steps.astype(np.int8), spread.astype(np.float64))
