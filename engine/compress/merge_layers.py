"""Parallel or consecutive convolutions become one that computes the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from palmkit.engine.ir import Array, Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, input_at, rewrite, with_attrs

FLOATS = ("float32", "float64")


@dataclass(frozen=True)
class Kernel:
    """A convolution with constant weights.

    weight: float64[outputs, inputs / group, h, w]. bias: float64[outputs]. pads: as in ONNX.
    """

    weight: Array
    bias: Array
    pads: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int


def kernel_of(draft: Draft, node: Node) -> Kernel | None:
    """Return what a conv computes; None unless all of it is constant."""
    weight, bias = draft.constant(node.inputs[1]), draft.constant(input_at(node, 2))
    if weight is None or weight.dtype.name not in FLOATS:
        return None
    if (input_at(node, 2) and bias is None) or not np.isfinite(weight).all():
        return None
    padding = node.text("auto_pad")
    if padding not in ("NOTSET", "VALID"):
        return None
    rank = weight.ndim - 2
    ones = (1,) * rank
    return Kernel(
        weight.astype(np.float64),
        np.zeros(len(weight)) if bias is None else bias.astype(np.float64),
        (0,) * 2 * rank if padding == "VALID" else node.integers("pads") or (0,) * 2 * rank,
        node.integers("strides") or ones,
        node.integers("dilations") or ones,
        node.integer("group"),
    )


def merge_parallel(graph: Graph) -> Graph:
    """Merge branches that are added into one convolution.

    RepVGG's rule (Ding et al., RepVGG: Making VGG-style ConvNets Great Again, 2021): a smaller
    kernel is padded to the larger one, and the identity is a kernel of one tap.
    """
    return rewrite(graph, _merge_branches, ("add",))


def _merge_branches(draft: Draft, node: Node) -> Change:
    left, right = (draft.sole_producer(name, "conv") for name in node.inputs)
    first, second = (None if conv is None else kernel_of(draft, conv) for conv in (left, right))
    if left is not None and right is not None:
        if first is None or second is None or left.inputs[0] != right.inputs[0]:
            return None
        base = left
    else:
        found, own = left or right, first or second
        if found is None or own is None or found.inputs[0] not in node.inputs:
            return None
        base = found
        first, second = own, _identity(draft, base.inputs[0], own)
        if second is None:
            return None
    merged = summed(first, second)
    if merged is None or len(set(node.inputs)) < 2:
        return None
    return [written(draft, base, merged, base.inputs[0], node.outputs)]


def _identity(draft: Draft, x: str, like: Kernel) -> Kernel | None:
    """Return the kernel that gives back x, if that has the size of the output of `like`."""
    outputs, inputs = len(like.weight), like.weight.shape[1] * like.group
    rank = like.weight.ndim - 2
    dims = draft.dims(x)
    # Only a sum without broadcasting is a sum of kernels.
    if outputs != inputs or any(step != 1 for step in like.strides):
        return None
    if dims is not None and dims[1] != inputs:
        return None
    for axis in range(rank):
        reach = like.dilations[axis] * (like.weight.shape[2 + axis] - 1)
        if like.pads[axis] + like.pads[axis + rank] != reach:
            return None
    weight = np.zeros((outputs, like.weight.shape[1], *[1] * rank))
    weight[np.arange(outputs), np.arange(outputs) % like.weight.shape[1]] = 1
    ones = (1,) * rank
    return Kernel(weight, np.zeros(outputs), (0,) * 2 * rank, ones, ones, like.group)


def summed(a: Kernel, b: Kernel) -> Kernel | None:
    """Return one kernel for the sum of two over the same picture; None where there is none."""
    if a.weight[0, 0].size < b.weight[0, 0].size:
        a, b = b, a
    rank = a.weight.ndim - 2
    if b.weight.ndim != a.weight.ndim or len(a.weight) != len(b.weight):
        return None
    if a.strides != b.strides or a.group != b.group:
        return None
    weight = a.weight.copy()
    places: list[slice] = []
    for axis in range(rank):
        large, small = a.weight.shape[2 + axis], b.weight.shape[2 + axis]
        before, after = (a.pads[at] - b.pads[at] for at in (axis, axis + rank))
        step = a.dilations[axis]
        if small > 1 and b.dilations[axis] != step:
            return None
        if before < 0 or before % step or before + after != step * (large - small):
            return None
        places.append(slice(before // step, before // step + small))
    weight[(slice(None), slice(None), *places)] += b.weight
    return replace(a, weight=weight, bias=a.bias + b.bias)


def merge_chains(graph: Graph) -> Graph:
    """Merge a convolution of a convolution, one of them 1x1, where one is no more work."""
    return rewrite(graph, _merge_chain, ("conv",))


def _merge_chain(draft: Draft, node: Node) -> Change:
    before = draft.sole_producer(node.inputs[0], "conv")
    first = None if before is None else kernel_of(draft, before)
    second = kernel_of(draft, node)
    if before is None or first is None or second is None:
        return None
    merged = chained(first, second)
    if merged is None or merged.weight.size > first.weight.size + second.weight.size:
        return None
    return [written(draft, before, merged, before.inputs[0], node.outputs)]


def chained(first: Kernel, second: Kernel) -> Kernel | None:
    """Return one kernel for `second` after `first`; None unless one of them is a plain 1x1."""
    dense = first.group == second.group == 1
    if not dense or first.weight.ndim != second.weight.ndim:
        return None
    if _is_pointwise(second):
        weight = np.tensordot(second.weight.reshape(second.weight.shape[:2]), first.weight, 1)
        bias = second.weight.reshape(second.weight.shape[:2]) @ first.bias + second.bias
        return replace(first, weight=weight, bias=bias)
    # At the border the second reads zeros where the first would give its bias.
    if not _is_pointwise(first) or (any(second.pads) and first.bias.any()):
        return None
    weight = np.einsum(
        "om...,mi->oi...", second.weight, first.weight.reshape(len(first.weight), -1)
    )
    taps = second.weight.sum(tuple(range(2, second.weight.ndim)))
    return replace(second, weight=weight, bias=taps @ first.bias + second.bias)


def _is_pointwise(kernel: Kernel) -> bool:
    plain = prod(kernel.weight.shape[2:]) == 1 and not any(kernel.pads)
    return plain and all(step == 1 for step in kernel.strides)


def written(draft: Draft, like: Node, kernel: Kernel, x: str, outputs: tuple[str, ...]) -> Node:
    """Return a conv node of x with this kernel, named after `like`."""
    dtype = draft.constants[like.inputs[1]].dtype
    inputs = [x, draft.new_constant(f"{outputs[0]}/weights", kernel.weight.astype(dtype))]
    if kernel.bias.any() or input_at(like, 2):
        inputs.append(draft.new_constant(f"{outputs[0]}/bias", kernel.bias.astype(dtype)))
    node = replace(like, inputs=tuple(inputs), outputs=outputs)
    return with_attrs(
        node,
        auto_pad=None,
        dilations=kernel.dilations,
        group=kernel.group,
        kernel_shape=kernel.weight.shape[2:],
        pads=kernel.pads,
        strides=kernel.strides,
    )
