"""Trains what finds the things that people hold or carry: a small head on the portrait network.

`python -m palmkit.models.segmentation.held DATA OUT` writes OUT/held_things.palm, in a few minutes
without a GPU, and OUT/metrics.json. The portrait network stays as it ships; of its maps a head of
few weights learns where bags, purses, umbrellas and the like are (held_labels.py).

Measured on the development pictures, through the kit; "person" is what it does without:
iou      intersection over union with the true mask and the things in the boxes
right    of what include="held" adds to a picture, the share in a box or in the true mask
found    the share of the things in the boxes, outside of the true mask, that the mask covers
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from palmkit.engine import convert, save
from palmkit.engine.compress.rounding import in_half
from palmkit.engine.ir import UNKNOWN, Graph, Node, value_names
from palmkit.engine.model import Model
from palmkit.kits import PortraitSegmenter
from palmkit.kits.kit import shipped_model
from palmkit.kits.portrait.held import HELD_SIDE, box_with_room
from palmkit.models import kinds
from palmkit.models.segmentation.crop import Array
from palmkit.models.segmentation.export import describe
from palmkit.models.segmentation.held_labels import (
    Labelled,
    boxes,
    inside,
    read_boxed,
    read_others,
)
from palmkit.models.segmentation.network import SIZE
from palmkit.models.segmentation.samples import Sample
from palmkit.models.segmentation.scores import overlap
from palmkit.models.training.blocks import Separable
from palmkit.models.training.export import export_onnx

PORTRAIT = shipped_model("portrait")
# The maps of the portrait network that the head sees, their channels, and by how much they are
# enlarged: the encoder's of strides 4, 8 and 16, the decoder's of 16, 8 and 4; and the head's own
# channels.
MAPS = {
    "/network/encoder/stages.0/stages.0.0/Relu_1_output_0": (32, 1),
    "/network/encoder/contexts.1/Relu_output_0": (48, 2),
    "/network/encoder/contexts.2/Relu_output_0": (96, 4),
    "/network/merges.0/block/Relu_1_output_0": (48, 4),
    "/network/merges.1/block/Relu_1_output_0": (32, 2),
    "/network/merges.2/block/block.1/Relu_output_0": (32, 1),
}
WIDTH = 32
# Views of each picture with boxes and of each other one: what the kit sees first, then others.
VIEWS, OTHER_VIEWS = 8, 2
# How far the sides of a view move, in its size; of light and each channel, and what is added.
MOVED, LIGHT, CHANNEL, ADDED = 0.08, 0.25, 0.07, 15.0
BATCH, STEPS, RATE, DECAY = 16, 450, 3e-3, 0.05
# The weight of what is held.
HELD = 3.0


class Head(nn.Module):
    """A network from maps of the portrait network to one logit a place, at stride 4."""

    def __init__(self) -> None:
        """Build it with random weights."""
        super().__init__()
        channels = [each for each, _ in MAPS.values()]
        self.norms = nn.ModuleList(nn.BatchNorm2d(each, affine=False) for each in channels)
        self.maps = nn.ModuleList(nn.Conv2d(each, WIDTH, 1) for each in channels)
        self.drop = nn.Dropout2d(0.2)
        self.blocks = nn.Sequential(*(Separable(WIDTH, WIDTH, 5) for _ in range(3)))
        self.held = nn.Conv2d(WIDTH, 1, 1)

    def forward(self, *maps: Tensor) -> Tensor:
        """Return float32[n, 1, 64, 64] of the maps of MAPS, NCHW."""
        total: Tensor | None = None
        layers = zip(maps, self.norms, self.maps, MAPS.values(), strict=True)
        for each, norm, layer, (_, times) in layers:
            x: Tensor = layer(self.drop(norm(each)))
            if times > 1:
                x = functional.interpolate(
                    x, scale_factor=float(times), mode="bilinear", align_corners=False
                )
            total = x if total is None else total + x
        assert total is not None
        found: Tensor = self.held(self.drop(self.blocks(functional.relu(total))))
        return found

    @torch.no_grad()
    def fold(self) -> None:
        """Move the normalisations of the maps into the convolutions after them."""
        for norm, layer in zip(self.norms, self.maps, strict=True):
            assert isinstance(norm, nn.BatchNorm2d) and isinstance(layer, nn.Conv2d)
            assert norm.running_mean is not None and norm.running_var is not None
            assert layer.bias is not None
            layer.weight /= (norm.running_var + norm.eps).sqrt()[:, None, None]
            layer.bias -= (layer.weight * norm.running_mean[:, None, None]).sum(dim=(1, 2, 3))
        self.norms = nn.ModuleList(nn.Identity() for _ in self.norms)


class Likely(nn.Module):
    """A trained head as the kit runs it: probabilities, NHWC."""

    def __init__(self, head: Head) -> None:
        """Wrap it."""
        super().__init__()
        self.head = head

    def forward(self, *maps: Tensor) -> Tensor:
        """Return float32[1, 64, 64, 1]."""
        found: Tensor = self.head(*maps)
        return found.sigmoid().permute(0, 2, 3, 1)


def with_head(body: Graph, head: Graph) -> Graph:
    """Return the graph of the portrait network up to its maps, followed by that of the head.

    head: its inputs are the maps of MAPS, in that order.
    """
    own = {name: f"held/{name}" for name in value_names(head)}
    own |= dict(zip(head.inputs, MAPS, strict=True))
    own |= {name: name for name in head.outputs} | {"": ""}
    added = tuple(
        replace(
            node,
            inputs=tuple(own[name] for name in node.inputs),
            outputs=tuple(own[name] for name in node.outputs),
        )
        for node in head.nodes
    )
    needed, kept = set(MAPS), list[Node]()
    for node in reversed(body.nodes):
        if needed & set(node.outputs):
            kept.append(node)
            needed |= set(node.inputs)
    constants = {name: value for name, value in body.constants.items() if name in needed}
    constants |= {own[name]: value for name, value in head.constants.items()}
    return replace(body, nodes=(*reversed(kept), *added), constants=constants, outputs=head.outputs)


class View(NamedTuple):
    """A part of a picture as the network sees it, float32[256, 256, 3], and its labels."""

    image: Array
    held: Tensor
    known: Tensor


def views(each: Labelled, mask: Array, count: int, random: np.random.Generator) -> Iterator[View]:
    """Yield views of a picture: what the kit sees, all of it, and others in other light.

    mask: float32[h, w], what the kit takes for people.
    """
    height, width = mask.shape
    whole = (0, 0, width, height)
    usual = box_with_room(mask > 0.5, whole)
    if usual is None:
        return
    for turn in range(count):
        box = usual if turn != 1 else whole
        wide, high = box[2] - box[0], box[3] - box[1]
        light = np.ones(3, np.float32)
        added = 0.0
        if turn > 1:
            moved = random.uniform(-MOVED, MOVED, 4) * (wide, high, wide, high) + box
            left, top, right, bottom = (int(value) for value in moved)
            box = max(left, 0), max(top, 0), min(right, width), min(bottom, height)
        if turn:
            light = random.uniform(1 - LIGHT, 1 + LIGHT) * random.uniform(
                1 - CHANNEL, 1 + CHANNEL, 3
            ).astype(np.float32)
            added = random.uniform(-ADDED, ADDED)
        part = slice(box[1], box[3]), slice(box[0], box[2])
        image = cv2.resize(each.picture[part], (SIZE, SIZE), interpolation=cv2.INTER_AREA)
        image = np.clip(image * light + np.float32(added), 0, 255).astype(np.float32)
        planes = [_small(plane[part]) for plane in (each.held, each.known)]
        if turn % 2:
            image, *planes = (np.ascontiguousarray(one[:, ::-1]) for one in (image, *planes))
        yield View(
            np.asarray(image, np.float32), *(torch.from_numpy(plane)[None] for plane in planes)
        )


def _small(plane: Array) -> Array:
    size = (HELD_SIDE, HELD_SIDE)
    whole = cv2.resize(np.ascontiguousarray(plane), (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(whole, size, interpolation=cv2.INTER_AREA), np.float32)


def maps_of(body: Graph, seen: Iterable[View]) -> list[list[Tensor]]:
    """Return what the head sees of all views, float16, NCHW without the first dim."""
    model = Model(replace(body, outputs=dict.fromkeys(MAPS, UNKNOWN)))
    found: list[list[Tensor]] = []
    for view in seen:
        maps = model.run({"image": view.image[None]})
        found.append([torch.from_numpy(maps[name][0].astype(np.float16)) for name in MAPS])
    return found


def fit(head: Head, maps: Sequence[Sequence[Tensor]], seen: Sequence[View]) -> None:
    """Train the head."""
    optimizer = torch.optim.AdamW(head.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS)
    head.train()
    for step in range(STEPS):
        rows = torch.randint(len(seen), (BATCH,)).tolist()
        given = [torch.stack([maps[row][at] for row in rows]).float() for at in range(len(MAPS))]
        held, known = (torch.stack([seen[row][at] for row in rows]) for at in (1, 2))
        logits = head(*given)
        weight = torch.where(held > 0.3, HELD, known)
        wrong = functional.binary_cross_entropy_with_logits(logits, held, reduction="none")
        found = logits.sigmoid() * (known > 0)
        shared = (2 * (found * held).sum() + 1) / (found.sum() + held.sum() + 1)
        loss = 3 * (wrong * weight).mean() + 1 - shared
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if not step % 50:
            print(f"{step}: {float(loss.detach()):.3f}", flush=True)
    head.eval()


def exported(body: Graph, head: Head, maps: Sequence[Tensor]) -> Graph:
    """Return the graph that ships of a trained head, whose weights are rounded to float16.

    body: of the portrait network, whose weights stay. maps: of one view.
    """
    head.fold()
    first, *others = (each[None].float() for each in maps)
    beside = {f"map{row}": each for row, each in enumerate(others, 1)}
    with tempfile.TemporaryDirectory() as folder:
        onnx = Path(folder) / "head.onnx"
        export_onnx(Likely(head), first, ["mask"], onnx, beside=beside)
        graph = with_head(body, convert(onnx))
    graph = in_half(graph, without=body.constants)
    return replace(graph, metadata=describe("held_things", {}))


def measure(model: Path, data: Path) -> dict[str, Any]:
    """Return how the kit fares with this model on the development pictures, see the module."""
    without = PortraitSegmenter(quality="fast")
    kit = PortraitSegmenter(quality="fast", include="held", held_model=model)
    names = ("person iou", "iou", "right", "person found", "found")
    tallies = {name: kinds.Tally() for name in names}
    added = right = 0
    for each in read_boxed(data, "dev"):
        before, after = (one.segment(each.picture).mask for one in (without, kit))
        truth = np.maximum(each.person, each.held)
        sample = Sample("ccp", each.picture, truth, np.ones(truth.shape, np.bool_), each.file)
        more = (after > 0.5) & (before <= 0.5)
        good = more & (inside(truth.shape, boxes()["dev"][each.file]) | (each.person > 0.5))
        added, right = added + int(more.sum()), right + int(good.sum())
        tallies["person iou"].add([], overlap(before, sample))
        tallies["iou"].add([], overlap(after, sample))
        if more.any():
            tallies["right"].add([], float(good.sum() / more.sum()))
        if each.held.any():
            thing = each.held > 0.5
            tallies["person found"].add([], float((before > 0.5)[thing].mean()))
            tallies["found"].add([], float((after > 0.5)[thing].mean()))
    found: dict[str, Any] = {
        name: kinds.rounded(tally.spreads()) for name, tally in tallies.items()
    }
    return found | {"right of all pixels": round(right / max(added, 1), 4)}


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="train the head for what people hold")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("out", type=Path, help="folder that takes the files")
    options = parser.parse_args(None if arguments is None else list(arguments))
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    options.out.mkdir(parents=True, exist_ok=True)
    kit = PortraitSegmenter(quality="fast")
    seen: list[View] = []
    boxed, others = read_boxed(options.data, "train"), read_others(options.data)
    for count, pictures in ((VIEWS, boxed), (OTHER_VIEWS, others)):
        for each in pictures:
            seen += views(each, kit.segment(each.picture).mask, count, random)
    print(f"{len(seen)} views", flush=True)
    body = convert(PORTRAIT)
    maps = maps_of(body, seen)
    head = Head()
    fit(head, maps, seen)
    model = options.out / "held_things.palm"
    save(exported(body, head, maps[0]), model, weights="smallest", shapes=())
    measured = measure(model, options.data)
    (options.out / "metrics.json").write_text(json.dumps(measured, indent=1) + "\n")
    print(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
