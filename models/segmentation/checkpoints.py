"""Mask networks of files: of a training's checkpoint, or of a model that shipped."""

from __future__ import annotations

from pathlib import Path

import torch

from palmkit.models.segmentation.guide import folded
from palmkit.models.segmentation.network import WIDTHS, MaskNetwork, Widths
from palmkit.models.training.start import start_from

# Which sizes there are, whatever views they learn from.
SHAPES: tuple[Widths, ...] = tuple({each._replace(side=0): None for each in WIDTHS.values()})


def is_network(state: dict[str, torch.Tensor]) -> bool:
    """Return whether a checkpoint's weights are of a mask network, and of no guide."""
    return not any(name.startswith("teacher.") for name in state)


def read_network(path: Path) -> MaskNetwork:
    """Return the network of a file, for inference, its normalisations folded into convolutions.

    path: a checkpoint, of which the averaged weights are taken, or a .palm; of a network of any
    size in WIDTHS. Raises ValueError if it is of none.
    """
    if path.suffix == ".palm":
        return folded(_of_model(path))
    return network_of(torch.load(path, map_location="cpu", weights_only=True)["averaged"], path)


def network_of(state: dict[str, torch.Tensor], path: Path) -> MaskNetwork:
    """Return the network of a checkpoint's averaged weights, as `read_network` does of its file."""
    shapes = {name: value.shape for name, value in state.items()}
    for widths in SHAPES:
        for network in (MaskNetwork(widths), folded(MaskNetwork(widths))):
            if shapes == {name: value.shape for name, value in network.state_dict().items()}:
                network.load_state_dict(state)
                return folded(network)
    raise ValueError(f"{path}: expected a checkpoint of a mask network, got one of something else")


def _of_model(path: Path) -> MaskNetwork:
    from palmkit.engine import convert

    graph = convert(path)
    for widths in SHAPES:
        network = MaskNetwork(widths)
        try:
            start_from(
                network.eval(), graph, torch.rand(2, 3, 64, 64), 255, apart=(network.coarse,)
            )
        except ValueError:
            continue
        # What only training has starts neutral.
        torch.nn.init.zeros_(network.coarse.weight)
        return network
    raise ValueError(f"{path}: expected a model of a mask network, got one of something else")
