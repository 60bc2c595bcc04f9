"""The engine's float ops in PyTorch, over any number of samples.

The graph is made for one sample: the first axis of a value counts samples, and a reshape keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array, Node

Constants = Mapping[str, Array]
Rule = Callable[[Node, list[Tensor], Constants], Tensor]


def run_float(node: Node, inputs: Mapping[str, Tensor], constants: Constants) -> list[Tensor]:
    """Return the outputs of a node.

    inputs: tensors by the names that it reads; constants: the graph's, for shapes and the like.
    Raises UnsupportedError for an op without a rule.
    """
    if node.op == "split":
        return _split(node, inputs[node.inputs[0]], constants)
    if node.op not in _RULES:
        raise UnsupportedError(
            f"node {node.name or node.outputs[0]}: no rule for {node.op} in PyTorch; known: "
            f"{', '.join(sorted(_RULES))}"
        )
    found = [inputs[name] for name in node.inputs if name and name in inputs]
    return [_RULES[node.op](node, found, constants)]


def ints(node: Node, place: int, constants: Constants) -> list[int]:
    """Return an input that holds integers, () if it is left out."""
    name = node.inputs[place] if place < len(node.inputs) else ""
    return [int(each) for each in constants[name].reshape(-1)] if name else []


def padding(node: Node, rank: int) -> tuple[int, ...]:
    """Return begins and ends as functional.pad takes them."""
    pads: Any = node.attrs.get("pads") or (0,) * (2 * rank)
    return tuple(each for axis in reversed(range(rank)) for each in (pads[axis], pads[axis + rank]))


def convolve(x: Tensor, w: Tensor, b: Tensor | None, node: Node) -> Tensor:
    """Compute a conv node with zero padding; w: float32[m, c, h, w]."""
    attrs: Any = node.attrs
    around = padding(node, 2)
    stride, dilation = attrs.get("strides") or (1, 1), attrs.get("dilations") or (1, 1)
    if around[0] == around[1] and around[2] == around[3]:
        along, x = (around[2], around[0]), x
    else:
        along, x = (0, 0), functional.pad(x, around)
    return functional.conv2d(x, w, b, stride, along, dilation, attrs.get("group", 1))


def activate(y: Tensor, node: Node) -> Tensor:
    """Apply the clamp of a fused_conv."""
    if node.attrs.get("activation", "") != "clip":
        return y
    params: Any = node.attrs["activation_params"]
    return y.clamp(float(params[0]), float(params[1]))


def _conv(node: Node, x: list[Tensor], constants: Constants) -> Tensor:
    has_bias = len(node.inputs) > 2 and bool(node.inputs[2])
    y = convolve(x[0], x[1], x[2] if has_bias else None, node)
    if len(node.inputs) > 3 and node.inputs[3]:
        z = x[2 + has_bias]
        y = y + functional.pad(z, (0, 0, 0, 0, 0, y.shape[1] - z.shape[1]))
    return activate(y, node)


def _conv_transpose(node: Node, x: list[Tensor], constants: Constants) -> Tensor:
    attrs: Any = node.attrs
    pads = attrs.get("pads") or (0, 0, 0, 0)
    y = functional.conv_transpose2d(
        x[0], x[1], x[2] if len(x) > 2 else None, attrs.get("strides") or (1, 1),
        groups=attrs.get("group", 1), dilation=attrs.get("dilations") or (1, 1),
    )  # fmt: skip
    y = y[..., pads[0] : y.shape[2] - pads[2], pads[1] : y.shape[3] - pads[3]]
    return activate(y, node)


def _gemm(node: Node, x: list[Tensor], constants: Constants) -> Tensor:
    w = x[1] if node.attrs.get("transB", 0) else x[1].T
    return functional.linear(x[0], w, x[2] if len(x) > 2 else None)


def _reshape(node: Node, x: list[Tensor], constants: Constants) -> Tensor:
    return x[0].reshape(len(x[0]), *ints(node, 1, constants)[1:])


def _slice(node: Node, x: list[Tensor], constants: Constants) -> Tensor:
    starts, ends = ints(node, 1, constants), ints(node, 2, constants)
    axes = ints(node, 3, constants) or list(range(len(starts)))
    steps = ints(node, 4, constants) or [1] * len(starts)
    y = x[0]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = y.shape[axis]
        y = _picked(y, axis, tuple(range(size)[start : min(end, size) : step]))
    return y


def _split(node: Node, x: Tensor, constants: Constants) -> list[Tensor]:
    axis: Any = node.attrs.get("axis", 0)
    sizes = ints(node, 1, constants) or [x.shape[axis] // len(node.outputs)] * len(node.outputs)
    return list(torch.split(x, sizes, axis))


def _gather(node: Node, x: list[Tensor], constants: Constants) -> Tensor:
    axis: Any = node.attrs.get("axis", 0)
    places = constants[node.inputs[1]]
    size = x[0].shape[axis]
    y = _picked(x[0], axis, tuple(int(place) % size for place in places.reshape(-1)))
    return y.reshape(*x[0].shape[:axis], *places.shape, *x[0].shape[axis + 1 :])


def _picked(x: Tensor, axis: int, places: tuple[int, ...]) -> Tensor:
    return x.index_select(axis, _on_device(places, x.device))


@lru_cache(maxsize=256)
def _on_device(places: tuple[int, ...], device: torch.device) -> Tensor:
    """Copy to the device once: a step that is recorded on a GPU may not copy from the host."""
    return torch.tensor(places, dtype=torch.int64, device=device)


def _reduce(node: Node, x: list[Tensor], constants: Constants) -> Tensor:
    keep = bool(node.attrs.get("keepdims", 1))
    along = ints(node, 1, constants)
    return x[0].mean(along, keep) if node.op == "reduce_mean" else x[0].sum(along, keep)


def _clip(node: Node, x: list[Tensor], constants: Constants) -> Tensor:
    ends = [
        float(constants[node.inputs[place]]) if place < len(node.inputs) and node.inputs[place]
        else None for place in (1, 2)
    ]  # fmt: skip
    return x[0].clamp(*ends)


def _resize(node: Node, x: list[Tensor], constants: Constants) -> Tensor:
    """Resize by whole factors of two to the nearest pixel, or linearly between pixel centres."""
    attrs = node.attrs
    scales = constants[node.inputs[2]].reshape(-1).tolist()[2:]
    kind = (attrs.get("mode", "nearest"), attrs.get("coordinate_transformation_mode", "half_pixel"))
    if kind[0] == "nearest" and kind[1] in ("asymmetric", "half_pixel"):
        if all(scale == int(scale) for scale in scales):
            rows, columns = map(int, scales)
            return x[0].repeat_interleave(rows, 2).repeat_interleave(columns, 3)
    elif kind == ("linear", "half_pixel"):
        return functional.interpolate(
            x[0], scale_factor=scales, mode="bilinear", align_corners=False
        )
    raise UnsupportedError(f"node {node.name or node.outputs[0]}: resize of another kind: {kind}")


_RULES: dict[str, Rule] = {
    "add": lambda node, x, _: x[0] + x[1],
    "clip": _clip,
    "concat": lambda node, x, _: torch.cat(x, int(str(node.attrs["axis"]))),
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "div": lambda node, x, _: x[0] / x[1],
    "exp": lambda node, x, _: x[0].exp(),
    "flatten": lambda node, x, _: x[0].flatten(1),
    "fused_conv": _conv,
    "fused_conv_transpose": _conv_transpose,
    "gather": _gather,
    "gemm": _gemm,
    "global_average_pool": lambda node, x, _: x[0].mean((2, 3), keepdim=True),
    "hard_sigmoid": lambda node, x, _: (
        x[0] * float(str(node.attrs.get("alpha", 0.2))) + float(str(node.attrs.get("beta", 0.5)))
    ).clamp(0, 1),
    "hard_swish": lambda node, x, _: functional.hardswish(x[0]),
    "identity": lambda node, x, _: x[0],
    "matmul": lambda node, x, _: x[0] @ x[1],
    "mul": lambda node, x, _: x[0] * x[1],
    "multiply_add": lambda node, x, _: x[0] * x[1] + x[2],
    "neg": lambda node, x, _: -x[0],
    "reduce_mean": _reduce,
    "reduce_sum": _reduce,
    "relu": lambda node, x, _: x[0].relu(),
    "reshape": _reshape,
    "resize": _resize,
    "sigmoid": lambda node, x, _: x[0].sigmoid(),
    "slice": _slice,
    "softmax": lambda node, x, _: x[0].softmax(int(str(node.attrs.get("axis", -1)))),
    "sqrt": lambda node, x, _: x[0].sqrt(),
    "sub": lambda node, x, _: x[0] - x[1],
    "transpose": lambda node, x, _: x[0].permute(tuple(node.attrs["perm"])),  # type: ignore[arg-type]
}
