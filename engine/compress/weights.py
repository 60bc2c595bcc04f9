"""Weights as int8 levels with one scale a channel, and biases as int32."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from palmkit.engine.compress.admm import projected_scales
from palmkit.engine.errors import QuantizationError
from palmkit.engine.ir import Array, Graph, Node
from palmkit.engine.ops.traits import Layer
from palmkit.engine.passes.weights import has_rows_of_outputs, kind_of

MOST = 127
BITS = 8
# Outputs with fewer weights than this keep all levels: they cost little, and suffer most.
FEW = 32
# Far enough from the limits of int32 for the sums that are added to the bias.
MOST_BIAS = float(1 << 29)
Scales = Callable[[Array, int], Array]


def greatest(rows: Array, most: int) -> Array:
    """Return for each row of float64[n, k] the scale at which nothing saturates, float64[n]."""
    ends = np.abs(rows).max(1)
    return np.where(ends > 0, ends, 1.0) / most


WEIGHT_METHODS: Mapping[str, Scales] = {"max": greatest, "admm": projected_scales}


def most_level(count: int, bits: int) -> int:
    """Return the largest level of outputs with `count` weights each in this many bits, 2..8."""
    return MOST if count < FEW else (1 << (bits - 1)) - 1


def output_axis(node: Node) -> int:
    """Return the axis of a layer's weights that counts its outputs."""
    return 1 if kind_of(node) is Layer.MATRIX and not has_rows_of_outputs(node) else 0


def as_rows(weights: Array, axis: int) -> Array:
    """Return the weights of each output, float64[outputs, k]."""
    rows = np.moveaxis(weights, axis, 0)
    return rows.reshape(rows.shape[0], -1).astype(np.float64)


def weight_scales(
    rows: Array, bias: Array | None, input_scale: float, method: str, most: int = MOST
) -> Array:
    """Return float32[outputs], with which the bias in units of input scale * scale fits int32."""
    scales = WEIGHT_METHODS[method](rows, most)
    if bias is not None:
        needed = np.abs(bias.reshape(-1).astype(np.float64)) / (input_scale * MOST_BIAS)
        scales = np.maximum(scales, needed)
    return np.maximum(scales, np.finfo(np.float32).tiny).astype(np.float32)


def levels_of(rows: Array, scales: Array, most: int = MOST) -> Array:
    """Return the levels as float64[outputs, k], integers in -most..most."""
    return np.asarray(np.clip(np.rint(rows / scales.astype(np.float64)[:, None]), -most, most))


def bias_levels(bias: Array, input_scale: np.float32, scales: Array) -> tuple[Array, Array]:
    """Return the bias as int32 levels, and their float32 scale, input scale * weight scale."""
    unit = (np.float32(input_scale) * scales).astype(np.float32)
    levels = np.rint(bias.reshape(-1).astype(np.float64) / unit.astype(np.float64))
    return np.clip(levels, -(2**31), 2**31 - 1).astype(np.int32), unit


def check_finite(graph: Graph) -> None:
    """Raise QuantizationError for a float constant with numbers that are not finite."""
    for name, value in graph.constants.items():
        if value.dtype.kind != "f" or np.isfinite(value).all():
            continue
        bounds = [node for node in graph.nodes if node.op == "clip" and name in node.inputs[1:]]
        if bounds and not np.isnan(value).any():
            continue
        bad = int((~np.isfinite(value)).sum())
        raise QuantizationError(
            f"weights {name}: expected finite numbers, got {bad} of {value.size} that are not"
        )
