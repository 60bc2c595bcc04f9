"""Train the face detector.

`python -m palmkit.models.face_detector.train PACK OUT --teacher yunet_n_dynamic.onnx` goes on
from OUT/checkpoint.pt where there is one. Every step's random numbers follow from the seed and
the step alone, so an interrupted run ends with the weights of an unbroken one (on a CPU to the
bit; a GPU adds in no fixed order).
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from palmkit.models.face_detector.compose import Batch, Composer
from palmkit.models.face_detector.dataset import Bank, read_pack
from palmkit.models.face_detector.losses import detection_loss
from palmkit.models.face_detector.network import STRIDES, FaceNetwork
from palmkit.models.face_detector.teacher_network import YuNet

SAVE_EVERY = 5000


@dataclass(frozen=True)
class Recipe:
    """What decides the weights."""

    steps: int = 30_000
    batch: int = 256
    size: int = 320
    large_every: int = 6
    learning_rate: float = 2.5e-3
    weight_decay: float = 0.02
    warm_up: int = 500
    average: float = 0.9995
    hint: float = 1.0
    hint_until: float = 0.66
    seed: int = 1


class Hints(nn.Module):
    """Maps our neck's features to YuNet's: what it learnt from far more pictures."""

    def __init__(self) -> None:
        """One linear map a stride."""
        super().__init__()
        self.maps = nn.ModuleList(nn.Conv2d(64, 64, 1) for _ in STRIDES)

    def forward(self, ours: list[Tensor], theirs: list[Tensor]) -> Tensor:
        """Mean squared difference in units of the teacher's own spread a channel."""
        losses: list[Tensor] = []
        for project, student, teacher in zip(self.maps, ours, theirs, strict=True):
            teacher = teacher.float()
            spread = teacher.var(dim=(0, 2, 3), keepdim=True) + 1e-2
            difference = (project(student).float() - teacher) ** 2 / spread
            losses.append(difference.clamp(max=25).mean())
        return torch.stack(losses).mean()


class Trainer:
    """Network, average, optimiser and the step that moves them."""

    def __init__(
        self, recipe: Recipe, composer: Composer, teacher: YuNet | None, fast: bool
    ) -> None:
        """fast: bfloat16 and compiled."""
        self.recipe, self.composer, self.fast = recipe, composer, fast
        device = composer.bank.device
        torch.manual_seed(recipe.seed)
        self.network = FaceNetwork().to(device)
        self.hints = Hints().to(device)
        self.teacher = None if teacher is None else teacher.to(device).eval()
        self.averaged = copy.deepcopy(self.network)
        decayed: list[nn.Parameter] = []
        free: list[nn.Parameter] = []
        for parameter in [*self.network.parameters(), *self.hints.parameters()]:
            (decayed if parameter.dim() > 1 else free).append(parameter)
        self.optimiser = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": recipe.weight_decay},
                {"params": free, "weight_decay": 0.0},
            ],
            lr=recipe.learning_rate,
            betas=(0.9, 0.99),
        )
        self.step = 0
        self.loss = torch.compile(self.forward, dynamic=False) if fast else self.forward

    def state(self) -> dict[str, Any]:
        """Everything that goes on from here."""
        return {
            "recipe": asdict(self.recipe),
            "step": self.step,
            "network": self.network.state_dict(),
            "averaged": self.averaged.state_dict(),
            "hints": self.hints.state_dict(),
            "optimiser": self.optimiser.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a saved state."""
        self.step = state["step"]
        self.network.load_state_dict(state["network"])
        self.averaged.load_state_dict(state["averaged"])
        self.hints.load_state_dict(state["hints"])
        self.optimiser.load_state_dict(state["optimiser"])

    def forward(self, batch: Batch, hint: Tensor, with_hint: bool) -> tuple[Tensor, Tensor]:
        """Loss, and what it is made of."""
        taught: Tensor | None = None
        theirs: list[Tensor] = []
        kind = batch.images.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=self.fast):
            if self.teacher is not None:
                with torch.no_grad():
                    scores, theirs = self.teacher(batch.images)
                    taught = torch.cat([score.flatten(1) for score in scores], dim=1).float()
            levels = self.network(batch.images)
        total, parts = detection_loss(levels, batch, taught)
        difference = torch.zeros_like(total)
        if theirs and with_hint:
            with torch.autocast(kind, torch.bfloat16, enabled=self.fast):
                difference = self.hints([level.features for level in levels], theirs)
            total = total + hint * difference
        return total, torch.cat([parts, difference.detach()[None]])

    def advance(self) -> Tensor:
        """One step; float32[5] losses."""
        recipe, progress = self.recipe, self.step / self.recipe.steps
        torch.manual_seed(recipe.seed * 1_000_003 + self.step)
        rate = recipe.learning_rate * (0.5 + 0.5 * math.cos(math.pi * progress))
        rate = max(rate, 0.002 * recipe.learning_rate)
        rate *= min(1.0, (self.step + 1) / recipe.warm_up)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        large = recipe.large_every > 0 and self.step % recipe.large_every == recipe.large_every - 1
        count, size = (
            (max(1, recipe.batch // 4), 2 * recipe.size) if large else (recipe.batch, recipe.size)
        )
        with torch.no_grad():
            batch = self.composer.compose(count, size)
        left = max(0.0, 1 - progress / recipe.hint_until)
        hint = torch.tensor(recipe.hint * left, device=batch.images.device)
        loss, parts = self.loss(batch, hint, left > 0)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 10.0)
        self.optimiser.step()
        self.step += 1
        self.average(min(recipe.average, (1 + self.step) / (10 + self.step)))
        return parts

    @torch.no_grad()
    def average(self, keep: float) -> None:
        """Move the running average of weights and statistics."""
        ours, theirs = self.averaged.state_dict(), self.network.state_dict()
        for name, mean in ours.items():
            if mean.is_floating_point():
                mean.lerp_(theirs[name], 1 - keep)


def train(
    pack: Path,
    out: Path,
    recipe: Recipe,
    teacher: Path | None,
    device: torch.device,
    minutes: float = math.inf,
) -> Path:
    """Train until the recipe's last step or the time is up; returns the checkpoint."""
    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / "checkpoint.pt"
    started = time.monotonic()
    fast = device.type == "cuda"
    torch.backends.cudnn.benchmark = fast
    torch.backends.cuda.matmul.allow_tf32 = fast
    bank = Bank(read_pack(pack), device)
    trainer = Trainer(recipe, Composer(bank, fast), YuNet(teacher) if teacher else None, fast)
    if checkpoint.exists():
        trainer.restore(torch.load(checkpoint, map_location=device, weights_only=True))
    shown = sys.stderr.isatty()
    bar = tqdm(total=recipe.steps, initial=trainer.step, disable=not shown)
    while trainer.step < recipe.steps and time.monotonic() - started < minutes * 60:
        parts = trainer.advance()
        bar.update()
        if trainer.step % 500 == 0 or trainer.step in (1, 20, 100):
            names = ("score", "box", "points", "iou", "hint")
            told = " ".join(
                f"{name} {v:.4f}" for name, v in zip(names, parts.tolist(), strict=True)
            )
            seconds = time.monotonic() - started
            tqdm.write(f"step {trainer.step} {told} {seconds:.0f} s", file=sys.stderr)
        if trainer.step % SAVE_EVERY == 0:
            save(trainer, checkpoint)
    save(trainer, checkpoint)
    return checkpoint


def save(trainer: Trainer, path: Path) -> None:
    """Write the state so that a broken write leaves the old one."""
    partial = path.with_suffix(".partial")
    torch.save(trainer.state(), partial)
    partial.replace(path)


def main(arguments: Iterable[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="train the face detector")
    parser.add_argument("pack", type=Path, help="folder written by dataset.py")
    parser.add_argument("out", type=Path, help="folder of checkpoint.pt")
    parser.add_argument("--teacher", type=Path, help="YuNet's ONNX file")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long")
    for name, value in asdict(Recipe()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    options = vars(parser.parse_args(None if arguments is None else list(arguments)))
    recipe = Recipe(**{name: options[name] for name in asdict(Recipe())})
    device = torch.device(options["device"])
    train(options["pack"], options["out"], recipe, options["teacher"], device, options["minutes"])


if __name__ == "__main__":
    main()
