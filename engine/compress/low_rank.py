"""Layers replaced by two thinner ones, where that is less work."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from palmkit.engine.compress.merge_layers import FLOATS, kernel_of
from palmkit.engine.ir import Array, Graph, Node
from palmkit.engine.ops.traits import Layer, Traits
from palmkit.engine.passes.rewrite import Change, Draft, input_at, rewrite, with_attrs
from palmkit.engine.passes.weights import has_rows_of_outputs, is_plain_layer, reads_columns

# The error of a factorization that is exact in float32.
EXACT = 1e-6
_UNSURE = 1e-12
Split: TypeAlias = tuple[Array, Array, float]


def factorize(graph: Graph, error: float = EXACT, gain: float = 0.9) -> Graph:
    """Replace convolutions and products of low rank by two, by singular value decomposition.

    A kernel [outputs, inputs, h, w] becomes one of fewer outputs with the same window, followed by
    a 1x1 (Denton et al., Exploiting Linear Structure Within Convolutional Networks, 2014).
    error: the largest error of each layer's weights, relative to their L2 norm. gain: at most this
    share of the layer's multiply-adds may remain.
    """

    def rule(draft: Draft, node: Node) -> Change:
        return _split(draft, node, error, gain)

    return rewrite(graph, rule, _is_divisible)


def _is_divisible(traits: Traits) -> bool:
    return is_plain_layer(traits) and traits.layer is not Layer.TRANSPOSED


def factors(matrix: Array, error: float, gain: float) -> Split | None:
    """Return float64 [m, r] and [r, n] with a product near [m, n], and its error, or None.

    None means that r would be too large for the gain.
    """
    rows, columns = matrix.shape
    length = float(np.linalg.norm(matrix))
    most = int(gain * matrix.size / (rows + columns))
    if not np.isfinite(length) or not length or most < 1:
        return None
    if not _may_fit(matrix / length, error, most):
        return None
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    left = np.sqrt(np.append(np.cumsum(np.square(s[::-1]))[::-1], 0)) / length
    rank = int(np.argmax(left <= error))
    if rank < 1 or rank > most:
        return None
    root = np.sqrt(s[:rank])
    return u[:, :rank] * root, root[:, None] * v[:rank], float(left[rank])


def _may_fit(unit: Array, error: float, most: int) -> bool:
    """Return whether `most` singular values may leave no larger error; False is certain.

    Squares of the values, which are found far faster, are exact to some 1e-15 of the sum.
    unit: float64[m, n] of norm 1.
    """
    rows, columns = unit.shape
    small = unit @ unit.T if rows <= columns else unit.T @ unit
    squares = np.linalg.eigvalsh(small)
    return float(squares[: max(0, len(squares) - most)].sum()) <= 1.01 * error**2 + _UNSURE


def _split(draft: Draft, node: Node, error: float, gain: float) -> Change:
    weight = draft.constant(node.inputs[1])
    if weight is None or weight.dtype.name not in FLOATS:
        return None
    if not np.isfinite(weight).all():
        return None
    middle = draft.new_value(f"{node.outputs[0]}/thin")

    def constant(what: str, value: Array) -> str:
        return draft.new_constant(f"{node.outputs[0]}/{what}", value.astype(weight.dtype))

    if node.op == "conv":
        kernel = kernel_of(draft, node)
        if kernel is None or kernel.group != 1:
            return None
        found = factors(kernel.weight.reshape(len(weight), -1), error, gain)
        if found is None:
            return None
        wide, thin, _ = found
        rank = weight.ndim - 2
        thin = thin.reshape(-1, *weight.shape[1:])
        wide = wide.reshape(*wide.shape, *[1] * rank)
        behind = (middle, constant("wide", wide), *filter(None, [input_at(node, 2)]))
        return [
            replace(node, inputs=(node.inputs[0], constant("narrow", thin)), outputs=(middle,)),
            Node("conv", behind, node.outputs, {"kernel_shape": (1,) * rank}, node.name),
        ]
    if weight.ndim != 2 or reads_columns(node):
        return None
    is_turned = has_rows_of_outputs(node)
    matrix = (weight.T if is_turned else weight).astype(np.float64)
    found = factors(matrix, error, gain)
    if found is None:
        return None
    narrow, wide, _ = found
    first = Node("matmul", (node.inputs[0], constant("narrow", narrow)), (middle,), name=node.name)
    behind = (middle, constant("wide", wide), *node.inputs[2:])
    return [first, with_attrs(replace(node, inputs=behind), transB=None)]
