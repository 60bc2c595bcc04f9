"""Train the network of icons and make it small, in half an hour on a GPU.

`python -m palmkit.models.icons.squeeze OUT --minutes 27` draws the pictures, and goes on drawing
while it trains the float network and compresses it, our way and as Deep Compression does (Han et
al., 2015: rounds of pruning by each layer's deviation and retraining, then shared values that
learn). Ours: while the float network teaches, first channels, then weights leave gradually; those
left take few values, as many in each layer as a budget of bytes allows by their sensitivity, and
go on learning.

It writes the folded weights of each network to OUT/float.npz, OUT/baseline.npz and OUT/ours.npz,
and what each is worth on held-out pictures to OUT/results.json. Interrupted, or stopped by --pause,
it goes on from OUT when it is called again.
"""

from __future__ import annotations

import argparse
import copy
import math
import os
from collections.abc import Iterable
from pathlib import Path

import torch

from palmkit.models.icons.codebooks import add_codebooks, choose_bits, remove_codebooks
from palmkit.models.icons.draw import LOOKS
from palmkit.models.icons.fitting import Fitter, Paused, Recipe, tell
from palmkit.models.icons.network import DROPOUT, SqueezeNet, folded
from palmkit.models.icons.pruning import Masks, kept_share

# Shares of the time; they add up to one.
FLOAT, AGAIN = 0.24, 0.10
CHANNELS = 0.06
FIRST, LATER = (0.09, 0.05, 0.08), (0.03, 0.025, 0.035)
ROUND = (0.035, 0.015)
KEPT_CHANNELS = 0.6
# Share of the weights that are left, and bytes for them by their entropy when they become few
# values; as these learn on it grows by 2 to 3 %, and the file has 6,000 more.
OURS = ((0.075, 52_000), (0.055, 40_500), (0.042, 32_500))
BASELINE_DENSITIES = (0.33, 0.20, 0.10, 0.05)
BASELINE_BITS = 6
# Number of pictures that measure how sensitive a layer is.
JUDGES = 2048


def train_float(fitter: Fitter) -> SqueezeNet:
    """Train two cycles of the rate, the second lower: its gain tells if training has converged."""
    network: SqueezeNet = SqueezeNet().to(fitter.device)
    for parameter in network.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    fitter.fit("float", FLOAT, network, 4e-3, decay=0.02)
    fitter.note("cycles", "float, one cycle", folded(network))
    network.dropout.p = 0.0
    fitter.fit("float again", AGAIN, network, 1.5e-3, decay=0.02)
    fitter.note("float", "float", folded(network))
    return network


def shared(
    fitter: Fitter, name: str, share: float, network: SqueezeNet, bits: list[int], fixed: bool
) -> SqueezeNet:
    """Return a folded copy with codebooks, fine-tuned."""
    small: SqueezeNet = folded(network)
    # What was pruned stays zero: codebooks hold it there.
    add_codebooks(small, bits, fixed)
    small.dropout.p = 0.0
    fitter.fit(name, share, small, 3e-4 if fixed else 5e-4, decay=0.0)
    remove_codebooks(small)
    return small


def baseline(fitter: Fitter, network: SqueezeNet) -> None:
    """Run Deep Compression: rounds of pruning and retraining; shared weights after each."""
    network = copy.deepcopy(network)
    masks = Masks(network)
    bits = [BASELINE_BITS] * len(masks.weights)
    for density in BASELINE_DENSITIES:
        name = f"deep-compression-{density:g}"
        masks.keep_beyond(density)
        network.dropout.p = DROPOUT * density**0.5
        fitter.fit(f"{name} weights", ROUND[0], network, 1e-3, masks, decay=1e-4)
        tell(f"  weights {fitter.accuracy(network):.2f} % at density {masks.density:.4f}")
        small = shared(fitter, f"{name} values", ROUND[1], network, bits, fixed=True)
        fitter.note("baseline", name, small)


def prune_channels(fitter: Fitter, network: SqueezeNet) -> Masks:
    """Return a copy with fewer channels."""
    network = copy.deepcopy(network)
    network.dropout.p = 0.0
    masks = Masks(network)

    def narrow(progress: float) -> None:
        masks.keep_channels(kept_share(1.0, KEPT_CHANNELS, progress / 0.7))

    fitter.fit("channels", CHANNELS, network, 2e-3, masks, narrow, end=0.3)
    tell(f"  channels {fitter.accuracy(network):.2f} % at density {masks.density:.3f}")
    return masks


def ours(
    fitter: Fitter, masks: Masks, density: float, most_bytes: int, shares: tuple[float, ...]
) -> None:
    """Prune weights, and finish a copy: train it until it converges, and quantize it."""
    name = f"ours-{density:g}"
    network, begin = masks.network, masks.density

    def thin(progress: float) -> None:
        masks.keep_weights(kept_share(begin, density, progress / 0.8))

    fitter.fit(f"{name} weights", shares[0], network, 2e-3, masks, thin, end=0.4, decay=1e-4)
    finished = copy.deepcopy(network)
    held = Masks(finished)
    held.take(masks.weights)
    fitter.fit(f"{name} rest", shares[1], finished, 1e-3, held, decay=1e-4)
    tell(f"  weights {fitter.accuracy(finished):.2f} % at density {held.density:.4f}")

    def bits() -> list[int]:
        images, _ = fitter.train_set.varied(JUDGES)
        few: list[int] = choose_bits(folded(finished), images, most_bytes)
        return few

    chosen = fitter.remembered(f"{name} bits", bits)
    small = shared(fitter, f"{name} values", shares[2], finished, chosen, fixed=False)
    fitter.note("ours", name, small, bits=chosen)


def squeeze(fitter: Fitter) -> None:
    """Train and compress everything; our first network comes before the baseline."""
    network = train_float(fitter)
    fitter.teacher = folded(network)
    masks = prune_channels(fitter, network)
    ours(fitter, masks, *OURS[0], FIRST)
    teacher, fitter.teacher = fitter.teacher, None
    baseline(fitter, network)
    fitter.teacher = teacher
    for density, most_bytes in OURS[1:]:
        ours(fitter, masks, density, most_bytes, LATER)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    on_gpu, cores = torch.cuda.is_available(), os.cpu_count() or 1
    parser = argparse.ArgumentParser(description="train and compress the network of icons")
    parser.add_argument("out", type=Path, help="folder that takes the weights")
    parser.add_argument("--minutes", type=float, default=27.0, help="for all that is left to do")
    parser.add_argument("--pause", type=float, default=math.inf, help="minutes until it stops")
    parser.add_argument("--pictures", type=int, default=Recipe.pictures)
    parser.add_argument("--held-out", type=int, default=Recipe.held_out)
    parser.add_argument("--batch", type=int, default=Recipe.batch)
    parser.add_argument("--rate", type=float, default=Recipe.rate)
    parser.add_argument("--look", choices=tuple(LOOKS), default=Recipe.look)
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu")
    parser.add_argument(
        "--processes",
        type=int,
        default=max(cores - 2, 1) if on_gpu else 0,
        help="that draw new pictures while networks train",
    )
    options = parser.parse_args(None if arguments is None else list(arguments))
    options.out.mkdir(parents=True, exist_ok=True)
    device = torch.device(options.device)
    torch.backends.cudnn.benchmark = device.type == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = device.type == "cuda"
    recipe = Recipe(options.look, options.pictures, options.held_out, options.batch, options.rate)
    fitter = Fitter(recipe, device, options.out, options.minutes, options.pause, options.processes)
    try:
        squeeze(fitter)
    except Paused as name:
        tell(f"paused at {name}; the same command goes on from there")
    finally:
        fitter.painters.close()


if __name__ == "__main__":
    main()
