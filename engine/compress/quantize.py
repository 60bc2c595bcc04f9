"""Post-training quantization: from a float graph and some samples to a graph of int8 layers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from palmkit.engine.compress.bias_correction import correct_biases
from palmkit.engine.compress.equalise import equalise
from palmkit.engine.compress.observe import checked_samples, observe
from palmkit.engine.compress.placement import (
    Candidates,
    Placement,
    data_inputs,
    is_layer,
    place,
)
from palmkit.engine.compress.ranges import METHODS, Range, ranges_of
from palmkit.engine.compress.weights import (
    BITS,
    WEIGHT_METHODS,
    as_rows,
    bias_levels,
    check_finite,
    levels_of,
    most_level,
    output_axis,
    weight_scales,
)
from palmkit.engine.errors import QuantizationError
from palmkit.engine.ir import Array, Attr, Graph, Node, Type, fresh_name, value_names
from palmkit.engine.ops import traits_of
from palmkit.engine.ops.fused_conv import parameters_of
from palmkit.engine.passes import optimise


@dataclass(frozen=True)
class Settings:
    """Options of `quantize`.

    method: how the range of an activation is chosen, one of ranges.METHODS; graph inputs keep their
    whole range. weights: how the scale of weights is chosen, one of weights.WEIGHT_METHODS.
    weight_bits: 2..8; fewer levels run no faster, but an entropy-coded file of them is smaller.
    Outputs of few weights (depthwise convolutions) keep 8.
    equalised: whether channels get similar ranges first (equalise). corrected: whether biases
    compensate the mean error of the rounded weights (bias_correction).
    Raises ValueError for an unknown method or bits out of range.
    """

    method: str = "percentile"
    weights: str = "max"
    weight_bits: int = BITS
    equalised: bool = True
    corrected: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown method or bits out of range."""
        for what, known, got in (
            ("method", METHODS, self.method),
            ("weights", WEIGHT_METHODS, self.weights),
        ):
            if got not in known:
                raise ValueError(f"{what}: expected one of {', '.join(known)}, got {got!r}")
        if not 2 <= self.weight_bits <= BITS:
            raise ValueError(f"weight_bits: expected 2..{BITS}, got {self.weight_bits}")


def quantize(
    graph: Graph,
    samples: Iterable[Mapping[str, Array]],
    *,
    settings: Settings | None = None,
    keep: Collection[str] = (),
    **changed: Any,
) -> Graph:
    """Return the graph with integer layers between quantize_linear and dequantize_linear nodes.

    Weights become int8, symmetric, with a scale for each output channel; values between layers
    become uint8 with a zero point; biases become int32. Inputs and outputs of the graph stay as
    they are, and so do nodes that no integer layer follows.
    samples: dicts of an array for each input name, as the model takes them; 20 to 500 are usual.
    keep: nodes that stay float, by name or first output in the prepared graph.
    changed: fields of Settings: quantize(graph, samples, method="kl").
    Raises QuantizationError for samples that do not fit or cannot calibrate, for weights or values
    that are not finite, and if no layer can be quantized.
    """
    how = replace(settings or Settings(), **changed)
    return Quantizer(graph, samples, how, keep).quantized()


class Quantizer:
    """A float graph that is prepared and was seen on samples once, to be quantized in many ways.

    graph: the prepared graph, with equal channels where the settings say so; it gives the same
    numbers. samples: those that were seen. settings: the options. candidates: its nodes that can
    compute with integers.
    """

    def __init__(
        self,
        graph: Graph,
        samples: Iterable[Mapping[str, Array]],
        settings: Settings | None = None,
        keep: Collection[str] = (),
    ) -> None:
        """Run the graph on the samples; arguments and errors as of `quantize`."""
        self.settings = settings or Settings()
        plain = prepare(graph)
        self.samples = checked_samples(plain, samples)
        self._keep = frozenset(keep)
        self._whole = place(plain, keep)
        if not self._whole.nodes:
            raise QuantizationError("no layer can be quantized: expected one with constant weights")
        if self.settings.equalised:
            reach = observe(plain, self.samples, self._whole.values, ranges=False)
            plain = equalise(plain, reach)
        self.graph = plain
        self.candidates = Candidates(plain)
        self.seen = observe(plain, self.samples, self._whole.values)
        self._ranges: dict[str, dict[str, Range]] = {}

    def quantized(self, keep: Collection[str] = (), method: str = "") -> Graph:
        """Return the graph in integers.

        keep: nodes that stay float, beside those given at first. method: how ranges are chosen;
        left out, as the settings say.
        Raises QuantizationError if no layer is left.
        """
        how, method = self.settings, method or self.settings.method
        placement = self.candidates.place(self._keep | frozenset(keep))
        if not placement.nodes:
            raise QuantizationError("no layer is left to be quantized")
        plain = self.graph
        if how.corrected:
            plain = correct_biases(plain, placement, self.seen, how.weights, how.weight_bits)
        return write(plain, placement, self.ranges(placement, method), how.weights, how.weight_bits)

    def ranges(self, placement: Placement, method: str) -> dict[str, Range]:
        """Return the ranges of a placement's values by a method of `ranges`."""
        if method not in self._ranges:
            self._ranges[method] = ranges_of(self._whole, self.seen, method)
        known = self._ranges[method]
        return {owner: known[owner] for owner in placement.values.values()}


def prepare(graph: Graph) -> Graph:
    """Return the float graph as it is quantized: optimised, with activations split off.

    Activations that are clamps stay in their layers.
    Raises QuantizationError for weights that are not finite.
    """
    check_finite(graph)
    return split_activations(optimise(graph))


def split_activations(graph: Graph) -> Graph:
    """Split activations that are no clamp, and so need a table, from their layers."""
    taken = value_names(graph)
    constants = dict(graph.constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        activation = node.text("activation") if traits_of(node.op).is_fused else ""
        if not activation or traits_of(activation).bounds is not None:
            nodes.append(node)
            continue
        params = node.numbers("activation_params")
        attrs = {
            key: value
            for key, value in node.attrs.items()
            if key not in ("activation", "activation_params")
        }
        inner = fresh_name(taken, f"{node.outputs[0]}.conv")
        others = len(node.inputs) - (activation == "prelu")
        slope = node.inputs[others:]
        nodes.append(replace(node, inputs=node.inputs[:others], outputs=(inner,), attrs=attrs))
        named: dict[str, Attr] = dict(zip(parameters_of(activation), params, strict=True))
        nodes.append(Node(str(activation), (inner, *slope), node.outputs, named, node.name))
    return graph.with_nodes(tuple(nodes), constants)


@dataclass(frozen=True)
class Levels:
    """The uint8 levels of a value: number = (level - zero) * scale."""

    scale: np.float32
    zero: int

    @staticmethod
    def over(low: float, high: float) -> Levels:
        """Return the levels of a range, widened to hold zero, which is a level itself."""
        low, high = min(float(low), 0.0), max(float(high), 0.0)
        scale = np.float32((high - low) / 255)
        if not scale > np.finfo(np.float32).tiny:
            return Levels(np.float32(1 / 255), 0)
        return Levels(scale, int(np.clip(np.rint(-low / scale), 0, 255)))


def write(
    graph: Graph,
    placement: Placement,
    ranges: Mapping[str, Range],
    weights: str = "max",
    weight_bits: int = BITS,
) -> Graph:
    """Return a prepared graph with its chosen values rounded to levels over these ranges."""
    levels = {name: Levels.over(*ranges[owner]) for name, owner in placement.values.items()}
    writer = _Writer(graph, levels, weights, weight_bits)
    for name in graph.inputs:
        writer.round(name)
    for node in graph.nodes:
        writer.visit(node, node.outputs[0] in placement.nodes)
    return writer.finish()


def write_switched(quantizer: Quantizer, method: str) -> tuple[Graph, dict[str, str]]:
    """Return a quantizer's graph with a switch for each layer, and the switches' names.

    A switch is an input, float32[1]: at 0 its layer computes with floats, at 1 from rounded
    numbers with rounded weights. The names are by the layers' first outputs.
    """
    graph, how = quantizer.graph, quantizer.settings
    placement = quantizer.candidates.place()
    rounded = graph
    if how.corrected:
        rounded = correct_biases(graph, placement, quantizer.seen, how.weights, how.weight_bits)
    ranges = quantizer.ranges(placement, method)
    levels = {name: Levels.over(*ranges[owner]) for name, owner in placement.values.items()}
    writer = _Writer(
        rounded.with_nodes(rounded.nodes, {**graph.constants, **rounded.constants}),
        levels,
        how.weights,
        how.weight_bits,
    )
    switches: dict[str, str] = {}
    for name in graph.inputs:
        writer.round(name)
    for node, integer in zip(graph.nodes, rounded.nodes, strict=True):
        if is_layer(node.op) and node.outputs[0] in placement.nodes:
            switches[node.outputs[0]] = writer.switch(node, integer)
        else:
            writer.nodes.append(node)
        for name in node.outputs:
            writer.round(name)
    found = writer.finish()
    types = {name: Type("float32", (1,)) for name in switches.values()}
    return replace(found, inputs={**found.inputs, **types}), switches


@dataclass
class _Writer:
    """The nodes and constants of the quantized graph written so far."""

    graph: Graph
    levels: Mapping[str, Levels]
    weights: str
    weight_bits: int
    nodes: list[Node] = field(default_factory=list[Node])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    rounded: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.taken = value_names(self.graph)

    def constant(self, stem: str, value: Array) -> str:
        name = fresh_name(self.taken, stem)
        value = np.array(value, order="C")
        value.flags.writeable = False
        self.constants[name] = value
        return name

    def round(self, name: str, written: str = "") -> None:
        """Write the levels of a value and back.

        written: the name that holds the value so far, if not its own.
        """
        levels = self.levels.get(name)
        if levels is None:
            return
        scale = self.constant(f"{name}.scale", np.asarray(levels.scale, np.float32))
        zero = self.constant(f"{name}.zero", np.asarray(levels.zero, np.uint8))
        inner = fresh_name(self.taken, f"{name}.levels")
        outer = name if written else fresh_name(self.taken, f"{name}.rounded")
        self.nodes.append(Node("quantize_linear", (written or name, scale, zero), (inner,)))
        self.nodes.append(Node("dequantize_linear", (inner, scale, zero), (outer,)))
        self.rounded[name] = outer

    def visit(self, node: Node, is_integer: bool) -> None:
        """Write a node with rounded inputs; a graph output keeps its name after rounding."""
        inputs = [self.rounded.get(name, name) for name in node.inputs]
        if is_integer:
            inputs = self._parameters(node, inputs)
        hidden = {
            name: fresh_name(self.taken, f"{name}.float")
            for name in node.outputs
            if name in self.levels and name in self.graph.outputs
        }
        outputs = tuple(hidden.get(name, name) for name in node.outputs)
        self.nodes.append(replace(node, inputs=tuple(inputs), outputs=outputs))
        for name in node.outputs:
            self.round(name, hidden.get(name, ""))

    def switch(self, node: Node, integer: Node) -> str:
        """Write a layer with floats and with rounded numbers; return the input that chooses."""
        y = node.outputs[0]
        names = ("float", "integer", "difference", "some", "switch")
        real, whole, difference, some, switch = (
            fresh_name(self.taken, f"{y}.{each}") for each in names
        )
        inputs = self._parameters(integer, [self.rounded.get(i, i) for i in integer.inputs])
        self.nodes += [
            replace(node, outputs=(real,)),
            replace(integer, inputs=tuple(inputs), outputs=(whole,)),
            Node("sub", (whole, real), (difference,)),
            Node("mul", (difference, switch), (some,)),
            Node("add", (real, some), (y,)),
        ]
        return switch

    def _parameters(self, node: Node, inputs: list[str]) -> list[str]:
        """Return the inputs with weights and other constants behind dequantize_linear."""
        if is_layer(node.op):
            return self._layer(node, inputs)
        for each in data_inputs(node):
            value = self.graph.constants.get(node.inputs[each])
            if value is not None:
                inputs[each] = self._constant_levels(node.inputs[each], value)
        return inputs

    def _layer(self, node: Node, inputs: list[str]) -> list[str]:
        name, bias_name = node.inputs[1], (*node.inputs, "")[2]
        value = self.graph.constants[name]
        bias = self.graph.constants[bias_name] if bias_name else None
        axis = output_axis(node)
        rows = as_rows(value, axis)
        unit = self.levels[node.inputs[0]].scale
        most = most_level(rows.shape[1], self.weight_bits)
        scales = weight_scales(rows, bias, float(unit), self.weights, most)
        levels = np.moveaxis(
            levels_of(rows, scales, most).reshape(np.moveaxis(value, axis, 0).shape), 0, axis
        )
        inputs[1] = self._dequantized(name, levels.astype(np.int8), scales, axis)
        if bias is not None:
            shifted, scale = bias_levels(bias, unit, scales)
            inputs[2] = self._dequantized(bias_name, shifted, scale, 0)
        return inputs

    def _constant_levels(self, name: str, value: Array) -> str:
        levels = Levels.over(float(value.min()), float(value.max()))
        whole = np.rint(value.astype(np.float64) / levels.scale) + levels.zero
        scale = np.asarray(levels.scale, np.float32)
        return self._dequantized(
            name, np.clip(whole, 0, 255).astype(np.uint8), scale, None, levels.zero
        )

    def _dequantized(
        self, stem: str, levels: Array, scale: Array, axis: int | None, zero: int = 0
    ) -> str:
        inputs = [self.constant(f"{stem}.levels", levels), self.constant(f"{stem}.scale", scale)]
        if zero or axis is None:
            inputs.append(self.constant(f"{stem}.zero", np.asarray(zero, levels.dtype)))
        output = fresh_name(self.taken, f"{stem}.rounded")
        attrs = {} if axis is None else {"axis": axis}
        self.nodes.append(Node("dequantize_linear", tuple(inputs), (output,), attrs))
        return output

    def finish(self) -> Graph:
        """Return the graph with the constants that are read."""
        read = {name for node in self.nodes for name in node.inputs} | {*self.graph.outputs}
        constants = {
            name: value
            for name, value in {**self.graph.constants, **self.constants}.items()
            if name in read
        }
        return self.graph.with_nodes(tuple(self.nodes), constants)
