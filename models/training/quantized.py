"""Shared parts of the recipes' quantization-aware trainings: the start, the step and the file.

A trained float model is calibrated, then trained further with the recipe's own batches and loss, in
the arithmetic of the integer ops (fake_quant), at a small rate. With `--grid` it stays float, with
rounded weights (on_grid).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from palmkit.engine.compress.weights import BITS
from palmkit.engine.ir import Array, Graph, producers
from palmkit.models.training.fake_quant import FakeQuantized, calibrated
from palmkit.models.training.loop import Recipe, Trainer, train
from palmkit.models.training.on_grid import on_grid

CALIBRATION_PICTURES = 100


@dataclass(frozen=True)
class QuantizedRecipe(Recipe):
    """Hyperparameters of the training."""

    steps: int = 3_000
    batch: int = 128
    learning_rate: float = 3e-4
    weight_decay: float = 0.0
    warm_up: int = 100
    average: float = 0.995


def logits_of(graph: Graph, output: str) -> str:
    """Return the value that a sigmoid turns into an output, whatever moves it afterwards."""
    written = producers(graph)
    node = written[output]
    while node.op != "sigmoid":
        node = written[node.inputs[0]]
    return node.inputs[0]


def as_inputs(images: Tensor) -> Tensor:
    """Convert float32[n, 3, h, w] 0..1 to the graphs' inputs: float32[n, h, w, 3] 0..255."""
    return images.permute(0, 2, 3, 1) * 255


def calibration(draw: Callable[[int], Tensor], name: str = "image") -> list[dict[str, Array]]:
    """Return samples for a graph of one picture, drawn as in training: float32[n, 3, h, w]."""
    pictures = as_inputs(draw(CALIBRATION_PICTURES)).round().cpu().numpy()
    return [{name: picture[None]} for picture in pictures]


def read_quantized_options(
    description: str, arguments: Iterable[str] | None
) -> tuple[argparse.Namespace, QuantizedRecipe, torch.device]:
    """Parse the command line PACK MODEL OUT, --device, --minutes and the recipe's fields."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("pack", type=Path, help="folder written by dataset.py")
    parser.add_argument("model", type=Path, help="the float model")
    parser.add_argument("out", type=Path, help="folder of checkpoint.pt and of the model")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long")
    bits = range(2, BITS + 1)
    parser.add_argument(
        "--weight-bits", type=int, choices=bits, default=BITS, help="as in quantize"
    )
    parser.add_argument(
        "--grid", type=float, help="no int8: float32 with rounded weights, steps so wide"
    )
    default = QuantizedRecipe()
    for name in ("steps", "batch", "learning_rate", "average", "seed"):
        value = getattr(default, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    options = parser.parse_args(None if arguments is None else list(arguments))
    names = ("steps", "batch", "learning_rate", "average", "seed")
    recipe = QuantizedRecipe(**{name: getattr(options, name) for name in names})
    return options, recipe, torch.device(options.device)


def start(options: argparse.Namespace, draw: Callable[[int], Tensor]) -> FakeQuantized:
    """Return the float model of the options, with ranges or a grid by the crops of `draw`."""
    return rounding(options, calibration(draw))


def rounding(
    options: argparse.Namespace, samples: Sequence[Mapping[str, Array]], method: str = "kl"
) -> FakeQuantized:
    """Return the float model of the options, to be trained as int8 or on a grid.

    method: of ranges.
    """
    from palmkit.engine import load

    graph = load(options.model).graph
    if options.grid:
        return on_grid(graph, samples, options.grid)
    return calibrated(graph, samples, method, options.weight_bits)


def finish(trainer: Trainer, network: FakeQuantized, options: argparse.Namespace) -> Path:
    """Train and write the rounded model under the float model's name; return its path.

    network: the one with the trainer's averaged weights.
    """
    from palmkit.engine import save

    train(trainer, options.out, options.minutes)
    path: Path = options.out / options.model.name
    weights: Literal["smallest", "auto"] = "smallest" if options.grid else "auto"
    save(network.eval().quantized(), path, weights=weights, shapes=[])
    return path
