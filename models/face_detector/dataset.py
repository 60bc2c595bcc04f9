"""Training pictures as one tensor, and endless compositions of them.

`pack` writes the training part of the labels with their pictures to one folder; `Bank` holds
them decoded on the device; `Composer` draws batches there: mosaics, zooms, rotations, faces
pasted on other pictures, colour, noise and compression, with the labels carried along.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from palmkit.models.face_detector.labels import LARGEST_SHARE, TERMS, read_picture, share_of

VALIDATION_SHARE = 0.07
LEVELS = 5
MOST_FACES, MOST_IGNORED = 96, 24
KEPT_FACES, KEPT_IGNORED = 112, 64
GRID, PASTES = 4, 6
SMALLEST_FACE = 7.0
SET_WEIGHTS = {
    "eden": 0.27,
    "maskon": 0.08,
    "interfaces": 0.04,
    "aaf": 0.12,
    "ccp_unlabelled": 0.05,
    "clothing": 0.08,
    "grocery": 0.10,
    "ccp": 0.08,
    "hs290": 0.06,
    "cutouts": 0.03,
    "backgrounds": 0.02,
    "figaro": 0.08,
    "fasseg_frontal": 0.005,
    "fasseg_multipose": 0.03,
    "subhi": 0.02,
    "leb": 0.02,
    "obb": 0.02,
    "linto": 0.01,
    "anton": 0.005,
    "ardamavi": 0.01,
    "rps_green": 0.01,
    "fingercount": 0.01,
    "hagrid": 0.04,
}


def assign_parts(entries: list[dict[str, Any]]) -> list[str]:
    """train, validation or dev for each label entry.

    Pictures of one set whose hashes differ in at most 40 of 256 bits share a part.
    """
    parts: list[str] = []
    by_set: dict[str, list[tuple[int, str]]] = {}
    for entry in entries:
        if entry["split"] == "dev":
            parts.append("dev")
            continue
        value = int(entry["hash"], 16)
        known = by_set.setdefault(entry["set"], [])
        near = next((part for other, part in known if (other ^ value).bit_count() <= 40), None)
        part = near or ("validation" if share_of(entry["hash"]) < VALIDATION_SHARE else "train")
        known.append((value, part))
        parts.append(part)
    return parts


def read_labels(path: Path) -> list[dict[str, Any]]:
    """All entries of labels.jsonl, each with its `part`."""
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    for entry, part in zip(entries, assign_parts(entries), strict=True):
        entry["part"] = part
    return entries


def pack(data: Path, labels: Path, out: Path, terms: str = "all", quality: int = 64) -> None:
    """Write the training pictures as WebP to out/pictures.bin and their labels beside it.

    terms: "open" keeps only sets whose terms seem to allow any use.
    """
    out.mkdir(parents=True, exist_ok=True)
    entries = [
        entry
        for entry in read_labels(labels)
        if entry["part"] == "train"
        and share_of(entry["file"]) < LARGEST_SHARE.get(entry["set"], 1.0)
        and (terms == "all" or TERMS[entry["set"]] == "open")
    ]

    def encode(entry: dict[str, Any]) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(read_picture(data, entry["file"])).save(
            buffer, "WEBP", quality=quality, method=2
        )
        return buffer.getvalue()

    with (out / "pictures.bin").open("wb") as pictures, ThreadPoolExecutor(2) as pool:
        for entry, blob in zip(entries, tqdm(pool.map(encode, entries)), strict=False):
            entry["start"], entry["size"] = pictures.tell(), len(blob)
            pictures.write(blob)
    (out / "labels.json").write_text(json.dumps(entries))


class Packed(NamedTuple):
    """A decoded pack: uint8[h, w, 3] pictures and their label entries."""

    pictures: list[np.ndarray[Any, np.dtype[np.uint8]]]
    entries: list[dict[str, Any]]


def read_pack(folder: Path) -> Packed:
    """Decode every picture of a pack."""
    entries = json.loads((folder / "labels.json").read_text())
    blob = (folder / "pictures.bin").read_bytes()

    def decode(entry: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        part = blob[entry["start"] : entry["start"] + entry["size"]]
        return np.asarray(Image.open(io.BytesIO(part)).convert("RGB"))

    with ThreadPoolExecutor(16) as pool:
        return Packed(list(pool.map(decode, entries)), entries)


class Bank:
    """Pictures with their half-size levels in one int32 tensor (0xBBGGRR), and their labels."""

    def __init__(self, packed: Packed, device: torch.device) -> None:
        """Copy the pictures to `device`."""
        count = len(packed.pictures)
        offsets = np.zeros((count, LEVELS), np.int64)
        sizes = np.zeros((count, LEVELS, 2), np.int64)
        chunks: list[np.ndarray[Any, np.dtype[np.int32]]] = []
        total = 0
        with ThreadPoolExecutor(16) as pool:
            for row, words_by_level in enumerate(pool.map(half_sizes, packed.pictures)):
                for level, words in enumerate(words_by_level):
                    offsets[row, level] = total
                    sizes[row, level] = words.shape[::-1]
                    chunks.append(words.reshape(-1))
                    total += words.size
        self.device = device
        self.pixels = torch.from_numpy(np.concatenate(chunks)).to(device)
        self.offsets = torch.from_numpy(offsets).to(device, torch.int32)
        self.sizes = torch.from_numpy(sizes).to(device, torch.float32)
        faces = np.zeros((count, MOST_FACES, 14), np.float32)
        ignored = np.zeros((count, MOST_IGNORED, 4), np.float32)
        face_counts, ignored_counts = np.zeros(count, np.int64), np.zeros(count, np.int64)
        weights = np.zeros(count, np.float64)
        names = [entry["set"] for entry in packed.entries]
        for row, entry in enumerate(packed.entries):
            known = np.asarray(entry["faces"], np.float32).reshape(-1, 14)[:MOST_FACES]
            doubtful = np.asarray(entry["ignored"], np.float32).reshape(-1, 4)[:MOST_IGNORED]
            faces[row, : len(known)], face_counts[row] = known, len(known)
            ignored[row, : len(doubtful)], ignored_counts[row] = doubtful, len(doubtful)
            weights[row] = SET_WEIGHTS[entry["set"]] / names.count(entry["set"])
            weights[row] *= 4.0 if entry["hard"] else 1.0
        self.faces = torch.from_numpy(faces).to(device)
        self.face_counts = torch.from_numpy(face_counts).to(device)
        self.ignored = torch.from_numpy(ignored).to(device)
        self.ignored_counts = torch.from_numpy(ignored_counts).to(device)
        clean = (face_counts == 0) & (ignored_counts == 0)
        size = (faces[:, 0, 2:4] - faces[:, 0, :2]).max(axis=1)
        single = (face_counts == 1) & (ignored_counts == 0) & (size >= 40)
        self.all_weights = cumulative(weights, device)
        self.clean_weights = cumulative(np.where(clean, weights, 0), device)
        self.single_weights = cumulative(np.where(single, weights, 0), device)

    def draw(self, weights: Tensor, *shape: int) -> Tensor:
        """int64[shape] rows by cumulative weights."""
        rows = torch.searchsorted(weights, torch.rand(*shape, device=self.device))
        return rows.clamp(max=len(weights) - 1)


def half_sizes(
    picture: np.ndarray[Any, np.dtype[np.uint8]],
) -> list[np.ndarray[Any, np.dtype[np.int32]]]:
    """The picture and its halves as int32[h, w] words."""
    image = Image.fromarray(picture)
    levels: list[np.ndarray[Any, np.dtype[np.int32]]] = []
    for level in range(LEVELS):
        if level:
            image = image.reduce(2)
        pixels = np.asarray(image).astype(np.int32)
        levels.append(pixels[..., 0] | (pixels[..., 1] << 8) | (pixels[..., 2] << 16))
    return levels


def cumulative(weights: np.ndarray[Any, np.dtype[np.float64]], device: torch.device) -> Tensor:
    """Running sum that ends at one; all rows alike where every weight is zero."""
    if weights.sum() == 0:
        weights = np.ones_like(weights)
    return torch.from_numpy(np.cumsum(weights / weights.sum())).to(device, torch.float32)


class Batch(NamedTuple):
    """Composed pictures and labels, in pixels of the composition.

    images: float32[n, 3, size, size], RGB 0..1.
    faces: float32[n, m, 14], box and points; present: bool[n, m]; pointed: bool[n, m, 5].
    ignored: float32[n, k, 4]; doubtful: bool[n, k].
    """

    images: Tensor
    faces: Tensor
    present: Tensor
    pointed: Tensor
    ignored: Tensor
    doubtful: Tensor


class Placement(NamedTuple):
    """How pictures lie in the composition: out = matrix @ (source - origin) + target."""

    rows: Tensor
    matrix: Tensor
    origin: Tensor
    target: Tensor


def uniform(low: float, high: float, *shape: int, device: torch.device) -> Tensor:
    """float32[shape], evenly between the bounds."""
    return torch.rand(*shape, device=device) * (high - low) + low


def transform(scale: Tensor, spread: float) -> Tensor:
    """float32[..., 2, 2]: scale with rotation, mirroring and a little stretch.

    spread: standard deviation of the rotation in degrees; one in ten turns three times more.
    """
    shape, device = scale.shape, scale.device
    wild = torch.where(torch.rand(shape, device=device) < 0.1, 3.0, 1.0)
    angle = torch.randn(shape, device=device) * wild * spread * (np.pi / 180)
    stretch = torch.exp(torch.randn(shape, device=device) * 0.07)
    flip = torch.where(torch.rand(shape, device=device) < 0.5, -1.0, 1.0)
    cos, sin = angle.cos() * scale, angle.sin() * scale
    first = torch.stack([cos * stretch * flip, -sin / stretch], dim=-1)
    second = torch.stack([sin * stretch * flip, cos / stretch], dim=-1)
    return torch.stack([first, second], dim=-2)


def place_boxes(boxes: Tensor, place: Placement) -> Tensor:
    """Boxes round the turned ellipses: float32[..., f, 4] with placements float32[...]."""
    centres = place_points((boxes[..., :2] + boxes[..., 2:]) / 2, place)
    halves = (boxes[..., 2:] - boxes[..., :2]) / 2
    spans = torch.einsum("...ij,...fj->...fi", place.matrix**2, halves**2).sqrt()
    return torch.cat([centres - spans, centres + spans], dim=-1)


def place_points(points: Tensor, place: Placement) -> Tensor:
    """float32[..., f, 2] points of the source in the composition."""
    moved = points - place.origin[..., None, :]
    return torch.einsum("...ij,...fj->...fi", place.matrix, moved) + place.target[..., None, :]


def area(boxes: Tensor) -> Tensor:
    """float32[..., 4] to float32[...], never negative."""
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1)


class Source(NamedTuple):
    """Per slot: int32 first pixel, float32 width and height, float32[..., 6] inverse affine."""

    offset: Tensor
    width: Tensor
    height: Tensor
    affine: Tensor


def fetch(pixels: Tensor, source: Source, x: Tensor, y: Tensor, mirrored: bool) -> Tensor:
    """Bilinear RGB 0..1 at float32[n, h, w] source positions; float32[n, 3, h, w]."""
    if mirrored:
        x = source.width - (x.abs() % (2 * source.width) - source.width).abs()
        y = source.height - (y.abs() % (2 * source.height) - source.height).abs()
    x, y = x - 0.5, y - 0.5
    left, top = x.floor(), y.floor()
    right_share, low_share = (x - left)[:, None], (y - top)[:, None]
    columns = [(left + step).clamp(min=0).minimum(source.width - 1).int() for step in (0, 1)]
    rows = [(top + step).clamp(min=0).minimum(source.height - 1).int() for step in (0, 1)]
    width = source.width.int()

    def tap(row: Tensor, column: Tensor) -> Tensor:
        word = pixels[source.offset + row * width + column]
        channels = (word & 255, (word >> 8) & 255, (word >> 16) & 255)
        return torch.stack(channels, dim=1).float()

    upper = torch.lerp(tap(rows[0], columns[0]), tap(rows[0], columns[1]), right_share)
    lower = torch.lerp(tap(rows[1], columns[0]), tap(rows[1], columns[1]), right_share)
    return torch.lerp(upper, lower, low_share) / 255


def pick(source: Source, slot: Tensor) -> Source:
    """The slot of each pixel: int64[n, h, w] into n rows of slots."""
    flat = slot.flatten(1)
    shape = slot.shape
    affine = torch.stack(
        [source.affine[..., k].gather(1, flat).reshape(shape) for k in range(6)], dim=-1
    )
    return Source(
        source.offset.gather(1, flat).reshape(shape),
        source.width.gather(1, flat).reshape(shape),
        source.height.gather(1, flat).reshape(shape),
        affine,
    )


def source_positions(affine: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Composition positions to source positions by float32[..., 6]."""
    return (
        affine[..., 0] * x + affine[..., 1] * y + affine[..., 2],
        affine[..., 3] * x + affine[..., 4] * y + affine[..., 5],
    )


def render(
    pixels: Tensor,
    size: int,
    lines: Tensor,
    cells: Source,
    fill: Source,
    colour: Tensor,
    pastes: Source,
    ellipses: Tensor,
) -> Tensor:
    """Draw the compositions: a fill, the cells over it, the pasted ellipses over them.

    lines: float32[n, 2, GRID - 1] inner borders, x then y; colour: float32[n, 3], negative
    where the fill is a picture; ellipses: float32[n, PASTES, 5], centre and radii in the
    source and softness, radii zero where unused.
    """
    position = torch.arange(size, device=pixels.device) + 0.5
    x = position[None, None, :].expand(lines.shape[0], size, size)
    y = position[None, :, None].expand(lines.shape[0], size, size)
    column = (position[None, None] >= lines[:, 0, :, None]).sum(dim=1)
    row = (position[None, None] >= lines[:, 1, :, None]).sum(dim=1)
    slot = row[:, :, None] * GRID + column[:, None, :]

    behind = pick(fill, torch.zeros_like(slot))
    canvas = fetch(pixels, behind, *source_positions(behind.affine, x, y), mirrored=True)
    plain = colour[:, :, None, None]
    canvas = torch.where(plain >= 0, plain, canvas)

    cell = pick(cells, slot)
    source_x, source_y = source_positions(cell.affine, x, y)
    inside = (source_x > 0) & (source_y > 0)
    inside &= (source_x < cell.width) & (source_y < cell.height)
    drawn = fetch(pixels, cell, source_x, source_y, mirrored=False)
    canvas = torch.where(inside[:, None], drawn, canvas)

    top = torch.zeros_like(slot)
    alpha = torch.zeros_like(x)
    for index in range(PASTES):
        paste = pastes.affine[:, index, None, None]
        over_x, over_y = source_positions(paste, x, y)
        ellipse = ellipses[:, index, None, None]
        distance = ((over_x - ellipse[..., 0]) / ellipse[..., 2].clamp(min=1e-3)) ** 2
        distance = distance + ((over_y - ellipse[..., 1]) / ellipse[..., 3].clamp(min=1e-3)) ** 2
        here = (distance < 1) & (ellipse[..., 2] > 0)
        top = torch.where(here, index, top)
        share = ((1 - distance) * ellipse[..., 4]).clamp(0, 1)
        alpha = torch.where(here, share, alpha)
    paste_source = pick(pastes, top)
    pasted = fetch(
        pixels, paste_source, *source_positions(paste_source.affine, x, y), mirrored=False
    )
    return torch.lerp(canvas, pasted, alpha[:, None])


QUANTISATION = (
    *(16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55),
    *(14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62),
    *(18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92),
    *(49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99),
)


def compress(images: Tensor, strength: Tensor) -> Tensor:
    """Loss as of JPEG: 8x8 cosine blocks of float32[n, 3, h, w] rounded to `strength` steps.

    strength: float32[n], the factor of the standard luminance table; 0 leaves the picture.
    """
    index = torch.arange(8, device=images.device, dtype=torch.float32)
    basis = torch.cos((2 * index[None, :] + 1) * index[:, None] * (np.pi / 16)) / 2
    basis = torch.cat([basis[:1] / 2**0.5, basis[1:]])
    weights = torch.tensor(
        [[0.299, 0.587, 0.114], [-0.169, -0.331, 0.5], [0.5, -0.419, -0.081]], device=images.device
    )
    luma = torch.einsum("ck,nkhw->nchw", weights, images) * 255
    count, _, height, width = images.shape
    blocks = luma.reshape(count, 3, height // 8, 8, width // 8, 8)
    waves = torch.einsum("ia,ncyaxb,jb->ncyixj", basis, blocks, basis)
    table = torch.tensor(QUANTISATION, device=images.device, dtype=torch.float32).reshape(8, 8)
    steps = table[None, None, None, :, None, :] * strength[:, None, None, None, None, None]
    steps = steps.clamp(min=1e-3)
    waves = (waves / steps).round() * steps
    back = torch.einsum("ia,ncyixj,jb->ncyaxb", basis, waves, basis).reshape(luma.shape)
    colours = torch.linalg.inv(weights)
    decoded = torch.einsum("ck,nkhw->nchw", colours, back) / 255
    return torch.where(strength[:, None, None, None] > 0, decoded, images)


def disturb(images: Tensor, chance: Mapping[str, Tensor]) -> Tensor:
    """Colour, light, noise, and compression of the first half of the batch.

    Each entry of `chance` is float32[n] or float32[n, 3].
    """
    shape = (-1, 1, 1, 1)
    grey = torch.einsum(
        "k,nkhw->nhw", torch.tensor([0.299, 0.587, 0.114], device=images.device), images
    )[:, None]
    images = torch.lerp(grey, images, chance["saturation"].reshape(shape))
    images = images * chance["gain"][:, :, None, None]
    images = (images - 0.5) * chance["contrast"].reshape(shape) + 0.5
    images = (images + chance["brightness"].reshape(shape)).clamp(1e-3, 1)
    images = images ** chance["gamma"].reshape(shape)
    images = images + torch.randn_like(images) * chance["noise"].reshape(shape)
    part = max(1, len(images) // 2)
    lossy = compress(images[:part], chance["compression"][:part])
    return torch.cat([lossy, images[part:]]).clamp(0, 1)


class Composer:
    """Draws batches from a bank."""

    def __init__(self, bank: Bank, fast: bool) -> None:
        """fast: compile the drawing."""
        self.bank = bank
        self.render = torch.compile(render, dynamic=False) if fast else render
        self.disturb = torch.compile(disturb, dynamic=False) if fast else disturb

    def source(self, place: Placement) -> tuple[Source, Tensor]:
        """Level and inverse affine that draw a placement, and that level's size ratio."""
        bank = self.bank
        determinant = torch.linalg.det(place.matrix).abs().clamp(min=1e-6)
        wanted = -0.5 * torch.log2(determinant)
        jitter = uniform(-0.4, 1.0, *wanted.shape, device=bank.device)
        level = (wanted + jitter).floor().clamp(0, LEVELS - 1).long()
        sizes = bank.sizes[place.rows]
        chosen = sizes.gather(-2, level[..., None, None].expand(*level.shape, 1, 2)).squeeze(-2)
        ratio = chosen / sizes[..., 0, :]
        inverse = torch.linalg.inv(place.matrix)
        shift = place.origin - torch.einsum("...ij,...j->...i", inverse, place.target)
        rows = torch.cat([inverse, shift[..., None]], dim=-1) * ratio[..., None]
        offset = bank.offsets[place.rows].gather(-1, level[..., None]).squeeze(-1)
        return Source(offset, chosen[..., 0], chosen[..., 1], rows.flatten(-2)), ratio

    def compose(self, count: int, size: int) -> Batch:
        """A batch of `count` square compositions."""
        bank, device = self.bank, self.bank.device
        slots = GRID * GRID
        grid = torch.multinomial(
            torch.tensor([0.52, 0.24, 0.13, 0.11], device=device), count, replacement=True
        )
        grid = grid + 1
        step = torch.arange(1, GRID, device=device)[None, None]
        jitter = uniform(-0.15, 0.15, count, 2, GRID - 1, device=device)
        lines = (step + jitter) * (size / grid)[:, None, None]
        lines = torch.where(step < grid[:, None, None], lines, float(size))
        edges = torch.cat(
            [lines.new_zeros(count, 2, 1), lines, lines.new_full((count, 2, 1), float(size))], dim=2
        )
        index = torch.arange(slots, device=device)
        x0, x1 = edges[:, 0, index % GRID], edges[:, 0, index % GRID + 1]
        y0, y1 = edges[:, 1, index // GRID], edges[:, 1, index // GRID + 1]
        cells = torch.stack([x0, y0, x1, y1], dim=-1)

        place = self.place_cells(cells, grid, size)
        faces, pointed, usable, doubtful, ignored, unsure = self.carry_labels(place, cells)
        paste, ellipses, boxes, points, labelled, known = self.place_pastes(count, size)
        corner = torch.maximum(faces[:, :, None, :2], boxes[:, None, :, :2])
        far = torch.minimum(faces[:, :, None, 2:4], boxes[:, None, :, 2:])
        overlap = (far - corner).clamp(min=0).prod(dim=-1).sum(dim=-1)
        hidden = overlap / area(faces[..., :4]).clamp(min=1e-3)
        doubtful = doubtful | (usable & (hidden > 0.3))
        usable = usable & (hidden <= 0.3)
        doubtful &= hidden < 0.9
        later = torch.arange(PASTES, device=device)
        corner = torch.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
        far = torch.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
        over = (far - corner).clamp(min=0).prod(dim=-1) * (later[None] > later[:, None])
        buried = over.sum(dim=-1) / area(boxes).clamp(min=1e-3)
        inner = torch.cat([boxes[..., :2].clamp(min=0), boxes[..., 2:].clamp(max=size)], dim=-1)
        seen = area(inner) / area(boxes).clamp(min=1e-3)
        good = labelled & (buried < 0.3) & (seen > 0.55)
        pasted = torch.cat([inner, points.flatten(-2)], dim=-1)

        all_faces = torch.cat([faces, pasted], dim=1)
        all_pointed = torch.cat([pointed, known & good[..., None]], dim=1)
        all_usable = torch.cat([usable, good], dim=1)
        order = (all_usable + torch.rand_like(all_faces[..., 0]) * 0.5).topk(KEPT_FACES).indices
        regions = torch.cat([faces[..., :4], inner, ignored], dim=1)
        all_doubtful = torch.cat([doubtful, labelled & ~good, unsure], dim=1)
        kept = (all_doubtful + torch.rand_like(regions[..., 0]) * 0.5).topk(KEPT_IGNORED).indices

        fill, colour = self.place_fill(count, size)
        pieces, ratio = self.source(paste)
        shapes = torch.cat(
            [ellipses[..., :2] * ratio, ellipses[..., 2:4] * ratio, ellipses[..., 4:]], dim=-1
        )
        sources = self.source(place)[0], self.source(fill)[0]
        images = self.render(bank.pixels, size, lines, *sources, colour, pieces, shapes)
        images = self.disturb(images, self.chances(count))
        return Batch(
            images.contiguous(memory_format=torch.channels_last),
            all_faces.gather(1, order[..., None].expand(-1, -1, 14)),
            all_usable.gather(1, order),
            all_pointed.gather(1, order[..., None].expand(-1, -1, 5)),
            regions.gather(1, kept[..., None].expand(-1, -1, 4)),
            all_doubtful.gather(1, kept),
        )

    def place_cells(self, cells: Tensor, grid: Tensor, size: int) -> Placement:
        """A picture for each cell: round one of its faces, or anywhere, at a random scale."""
        bank, device = self.bank, self.bank.device
        count, slots = cells.shape[:2]
        rows = bank.draw(bank.all_weights, count, slots)
        faces = bank.face_counts[rows]
        chosen = (torch.rand(count, slots, device=device) * faces).long()
        box = bank.faces[rows, chosen][..., :4]
        whole = bank.sizes[rows, 0]
        side = (cells[..., 2:] - cells[..., :2]).amin(dim=-1).clamp(min=8)
        face = (box[..., 2:] - box[..., :2]).amax(dim=-1).clamp(min=4)
        low, high = torch.full_like(side, 7.0).log(), (side * 0.95).log()
        wanted = (low + (high - low) * torch.rand(count, slots, device=device)).exp()
        by_face = (wanted / face).clamp(0.05, 2.5)
        by_picture = side / whole.amax(dim=-1)
        by_picture = by_picture * uniform(-1.2, 1.0, count, slots, device=device).exp()
        fitted = (grid == 1)[:, None] & (torch.rand(count, 1, device=device) < 0.4)
        in_full = (side / whole.amax(dim=-1)) * uniform(0.75, 1.15, count, slots, device=device)
        scale = torch.where(faces > 0, by_face, by_picture)
        scale = torch.where(fitted, in_full, scale)
        anywhere = whole * uniform(0.2, 0.8, count, slots, 2, device=device)
        origin = torch.where((faces > 0)[..., None], (box[..., :2] + box[..., 2:]) / 2, anywhere)
        origin = torch.where(fitted[..., None], whole / 2, origin)
        span = (cells[..., 2:] - cells[..., :2]) / 2
        room = (span - (wanted / 2)[..., None]).clamp(min=0) + 0.1 * span
        room = torch.where(fitted[..., None], 0.1 * span, room)
        middle = (cells[..., 2:] + cells[..., :2]) / 2
        target = middle + room * uniform(-1, 1, count, slots, 2, device=device)
        return Placement(rows, transform(scale, 9.0), origin, target)

    def carry_labels(
        self, place: Placement, cells: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Faces, their known points, which are usable and doubtful; ignored boxes, which hold."""
        bank = self.bank
        stored = bank.faces[place.rows]
        count, slots, most = stored.shape[:3]
        real = torch.arange(most, device=bank.device) < bank.face_counts[place.rows][..., None]
        boxes = place_boxes(stored[..., :4], place)
        raw = stored[..., 4:].reshape(count, slots, most, 5, 2)
        known = ~raw.isnan().any(dim=-1)
        points = place_points(raw.nan_to_num().flatten(2, 3), place).reshape(raw.shape)
        flipped = (torch.linalg.det(place.matrix) < 0)[..., None, None]
        swap = [1, 0, 2, 4, 3]
        points = torch.where(flipped[..., None], points[..., swap, :], points)
        known = torch.where(flipped, known[..., swap], known)
        limits = cells[:, :, None]
        clipped = torch.cat(
            [
                torch.maximum(boxes[..., :2], limits[..., :2]),
                torch.minimum(boxes[..., 2:], limits[..., 2:]),
            ],
            dim=-1,
        )
        visible = area(clipped) / area(boxes).clamp(min=1e-3)
        spans = clipped[..., 2:] - clipped[..., :2]
        usable = real & (visible > 0.55) & (spans.amax(dim=-1) >= SMALLEST_FACE)
        usable &= spans.amin(dim=-1) >= 0.6 * SMALLEST_FACE
        doubtful = real & ~usable & (visible > 0.08)
        inside = (points > limits[..., None, :2]) & (points < limits[..., None, 2:])
        pointed = known & inside.all(dim=-1)
        faces = torch.cat([clipped, points.flatten(-2)], dim=-1)
        regions = place_boxes(bank.ignored[place.rows], place)
        regions = torch.cat(
            [
                torch.maximum(regions[..., :2], limits[..., :2]),
                torch.minimum(regions[..., 2:], limits[..., 2:]),
            ],
            dim=-1,
        )
        order = torch.arange(MOST_IGNORED, device=bank.device)
        unsure = order < bank.ignored_counts[place.rows][..., None]
        unsure &= area(regions) > 0
        return (
            faces.flatten(1, 2),
            pointed.flatten(1, 2),
            usable.flatten(1, 2),
            doubtful.flatten(1, 2),
            regions.flatten(1, 2),
            unsure.flatten(1, 2),
        )

    def place_pastes(
        self, count: int, size: int
    ) -> tuple[Placement, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Elliptic pieces: two in three hold a face, the others none.

        Returns placements, ellipses, boxes, points, which pieces hold a face, and which points
        are known. Unused pieces have empty boxes far outside.
        """
        bank, device = self.bank, self.bank.device
        shape = (count, PASTES)
        used = torch.rand(shape, device=device) < uniform(-1.2, 0.9, count, 1, device=device)
        with_face = torch.rand(shape, device=device) < 0.67
        rows = torch.where(
            with_face, bank.draw(bank.single_weights, *shape), bank.draw(bank.clean_weights, *shape)
        )
        with_face = with_face & (bank.face_counts[rows] == 1)
        whole = bank.sizes[rows, 0]
        stored = bank.faces[rows, 0]
        middle = whole * uniform(0.3, 0.7, *shape, 2, device=device)
        reach = whole.amin(dim=-1, keepdim=True) * uniform(0.08, 0.3, *shape, 1, device=device)
        blank = torch.cat([middle - reach, middle + reach], dim=-1)
        box = torch.where(with_face[..., None], stored[..., :4], blank)
        length = (box[..., 2:] - box[..., :2]).amax(dim=-1)
        wanted = uniform(float(np.log(8)), float(np.log(0.4 * size)), *shape, device=device).exp()
        scale = (wanted / length).clamp(0.03, 2.0)
        origin = (box[..., :2] + box[..., 2:]) / 2
        target = size * uniform(0.02, 0.98, *shape, 2, device=device)
        place = Placement(rows, transform(scale, 12.0), origin, target)
        radii = (box[..., 2:] - box[..., :2]) * uniform(0.62, 0.95, *shape, 1, device=device)
        radii = radii * used[..., None]
        softness = uniform(1.0, 3.0, *shape, 1, device=device).exp()
        ellipses = torch.cat([origin, radii, softness], dim=-1)
        boxes = place_boxes(box[..., None, :], place).squeeze(-2)
        boxes = torch.where(used[..., None], boxes, -1000.0)
        raw = stored[..., 4:].reshape(*shape, 5, 2)
        points = place_points(raw.nan_to_num(), place)
        flipped = (torch.linalg.det(place.matrix) < 0)[..., None, None]
        points = torch.where(flipped, points[..., [1, 0, 2, 4, 3], :], points)
        known = ~raw.isnan().any(dim=-1)
        known = torch.where(flipped[..., 0], known[..., [1, 0, 2, 4, 3]], known)
        return place, ellipses, boxes, points, used & with_face, known

    def place_fill(self, count: int, size: int) -> tuple[Placement, Tensor]:
        """What shows where no picture lies: a faceless picture, black or a colour."""
        bank, device = self.bank, self.bank.device
        rows = bank.draw(bank.clean_weights, count, 1)
        whole = bank.sizes[rows, 0]
        scale = size / whole.amax(dim=-1) * uniform(-1.5, 0.7, count, 1, device=device).exp()
        place = Placement(
            rows, transform(scale, 30.0), whole / 2, torch.full_like(whole, size / 2)
        )
        kind = torch.rand(count, 1, device=device)
        colour = torch.where(kind < 0.3, 0.0, torch.rand(count, 3, device=device))
        return place, torch.where(kind > 0.4, -1.0, colour)

    def chances(self, count: int) -> dict[str, Tensor]:
        """How strongly each picture is disturbed."""
        device = self.bank.device

        def rarely(share: float, strong: Tensor, weak: Tensor) -> Tensor:
            often = torch.rand(count, device=device) < share
            return torch.where(often.reshape(-1, *([1] * (strong.dim() - 1))), strong, weak)

        one, none = torch.ones(count, device=device), torch.zeros(count, device=device)
        return {
            "saturation": rarely(0.12, none, uniform(0.4, 1.6, count, device=device)),
            "gain": rarely(
                0.7, 1 + 0.12 * torch.randn(count, 3, device=device), torch.ones_like(one)[:, None]
            ).clamp(0.5, 1.6),
            "contrast": rarely(0.7, uniform(0.5, 1.5, count, device=device), one),
            "brightness": rarely(0.7, 0.15 * torch.randn(count, device=device), none),
            "gamma": rarely(0.5, uniform(-0.7, 0.7, count, device=device).exp(), one),
            "noise": rarely(0.3, uniform(0, 0.07, count, device=device), none),
            "compression": rarely(0.9, uniform(-1.5, 1.4, count, device=device).exp(), none),
        }


def main(arguments: Iterable[str] | None = None) -> None:
    """Write a pack."""
    parser = argparse.ArgumentParser(description="pack the training pictures of the face detector")
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="labels.jsonl")
    parser.add_argument("out", type=Path, help="folder that takes the pack")
    parser.add_argument("--terms", choices=("open", "all"), default="all")
    options = parser.parse_args(None if arguments is None else list(arguments))
    pack(options.data, options.labels, options.out, options.terms)


if __name__ == "__main__":
    main()
