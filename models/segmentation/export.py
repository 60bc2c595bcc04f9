"""Turn a checkpoint into the model that ships: ONNX first, then our own format.

`python -m palmkit.models.segmentation.export portrait CHECKPOINT OUT` writes OUT/portrait.onnx
and OUT/portrait.palm. The averaged weights are used, rounded to float16; batch normalisation
and the division by 255 are folded into the convolutions. Of several checkpoints or models,
each one that began with the weights of another, `A.pt=0.6,B.palm=0.4` is the mean of the weights
(Wortsman et al., Model soups, ICML 2022).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from palmkit.models.kinds import without_pictures
from palmkit.models.segmentation.checkpoints import read_network
from palmkit.models.segmentation.guide import folded
from palmkit.models.segmentation.network import SIZE, WIDTHS, ExportedNetwork, MaskNetwork
from palmkit.models.training.export import export_onnx

VERSION = "1.0"
LICENCE = "Apache-2.0"
VIEWS = {
    "portrait": "the whole picture, stretched",
    "hair": "the square of models/segmentation/crop.py round a face, else the whole, stretched",
    "person_finder": "the whole picture, stretched",
    "held_things": "the people with room round them, stretched",
}
KITS = {"person_finder": "portrait", "held_things": "portrait"}
# The normalisation of a channel that is nearly always 0 folds into weights of millions. What they
# give is cut off at 6, and so is what these give, which float16 holds.
LARGEST = 2.0**15
# The sides of input and mask. The finder, which has learnt from larger views, makes as good boxes
# of these on the held-out pictures, in little more than half the time; it misses more small people.
SIDES = {"person_finder": (128, 64), "held_things": (SIZE, SIZE // 4)}


def sides(task: str) -> tuple[int, int]:
    """Return the sides of a model's input and mask, in pixels."""
    return SIDES[task] if task in SIDES else (WIDTHS[task].side, WIDTHS[task].side)


def describe(task: str, metrics: Mapping[str, object]) -> dict[str, str]:
    """Return the model file's metadata."""
    side, found = sides(task)
    # The larger network of a task differs in nothing else.
    same = task.removesuffix("_best")
    return {
        "kit": KITS.get(same, same),
        "name": task,
        "version": VERSION,
        "licence": LICENCE,
        "input": f"image: float32[1, {side}, {side}, 3], RGB 0..255, {VIEWS[same]}",
        "outputs": f"mask: float32[1, {found}, {found}, 1], probability 0..1",
        "threshold": "0.5",
        "data": f"see models/{same}/card.md for the pictures and their terms",
        "metrics": json.dumps(metrics, sort_keys=True),
    }


def mean_weights(checkpoints: str) -> dict[str, torch.Tensor]:
    """Return the folded weights of a file of `read_network`, or the mean of several.

    checkpoints: a path, or `A.pt=0.6,B.palm=0.4`, paths with their shares. Raises ValueError if the
    shares are no numbers or do not add up to one.
    """
    shares = dict[str, float]()
    for part in checkpoints.split(","):
        path, _, number = part.rpartition("=")
        try:
            shares[path or number] = float(number) if path else 1.0
        except ValueError:
            raise ValueError(f"{part}: expected a share after =, such as A.pt=0.6") from None
    if abs(sum(shares.values()) - 1) > 1e-6:
        raise ValueError(f"{checkpoints}: expected shares that add up to 1, A.pt=0.6,B.pt=0.4")
    mean = dict[str, torch.Tensor]()
    for path, share in shares.items():
        for name, value in read_network(Path(path)).state_dict().items():
            mean[name] = share * value + mean.get(name, torch.zeros(()))
    return {name: value.clamp(-LARGEST, LARGEST) for name, value in mean.items()}


def export(task: str, checkpoints: str, out: Path, metrics: Mapping[str, object]) -> Path:
    """Write both files; return the second. checkpoints: as mean_weights takes them."""
    from palmkit.engine import convert, save

    out.mkdir(parents=True, exist_ok=True)
    network = folded(MaskNetwork(WIDTHS[task]))
    network.load_state_dict(mean_weights(checkpoints))
    onnx = out / f"{task}.onnx"
    side, _ = sides(task)
    exported = ExportedNetwork(network).eval()
    export_onnx(exported, torch.zeros(1, side, side, 3), ["mask"], onnx)
    graph = replace(convert(onnx), metadata=describe(task, metrics))
    # A stored plan would take three times the size of the weights.
    save(graph, onnx.with_suffix(".palm"), weights="float16", shapes=())
    return onnx.with_suffix(".palm")


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="export a mask network")
    parser.add_argument("task", choices=tuple(WIDTHS))
    parser.add_argument("checkpoint", help="or the mean of several, A.pt=0.6,B.palm=0.4")
    parser.add_argument("out", type=Path, help="folder that takes the files")
    parser.add_argument("--metrics", type=Path, help="metrics.json of evaluate.py")
    options = parser.parse_args(None if arguments is None else list(arguments))
    measured = json.loads(options.metrics.read_text()) if options.metrics else {}
    told = without_pictures(measured.get("palmkit", {}))
    export(options.task, options.checkpoint, options.out, told)


if __name__ == "__main__":
    main()
