"""Neuron pruning: whole channels are removed, and the graph becomes narrower."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from palmkit.engine.compress.channel_rules import channels_of
from palmkit.engine.compress.channels import Channels
from palmkit.engine.compress.narrow import narrow
from palmkit.engine.compress.pipeline import State
from palmkit.engine.compress.tuning import within
from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Graph, Node, Type, fresh_name, value_names
from palmkit.engine.model import Model
from palmkit.engine.ops.traits import Layer
from palmkit.engine.passes.rewrite import input_at
from palmkit.engine.passes.weights import is_unscaled, kind_of
from palmkit.engine.shapes import with_input_shapes

ChannelMethod: TypeAlias = Literal["response", "magnitude"]
# A value keeps at least this share of its channels.
_LEAST_KEPT = 0.2
_MOST_OBSERVED = 24


@dataclass(frozen=True)
class Seen:
    """The mean and variance of each channel of a value, float64[channels]."""

    mean: Array
    variance: Array


def observe_channels(channels: Channels, samples: Sequence[Mapping[str, Array]]) -> dict[str, Seen]:
    """Return the statistics of the values whose channels weights read.

    Raises ShapeError without samples.
    """
    if not samples:
        raise ShapeError("samples: expected at least one, got none")
    graph = with_input_shapes(
        channels.graph, {name: np.shape(value) for name, value in samples[0].items()}
    )
    names = {graph.nodes[slot.node].inputs[0] for slot in channels.slots if slot.role == "reads"}
    watched = [name for name in names if name in channels.values and name not in graph.inputs]
    types = {name: Type("float32", ()) for name in watched}
    model = Model(replace(graph, outputs={**graph.outputs, **types}))
    sums = {name: np.zeros((2, len(channels.values[name].labels))) for name in watched}
    for sample in samples[:_MOST_OBSERVED]:
        found = model.run(sample)
        for name in watched:
            value = np.moveaxis(found[name], channels.values[name].axis, 0)
            rows = value.reshape(len(value), -1).astype(np.float64)
            sums[name] += rows.mean(1), np.square(rows).mean(1)
    seen: dict[str, Seen] = {}
    for name, (mean, square) in sums.items():
        count = len(samples[:_MOST_OBSERVED])
        seen[name] = Seen(mean / count, np.maximum(square / count - (mean / count) ** 2, 0))
    return seen


def channel_worth(
    channels: Channels, method: ChannelMethod = "magnitude", seen: Mapping[str, Seen] | None = None
) -> dict[int, float]:
    """Return the worth of each removable channel, by its root.

    "magnitude": the squares of all its weights, relative to the mean of their layer (Li et al.,
    Pruning Filters for Efficient ConvNets, 2017). "response": the share of the variance of the
    layers that read it that comes from it, by `seen`; its mean is no loss, since `compensated` adds
    it to their biases.
    """
    worth = dict.fromkeys(channels.free, 0.0)
    for slot in channels.slots:
        node = channels.graph.nodes[slot.node]
        if method == "response" and slot.role != "reads":
            continue
        weight = channels.graph.constants[node.inputs[slot.place]].astype(np.float64)
        others = tuple(axis for axis in range(weight.ndim) if axis != slot.axis)
        power = np.square(weight).sum(others)
        if method == "response":
            stats = None if seen is None else seen.get(node.inputs[0])
            power = power * stats.variance if stats is not None else power
            power /= max(float(power.sum()), 1e-30)
        else:
            power /= max(float(power.mean()), 1e-30)
        for root, value in zip(channels.roots(slot.labels).tolist(), power.tolist(), strict=True):
            if root in worth:
                worth[root] += value
    return worth


def channel_weights(channels: Channels) -> dict[int, int]:
    """Return how many elements of constants each removable channel would take with it.

    An element that is removed along both axes counts twice.
    """
    count = dict.fromkeys(channels.free, 0)
    for slot in channels.slots:
        value = channels.graph.constants[channels.graph.nodes[slot.node].inputs[slot.place]]
        each = value.size // max(len(slot.labels), 1)
        for root in channels.roots(slot.labels).tolist():
            if root in count:
                count[root] += each
    return count


def choose(channels: Channels, worth: Mapping[int, float], share: float) -> set[int]:
    """Return the channels that are worth least for their weights, to remove `share` of these.

    share: share of all elements of constants. Every value keeps a fifth of its channels.
    """
    cost = channel_weights(channels)
    total = sum(value.size for value in channels.graph.constants.values())
    left: dict[str, int] = {}
    least: dict[str, int] = {}
    inside: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for name, labelled in channels.values.items():
        left[name] = len(labelled.labels)
        least[name] = max(1, round(_LEAST_KEPT * left[name]))
        roots = Counter[int](channels.roots(labelled.labels).tolist())
        for root, times in roots.items():
            inside[root].append((name, times))
    gone: set[int] = set()
    freed = 0
    for root in sorted(worth, key=lambda each: worth[each] / max(cost[each], 1)):
        if freed >= share * total:
            break
        if all(left[name] - times >= least[name] for name, times in inside[root]):
            for name, times in inside[root]:
                left[name] -= times
            gone.add(root)
            freed += cost[root]
    return gone


def compensated(channels: Channels, gone: set[int], seen: Mapping[str, Seen]) -> Graph:
    """Return the graph with the mean contribution of the channels added to their readers' biases.

    Its channels have the labels of `channels`.
    """
    graph = channels.graph
    nodes, constants, taken = list(graph.nodes), dict(graph.constants), value_names(graph)
    for slot in channels.slots:
        node = nodes[slot.node]
        stats = seen.get(node.inputs[0])
        leaves = np.isin(channels.roots(slot.labels), list(gone))
        if slot.role != "reads" or stats is None or not leaves.any() or not _is_plain(node):
            continue
        weight = np.moveaxis(constants[node.inputs[1]].astype(np.float64), slot.axis, 0)
        added = np.tensordot(np.where(leaves, stats.mean, 0.0), weight, 1)
        added = added.reshape(len(added), -1).sum(1)
        bias = constants.get(input_at(node, 2))
        if bias is None and input_at(node, 2) or (bias is not None and bias.shape != added.shape):
            continue
        dtype = weight.dtype if bias is None else bias.dtype
        value = (added + (0 if bias is None else bias)).astype(
            constants[node.inputs[1]].dtype if bias is None else dtype
        )
        value.flags.writeable = False
        name = fresh_name(taken, input_at(node, 2) or f"{node.inputs[1]}/bias")
        constants[name] = value
        inputs = [*node.inputs, ""][: max(len(node.inputs), 3)]
        inputs[2] = name
        nodes[slot.node] = replace(node, inputs=tuple(inputs))
    read = {name for node in nodes for name in node.inputs}
    kept = {name: value for name, value in constants.items() if name in read}
    return graph.with_nodes(tuple(nodes), kept)


def _is_plain(node: Node) -> bool:
    """Return whether a layer's bias adds to its products equally everywhere."""
    if node.op == "gemm":
        return is_unscaled(node)
    return kind_of(node) is Layer.CONVOLUTION


def remove_unread(graph: Graph) -> Graph:
    """Return the graph without channels that only zero weights read; it gives the same numbers."""
    while True:
        channels = channels_of(graph)
        read: set[int] = set()
        for slot in channels.slots:
            if slot.role != "reads":
                continue
            weight = graph.constants[graph.nodes[slot.node].inputs[slot.place]]
            others = tuple(axis for axis in range(weight.ndim) if axis != slot.axis)
            used = (weight != 0).any(others)
            read.update(channels.roots(slot.labels)[used].tolist())
        gone = channels.free - read
        for labelled in channels.values.values():
            roots = set(channels.roots(labelled.labels).tolist())
            if roots and roots <= gone:
                gone.discard(min(roots))
        if not gone:
            return graph
        graph = narrow(channels, gone)


def prune_channels(
    graph: Graph,
    share: float,
    samples: Sequence[Mapping[str, Array]] = (),
    method: ChannelMethod = "response",
) -> Graph:
    """Remove the channels that matter least, with `share` (0..1) of all weights.

    samples: inputs to observe the channels with; without them the weights' magnitudes decide. Fewer
    are removed where a value would have under a fifth of its channels left.
    """
    channels = channels_of(graph)
    if not samples:
        return narrow(channels, choose(channels, channel_worth(channels), share))
    seen = observe_channels(channels, samples)
    gone = choose(channels, channel_worth(channels, method, seen), share)
    return narrow(channels_of(compensated(channels, gone, seen)), gone)


@dataclass
class NeuronPruning:
    """Rounds of pruning and fine-tuning, as long as the metric allows.

    part: share of the remaining weights to remove in each round. most: share of all weights. steps:
    number of fine-tuning steps after each round; 0 for none. rate: learning rate of Adam.
    """

    name: str = "neuron pruning"
    share: float = 1.0
    method: ChannelMethod = "response"
    part: float = 0.12
    most: float = 0.7
    steps: int = 120
    rate: float = 3e-4

    def apply(self, state: State) -> State:
        """Return the narrowest graph whose metric is not below the floor."""
        source = _elements(state.graph)
        best, part = state.graph, self.part
        notes: list[str] = []
        while part >= self.part / 4 and _elements(best) > (1 - self.most) * source:
            done = 1 - _elements(best) / source
            state.progress(done / self.most, f"{done:.0%} of the weights gone")
            thinner = prune_channels(best, part, state.samples, self.method)
            if _elements(thinner) == _elements(best):
                break
            allowed, note = within(thinner, state, self.steps, self.rate)
            notes += [note] if note and note not in notes else []
            if allowed is None:
                part /= 2
            else:
                best = allowed
        before, after = len(channels_of(state.graph).free), len(channels_of(best).free)
        notes.insert(0, f"{before - after} of {before} channels gone")
        return replace(state, graph=best).noted(*notes)


def _elements(graph: Graph) -> int:
    return sum(value.size for value in graph.constants.values())
