"""A contact sheet of every effect over a folder of faces, and what each effect did, in numbers.

    python -m palmkit.kits.tryon.sheet PICTURE-OR-FOLDER... -o sheet.jpg [--faces 8] [--side 240]

One row a face: the face, then each effect of EFFECTS. The table says of each, over all faces: how
far the mean colour of the region's middle is from what it should be (CIEDE2000), how the gradients
of lightness agree there (correlation), and how many pixels outside of the region changed. One
effect is at full opacity, so it should have the effect's colour (foundation and irises keep most
of their lightness); of a whole look, each effect at its own opacity where no other lies over it.
The middle is where the region's mask is at least .8 of its largest; of glasses the frame, and for
the gradients what is seen through the lenses.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.cli.command import progress_bar
from palmkit.kits.cli.inputs import gather
from palmkit.kits.image import Image, read_image, resize, write_image
from palmkit.kits.tryon.colour import Floats, mean_of, to_lab
from palmkit.kits.tryon.kit import TryOn
from palmkit.kits.tryon.look import Look

EFFECTS: dict[str, dict[str, Any]] = {
    "lipstick satin": {"lipstick": "classic_red"},
    "lipstick matte": {"lipstick": "plum"},
    "lipstick gloss": {"lipstick": "cherry"},
    "lipstick nude": {"lipstick": "nude"},
    "blush": {"blush": "rose"},
    "eye shadow": {"eye_shadow": "plum"},
    "eye shadow shimmer": {"eye_shadow": "gold"},
    "eyeliner": {"eyeliner": "winged"},
    "iris": {"iris": "blue"},
    "foundation": {"foundation": "sand"},
    "hair copper": {"hair": "copper"},
    "hair platinum": {"hair": "platinum"},
    "hair black": {"hair": "black"},
    "glasses": {"glasses": "tortoise_round"},
    "sunglasses": {"glasses": "gold_aviator"},
    "evening": {"look": "evening"},
    "party": {"look": "party"},
    "beach": {"look": "beach"},
}
# Of a change, in levels of 0..255, that an eye may see.
SEEN = 2
# The least pixels of a region's middle for a result.
LEAST = 20


def main(arguments: list[str] | None = None) -> int:
    """Make the sheet and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m palmkit.kits.tryon.sheet", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("inputs", nargs="+", metavar="PICTURE", help="pictures or folders of them")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="the sheet")
    parser.add_argument("--faces", type=int, default=8, metavar="N", help="rows of it (8)")
    parser.add_argument("--side", type=int, default=240, metavar="PX", help="of a tile (240)")
    options = parser.parse_args(arguments)
    kit = TryOn(max_faces=1)
    inputs, errors = gather(options.inputs)
    rows: list[Image] = []
    numbers: dict[str, list[dict[str, float]]] = {}
    bar = progress_bar(min(len(inputs), options.faces), "face")
    for each in inputs:
        if len(rows) >= options.faces:
            break
        face = _closeup(kit, read_image(each.name))
        if face is None:
            continue
        tiles = [resize(face, options.side, options.side)]
        for name, look, seen in _worn(kit, face):
            tiles.append(resize(look, options.side, options.side))
            numbers.setdefault(name, []).append(seen)
        rows.append(np.concatenate(tiles, axis=1))
        bar.update()
    bar.close()
    for message in errors:
        print(message, file=sys.stderr)
    if not rows:
        print("no faces found", file=sys.stderr)
        return 1
    write_image(options.output, np.concatenate(rows))
    _print(numbers)
    return 0


def _closeup(kit: TryOn, image: Image) -> Image | None:
    """Return the square round the best face, three times as wide; None without a face."""
    found = kit.wear(image)
    if not len(found.faces):
        return None
    x, y, width, height = (float(v) for v in found.faces.boxes[0])
    side = min(2.2 * max(width, height), *image.shape[:2])
    left = int(np.clip(x + width / 2 - side / 2, 0, image.shape[1] - side))
    top = int(np.clip(y + 0.4 * height - side / 2, 0, image.shape[0] - side))
    return np.ascontiguousarray(image[top : top + int(side), left : left + int(side)])


def _worn(kit: TryOn, face: Image) -> Iterator[tuple[str, Image, dict[str, float]]]:
    """Yield each effect's picture, and its numbers."""
    for name, wanted in EFFECTS.items():
        look = Look.load(wanted["look"]) if "look" in wanted else Look.of(**wanted)
        picture = kit.dress(face, None, None, look).after
        yield name, picture, measure(kit, face, look)


def measure(kit: TryOn, face: Image, look: Look) -> dict[str, float]:
    """Return a look's effect on a face, with one effect at full opacity; see the module.

    Empty if nothing changed.
    """
    if len(worn := list(look)) == 1:
        worn = [replace(worn[0], opacity=1.0)]
        look = Look.of(**{worn[0].name: worn[0]})
    whole = np.zeros(face.shape[:2], np.float32)
    picture = kit.dress(face, None, None, look, whole).after
    changed = np.abs(picture.astype(np.int16) - face).max(axis=2) > SEEN
    if not changed.any():
        return {}
    before, after = to_lab(face), to_lab(picture)
    weights = [np.zeros_like(whole) for _ in worn]
    for effect, weight in zip(worn, weights, strict=True):
        kit.dress(face, None, None, Look.of(**{effect.name: effect}), weight)
    found: dict[str, float] = {"outside": float((changed & (whole <= 0)).sum())}
    off: list[float] = []
    kept = np.zeros(whole.shape, np.bool_)
    for effect, weight in zip(worn, weights, strict=True):
        strong = (weight >= 0.8 * weight.max()) & (weight > 0)
        for other in weights:
            strong &= (other is weight) | (other < 0.05)
        if strong.sum() < LEAST:
            continue
        part = strong.astype(np.float32)
        own = mean_of(before, part)
        share = effect.opacity * float(weight[strong].mean())
        goal = np.asarray(own + share * (effect.aim(own) - own), np.float32)
        off.append(ciede2000(mean_of(after, part), goal))
        # Behind a lens everything stays; frames and lines cover.
        is_seen = (weight > 0.02) & (weight < 0.5) if effect.name == "glasses" else strong
        kept |= is_seen & (effect.name != "eyeliner" or len(worn) == 1)
    if off:
        found["delta_e"] = float(np.mean(off))
        found["gradients"] = _agreement(before[..., 0], after[..., 0], kept)
    return found


def _agreement(before: Floats, after: Floats, where: NDArray[np.bool_]) -> float:
    """Return the correlation of the gradients of lightness inside a region."""
    inside = where[1:-1, 1:-1]
    pairs: list[NDArray[np.float64]] = []
    for values in (before, after):
        down = (values[2:, 1:-1] - values[:-2, 1:-1])[inside]
        across = (values[1:-1, 2:] - values[1:-1, :-2])[inside]
        pairs.append(np.concatenate([down, across]).astype(np.float64))
    spread = float(np.sqrt((pairs[0] ** 2).mean() * (pairs[1] ** 2).mean()))
    return float((pairs[0] * pairs[1]).mean()) / spread if spread else 1.0


def ciede2000(one: Floats, other: Floats) -> float:
    """Return the perceptual difference of two CIELAB colours.

    CIEDE2000: Sharma, Wu, Dalal, The CIEDE2000 Color-Difference Formula, 2005.
    """
    l1, a1, b1 = (float(v) for v in one)
    l2, a2, b2 = (float(v) for v in other)
    mean_c = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * np.sqrt(mean_c**7 / (mean_c**7 + 25.0**7))
    a1, a2 = a1 * stretch, a2 * stretch
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    mean_h = (h1 + turn / 2) % 360
    mean_l, mean_c = (l1 + l2) / 2, (c1 + c2) / 2
    t = (
        1
        - 0.17 * np.cos(np.radians(mean_h - 30))
        + 0.24 * np.cos(np.radians(2 * mean_h))
        + 0.32 * np.cos(np.radians(3 * mean_h + 6))
        - 0.20 * np.cos(np.radians(4 * mean_h - 63))
    )
    light = (l2 - l1) / (1 + 0.015 * (mean_l - 50) ** 2 / np.sqrt(20 + (mean_l - 50) ** 2))
    chroma = (c2 - c1) / (1 + 0.045 * mean_c)
    hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * mean_c * t)
    twist = -2 * np.sqrt(mean_c**7 / (mean_c**7 + 25.0**7))
    twist *= np.sin(np.radians(60 * np.exp(-(((mean_h - 275) / 25) ** 2))))
    return float(np.sqrt(light**2 + chroma**2 + hue**2 + twist * chroma * hue))


def _print(numbers: dict[str, list[dict[str, float]]]) -> None:
    print("| effect | faces | colour off (CIEDE2000) | gradients | pixels changed outside |")
    print("|---|---|---|---|---|")
    for name, found in numbers.items():
        shown = [each for each in found if each]

        def mean(key: str, shown: list[dict[str, float]] = shown) -> str:
            values = [each[key] for each in shown if key in each]
            return f"{np.mean(values):.3f}" if values else "-"

        values = " | ".join(mean(key) for key in ("delta_e", "gradients", "outside"))
        print(f"| {name} | {len(shown)} | {values} |")


if __name__ == "__main__":
    sys.exit(main())
