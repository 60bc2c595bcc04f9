"""Train the network of icons and make it small, in minutes on a GPU.

`python -m palmkit.models.icons.squeeze OUT --minutes 8` draws the pictures, trains the float
network, compresses it as Deep Compression does (prune and retrain in rounds, share weights, learn
the shared values; Han et al., 2015), then our way: channels, then weights are pruned gradually
while the float network teaches, then weights are given few values that go on learning. It writes
the folded weights of each network to OUT/float.npz, OUT/baseline.npz and OUT/ours.npz, and what
each is worth to OUT/results.json.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from palmkit.models.icons.codebooks import add_codebooks, entropy_bytes, remove_codebooks
from palmkit.models.icons.draw import LOOKS, draw_set
from palmkit.models.icons.network import DROPOUT, SqueezeNet, folded
from palmkit.models.icons.pruning import Masks, kept_share
from palmkit.models.training.loop import Recorded

Weights: TypeAlias = dict[str, NDArray[np.float32]]
TRAIN_SEED, HELD_OUT_SEED = 1, 2
# Shares of the time.
FLOAT, AGAIN, BASELINE, CHANNELS, WEIGHTS, FINISH = 0.30, 0.14, 0.13, 0.08, 0.14, 0.21
BASELINE_DENSITIES = (0.33, 0.20, 0.12, 0.08)
BASELINE_BITS = 6
KEPT_CHANNELS = 0.6
DENSITIES = (0.10, 0.07, 0.05)
BITS = (4,)
RENEW_EVERY, SEEN_EVERY = 25, 5


@dataclass(frozen=True)
class Recipe:
    """What decides the weights. rate: of the float network's first cycle; others follow it."""

    look: str = "hard"
    pictures: int = 120_000
    held_out: int = 20_000
    batch: int = 512
    rate: float = 4e-3
    seed: int = 1


class Pictures:
    """A set on the device."""

    def __init__(self, drawn: tuple[Any, Any], device: torch.device) -> None:
        """drawn: as draw_set's."""
        self.pictures = torch.from_numpy(drawn[0]).to(device)
        self.kinds = torch.from_numpy(drawn[1]).to(device)
        self.most_shifted = 6

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Images float32[n, 3, 96, 96], 0..255, and classes."""
        images = self.pictures[rows].permute(0, 3, 1, 2).float()
        return images, self.kinds[rows]

    def varied(self, count: int) -> tuple[Tensor, Tensor]:
        """A batch drawn at random, mirrored, shifted, in other colours."""
        device = self.kinds.device
        rows = torch.randint(len(self.kinds), (count,), device=device)
        images = self.pictures[rows]

        def chance() -> Tensor:
            return torch.rand(count, 1, 1, 1, device=device) < 0.5

        # Bytes, and as they lie: channels last.
        images = torch.where(chance(), images.flip(2), images)
        images = torch.where(chance(), ~images, images)
        images = torch.where(chance(), images.roll(1, 3), images)
        images = torch.where(chance(), images.flip(3), images)
        size = images.shape[1]
        most = self.most_shifted
        shifts = torch.randint(-most, most + 1, (2, 1), device=device)
        down, right = shifts + torch.arange(size, device=device)
        images = images[:, down % size][:, :, right % size]
        return images.permute(0, 3, 1, 2).float(), self.kinds[rows]


class Squeezer:
    """Trains networks on one set for given times."""

    def __init__(self, recipe: Recipe, device: torch.device, out: Path, minutes: float) -> None:
        """minutes: for drawing and everything after it. out: folder of what is kept."""
        self.recipe, self.device, self.out = recipe, device, out
        self.fast = device.type == "cuda"
        self.half = self.fast or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
        # Of a CPU only what was spent here counts.
        self.clock = time.monotonic if self.fast else time.process_time
        # Drawn by other processes, so before the device is in use.
        look = LOOKS[recipe.look]
        held_out = draw_set(HELD_OUT_SEED, recipe.held_out, look)
        self.train_set = Pictures(draw_set(TRAIN_SEED, recipe.pictures, look), device)
        self.held_out = Pictures(held_out, device)
        self.teacher: SqueezeNet | None = None
        self.results: list[dict[str, object]] = []
        self.kept: dict[str, Weights] = {}
        # What drawing took is gone; measuring takes some too.
        self.seconds = max(60 * minutes - (time.monotonic() - BEGAN), 1.0) * 0.97
        tell(f"{recipe.pictures} pictures drawn")
        torch.manual_seed(recipe.seed)

    def fit(
        self,
        network: SqueezeNet,
        share: float,
        rate: float,
        masks: Masks | None = None,
        change: Callable[[float], None] | None = None,
        end: float = 0.0,
        decay: float = 0.01,
    ) -> None:
        """Train for a share of the time; the rate ends at `end` times what it begins with.

        change: called now and then with the progress, 0..1, to prune further.
        """
        network.train()
        rate *= self.recipe.rate / Recipe.rate
        optimiser, speed = self.optimiser(network, rate, decay)
        watched = masks is not None and change is not None

        def move() -> Tensor:
            images, kinds = self.train_set.varied(self.recipe.batch)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
                logits = network(images)
                wanted = None if self.teacher is None else self.word(images)
            loss = _loss(logits.float(), kinds, wanted)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            if masks is not None and watched:
                masks.watch()
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimiser.step()
            if masks is not None:
                masks.apply()
            return loss.detach()

        work = self.recorded(move)
        began, budget, step, total = self.clock(), share * self.seconds, 0, 0.0
        while (progress := (self.clock() - began) / budget) < 1:
            cosine = 0.5 + 0.5 * math.cos(math.pi * progress)
            now = rate * min(1.0, (step + 1) / 100) * (end + (1 - end) * cosine)
            speed.fill_(now)
            for group in optimiser.param_groups:
                group["lr"] = speed if self.fast else now
            loss = work()
            if change is not None and step % RENEW_EVERY == 0:
                change(progress)
            step += 1
            if step % SEEN_EVERY == 0:
                total += 0.1 * (float(loss) - total) if total else float(loss)
        if change is not None:
            change(1.0)
        tell(f"  {step} steps, loss {total:.4f}")

    def recorded(self, move: Callable[[], Tensor]) -> Recorded:
        """The step, recorded once where that can be done."""
        work = Recorded(move, self.fast)
        try:
            work()
        except RuntimeError as error:
            tell(f"  not recorded: {error}")
            torch.cuda.synchronize()
            work = Recorded(move, False)
        return work

    def optimiser(
        self, network: SqueezeNet, rate: float, decay: float
    ) -> tuple[torch.optim.Optimizer, Tensor]:
        """AdamW, and its rate where it is read on a GPU."""
        speed = torch.tensor(rate, device=self.device)
        trained = [p for p in network.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in trained if p.dim() > 1], "weight_decay": decay},
            {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(
            groups, lr=speed if self.fast else rate, fused=self.fast, capturable=self.fast
        ), speed

    @torch.no_grad()
    def word(self, images: Tensor) -> Tensor:
        """The float network's logits."""
        assert self.teacher is not None
        logits: Tensor = self.teacher(images)
        return logits.float()

    @torch.no_grad()
    def accuracy(self, network: SqueezeNet) -> float:
        """Share of the held-out pictures that it names, in percent."""
        network.eval()
        right = 0
        # Each size is met a few times only.
        tuned, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
        everything = torch.arange(len(self.held_out.kinds), device=self.device)
        for first in range(0, len(everything), 1000):
            rows = everything[first : first + 1000]
            images, kinds = self.held_out.batch(rows)
            right += int((network(images).argmax(1) == kinds).sum())
        torch.backends.cudnn.benchmark = tuned
        return 100 * right / len(everything)

    def note(self, group: str, name: str, network: SqueezeNet, **more: float) -> None:
        """Measure a folded network and write it to out/group.npz with the others of the group."""
        weights = [conv.weight for conv in network.convolutions()]
        there = sum(int((weight != 0).sum()) for weight in weights)
        result: dict[str, object] = {
            "name": name,
            "accuracy": self.accuracy(network),
            "density": there / sum(weight.numel() for weight in weights),
            "entropy_bytes": round(entropy_bytes(network)),
            **more,
        }
        self.results.append(result)
        tell(json.dumps(result))
        kept = self.kept.setdefault(group, {})
        for key, value in network.state_dict().items():
            kept[f"{name}/{key}"] = value.detach().cpu().numpy()
        arrays: dict[str, Any] = dict(kept)
        np.savez_compressed(self.out / f"{group}.npz", **arrays)
        listed = json.dumps(self.results, indent=1)
        (self.out / "results.json").write_text(listed + "\n")


def _loss(logits: Tensor, kinds: Tensor, wanted: Tensor | None) -> Tensor:
    """Cross entropy with the classes, and with the teacher's word where there is one."""
    truth = functional.cross_entropy(logits, kinds)
    if wanted is None:
        return truth
    heat = 2.0
    word = functional.kl_div(
        (logits / heat).log_softmax(1), (wanted / heat).log_softmax(1), None, None,
        "batchmean", log_target=True,
    )  # fmt: skip
    return 0.3 * truth + 0.7 * heat * heat * word


def shared(
    squeezer: Squeezer,
    network: SqueezeNet,
    bits: int,
    share: float,
    fixed: bool,
    fewest: int = 0,
) -> SqueezeNet:
    """A folded copy with codebooks, fine-tuned; fewest: as add_codebooks has it."""
    small: SqueezeNet = folded(network)
    masks = Masks(small)
    for mask, conv in zip(masks.weights, small.convolutions(), strict=True):
        mask.copy_(conv.weight != 0)
    masks.settle()
    add_codebooks(small, bits, fixed, fewest)
    small.dropout.p = 0.0
    # The masks are the codebooks' own from here on.
    squeezer.fit(small, share, 3e-4 if fixed else 5e-4, decay=0.0)
    remove_codebooks(small)
    return small


def baseline(squeezer: Squeezer, network: SqueezeNet, share: float = BASELINE) -> None:
    """Deep Compression: rounds of pruning and retraining; shared weights after each."""
    network = copy.deepcopy(network)
    masks = Masks(network)
    each = share / len(BASELINE_DENSITIES)
    for density in BASELINE_DENSITIES:
        masks.keep_beyond(density)
        network.dropout.p = DROPOUT * density**0.5
        squeezer.fit(network, 0.7 * each, 1e-3, masks, decay=1e-4)
        small = shared(squeezer, network, BASELINE_BITS, 0.3 * each, fixed=True)
        name = f"deep-compression-{density:g}"
        squeezer.note("baseline", name, small, bits=BASELINE_BITS)


def ours(squeezer: Squeezer, network: SqueezeNet) -> None:
    """Channels, weights, values; a network is finished at each density on the way."""
    squeezer.teacher = folded(network)
    network = copy.deepcopy(network)
    network.dropout.p = 0.0
    masks = Masks(network)

    def narrow(progress: float) -> None:
        masks.keep_channels(kept_share(1.0, KEPT_CHANNELS, progress / 0.7))

    squeezer.fit(network, CHANNELS, 2e-3, masks, narrow, end=0.3)
    tell(f"  channels {squeezer.accuracy(network):.2f} % at density {masks.density:.3f}")
    begin = masks.density
    for density in DENSITIES:

        def thin(progress: float, begin: float = begin, density: float = density) -> None:
            masks.keep_weights(kept_share(begin, density, progress / 0.8))

        squeezer.fit(network, WEIGHTS / len(DENSITIES), 2e-3, masks, thin, end=0.4, decay=1e-4)
        begin = masks.density
        each = FINISH / len(DENSITIES)
        finished = copy.deepcopy(network)
        held = Masks(finished)
        for mask, other in zip(held.weights, masks.weights, strict=True):
            mask.copy_(other)
        held.settle()
        squeezer.fit(finished, 0.4 * each, 1e-3, held, decay=1e-4)
        tell(f"  weights {squeezer.accuracy(finished):.2f} % at density {held.density:.4f}")
        for bits in BITS:
            small = shared(squeezer, finished, bits, 0.6 / len(BITS) * each, fixed=False)
            squeezer.note("ours", f"ours-{density:g}-{bits}", small, bits=bits)


def tell(line: str) -> None:
    """To the log."""
    print(f"{time.monotonic() - BEGAN:6.0f} s {line}", file=sys.stderr, flush=True)


BEGAN = time.monotonic()


def main(arguments: Iterable[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="train and compress the network of icons")
    parser.add_argument("out", type=Path, help="folder that takes the weights")
    parser.add_argument("--minutes", type=float, default=8.0, help="for all of it")
    parser.add_argument("--pictures", type=int, default=Recipe.pictures)
    parser.add_argument("--held-out", type=int, default=Recipe.held_out)
    parser.add_argument("--batch", type=int, default=Recipe.batch)
    parser.add_argument("--rate", type=float, default=Recipe.rate)
    parser.add_argument("--look", choices=tuple(LOOKS), default=Recipe.look)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(None if arguments is None else list(arguments))
    options.out.mkdir(parents=True, exist_ok=True)
    device = torch.device(options.device)
    torch.backends.cudnn.benchmark = device.type == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = device.type == "cuda"
    recipe = Recipe(options.look, options.pictures, options.held_out, options.batch, options.rate)
    squeezer = Squeezer(recipe, device, options.out, options.minutes)
    network = SqueezeNet().to(device)
    for parameter in network.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    squeezer.fit(network, FLOAT, 4e-3, decay=0.02)
    tell(f"  {squeezer.accuracy(network):.2f} %")
    # Once more, so that what compression gains by training longer is no gain.
    squeezer.fit(network, AGAIN, 2e-3, decay=0.02)
    squeezer.note("float", "float", folded(network))
    baseline(squeezer, network)
    ours(squeezer, network)


if __name__ == "__main__":
    main()
