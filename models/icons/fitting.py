"""Training by the clock: fits that share the remaining time, and resume after interruptions."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from palmkit.models.icons.codebooks import entropy_bytes
from palmkit.models.icons.draw import LOOKS, draw_set
from palmkit.models.icons.network import SqueezeNet
from palmkit.models.icons.pictures import Painters, Pictures
from palmkit.models.icons.pruning import Masks
from palmkit.models.training.loop import Recorded

Weights: TypeAlias = dict[str, NDArray[np.float32]]
TRAIN_SEED, HELD_OUT_SEED = 1, 2
# Steps between two prunings, two checks of the clock, two checks for new pictures.
RENEW_EVERY, SEEN_EVERY, TAKE_EVERY = 40, 10, 20
SAVE_EVERY_S = 45.0
BEGAN = time.monotonic()


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of the training.

    rate: of the float network's first cycle; others follow it.
    """

    look: str = "plain"
    pictures: int = 131_072
    held_out: int = 20_000
    batch: int = 512
    rate: float = 4e-3
    seed: int = 1


class Paused(Exception):
    """Raised when the time of this run is up; the next one resumes."""


class Fitter:
    """Trains networks on one set of pictures, each for its share of the time."""

    def __init__(
        self,
        recipe: Recipe,
        device: torch.device,
        out: Path,
        minutes: float,
        pause: float = math.inf,
        processes: int = 0,
    ) -> None:
        """Draw the pictures, or some of them if others are drawn while networks train.

        out: folder of stored results. minutes: for all remaining work, including drawing; on a CPU
        those that the process computed. pause: minutes after which to stop and be called again.
        processes: number of processes that draw new pictures meanwhile.
        """
        self.recipe, self.device, self.out = recipe, device, out
        self.fast = device.type == "cuda"
        self.half = self.fast or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
        self.ends, self.pauses = 60 * minutes, 60 * pause
        # Started before the device is used, whose state no other process can share.
        look = LOOKS[recipe.look]
        self.painters = Painters(TRAIN_SEED, look, processes)
        self.done: dict[str, Any] = {"shares": 0.0, "drawn": 0}
        self.done |= {"fits": {}, "chosen": {}, "results": []}
        if (out / "done.pt").exists():
            self.done = torch.load(out / "done.pt", map_location="cpu", weights_only=True)
        drawn: int = self.done["drawn"]
        first = draw_set(TRAIN_SEED, recipe.pictures, look, drawn, processes)
        held_out = draw_set(HELD_OUT_SEED, recipe.held_out, look, 0, processes)
        self.painters.begin(drawn + recipe.pictures)
        room = (8 if processes else 1) * recipe.pictures
        self.train_set = Pictures(first, device, room)
        self.held_out = Pictures(held_out, device)
        self.teacher: SqueezeNet | None = None
        tell(f"{recipe.pictures} pictures drawn, {os.cpu_count()} cores")
        torch.manual_seed(recipe.seed * 1_000_003 + drawn)

    def clock(self) -> float:
        """Return seconds since the beginning; on a CPU only this process's time counts."""
        return time.monotonic() - BEGAN if self.fast else time.process_time()

    def fit(
        self,
        name: str,
        share: float,
        network: SqueezeNet,
        rate: float,
        masks: Masks | None = None,
        change: Callable[[float], None] | None = None,
        end: float = 0.0,
        decay: float = 0.01,
    ) -> None:
        """Train for a share of the time, with a rate that ends at `end` times its start.

        A network that an earlier run has trained under that name is loaded instead. change: called
        now and then with the progress, 0..1, to prune further.
        """
        if name in self.done["fits"]:
            _take(self.done["fits"][name], network, masks)
            return
        network.train()
        rate *= self.recipe.rate / Recipe.rate
        optimiser, speed = self._optimiser(network, rate, decay)
        before = self._partial(name, network, masks, optimiser)
        for group in optimiser.param_groups:
            group["lr"] = speed if self.fast else rate
        # The first steps are taken while they are recorded.
        speed.fill_(0.01 * rate)
        watched = masks is not None and change is not None

        def move() -> Tensor:
            images, kinds = self.train_set.varied(self.recipe.batch)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
                logits = network(images)
                wanted = None if self.teacher is None else self._word(images)
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

        work = self._recorded(move)
        began = saved = self.clock()
        # This fit's share of the remaining time.
        rest = 1.0 - self.done["shares"] - share * before
        whole = max(self.ends - began, 1.0) * 0.985 * share / max(rest, 1e-6)
        step, total, progress = 0, 0.0, before
        while progress < 1:
            now = rate * min(1.0, (step + 1) / 100)
            now *= end + (1 - end) * (0.5 + 0.5 * math.cos(math.pi * progress))
            speed.fill_(now)
            for group in () if self.fast else optimiser.param_groups:
                group["lr"] = now
            loss = work()
            if change is not None and step % RENEW_EVERY == 0:
                change(progress)
            step += 1
            if step % TAKE_EVERY == 0:
                for drawn in self.painters.finished():
                    self.train_set.add(drawn)
            if step % SEEN_EVERY and self.fast:
                continue
            total += 0.1 * (float(loss) - total) if total else float(loss)
            if not math.isfinite(total):
                raise FloatingPointError(f"loss of {name} at step {step}: {total}")
            progress = before + (self.clock() - began) / whole
            pausing = self.clock() > self.pauses
            if self.clock() - saved > SAVE_EVERY_S or pausing:
                saved = self.clock()
                kept = _state(network, masks)
                kept |= {"name": name, "progress": progress, "optimiser": optimiser.state_dict()}
                _write(kept, self.out / "partial.pt")
                right = self.accuracy(network)
                tell(f"  {name} {100 * progress:.0f} %: {right:.2f} %, {step} steps")
                network.train()
            if pausing and progress < 1:
                raise Paused(name)
        if change is not None:
            change(1.0)
        drawn_now = self.painters.next
        tell(f"  {name}: {step} steps, loss {total:.4f}, {drawn_now} pictures drawn")
        self.done["fits"][name] = _state(network, masks)
        self.done["shares"] += share
        self.save()

    def remembered(self, name: str, choose: Callable[[], list[int]]) -> list[int]:
        """Return a choice that is made once for all runs."""
        if name not in self.done["chosen"]:
            self.done["chosen"][name] = choose()
            self.save()
        chosen: list[int] = self.done["chosen"][name]
        return chosen

    def save(self) -> None:
        """Save what is done."""
        self.done["drawn"] = self.painters.next
        _write(self.done, self.out / "done.pt")

    def _partial(
        self, name: str, network: SqueezeNet, masks: Masks | None, optimiser: torch.optim.Optimizer
    ) -> float:
        """Resume an interrupted fit; return its progress."""
        path = self.out / "partial.pt"
        if not path.exists():
            return 0.0
        kept = torch.load(path, map_location=self.device, weights_only=True)
        if kept["name"] != name:
            return 0.0
        _take(kept, network, masks)
        optimiser.load_state_dict(kept["optimiser"])
        return float(kept["progress"])

    def _recorded(self, move: Callable[[], Tensor]) -> Recorded:
        """Return the step, recorded once where that is possible."""
        work = Recorded(move, self.fast)
        try:
            work()
        except RuntimeError as error:
            tell(f"  not recorded: {error}")
            torch.cuda.synchronize()
            work = Recorded(move, False)
        return work

    def _optimiser(
        self, network: SqueezeNet, rate: float, decay: float
    ) -> tuple[torch.optim.Optimizer, Tensor]:
        """Return AdamW, and its rate as it is read on a GPU."""
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
    def _word(self, images: Tensor) -> Tensor:
        """Return the float network's logits."""
        assert self.teacher is not None
        logits: Tensor = self.teacher(images)
        return logits.float()

    @torch.no_grad()
    def accuracy(self, network: SqueezeNet) -> float:
        """Return the percentage of held-out pictures that it classifies correctly."""
        network.eval()
        right = 0
        # Each size is met a few times only.
        tuned, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
        for first in range(0, self.held_out.count, 1000):
            images, kinds = self.held_out.batch(slice(first, first + 1000))
            right += int((network(images).argmax(1) == kinds).sum())
        torch.backends.cudnn.benchmark = tuned
        return 100 * right / self.held_out.count

    def note(self, group: str, name: str, network: SqueezeNet, **more: object) -> None:
        """Measure a folded network and write it to out/group.npz with the others of its group."""
        results: list[dict[str, object]] = self.done["results"]
        if any(result["name"] == name for result in results):
            return
        weights = [conv.weight for conv in network.convolutions()]
        there = sum(int((weight != 0).sum()) for weight in weights)
        result: dict[str, object] = {
            "name": name,
            "accuracy": self.accuracy(network),
            "density": there / sum(weight.numel() for weight in weights),
            "entropy_bytes": round(entropy_bytes(network)),
            **more,
        }
        tell(json.dumps(result))
        path = self.out / f"{group}.npz"
        arrays: dict[str, Any] = {}
        if path.exists():
            with np.load(path) as written:
                arrays = {key: written[key] for key in written.files}
        for key, value in network.state_dict().items():
            arrays[f"{name}/{key}"] = value.detach().cpu().numpy()
        partial = path.with_suffix(".partial.npz")
        np.savez_compressed(partial, **arrays)
        partial.replace(path)
        results.append(result)
        (self.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        self.save()


def _state(network: SqueezeNet, masks: Masks | None) -> dict[str, Any]:
    """Return a copy of the state, for `_take`."""
    arrays = {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}
    kept = [] if masks is None else [mask.bool().cpu() for mask in masks.weights]
    return {"network": arrays, "masks": kept}


def _take(kept: dict[str, Any], network: SqueezeNet, masks: Masks | None) -> None:
    network.load_state_dict(kept["network"])
    if masks is not None:
        masks.take(kept["masks"])


def _write(state: dict[str, Any], path: Path) -> None:
    """Write a state so that an interrupted write leaves the old one."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def _loss(logits: Tensor, kinds: Tensor, wanted: Tensor | None) -> Tensor:
    """Return the cross entropy with the classes, and with the teacher's outputs if given."""
    truth = functional.cross_entropy(logits, kinds)
    if wanted is None:
        return truth
    heat = 2.0
    word = functional.kl_div(
        (logits / heat).log_softmax(1), (wanted / heat).log_softmax(1), None, None,
        "batchmean", log_target=True,
    )  # fmt: skip
    return 0.3 * truth + 0.7 * heat * heat * word


def tell(line: str) -> None:
    """Write a line to the log."""
    print(f"{time.monotonic() - BEGAN:6.0f} s {line}", file=sys.stderr, flush=True)
