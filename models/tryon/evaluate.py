"""Measure hair dye against the true hair of development portraits, and make their contact sheets.

`python -m palmkit.models.tryon.evaluate DATA OUT` reads the indexes in DATA, prints tables, and
writes OUT/metrics.json and the sheets OUT/SET_1.jpg ...: a row for every development portrait, its
largest face as it is, and with each look of WORN. Of the portraits with a mask of the hair it says
how they came out by kind of picture (palmkit.models.kinds), each number 1 at best:

kept     of all chroma that violet changes, the share on true hair; the rest has leaked. What is
         nearer to true hair than TOLERANCE of the diagonal, as far as masks are off, is none of it
reached  the share of true hair, but for as much along its outline, that violet changes visibly
soft     how far the outline under platinum is as soft as the photo's own: of the gradients across
         it, each over the contrast of its two sides, the smaller over the larger

Of the ratio of those gradients, dyed over own, and of the leak in percent there are also the
quartiles: above 1 the dyed outline is sharper than the photo's own; and of the rim: how much darker
than both its sides the outline is under platinum, in L of CIELAB, more than in the photo. Where the
mask has no hair all is leaked, however little; so there is also the share of the chroma of all
portraits together, each counted in areas of its face. And in how many pictures with a hat that the
hair network has not learnt as one (palmkit.models.segmentation.hats) over DYED of the crown changes
visibly.

The largest face wears the dye, at full opacity, as the masks are of one person. Portraits without a
face wear nothing and are only counted.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image as Pillow

from palmkit.kits import Look, TryOn
from palmkit.kits.cli.command import progress_bar
from palmkit.kits.image import Image, read_image, resize, write_image
from palmkit.kits.tryon.colour import to_lab
from palmkit.kits.tryon.doubt import crown_of
from palmkit.kits.tryon.regions import soften
from palmkit.models import kinds
from palmkit.models.segmentation.hats import hats
from palmkit.models.training.labels import read_rows

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]

INDEXES = ("portraits", "hair", "faces")
# Sets of portraits; the first have masks of the hair that are hair alone.
WITH_HAIR = ("ccp", "figaro")
OTHERS = ("hs290", "fasseg_multipose", "interfaces", "ccp_unlabelled", "aaf")
# What is worn on the sheets.
WORN: dict[str, dict[str, Any]] = {
    "platinum": {"hair": "platinum"},
    "copper": {"hair": "copper"},
    "violet": {"hair": {"colour": "#5b2e8c", "opacity": 1.0}},
    "eyeliner": {"eyeliner": "winged"},
    "glasses": {"glasses": "black_square"},
    "aviator": {"glasses": "gold_aviator"},
}
# The dye whose leak is measured, and the one whose edge is.
COLOURED, BLEACHED = ({"colour": each, "opacity": 1.0} for each in ("#5b2e8c", "#d9cdb8"))
# Of the diagonal, as DAVIS has it.
TOLERANCE = 0.008
# A change of CIELAB that is seen.
VISIBLE = 4.0
# The share of a crown that is too much of a hat.
DYED = 0.25
# Sides of an outline that differ by less, in CIELAB, show no edge to be measured.
CONTRAST = 8.0
# How much of each side there is round a pixel of the outline that counts, and the least of those.
SEEN, LEAST = 0.05, 50
# Rows of a sheet, its tiles' side in pixels, and that of a face's part of the picture in the
# longer side of the face.
ROWS, TILE, AROUND = 12, 224, 3.4


class Portrait(NamedTuple):
    """A development portrait: its set, the picture, and its true hair if that is known."""

    set: str
    picture: Image
    hair: Flags | None


class Dyed(NamedTuple):
    """How a portrait was dyed, see the module.

    ratio: of the gradients, dyed over own; None without a clear outline. rim: what is darker there;
    None where the outline is not seen. distance: a kind. chroma: all that changes, in CIELAB,
    summed over the pixels, over the area of the face's box.
    """

    kept: float
    reached: float
    ratio: float | None
    rim: float | None
    distance: str
    chroma: float


def read_portraits(data: Path, sets: Iterable[str]) -> Iterator[Portrait]:
    """Yield the development portraits of these sets, in the order of the indexes."""
    wanted = frozenset(sets)
    indexes = [name for name in INDEXES if (data / name / "index.jsonl").exists()]
    for row in read_rows(data, indexes, {}):
        if row["split"] != "dev" or row["set"] not in wanted:
            continue
        picture = read_image(data / row["file"])
        hair = None
        if row["set"] in WITH_HAIR:
            with Pillow.open(data / row["hair_mask"]) as mask:
                hair = np.asarray(mask.convert("L")) > 127
        yield Portrait(row["set"], picture, hair)


def grown(mask: Flags, reach: int) -> Flags:
    """Return the mask with what is at most so many pixels from it."""
    disk = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    return np.asarray(cv2.dilate(mask.view(np.uint8), disk) > 0)


def leak(before: Floats, after: Floats, hair: Flags) -> tuple[float, float]:
    """Return the share of changed chroma outside of the hair, and the share of hair changed.

    before, after: CIELAB, float32[h, w, 3]. hair: bool[h, w], with an outline that may be off by
    TOLERANCE of the diagonal.
    """
    reach = math.ceil(TOLERANCE * math.hypot(*hair.shape))
    outside, inside = ~grown(hair, reach), ~grown(~hair, reach)
    change = chroma_between(before, after)
    visible = np.sqrt(((after - before) ** 2).sum(axis=2)) > VISIBLE
    leaked = float(change[outside].sum()) / max(float(change.sum()), 1e-6)
    return leaked, float(visible[inside].mean()) if inside.any() else 1.0


def chroma_between(before: Floats, after: Floats) -> Floats:
    """Return how far a and b of each pixel differ, float32[h, w]."""
    return np.asarray(np.hypot(*(after - before)[..., 1:].transpose(2, 0, 1)), np.float32)


def sharpness(lab: Floats, hair: Flags) -> float | None:
    """Return the gradient across the outline of the hair over the contrast of its sides, 1/pixel.

    lab: CIELAB, float32[h, w, 3]. hair: bool[h, w]. Of the gradient only what leads from the colour
    of one side to that of the other counts, into the hair. The root of the mean square, where the
    sides differ by CONTRAST or more; None if that is nearly nowhere.
    """
    near = _near(hair)
    outline, inner, outer = _outline(lab, hair)
    contrast = np.sqrt(((inner - outer) ** 2).sum(axis=2))
    outline &= contrast > CONTRAST
    if outline.sum() < LEAST:
        return None
    direction = (inner - outer) / np.maximum(contrast, 1e-3)[..., None]
    smooth = soften(hair.astype(np.float32), 1.5 * near)
    normal = [_slope(smooth, axis) for axis in (0, 1)]
    length = np.maximum(np.hypot(*normal), 1e-6)
    slope = sum(
        (_slope(lab, axis) * direction).sum(axis=2) * part / length
        for axis, part in enumerate(normal)
    )
    steep = np.maximum(slope, 0)[outline] / contrast[outline]
    return float(np.sqrt(np.square(steep).mean()))


def rim(lab: Floats, hair: Flags) -> float | None:
    """Return how much darker than both its sides the outline of the hair is on average, in L.

    lab: CIELAB, float32[h, w, 3]. hair: bool[h, w]. None if both sides are seen nearly nowhere.
    """
    outline, inner, outer = _outline(lab, hair)
    if outline.sum() < LEAST:
        return None
    darker = np.minimum(inner[..., 0], outer[..., 0]) - lab[..., 0]
    return float(np.maximum(darker, 0)[outline].mean())


def _near(hair: Flags) -> int:
    """Return how far from the true outline a mask's may be, in pixels."""
    return max(round(TOLERANCE * math.hypot(*hair.shape)), 1)


def _outline(lab: Floats, hair: Flags) -> tuple[Flags, Floats, Floats]:
    """Return the hair's outline where both sides are seen, and the mean colours of these."""
    near = _near(hair)
    (inner, first), (outer, second) = (_around(lab, side, near) for side in (hair, ~hair))
    seen = grown(hair, near) & grown(~hair, near) & (first > SEEN) & (second > SEEN)
    return seen, inner, outer


def _around(lab: Floats, side: Flags, near: int) -> tuple[Floats, Floats]:
    """Return the mean colour of a side round each pixel, and how much of it there is."""
    # What lies on the outline belongs to neither side.
    sure = (~grown(~side, near)).astype(np.float32)
    weight = soften(sure, 2.0 * near)
    mean = soften(lab * sure[..., None], 2.0 * near) / np.maximum(weight, 1e-4)[..., None]
    return np.asarray(mean, np.float32), weight


def _slope(values: Floats, axis: int) -> Floats:
    """Return the change from pixel to pixel down (0) or across (1)."""
    return np.asarray(cv2.Sobel(values, cv2.CV_32F, axis, 1 - axis, ksize=3) / 8, np.float32)


def measure(kit: TryOn, portrait: Portrait) -> Dyed | None:
    """Return how the hair of a portrait with a mask is dyed; None without a face."""
    assert portrait.hair is not None
    picture = portrait.picture
    worn = kit.dress(picture, None, None, Look.of(hair=COLOURED))
    if not len(worn.faces):
        return None
    before, after = to_lab(picture), to_lab(worn.after)
    leaked, reached = leak(before, after, portrait.hair)
    bleached = to_lab(kit.dress(picture, None, None, Look.of(hair=BLEACHED)).after)
    own, made = (sharpness(lab, portrait.hair) for lab in (before, bleached))
    ratio = None if not own or made is None else made / own
    rims = [rim(lab, portrait.hair) for lab in (before, bleached)]
    darker = None if rims[0] is None or rims[1] is None else rims[1] - rims[0]
    distance = kinds.distance(worn.faces.boxes[:, 2:].max(axis=1), picture)
    chroma = float(chroma_between(before, after).sum() / worn.faces.boxes[0, 2:].prod())
    return Dyed(1 - leaked, reached, ratio, darker, distance, chroma)


def dyed_hats(kit: TryOn, data: Path) -> tuple[int, int]:
    """Return how many of the pictures with a hat, not learnt as one, show a face, and dye it."""
    faces = dyed = 0
    for file in sorted(hats().mistaken | hats().uncut):
        if not (data / file).exists():
            continue
        worn = kit.dress(read_image(data / file), None, None, Look.of(hair=COLOURED))
        if len(worn.faces):
            assert worn.faces.mesh is not None
            _, crown = crown_of(worn.after.shape, worn.faces.mesh[0, :, :2])
            change = to_lab(worn.after)[crown] - to_lab(worn.before)[crown]
            faces += 1
            dyed += bool(crown.any() and (np.hypot(*change.T[1:]) > VISIBLE).mean() > DYED)
    return faces, dyed


def row_of(kit: TryOn, picture: Image) -> Image | None:
    """Return the largest face as it is and with each look, tiles side by side; None without one."""
    worn = {name: kit.dress(picture, None, None, Look.of(**look)) for name, look in WORN.items()}
    faces = next(iter(worn.values())).faces
    if not len(faces):
        return None
    part = _closeup(faces.boxes[0], picture.shape[:2])
    return np.concatenate(
        [
            resize(each[part], TILE, TILE)
            for each in (picture, *(one.after for one in worn.values()))
        ],
        axis=1,
    )


def _closeup(box: Floats, shape: tuple[int, ...]) -> tuple[slice, slice]:
    """Return the square round a face with hair and shoulders, as far as the picture has one."""
    x, y, width, height = (float(value) for value in box)
    side = int(min(AROUND * max(width, height), *shape))
    left = int(np.clip(x + (width - side) / 2, 0, shape[1] - side))
    top = int(np.clip(y + 0.6 * height - side / 2, 0, shape[0] - side))
    return slice(top, top + side), slice(left, left + side)


def write_sheets(out: Path, rows: Mapping[str, list[Image]]) -> None:
    """Write the rows of each set, ROWS on a sheet."""
    for name, each in rows.items():
        for page, start in enumerate(range(0, len(each), ROWS), 1):
            write_image(out / f"{name}_{page}.jpg", np.concatenate(each[start : start + ROWS]))


def summary(found: list[tuple[list[str], Dyed]]) -> dict[str, dict[str, kinds.Spread]]:
    """Return by number and kind of picture how the portraits came out."""
    tallies = {name: kinds.Tally() for name in ("kept", "reached", "soft")}
    for kind, dyed in found:
        tallies["kept"].add(kind, dyed.kept)
        tallies["reached"].add(kind, dyed.reached)
        if dyed.ratio is not None:
            tallies["soft"].add(kind, min(dyed.ratio, 1 / max(dyed.ratio, 1e-6)))
    return {name: tally.spreads() for name, tally in tallies.items()}


def quartiles(found: list[tuple[list[str], Dyed]]) -> dict[str, list[float]]:
    """Return the mean and the quartiles of the leak in percent, the ratio of gradients, the rim."""
    values = {
        "leak, percent": [100 * (1 - dyed.kept) for _, dyed in found],
        "edge gradient, dyed over own": [dyed.ratio for _, dyed in found if dyed.ratio is not None],
        "rim, L": [dyed.rim for _, dyed in found if dyed.rim is not None],
    }
    return {
        name: [round(float(v), 3) for v in (np.mean(each), *np.quantile(each, (0.25, 0.5, 0.75)))]
        for name, each in values.items()
        if each
    }


def leaked_together(found: list[tuple[list[str], Dyed]]) -> float:
    """Return the leak, in percent of the chroma of all portraits, each in areas of its face."""
    leaked = sum((1 - dyed.kept) * dyed.chroma for _, dyed in found)
    return round(100 * leaked / max(sum(dyed.chroma for _, dyed in found), 1e-6), 3)


def main(arguments: Iterable[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m palmkit.models.tryon.evaluate",
        description="measure hair dye on development portraits, and make their contact sheets",
    )
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("out", type=Path, help="folder that takes metrics.json and the sheets")
    options = parser.parse_args(None if arguments is None else list(arguments))
    data, out = options.data, options.out
    portraits = list(read_portraits(data, (*WITH_HAIR, *OTHERS)))
    if not portraits:
        parser.error(f"{data}: expected development portraits of {', '.join(WITH_HAIR)}, got none")
    out.mkdir(parents=True, exist_ok=True)
    found: list[tuple[list[str], Dyed]] = []
    rows: dict[str, list[Image]] = {}
    without = 0
    bar = progress_bar(len(portraits), "portrait")
    with TryOn(face="largest") as kit:
        for portrait in portraits:
            row = row_of(kit, portrait.picture)
            if row is None:
                without += 1
            else:
                rows.setdefault(portrait.set, []).append(row)
            if row is not None and portrait.hair is not None:
                dyed = measure(kit, portrait)
                assert dyed is not None
                found.append((kinds_of(portrait, dyed), dyed))
            bar.update()
        with_hats, dyed_with = dyed_hats(kit, data)
    bar.close()
    write_sheets(out, rows)
    print(f"{len(portraits)} portraits, {without} without a face; columns: {', '.join(WORN)}")
    print(f"{with_hats} others with a hat, {dyed_with} of which are dyed")
    if not found:
        return 0
    spreads, more = summary(found), quartiles(found)
    for name, each in spreads.items():
        if each:
            print("\n".join(kinds.lines({name: each}, name)))
    for name, numbers in more.items():
        print(f"{name}: mean {numbers[0]}, quartiles {numbers[1:]}")
    together: dict[str, Any] = {"leak, percent of all together": leaked_together(found)}
    print("\n".join(f"{name}: {value}" for name, value in together.items()))
    together["hats"] = {"pictures": with_hats, "dyed": dyed_with}
    metrics: dict[str, Any] = {name: kinds.rounded(each) for name, each in spreads.items()}
    (out / "metrics.json").write_text(json.dumps(metrics | more | together, indent=1) + "\n")
    return 0


def kinds_of(portrait: Portrait, dyed: Dyed) -> list[str]:
    """Return the kinds of a portrait: its set, the distance, and the light on its hair."""
    hair = portrait.hair
    light = [] if hair is None or not hair.any() else [kinds.light(portrait.picture[hair])]
    return [portrait.set, dyed.distance, *light]


if __name__ == "__main__":
    sys.exit(main())
