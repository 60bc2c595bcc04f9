"""Start of a training from weights that shipped, whose batch normalisation was folded away."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from palmkit.engine import convert
from palmkit.engine.ir import Graph

# Weight and bias of a layer; the bias is empty where there is none.
Weights: TypeAlias = tuple[NDArray[np.float32], NDArray[np.float32]]
LAYERS = frozenset({"conv", "fused_conv", "conv_transpose", "fused_conv_transpose", "gemm"})
AnyLayer: TypeAlias = nn.Conv2d | nn.ConvTranspose2d | nn.Linear


def start_from(
    network: nn.Module,
    graph: Graph,
    images: Tensor,
    unit: float = 1.0,
    apart: Collection[nn.Module] = (),
    grow: bool = False,
) -> None:
    """Give a network the weights of the graph that was exported of one like it; see start_with."""
    start_with(network, weights_of(graph), images, unit, apart, grow)


def start_from_file(network: nn.Module, path: str, draw: Callable[[], Tensor]) -> None:
    """Give a network the weights of a .palm that takes RGB 0..255; of no path, leave its own.

    draw: returns images of the training, float32[n, 3, h, w], RGB 0..1.
    """
    if path:
        with torch.no_grad():
            images = draw()
        start_from(network, convert(path), images, unit=255)


@torch.no_grad()
def start_with(
    network: nn.Module,
    weights: Sequence[Weights],
    images: Tensor,
    unit: float = 1.0,
    apart: Collection[nn.Module] = (),
    grow: bool = False,
) -> None:
    """Give a network the weights of layers whose normalisations were folded into them.

    Its convolutions and linear layers take them in the order in which they run. A batch
    normalisation behind one takes the statistics that its outputs have on `images`,
    float32[n, c, h, w], and gives them back, so that training starts with what they compute.
    unit: what their input is in units of the network's, by which the first weights are
    multiplied.
    apart: layers that stay as they are, such as those that only training has.
    grow: let layers have more channels or larger kernels than the weights, which then take the
    first channels and the middle of the kernels; other channels add nothing to theirs at first.
    Raises ValueError if the layers differ in number or shape.
    """
    layers = [each for each in _in_order(network, images[:1]) if each[0] not in apart]
    ours = [tuple(each.weight.shape) for each, _ in layers]
    theirs = [weight.shape for weight, _ in weights]
    if not (_hold(ours, theirs) if grow else ours == theirs):
        raise ValueError(f"expected a model with layers of {ours}, got one with {theirs}")
    for index, ((layer, norm), (weight, bias)) in enumerate(zip(layers, weights, strict=True)):
        first = slice(len(weight))
        layer.weight[first] = 0
        layer.weight[_middle(layer.weight.shape, weight.shape)] = torch.from_numpy(
            weight * np.float32(1.0 if index else unit)
        ).to(layer.weight)
        if norm is None:
            if layer.bias is not None:
                layer.bias[first] = torch.from_numpy(bias).to(layer.bias)
        else:
            assert norm.running_mean is not None and norm.running_var is not None
            norm.running_mean.zero_()
            norm.running_var.fill_(1 - norm.eps)
            norm.weight.fill_(1)
            norm.bias[first] = torch.from_numpy(bias).to(norm.bias)
    given: dict[nn.Module, int] = {
        norm: len(weight)
        for (_, norm), (weight, _) in zip(layers, weights, strict=True)
        if norm is not None
    }

    def give_statistics(norm: nn.Module, x: Tensor) -> None:
        if not isinstance(norm, nn.BatchNorm2d) or norm not in given:
            return
        mean, variance = x.mean(dim=(0, 2, 3)), x.var(dim=(0, 2, 3))
        assert norm.running_mean is not None and norm.running_var is not None
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)
        first = slice(given[norm])
        norm.weight[first] = (variance + norm.eps).sqrt()[first]
        norm.bias[first] += mean[first]

    _watch(network, images, give_statistics)


def _hold(ours: Sequence[tuple[int, ...]], theirs: Sequence[tuple[int, ...]]) -> bool:
    """Return whether layers of our shapes have room for weights of theirs."""
    return len(ours) == len(theirs) and all(
        len(large) == len(small) and all(a >= b for a, b in zip(large, small, strict=True))
        for large, small in zip(ours, theirs, strict=True)
    )


def _middle(large: Sequence[int], small: Sequence[int]) -> tuple[slice, ...]:
    """Return where weights lie in larger ones: first channels, middle of the kernel."""
    starts = [0 if axis < 2 else (large[axis] - size) // 2 for axis, size in enumerate(small)]
    return tuple(slice(start, start + size) for start, size in zip(starts, small, strict=True))


def _watch(network: nn.Module, images: Tensor, note: Callable[[nn.Module, Tensor], None]) -> None:
    """Run the network as it is used, and tell each module and its input as they run."""
    hooks = [
        module.register_forward_pre_hook(lambda each, given: note(each, given[0]))
        for module in network.modules()
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear, nn.BatchNorm2d))
    ]
    was_training = network.training
    network.eval()(images)
    network.train(was_training)
    for hook in hooks:
        hook.remove()


def _in_order(
    network: nn.Module, image: Tensor
) -> Sequence[tuple[AnyLayer, nn.BatchNorm2d | None]]:
    """Return the layers in the order in which they run, each with its normalisation."""
    found: list[tuple[AnyLayer, nn.BatchNorm2d | None]] = []

    def note(module: nn.Module, _: Tensor) -> None:
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
            found.append((module, None))
        elif isinstance(module, nn.BatchNorm2d):
            found[-1] = (found[-1][0], module)

    _watch(network, image, note)
    return found


def weights_of(graph: Graph) -> list[Weights]:
    """Return weight and bias of each convolution and linear layer in order.

    Integers become the numbers they mean; a linear layer's weight is [outputs, inputs].
    """
    meant = {node.outputs[0]: node for node in graph.nodes if node.op == "dequantize_linear"}

    def value(name: str) -> NDArray[np.float32]:
        if name not in meant:
            return graph.constants[name].astype(np.float32)
        node = meant[name]
        given, scale, *zero = (graph.constants[each].astype(np.float32) for each in node.inputs)
        shape = [1] * given.ndim
        if scale.ndim:
            axis = node.attrs.get("axis", 1)
            assert isinstance(axis, int)
            shape[axis] = -1
        shift = zero[0].reshape(shape) if zero else np.float32(0)
        return np.asarray((given - shift) * scale.reshape(shape), np.float32)

    found: list[Weights] = []
    for node in graph.nodes:
        if node.op in LAYERS:
            weight = value(node.inputs[1])
            if node.op == "gemm" and not node.attrs.get("transB", 0):
                weight = np.ascontiguousarray(weight.T)
            bias = next(iter(node.inputs[2:]), "")
            found.append((weight, value(bias) if bias else np.zeros(0, np.float32)))
    return found
