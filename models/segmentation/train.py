"""Train the portrait or the hair mask.

`python -m palmkit.models.segmentation.train PACK OUT --task portrait --teacher TEACHER.npz --stage
guide --encoder ENCODER.npz` trains the guide, and without the stage, with `--guide GUIDE.pt`, the
network that ships beside it, or beside the mean of several, `--guide A.pt,B.palm`, which may be
mask networks themselves, such as an earlier state of that network: `--network best --encoder
ENCODER.npz` the larger one, which starts as guides do. A guide may learn beside earlier ones too,
and read a pose detector, `--pose POSE.npz`. All go on from OUT/checkpoint.pt where there is one;
`--start` is a checkpoint or a .palm of which only the weights are taken. `--stage folded --start
NAME.palm --precision bfloat16` takes a network that has shipped a little further, on a CPU too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import torch
from torch import Tensor, nn

from palmkit.models.segmentation.backbone import STAGES, MobileNetV2, pretrained
from palmkit.models.segmentation.checkpoints import is_network, network_of, read_network
from palmkit.models.segmentation.compose import Batch, Composer, is_empty, patched, roughen
from palmkit.models.segmentation.dataset import Bank
from palmkit.models.segmentation.guide import Guide, Guides, folded
from palmkit.models.segmentation.losses import PARTS, mask_loss
from palmkit.models.segmentation.network import (
    WIDTHS,
    Maps,
    MaskNetwork,
    Published,
)
from palmkit.models.segmentation.teacher_network import PoseNetwork, SelfieNetwork
from palmkit.models.training.loop import Recipe, Recorded, Trainer, read_options, train
from palmkit.models.training.start import start_from

# From this share of the steps on the compositions come nearer to pictures as they are.
EASE_FROM = 0.6
# What a set's mask counts beside the guide's word for another guide; what that word counts where it
# is alone.
GUIDE_TRUTH, UNKNOWN_WEIGHT = 0.7, 0.6

STAGE_NAMES = ("guide", "mask", "folded")
# How many compositions normalisations take their statistics from.
SAMPLE = 128

AnyMaps = TypeVar("AnyMaps", bound=Tensor | nn.Module)


@dataclass(frozen=True)
class MaskRecipe(Recipe):
    """Hyperparameters of a mask network's training.

    pool: how many batches of compositions wait with the guide's output. reuse: steps for each batch
    that is renewed. truth: what a set's mask counts beside the guide's word, 0..1. network: "fast"
    or "best". stage: "guide", "mask", or "folded": a mask network that goes on from exactly what
    `start` computes, its normalisations folded away, as if they kept their statistics. precision:
    "float32" or "bfloat16"; where it is empty the latter on a GPU alone. guide, start, encoder,
    pose: files; several guides are separated by commas. The encoder is of guides, or of the best
    network; pose is a pose detector that the guide in training, or one of those that teach, reads.
    """

    task: str = "portrait"
    network: str = "fast"
    steps: int = 12_000
    batch: int = 128
    learning_rate: float = 2.5e-3
    weight_decay: float = 0.01
    average: float = 0.999
    pool: int = 24
    reuse: int = 4
    truth: float = 0.4
    stage: str = "mask"
    precision: str = ""
    guide: str = ""
    start: str = ""
    encoder: str = ""
    pose: str = ""

    @property
    def model(self) -> str:
        """Return the name of the model that is trained."""
        return self.task if self.network == "fast" else f"{self.task}_{self.network}"


def laid_out(what: AnyMaps) -> AnyMaps:
    """Return the tensor, or the module with its weights, with channels last, fast on a GPU."""
    laid: AnyMaps = cast(Any, what).to(memory_format=torch.channels_last)
    return laid


class Composing(Trainer):
    """Trains on a bank's compositions, which become more like unmodified pictures over time."""

    captured: ClassVar[bool] = True

    def __init__(
        self,
        recipe: MaskRecipe,
        network: nn.Module,
        bank: Bank,
        device: torch.device,
    ) -> None:
        """Set up the training as in Trainer.

        bank: of the recipe's task.
        """
        super().__init__(recipe, laid_out(network), device)
        self.chosen = recipe
        self.batch = recipe.batch
        self.halved = recipe.precision == "bfloat16" or (self.fast and not recipe.precision)
        self.side = WIDTHS[recipe.model].side
        self.composer = Composer(bank, recipe.task, self.side)
        self.ease = torch.zeros((), device=device)

    def prepare(self) -> None:
        """Set how close compositions are to unmodified pictures."""
        self.ease.fill_(max(0.0, self.progress - EASE_FROM) / (1 - EASE_FROM))

    def drawn(self) -> Batch:
        """Return fresh compositions."""
        return self.composer.compose(self.batch, self.ease)

    @torch.no_grad()
    def compose(self) -> Batch:
        """Return the batch of a step."""
        return self.drawn()

    def loss(self) -> tuple[Tensor, Tensor]:
        """Return the loss of a fresh batch, and its parts."""
        images, target, weight = self.compose()
        maps = self.look(images)
        return mask_loss(maps.logits.float(), maps.coarse.float(), target, weight)

    def look(self, images: Tensor) -> Maps:
        """Return the network's output for the images once they are roughened."""
        with torch.no_grad():
            images = laid_out(self.seen(images))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.halved):
            maps: Maps = self.network(images)
        return maps

    def seen(self, images: Tensor) -> Tensor:
        """Return the images as the network sees them: slightly degraded, as by many cameras."""
        return roughen(images, self.ease)


class MaskTrainer(Composing):
    """Trains the network that ships, beside a guide if there is one.

    The guide's output for a composition serves for several steps, mixed with others, and mirrored
    and roughened anew in each.
    """

    parts: ClassVar[tuple[str, ...]] = PARTS

    def __init__(
        self,
        recipe: MaskRecipe,
        bank: Bank,
        device: torch.device,
        guide: nn.Module | None = None,
        network: nn.Module | None = None,
    ) -> None:
        """Set up the training.

        guide: gives Maps of pictures. network: what is trained; None: the task's.
        """
        torch.manual_seed(recipe.seed)
        if network is None and recipe.stage == "folded":
            network = read_network(Path(recipe.start))
        if network is None:
            shipped = MaskNetwork(WIDTHS[recipe.model])
            if recipe.encoder and isinstance(shipped.encoder, Published):
                stages = WIDTHS[recipe.model].published
                shipped.encoder.network = read_encoder(recipe, bank, stages)
            network = shipped
        super().__init__(recipe, network, bank, device)
        self.reuse, self.truth = recipe.reuse, recipe.truth
        self.guide: nn.Module | None = None
        if guide is not None:
            self.kind = torch.bfloat16 if self.halved else torch.float32
            self.guide = laid_out(guide).to(device, self.kind)
            count, stored = recipe.pool * self.batch, torch.float16
            shape = count, 5, self.side, self.side
            self.pool = torch.zeros(shape, dtype=stored, device=device)
            self.place = torch.arange(self.batch, device=device)
            self.renewed = Recorded(self.renew, self.captured and self.fast)
            self.filled = False

    def advance(self) -> Tensor:
        """Do one step, and renew compositions in the pool now and then."""
        if self.guide is not None:
            for _ in range(self.renewals()):
                self.renewed()
            self.filled = True
        return super().advance()

    def renewals(self) -> int:
        """Return how many parts of the pool are renewed before the next step."""
        if not self.filled:
            return len(self.pool) // self.batch
        return int(self.step % self.reuse == 0)

    @torch.no_grad()
    def renew(self) -> Tensor:
        """Add compositions to the pool, with targets from the truth and the guide."""
        assert self.guide is not None
        images, target, weight = patched(self.drawn())
        seen = laid_out(images.to(self.kind))
        # Mirrored, the guide errs in other places.
        words = [self.guide(seen).logits, self.guide(seen.flip(3)).logits.flip(3)]
        word = torch.stack(words).float().sigmoid().mean(dim=0)
        # Where somebody is known to be, or something is unknown, the guide may know better; not of
        # pictures without anybody, which it may take for people.
        truth = torch.where(is_empty(target, weight), 1.0, self.truth * weight)
        target = torch.lerp(word, target, truth)
        weight = weight.clamp(min=UNKNOWN_WEIGHT)
        rows = torch.cat([images, target, weight], 1).half()
        self.pool.index_copy_(0, self.place, rows)
        self.place.add_(self.batch).remainder_(len(self.pool))
        return self.place

    @torch.no_grad()
    def compose(self) -> Batch:
        """Return fresh compositions, or some of the pool."""
        if self.guide is None:
            return self.drawn()
        rows = torch.randint(len(self.pool), (self.batch,), device=self.device)
        drawn = self.pool[rows].float()
        mirrored = torch.rand(self.batch, 1, 1, 1, device=self.device) < 0.5
        drawn = torch.where(mirrored, drawn.flip(3), drawn)
        return Batch(drawn[:, :3], drawn[:, 3:4], drawn[:, 4:])


class GuideTrainer(MaskTrainer):
    """Trains a guide on the known masks, and on what earlier guides say if there are any.

    Pictures without masks teach it nothing but by these (Xie et al., Self-training with noisy
    student, CVPR 2020).
    """

    def __init__(
        self,
        recipe: MaskRecipe,
        bank: Bank,
        device: torch.device,
        teacher: SelfieNetwork,
        earlier: nn.Module | None = None,
    ) -> None:
        """Set up the training.

        teacher: the network that the guide reads. earlier: gives Maps of pictures.
        """
        torch.manual_seed(recipe.seed)
        encoder = MobileNetV2()
        if recipe.encoder:
            encoder = read_encoder(recipe, bank)
        pose = PoseNetwork(Path(recipe.pose)).to(device) if recipe.pose else None
        network = Guide(teacher.to(device).eval(), encoder, pose)
        super().__init__(recipe, bank, device, earlier, network)
        self.truth = GUIDE_TRUTH


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    options, recipe, device = read_options("train a mask network", MaskRecipe, arguments)
    if recipe.model not in WIDTHS:
        raise SystemExit(
            f"--task, --network: expected one of {', '.join(WIDTHS)}, got {recipe.model}"
        )
    if recipe.stage not in STAGE_NAMES:
        raise SystemExit(f"--stage: expected one of {', '.join(STAGE_NAMES)}, got {recipe.stage}")
    if recipe.stage == "folded" and not recipe.start:
        raise SystemExit("--stage folded: expected --start as well, the network that goes on")
    if recipe.encoder and recipe.stage == "mask" and not WIDTHS[recipe.model].published:
        raise SystemExit(f"--encoder: --network {recipe.network} has no published encoder")
    bank = Bank(options.pack, recipe.task, device)
    guide = read_guide(options.teacher, recipe.guide, recipe.pose)
    if recipe.stage == "guide":
        teacher = SelfieNetwork(options.teacher)
        trainer: MaskTrainer = GuideTrainer(recipe, bank, device, teacher, guide)
    else:
        trainer = MaskTrainer(recipe, bank, device, guide)
    begin(trainer, bank)
    train(trainer, options.out, options.minutes)


@torch.no_grad()
def sample(bank: Bank, recipe: MaskRecipe) -> Tensor:
    """Return compositions that normalisations take their statistics from."""
    composer = Composer(bank, recipe.task, WIDTHS[recipe.model].side)
    return composer.compose(SAMPLE, torch.ones((), device=bank.device)).images


def read_encoder(recipe: MaskRecipe, bank: Bank, stages: int = len(STAGES)) -> MobileNetV2:
    """Return so many stages of the network that the recipe's encoder is a file of."""
    return pretrained(Path(recipe.encoder), sample(bank, recipe), stages)


def begin(trainer: Composing, bank: Bank) -> None:
    """Take the weights that the recipe starts with, if any."""
    recipe = trainer.chosen
    if recipe.stage == "folded":
        return
    if recipe.start.endswith(".palm"):
        resume(trainer, Path(recipe.start), sample(bank, recipe))
    elif recipe.start:
        adopt(trainer, torch.load(recipe.start, map_location=trainer.device, weights_only=True))


def resume(trainer: Trainer, path: Path, images: Tensor) -> None:
    """Start with the weights of a model file, which need not be what it was trained from."""
    from palmkit.engine import convert

    network = trainer.network
    start_from(network, convert(path), images, unit=255, apart=(cast(nn.Module, network.coarse),))
    trainer.averaged.load_state_dict(network.state_dict())


def read_guide(teacher: Path | None, paths: str, pose: str = "") -> nn.Module | None:
    """Return the guide of a checkpoint, or of several, separated by commas, the mean of all.

    paths: of guides, and of mask networks, which may be an earlier state of the one in training:
    checkpoints or .palm. pose: the pose detector, where a guide reads it. Raises ValueError if one
    reads a pose detector and none is given, and for a guide without the teacher that it reads.
    """
    if not paths:
        return None
    guides: list[nn.Module] = []
    for path in paths.split(","):
        if path.endswith(".palm"):
            guides.append(read_network(Path(path)))
            continue
        state = torch.load(path, map_location="cpu", weights_only=True)
        if is_network(state["averaged"]):
            guides.append(network_of(state["averaged"], Path(path)))
            continue
        if teacher is None:
            raise ValueError(f"--guide {paths}: expected --teacher as well, guides read it")
        posed = any(name.startswith("posed.") for name in state["averaged"])
        if posed and not pose:
            raise ValueError(f"{path}: expected --pose as well, this guide reads a pose detector")
        read = PoseNetwork(Path(pose)) if posed else None
        guide = Guide(SelfieNetwork(teacher), MobileNetV2(), read)
        guide.load_state_dict(state["averaged"])
        guides.append(folded(guide))
    return guides[0] if len(guides) == 1 else Guides(guides).eval()


def adopt(trainer: Trainer, state: Mapping[str, Any]) -> None:
    """Start with the averaged weights of a smaller network; additional parts start neutral."""
    weights = trainer.network.state_dict()
    for name, value in weights.items():
        if name in state["averaged"]:
            value.copy_(state["averaged"][name])
        elif name.endswith("pointwise.1.weight") or ".contexts." in name:
            value.zero_()
    trainer.averaged.load_state_dict(weights)


if __name__ == "__main__":
    main()
