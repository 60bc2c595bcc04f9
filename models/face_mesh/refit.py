"""Fit the last linear layer anew, by weighted least squares, to faces as the kit sees them.

`python -m palmkit.models.face_mesh.refit DATA LABELS MESHES CHECKPOINT OUT` writes
OUT/checkpoint.pt. Training covers and bends faces far more than cameras do, and its loss is not
that layer's alone. The training faces without masks are cut as the kit cuts them, each several
times, half of them disturbed. What that layer reads stays, and visibility and presence.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from palmkit.kits.crop import Crop, sample
from palmkit.kits.face.topology import MIRROR
from palmkit.models.face_detector.dataset import read_labels
from palmkit.models.face_detector.labels import read_picture
from palmkit.models.face_mesh.dataset import Faces, is_sure, read_meshes
from palmkit.models.face_mesh.labels import eye_distance
from palmkit.models.face_mesh.network import FaceMesh, trained
from palmkit.models.face_mesh.teacher import Array
from palmkit.models.training.pixels import disturb, disturbances

VIEWS, AT_ONCE = 8, 128
# Of the mean square of the codes; on the validation part anything from 0.001 to none is as good.
RIDGE = 0.001
# Faces count less whose views the teacher labels less alike, or that the network is further off.
USUAL_SPREAD, USUAL_ERROR = 0.015, 0.02


def views(data: Path, entries: list[dict[str, str]], faces: Faces) -> Iterable[tuple[Array, Array]]:
    """Yield crops uint8[s, s, 3] that are off like the kit's, half mirrored, and their meshes."""
    random = np.random.default_rng(3)
    for number, place, points in zip(faces.entry, faces.crop.tolist(), faces.points, strict=True):
        picture = read_picture(data, entries[number]["file"])
        crop = Crop(*place)
        for _ in range(VIEWS):
            x, y, growth, turn = random.normal(0, (0.02, 0.02, 0.05, 0.06))
            moved = crop.moved(x, y, float(np.exp(growth)), turn)
            seen = sample(picture, moved, 160)
            mesh = moved.to_crop(crop.to_picture(points))
            if random.random() < 0.5:
                seen, mesh = seen[:, ::-1], mesh[MIRROR]
                mesh[:, 0] = 1 - mesh[:, 0]
            yield np.asarray(seen, np.float32) / np.float32(255), mesh


@torch.no_grad()
def look(network: FaceMesh, images: list[Array]) -> tuple[Array, Array]:
    """Return what the last layer reads, and gives, of a batch; its second half is disturbed."""
    caught: list[Tensor] = []

    def catch(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        caught.append(given[0])

    hook = network.points.register_forward_pre_hook(catch)
    batch = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()
    half = len(batch) // 2
    rest = batch[half:]
    batch = torch.cat([batch[:half], disturb(rest, disturbances(len(rest), batch.device))])
    points = network(batch).points
    hook.remove()
    return caught[0].numpy(), points.flatten(1).numpy()


def refit(network: FaceMesh, data: Path, entries: list[dict[str, str]], faces: Faces) -> None:
    """Replace the network's last layer, in place."""
    torch.manual_seed(0)
    width = network.points.in_features + 1
    gram, right = np.zeros((width, width)), np.zeros((width, network.points.out_features))
    images: list[Array] = []
    meshes: list[Array] = []
    spreads = np.repeat(faces.spread, VIEWS)
    total = VIEWS * len(faces.entry)
    done = 0
    for image, mesh in tqdm(views(data, entries, faces), total=total, mininterval=5):
        images.append(image)
        meshes.append(mesh)
        if len(images) < AT_ONCE and done + len(images) < total:
            continue
        codes, points = look(network, images)
        true = np.stack(meshes)
        off = true.reshape(len(true), -1) - points
        unit = eye_distance(true)
        apart = np.linalg.norm(off.reshape(true.shape)[..., :2], axis=-1).mean(axis=1) / unit
        weight = USUAL_SPREAD / np.maximum(spreads[done : done + len(images)], USUAL_SPREAD)
        weight *= np.minimum(1, USUAL_ERROR / apart) / unit**2
        full = np.concatenate([codes, np.ones((len(codes), 1), np.float32)], axis=1)
        gram += full.T @ (full * weight[:, None])
        right += full.T @ (off * weight[:, None])
        done += len(images)
        images, meshes = [], []
    ridge = RIDGE * np.trace(gram) / width
    change = np.linalg.solve(gram + ridge * np.eye(width), right)
    with torch.no_grad():
        network.points.weight.add_(torch.from_numpy(change[:-1].T).float())
        network.points.bias.add_(torch.from_numpy(change[-1]).float())


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="fit the face mesh's last layer anew")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="labels.jsonl of the face detector")
    parser.add_argument("meshes", type=Path, help="meshes.npz of labels.py")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path, help="folder that takes checkpoint.pt")
    options = parser.parse_args(None if arguments is None else list(arguments))
    state = torch.load(options.checkpoint, map_location="cpu", weights_only=True)
    network = trained(state)
    entries = read_labels(options.labels)
    faces = read_meshes(options.meshes, entries)
    faces = faces.select((faces.part == "train") & is_sure(faces) & ~faces.masked)
    refit(network, options.data, entries, faces)
    options.out.mkdir(parents=True, exist_ok=True)
    averaged = network.state_dict()
    torch.save({"recipe": state["recipe"], "averaged": averaged}, options.out / "checkpoint.pt")


if __name__ == "__main__":
    main()
