"""Fit what was trained on hard pictures to plain ones, and compress further, on a CPU.

`python -m palmkit.models.icons.adapt START OUT --minutes 30` takes squeeze.py's folder START and
writes the same files to OUT. The float network goes on learning from START/float.npz. Deep
Compression prunes it in rounds. Ours goes on from START/ours.npz's network with most weights: the
float network teaches while weights leave gradually and then take few values. Minutes are those that
the process computed, without drawing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import torch

from palmkit.models.icons import squeeze
from palmkit.models.icons.export import networks
from palmkit.models.icons.network import SqueezeNet, folded, restored, unfolded
from palmkit.models.icons.pruning import Masks, kept_share, narrowed
from palmkit.models.icons.squeeze import Recipe, Squeezer, shared, tell

# Shares of the time.
FLOAT, BASELINE, WEIGHTS, FINISH, VALUES = (0.22, 0.10), 0.10, 0.26, 0.17, 0.15
# Layers with fewer weights left than FEWEST get more values.
DENSITY, BITS, FEWEST = 0.077, 4, 1500
STATISTICS = 1000


def begin(squeezer: Squeezer, path: Path, name: str) -> SqueezeNet:
    """A network of squeeze.py, with normalisations that fit the squeezer's pictures."""
    images, _ = squeezer.train_set.varied(STATISTICS)
    network: SqueezeNet = unfolded(restored(networks(path)[name]).to(squeezer.device), images)
    return network


def ours(squeezer: Squeezer, network: SqueezeNet, size: int) -> None:
    """Weights, values. size: of the whole network, in weights."""
    network = narrowed(network)
    network.dropout.p = 0.0
    masks = Masks(network)
    for mask, conv in zip(masks.weights, network.convolutions(), strict=True):
        mask.copy_(conv.weight != 0)
    masks.settle()
    most, least = masks.density, DENSITY * size / masks.size

    def thin(progress: float) -> None:
        masks.keep_weights(kept_share(most, least, progress / 0.8))

    squeezer.fit(network, WEIGHTS, 1.5e-3, masks, thin, end=0.05, decay=1e-4)
    tell(f"  weights {squeezer.accuracy(network):.2f} %")
    # Pictures are shifted round their edges, which no test picture is.
    squeezer.train_set.most_shifted = 0
    squeezer.fit(network, FINISH, 1e-3, masks, decay=1e-4)
    tell(f"  weights {squeezer.accuracy(network):.2f} %")
    small = shared(squeezer, network, BITS, VALUES, fixed=False, fewest=FEWEST)
    squeezer.note("ours", f"ours-{DENSITY:g}-{BITS}", small, bits=BITS)


def main(arguments: Iterable[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="fit the network of icons to plain pictures")
    parser.add_argument("start", type=Path, help="folder of squeeze.py's weights")
    parser.add_argument("out", type=Path, help="folder that takes the weights")
    parser.add_argument("--minutes", type=float, default=30.0, help="for all but drawing")
    parser.add_argument("--pictures", type=int, default=60_000)
    parser.add_argument("--held-out", type=int, default=4_000)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args(None if arguments is None else list(arguments))
    options.out.mkdir(parents=True, exist_ok=True)
    # The rates below are for batches of this size.
    recipe = Recipe("plain", options.pictures, options.held_out, options.batch)
    squeezer = Squeezer(recipe, torch.device("cpu"), options.out, options.minutes)
    squeezer.seconds = 60 * options.minutes
    network = begin(squeezer, options.start / "float.npz", "float")
    tell(f"  {squeezer.accuracy(network):.2f} %")
    for share, rate in zip(FLOAT, (1.5e-3, 1e-3), strict=True):
        squeezer.fit(network, share, rate, decay=0.02)
        tell(f"  {squeezer.accuracy(network):.2f} %")
    plain = folded(network)
    squeezer.note("float", "float", plain)
    squeeze.baseline(squeezer, network, BASELINE)
    squeezer.teacher = plain
    name = next(iter(networks(options.start / "ours.npz")))
    size = Masks(network).size
    ours(squeezer, begin(squeezer, options.start / "ours.npz", name), size)


if __name__ == "__main__":
    main()
