"""Start of a training from weights that shipped, whose batch normalisation was folded away."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from palmkit.engine.ir import Graph


@torch.no_grad()
def start_from(network: nn.Module, graph: Graph, images: Tensor, unit: float = 1.0) -> None:
    """Give a network the weights of the graph that was exported of one like it.

    Its convolutions take those of the graph in the order in which they run. A batch normalisation
    behind one takes the statistics that its outputs have on `images`, float32[n, c, h, w], and
    gives them back, so that training starts with what the graph computes.
    unit: what the graph's input is in units of the network's, by which the first weights are
    multiplied.
    Raises ValueError if the convolutions differ in number or shape.
    """
    convolutions = _in_order(network, images[:1])
    weights = _weights(graph)
    ours = [tuple(each.weight.shape) for each, _ in convolutions]
    theirs = [weight.shape for weight, _ in weights]
    if ours != theirs:
        raise ValueError(f"expected a model with convolutions of {ours}, got one with {theirs}")
    for index, ((convolution, norm), (weight, bias)) in enumerate(
        zip(convolutions, weights, strict=True)
    ):
        convolution.weight.copy_(torch.from_numpy(weight) * (1.0 if index else unit))
        if norm is None:
            assert convolution.bias is not None
            convolution.bias.copy_(torch.from_numpy(bias))
        else:
            assert norm.running_mean is not None and norm.running_var is not None
            norm.running_mean.zero_()
            norm.running_var.fill_(1 - norm.eps)
            norm.weight.fill_(1)
            norm.bias.copy_(torch.from_numpy(bias))
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def note(module: nn.Module, x: Tensor) -> None:
        if isinstance(module, nn.BatchNorm2d):
            seen[module] = (x.mean(dim=(0, 2, 3)), x.var(dim=(0, 2, 3)))

    _watch(network, images, note)
    for _, norm in convolutions:
        if norm is not None:
            mean, variance = seen[norm]
            assert norm.running_mean is not None and norm.running_var is not None
            norm.running_mean.copy_(mean)
            norm.running_var.copy_(variance)
            norm.weight.copy_((variance + norm.eps).sqrt())
            norm.bias.add_(mean)


def _watch(network: nn.Module, images: Tensor, note: Callable[[nn.Module, Tensor], None]) -> None:
    """Run the network as it is used, and tell each module and its input as they run."""
    hooks = [
        module.register_forward_pre_hook(lambda each, given: note(each, given[0]))
        for module in network.modules()
        if isinstance(module, (nn.Conv2d, nn.BatchNorm2d))
    ]
    was_training = network.training
    network.eval()(images)
    network.train(was_training)
    for hook in hooks:
        hook.remove()


def _in_order(
    network: nn.Module, image: Tensor
) -> Sequence[tuple[nn.Conv2d, nn.BatchNorm2d | None]]:
    """Return the convolutions in the order in which they run, each with its normalisation."""
    found: list[tuple[nn.Conv2d, nn.BatchNorm2d | None]] = []

    def note(module: nn.Module, _: Tensor) -> None:
        if isinstance(module, nn.Conv2d):
            found.append((module, None))
        elif isinstance(module, nn.BatchNorm2d):
            found[-1] = (found[-1][0], module)

    _watch(network, image, note)
    return found


def _weights(graph: Graph) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Return weight and bias of each convolution in order."""
    found: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
    for node in graph.nodes:
        if node.op == "conv":
            _, name, bias_name = (*node.inputs, "", "")[:3]
            weight = graph.constants[name].astype(np.float32)
            bias = graph.constants[bias_name] if bias_name else np.zeros(len(weight))
            found.append((weight, bias.astype(np.float32)))
    return found
