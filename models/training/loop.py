"""The training loop: seeded steps, a running average of the weights, a checkpoint.

Every step's random numbers follow from the seed and the step alone, so an interrupted run ends with
the weights of an unbroken one (on a CPU exactly; a GPU adds in no fixed order).
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from tqdm import tqdm

SAVE_EVERY = 5000
AnyRecipe = TypeVar("AnyRecipe", bound="Recipe")


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of a training; a recipe adds its own fields and defaults."""

    steps: int = 30_000
    batch: int = 256
    learning_rate: float = 2.5e-3
    weight_decay: float = 0.02
    warm_up: int = 500
    average: float = 0.9995
    seed: int = 1


class Recorded:
    """Work on a GPU that is recorded once and then replayed, which costs the host nothing.

    It has to be made of operations on the device alone, with tensors for all that changes.
    """

    def __init__(self, work: Callable[[], Tensor], record: bool) -> None:
        """Wrap work.

        record: whether to record it; otherwise it is simply called each time.
        """
        self.work, self.record = work, record
        self.graph: torch.cuda.CUDAGraph | None = None
        self.result = torch.empty(0)

    def __call__(self) -> Tensor:
        """Return the work's result; the first call does it three times."""
        if not self.record:
            return self.work()
        if self.graph is not None:
            self.graph.replay()
            return self.result
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.work()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.result = self.work()
        self.graph = graph
        return self.result


class Trainer(ABC):
    """A network, its running average, an optimiser and the step that moves them.

    parts: names of what the loss is made of, as the log shows them.
    captured: record a step on a GPU and replay it; `loss` then has to be fit for Recorded, and what
    changes with `progress` be in tensors that `prepare` sets.
    """

    parts: ClassVar[tuple[str, ...]]
    captured: ClassVar[bool] = False

    def __init__(
        self,
        recipe: Recipe,
        network: nn.Module,
        device: torch.device,
        beside: nn.Module | None = None,
    ) -> None:
        """Give network and `beside` to the optimiser.

        beside: trained with the network and not part of it, as maps to a teacher's features.
        """
        self.recipe = recipe
        self.device = device
        self.fast = device.type == "cuda"
        self.network = network.to(device)
        self.averaged = copy.deepcopy(self.network)
        self.beside = nn.Module() if beside is None else beside.to(device)
        decayed: list[nn.Parameter] = []
        free: list[nn.Parameter] = []
        for parameter in [*self.network.parameters(), *self.beside.parameters()]:
            (decayed if parameter.dim() > 1 else free).append(parameter)
        replayed = self.captured and self.fast
        self.rate = torch.tensor(recipe.learning_rate, device=device)
        self.optimiser = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": recipe.weight_decay},
                {"params": free, "weight_decay": 0.0},
            ],
            lr=self.rate if replayed else recipe.learning_rate,
            betas=(0.9, 0.99),
            fused=replayed,
            capturable=replayed,
        )
        self.step = 0
        self.spent = 0.0
        self.recorded = Recorded(self.move, replayed)

    @property
    def progress(self) -> float:
        """Return the finished share of the steps or of the minutes, whichever is larger, 0..1."""
        return min(max(self.step / self.recipe.steps, self.spent), 1.0)

    @abstractmethod
    def loss(self) -> tuple[Tensor, Tensor]:
        """Draw this step's batch; return its loss, and its parts, float32[len(parts)]."""

    def state(self) -> dict[str, Any]:
        """Return everything needed to resume from here."""
        return {
            "recipe": asdict(self.recipe),
            "step": self.step,
            "network": self.network.state_dict(),
            "averaged": self.averaged.state_dict(),
            "beside": self.beside.state_dict(),
            "optimiser": self.optimiser.state_dict(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""
        self.step = state["step"]
        self.network.load_state_dict(state["network"])
        self.averaged.load_state_dict(state["averaged"])
        self.beside.load_state_dict(state["beside"])
        self.optimiser.load_state_dict(state["optimiser"])

    def advance(self) -> Tensor:
        """Do one step; return the parts of the loss, float32[len(parts)]."""
        recipe = self.recipe
        torch.manual_seed(recipe.seed * 1_000_003 + self.step)
        rate = recipe.learning_rate * (0.5 + 0.5 * math.cos(math.pi * self.progress))
        rate = max(rate, 0.002 * recipe.learning_rate)
        rate *= min(1.0, (self.step + 1) / recipe.warm_up)
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        self.prepare()
        parts = self.recorded()
        self.step += 1
        self.average(min(recipe.average, (1 + self.step) / (10 + self.step)))
        return parts

    def prepare(self) -> None:  # noqa: B027
        """Set the tensors that depend on `progress`, if any."""

    def move(self) -> Tensor:
        """Move the weights once; return the parts of the loss, float32[len(parts)]."""
        loss, parts = self.loss()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 10.0)
        self.optimiser.step()
        return parts

    @torch.no_grad()
    def average(self, keep: float) -> None:
        """Update the running average of weights and statistics."""
        ours, theirs = self.averaged.state_dict(), self.network.state_dict()
        for name, mean in ours.items():
            if mean.is_floating_point():
                mean.lerp_(theirs[name], 1 - keep)


def train(trainer: Trainer, out: Path, minutes: float = math.inf) -> Path:
    """Train until the recipe's last step or the time is up; return the checkpoint.

    The learning rate ends with whichever comes first.

    Resumes from out/checkpoint.pt where there is one.
    """
    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / "checkpoint.pt"
    started = time.monotonic()
    if checkpoint.exists():
        trainer.restore(torch.load(checkpoint, map_location=trainer.device, weights_only=True))
    steps = trainer.recipe.steps
    bar = tqdm(total=steps, initial=trainer.step, disable=not sys.stderr.isatty())
    while trainer.step < steps and trainer.spent < 1:
        parts = trainer.advance()
        trainer.spent = (time.monotonic() - started) / 60 / minutes
        bar.update()
        if trainer.step % 500 == 0 or trainer.step in (1, 20, 100):
            named = zip(trainer.parts, parts.tolist(), strict=True)
            told = " ".join(f"{name} {value:.4f}" for name, value in named)
            seconds = time.monotonic() - started
            tqdm.write(f"step {trainer.step} {told} {seconds:.0f} s", file=sys.stderr)
        if trainer.step % SAVE_EVERY == 0:
            save(trainer, checkpoint)
    save(trainer, checkpoint)
    return checkpoint


def save(trainer: Trainer, path: Path) -> None:
    """Write the state; an interrupted write leaves the old one."""
    partial = path.with_suffix(".partial")
    torch.save(trainer.state(), partial)
    partial.replace(path)


def read_options(
    description: str, recipe: type[AnyRecipe], arguments: Iterable[str] | None
) -> tuple[argparse.Namespace, AnyRecipe, torch.device]:
    """Parse the command line of a recipe: PACK OUT, --device, --minutes, a flag a field.

    Returns the options, the recipe they ask for and the device, set up for speed.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("pack", type=Path, help="folder written by dataset.py")
    parser.add_argument("out", type=Path, help="folder of checkpoint.pt")
    parser.add_argument("--teacher", type=Path, help="a network that helps, where one does")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long")
    for name, value in asdict(recipe()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    options = parser.parse_args(None if arguments is None else list(arguments))
    chosen = recipe(**{name: getattr(options, name) for name in asdict(recipe())})
    device = torch.device(options.device)
    torch.backends.cudnn.benchmark = device.type == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = device.type == "cuda"
    return options, chosen, device
