"""Quantization-aware training: a network that computes as its integer graph will.

Between layers there are whole numbers, levels 0..255, and every layer adds up products of whole
numbers, scales them and rounds, in the same float32 operations in the same order as the integer ops
(`palmkit.engine.ops.quantized_conv` and its kin). So what is trained gives, bit for bit, the levels
of the exported graph. Rounding passes gradients straight through (Bengio et al. 2013, Estimating or
Propagating Gradients Through Stochastic Neurons), saturation stops them; the ranges are trained
with the weights (Esser et al. 2020, Learned Step Size Quantization; Jain et al. 2020, Trained
Quantization Thresholds).

    network = calibrated(graph, samples)
    outputs = network({"image": images}, ["mask"])   # train as any other module
    quantized = network.quantized()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from palmkit.engine.compress.placement import (
    Placement,
    data_inputs,
    is_clamp,
    is_layer,
    is_moving,
)
from palmkit.engine.compress.quantize import Levels, write
from palmkit.engine.compress.ranges import Range
from palmkit.engine.compress.weights import BITS, MOST_BIAS, most_level, output_axis
from palmkit.engine.ir import Array, Graph, Node, consumers
from palmkit.models.training.float_ops import activate, convolve, ints, run_float

NOTHING = Placement(frozenset(), {}, frozenset())
_TINY = float(np.finfo(np.float32).tiny)


class _Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        return grad_outputs[0]


def whole(x: Tensor) -> Tensor:
    """Return the nearest integer, ties to even, with a gradient of 1."""
    return _Whole.apply(x)  # type: ignore[no-any-return,no-untyped-call]


class Stepped(NamedTuple):
    """Levels 0..255, and the numbers they stand for: (levels - zero) * scale, float32 scalars."""

    levels: Tensor
    scale: Tensor
    zero: Tensor

    def real(self) -> Tensor:
        """Return the numbers, as dequantize_linear computes them."""
        return (self.levels - self.zero) * self.scale


class Target(NamedTuple):
    """Where a node's result is rounded: a value's scale, and bounds that are applied on the way."""

    owner: str
    least: float
    most: float


class FakeQuantized(nn.Module):
    """A prepared float graph, its chosen values rounded to levels.

    Parameters are the weights and biases of all layers, each over its own size, and, as logarithms,
    the ratio of each range to its start. Evaluation (`eval()`) sums in float64, which is exact;
    training in float32, exact while sums stay below 2^24.
    """

    ends: Tensor
    free: Tensor

    def __init__(
        self,
        graph: Graph,
        placement: Placement,
        ranges: Mapping[str, Range],
        weight_bits: int = BITS,
    ) -> None:
        """Wrap a graph.

        graph: as `prepare` returns it; ranges: of the values of the placement; weight_bits: as for
        `quantize`.
        """
        super().__init__()
        self.graph, self.placement, self.weight_bits = graph, placement, weight_bits
        self.names = list(dict.fromkeys(_trained(graph)))
        given = [torch.from_numpy(graph.constants[name].copy()) for name in self.names]
        # Powers of two, so that dividing by them loses nothing: one rate then suits all.
        self.sizes = [_size(value) for value in given]
        self.weights = nn.ParameterList(
            nn.Parameter(value / size) for value, size in zip(given, self.sizes, strict=True)
        )
        self.owners = list(dict.fromkeys(placement.values.values()))
        ends = np.array([ranges[name] for name in self.owners], np.float32).reshape(-1, 2)
        self.register_buffer("ends", torch.from_numpy(np.stack([
            np.minimum(ends[:, 0], 0), np.maximum(ends[:, 1], 0)], 1)))  # fmt: skip
        self.stretch = nn.Parameter(torch.zeros(len(self.owners)))
        # The inputs' ranges are known, not learnt.
        is_free = [owner not in placement.raw for owner in self.owners]
        self.register_buffer("free", torch.tensor(is_free, dtype=torch.float32))
        self.fixed = [
            name for name, value in graph.constants.items()
            if value.dtype == np.float32 and name not in self.names
        ]  # fmt: skip
        for number, name in enumerate(self.fixed):
            self.register_buffer(f"fixed_{number}", torch.from_numpy(graph.constants[name].copy()))
        self.targets = _targets(graph, placement)
        self._orders: dict[tuple[str, ...], list[Node]] = {}

    def forward(self, inputs: Mapping[str, Tensor], wanted: Sequence[str]) -> dict[str, Tensor]:
        """Return values of the graph by name, float32 for any number of samples.

        inputs: by name, as the graph's with as many samples as there are. wanted: names of any
        values of the graph.
        """
        steps = self.steps()
        values: dict[str, Tensor | Stepped] = dict(self._weights())
        for number, name in enumerate(self.fixed):
            values[name] = getattr(self, f"fixed_{number}")
        for name, value in inputs.items():
            values[name] = self._rounded(name, value, steps)
        for node in self._order(tuple(wanted)):
            if node.outputs[0] in self.placement.nodes:
                self._compute(node, values, steps)
                continue
            found = run_float(node, _floats(node, values), self.graph.constants)
            for name, value in zip(node.outputs, found, strict=True):
                values[name] = self._rounded(name, value, steps)
        return {name: _real(values[name]) for name in wanted}

    def _weights(self) -> Iterable[tuple[str, Tensor]]:
        for name, value, size in zip(self.names, self.weights, self.sizes, strict=True):
            yield name, value * size

    def float_network(self) -> FakeQuantized:
        """Return the current float network, frozen, as a teacher."""
        return self._frozen(self.plain())

    def _frozen(self, graph: Graph) -> FakeQuantized:
        """Return a frozen network of a float graph on this network's device."""
        network: FakeQuantized = FakeQuantized(graph, NOTHING, {}).to(self.stretch.device)
        frozen: FakeQuantized = network.requires_grad_(False)
        return frozen

    def ranges(self) -> dict[str, Range]:
        """Return the current ranges as float32 numbers."""
        with torch.no_grad():
            ends: list[list[float]] = self._ends().cpu().tolist()
        return {owner: (pair[0], pair[1]) for owner, pair in zip(self.owners, ends, strict=True)}

    def plain(self) -> Graph:
        """Return the float graph with the current weights."""
        constants: dict[str, Array] = dict(self.graph.constants)
        for name, value in self._weights():
            constants[name] = value.detach().cpu().numpy().copy()
            constants[name].flags.writeable = False
        return replace(self.graph, constants=constants)

    def quantized(self) -> Graph:
        """Return the graph of integer layers that computes the same."""
        ranges = self.ranges()
        return write(self.plain(), self.placement, ranges, weight_bits=self.weight_bits)

    def _ends(self) -> Tensor:
        return self.ends * (self.stretch * self.free).exp()[:, None]

    def steps(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Return scale and zero point of each owner."""
        ends = self._ends()
        scale = ((ends[:, 1].double() - ends[:, 0].double()) / 255).float()
        zero = whole(-ends[:, 0] / scale).clamp(0, 255)
        dead = scale <= _TINY
        scale = torch.where(dead, torch.full_like(scale, 1 / 255), scale)
        zero = torch.where(dead, torch.zeros_like(zero), zero)
        pairs = zip(scale.unbind(), zero.unbind(), strict=True)
        return dict(zip(self.owners, pairs, strict=True))

    def _rounded(
        self, name: str, value: Tensor, steps: Mapping[str, tuple[Tensor, Tensor]]
    ) -> Tensor | Stepped:
        owner = self.placement.values.get(name)
        return value if owner is None else _nearest(value, *steps[owner])

    def _order(self, wanted: tuple[str, ...]) -> list[Node]:
        """Return the nodes that some values need."""
        if wanted not in self._orders:
            needed = set(wanted)
            order: list[Node] = []
            for node in reversed(self.graph.nodes):
                if not needed.isdisjoint(node.outputs):
                    needed.update(node.inputs)
                    order.append(node)
            self._orders[wanted] = order[::-1]
        return self._orders[wanted]

    def _compute(
        self,
        node: Node,
        values: dict[str, Tensor | Stepped],
        steps: Mapping[str, tuple[Tensor, Tensor]],
    ) -> None:
        name = node.outputs[0]
        data = [_stepped(values[node.inputs[place]]) for place in data_inputs(node)]
        if is_moving(node.op):
            x = data[0]
            moved = _moved(node, x, self.graph.constants)
            values.update(
                {n: Stepped(y, x.scale, x.zero) for n, y in zip(node.outputs, moved, strict=True)}
            )
            return
        target = self.targets[name]
        if is_clamp(node.op) and target is not None and self.targets.get(node.inputs[0]) == target:
            # The node before has clamped it.
            values[name] = data[0]
            return
        if is_layer(node.op):
            values[name] = self._layer(node, values, data, target, steps)
            return
        assert target is not None
        scale, zero = steps[target.owner]
        least, most = _bounds(target, scale, zero)
        v = _in_steps(node, data, scale, values, self.graph.constants)
        values[name] = Stepped(_clamped(v, least, most, zero), scale, zero)

    def _layer(
        self,
        node: Node,
        values: Mapping[str, Tensor | Stepped],
        data: Sequence[Stepped],
        target: Target | None,
        steps: Mapping[str, tuple[Tensor, Tensor]],
    ) -> Tensor | Stepped:
        x = data[0]
        weights = values[node.inputs[1]]
        bias = values[node.inputs[2]] if len(node.inputs) > 2 and node.inputs[2] else None
        assert not isinstance(weights, Stepped) and not isinstance(bias, Stepped)
        if node.op in ("gemm", "matmul") and output_axis(node) == 1:
            weights = weights.T
        levels, scales = weight_levels(weights, bias, x.scale, self.weight_bits)
        whole_bias = None
        if bias is not None:
            unit = (x.scale * scales).double()
            whole_bias = whole(bias.reshape(-1).double() / unit)
        kind = torch.float32 if self.training else torch.float64
        if whole_bias is not None:
            whole_bias = whole_bias.to(kind)
        sums = _product(node, (x.levels - x.zero).to(kind), levels.to(kind), whole_bias).float()
        products = x.scale.double() * scales.double()
        along = (-1,) if sums.dim() != 4 else (-1, 1, 1)
        if target is None:
            y = sums * products.float().reshape(along)
            return activate(y if len(data) == 1 else y + data[1].real(), node)
        scale, zero = steps[target.owner]
        v = sums * (products / scale.double()).float().reshape(along)
        if len(data) > 1:
            v = v + (data[1].levels - data[1].zero) * (data[1].scale / scale)
        least, most = _bounds(target, scale, zero)
        return Stepped(_clamped(v, least, most, zero), scale, zero)


def calibrated(
    graph: Graph,
    samples: Iterable[Mapping[str, Array]],
    method: str = "kl",
    weight_bits: int = BITS,
) -> FakeQuantized:
    """Return a float graph with the ranges of `quantize`; arguments and errors as there."""
    from palmkit.engine.compress.equalise import equalise
    from palmkit.engine.compress.observe import checked_samples, observe
    from palmkit.engine.compress.placement import place
    from palmkit.engine.compress.quantize import prepare
    from palmkit.engine.compress.ranges import ranges_of

    plain = prepare(graph)
    found = checked_samples(plain, samples)
    placement = place(plain)
    plain = equalise(plain, observe(plain, found, placement.values))
    seen = observe(plain, found, placement.values)
    return FakeQuantized(plain, placement, ranges_of(placement, seen, method), weight_bits)


def weight_levels(
    weights: Tensor, bias: Tensor | None, input_scale: Tensor, weight_bits: int = BITS
) -> tuple[Tensor, Tensor]:
    """Return float64[m, ...] integers and float32[m] scales, as compress.weights does.

    The scales follow the largest weights and have no gradient of their own.
    """
    wide = weights.double()
    most = most_level(wide[0].numel(), weight_bits)
    with torch.no_grad():
        ends = wide.abs().flatten(1).amax(1)
        scales = torch.where(ends > 0, ends, torch.ones_like(ends)) / most
        if bias is not None:
            needed = bias.reshape(-1).double().abs() / (input_scale.double() * MOST_BIAS)
            scales = torch.maximum(scales, needed)
        scales = scales.clamp(min=_TINY).float()
    rows = scales.double().reshape(-1, *[1] * (weights.dim() - 1))
    return whole(wide / rows).clamp(-most, most), scales


def _size(value: Tensor) -> float:
    """Return the power of two next to the root mean square."""
    mean = float(value.double().square().mean())
    return 2.0 ** round(np.log2(mean) / 2) if mean > 0 else 1.0


def _trained(graph: Graph) -> Iterable[str]:
    """Yield the weights and biases of layers."""
    for node in graph.nodes:
        if is_layer(node.op):
            for name in node.inputs[1:3]:
                value = graph.constants.get(name)
                if value is not None and value.dtype == np.float32:
                    yield name


def _targets(graph: Graph, placement: Placement) -> dict[str, Target | None]:
    """Return where each integer node's result is rounded; None: it stays float."""
    readers = consumers(graph)
    found: dict[str, Target | None] = {}
    for node in graph.nodes:
        name = node.outputs[0]
        if name not in placement.nodes or is_moving(node.op):
            continue
        least, most = -np.inf, np.inf
        if node.attrs.get("activation", "") == "clip":
            params: Any = node.attrs["activation_params"]
            least, most = map(float, params)
        if is_clamp(node.op):
            least, most = _clamp(graph, node)
        owner = placement.values.get(name)
        if owner is None and len(readers.get(name, ())) == 1:
            behind = readers[name][0]
            owner = placement.values.get(behind.outputs[0])
            if is_clamp(behind.op) and behind.outputs[0] in placement.nodes and owner is not None:
                least, most = _clamp(graph, behind)
            else:
                owner = None
        found[name] = None if owner is None else Target(owner, least, most)
    return found


def _clamp(graph: Graph, node: Node) -> tuple[float, float]:
    if node.op == "relu":
        return 0.0, np.inf
    ends = [-np.inf, np.inf]
    for place, name in enumerate(node.inputs[1:]):
        if name:
            ends[place] = float(graph.constants[name])
    return ends[0], ends[1]


def _stepped(value: Tensor | Stepped) -> Stepped:
    """Return a value in levels; a constant is converted to levels."""
    if isinstance(value, Stepped):
        return value
    levels = Levels.over(float(value.min()), float(value.max()))
    scale, zero = (value.new_tensor(float(each)) for each in (levels.scale, levels.zero))
    # As the graph's writer does it, in float64.
    whole_levels = (value.double() / scale.double()).round() + zero
    return Stepped(whole_levels.clamp(0, 255).float(), scale, zero)


def _real(value: Tensor | Stepped) -> Tensor:
    return value.real() if isinstance(value, Stepped) else value


def _floats(node: Node, values: Mapping[str, Tensor | Stepped]) -> dict[str, Tensor]:
    return {name: _real(values[name]) for name in node.inputs if name in values}


def _nearest(value: Tensor, scale: Tensor, zero: Tensor) -> Stepped:
    """Round as quantize_linear does."""
    return Stepped((whole(value / scale) + zero).clamp(0, 255), scale, zero)


def _bounds(target: Target, scale: Tensor, zero: Tensor) -> tuple[Tensor, Tensor]:
    """Return the levels of the target's bounds."""
    with torch.no_grad():
        least, most = (
            torch.full_like(zero, 0.0 if end < 0 else 255.0)
            if np.isinf(end)
            else ((end / scale).round() + zero).clamp(0, 255)
            for end in (target.least, target.most)
        )
    return least, most


def _clamped(v: Tensor, least: Tensor, most: Tensor, zero: Tensor) -> Tensor:
    """Round as the integer ops do: within the bounds, to the nearest, then the zero point."""
    return whole(torch.minimum(torch.maximum(v, least - zero), most - zero)) + zero


def _product(node: Node, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    """Multiply by w, outputs first."""
    if node.op in ("gemm", "matmul"):
        return functional.linear(x, w, b)
    return convolve(x, w, b, node)


def _moved(node: Node, x: Stepped, constants: Mapping[str, Array]) -> list[Tensor]:
    """Move levels to other places; a linear resize interpolates them."""
    if node.op == "resize" and node.attrs.get("mode", "nearest") == "linear":
        # Doublings weigh by powers of two, so float64 has the means exactly.
        y = run_float(node, {node.inputs[0]: (x.levels - x.zero).double()}, constants)[0]
        return [whole(y.float()) + x.zero]
    if node.op == "max_pool":
        kernel: Any = node.attrs["kernel_shape"]
        stride: Any = node.attrs.get("strides") or (1,) * len(kernel)
        pads: Any = node.attrs.get("pads") or (0,) * (2 * len(kernel))
        around = (pads[1], pads[3], pads[0], pads[2])
        return [functional.max_pool2d(functional.pad(x.levels, around), kernel, stride)]
    return run_float(node, {node.inputs[0]: x.levels}, constants)


def _in_steps(
    node: Node,
    data: Sequence[Stepped],
    scale: Tensor,
    values: Mapping[str, Tensor | Stepped],
    constants: Mapping[str, Array],
) -> Tensor:
    """Return what a node computes, over the scale of its result."""
    x = data[0]
    if node.op == "add":
        a, b = ((each.levels - each.zero) * (each.scale / scale) for each in data)
        return a + b
    if node.op == "mul":
        factor = (x.scale.double() * data[1].scale.double() / scale.double()).float()
        return (x.levels - x.zero) * (data[1].levels - data[1].zero) * factor
    if node.op in ("global_average_pool", "reduce_mean"):
        axes = [2, 3] if node.op == "global_average_pool" else ints(node, 1, constants)
        keep = node.op == "global_average_pool" or bool(node.attrs.get("keepdims", 1))
        sums = (x.levels - x.zero).double().sum(axes, keep).float()
        count = np.prod([x.levels.shape[axis] for axis in axes])
        return sums * ((x.scale / scale) / float(count))
    if node.op == "concat":
        return torch.cat([each.real() / scale for each in data], int(str(node.attrs["axis"])))
    floats = _floats(node, {**values, node.inputs[0]: x})
    return run_float(node, floats, constants)[0] / scale
