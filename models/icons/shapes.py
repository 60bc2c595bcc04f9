"""Outlines of the icons: closed lines in the square -1..1, x to the right and y down.

Every call gives other proportions; filled by the even-odd rule, so that a second line inside the
first is a hole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Outline: TypeAlias = NDArray[np.float64]
Shape: TypeAlias = Callable[[np.random.Generator], list[Outline]]


def _arc(
    x: float, y: float, rx: float, ry: float, start: float = 0.0, end: float = 2 * np.pi
) -> Outline:
    """Return points of an ellipse's arc from one angle to another."""
    angles = np.linspace(start, end, 32)
    return np.stack([x + rx * np.cos(angles), y + ry * np.sin(angles)], 1)


def _box(x1: float, y1: float, x2: float, y2: float) -> Outline:
    return np.array([(x1, y1), (x2, y1), (x2, y2), (x1, y2)])


def _round(radii: Any, turn: float = -np.pi / 2) -> Outline:
    """Return a line round the centre at the given distances."""
    distances = np.asarray(radii, float)
    angles = turn + 2 * np.pi * np.arange(len(distances)) / len(distances)
    line: Outline = distances[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)
    return line


def _mirrored(right: list[tuple[float, float]]) -> Outline:
    """Return a line of which only the right half is given, from the top down."""
    half = np.array(right)
    return np.concatenate([half, half[::-1] * (-1, 1)])


def anchor(draw: np.random.Generator) -> list[Outline]:
    """Return a shaft with a ring, a bar and two flukes."""
    thick, ring, bar = draw.uniform(0.08, 0.13), draw.uniform(0.15, 0.22), draw.uniform(0.35, 0.5)
    low, wide = draw.uniform(0.6, 0.75), draw.uniform(0.65, 0.85)
    outer = _arc(0, 0.15, wide, low, 0.15 * np.pi, 0.85 * np.pi)
    inner = _arc(0, 0.1, wide - 2 * thick, low - 2 * thick, 0.85 * np.pi, 0.15 * np.pi)
    return [
        _arc(0, -0.78, ring, ring),
        _arc(0, -0.78, ring / 2, ring / 2),
        _box(-thick, -0.78 + ring, thick, -0.45),
        _box(-bar, -0.45, bar, -0.45 + 2 * thick),
        _box(-thick, -0.45 + 2 * thick, thick, 0.1 + low - 2 * thick),
        np.concatenate([outer, inner]),
    ]


def arrow(draw: np.random.Generator) -> list[Outline]:
    """Return an arrow upwards."""
    neck, shaft, wide = draw.uniform(-0.3, 0.2), draw.uniform(0.12, 0.3), draw.uniform(0.55, 0.85)
    return [_mirrored([(0, -1), (wide, neck), (shaft, neck), (shaft, 1)])]


def bell(draw: np.random.Generator) -> list[Outline]:
    """Return a bell with its clapper."""
    top, wide, rim = draw.uniform(0.3, 0.42), draw.uniform(0.65, 0.85), draw.uniform(0.45, 0.6)
    dome = _arc(0, -0.45, top, 0.5, -np.pi / 2, 0)
    right = [(float(x), float(y)) for x, y in dome] + [(top, 0.1), (wide, rim), (wide, rim + 0.15)]
    return [_mirrored(right), _arc(0, rim + 0.3, 0.17, 0.14)]


def bolt(draw: np.random.Generator) -> list[Outline]:
    """Return a flash of lightning."""
    lean, waist = draw.uniform(0.1, 0.35), draw.uniform(0.05, 0.2)
    right = np.array([(lean + 0.1, -1), (-0.55, waist), (-0.05, waist)])
    return [np.concatenate([right, -right])]


def cloud(draw: np.random.Generator) -> list[Outline]:
    """Return bulges over a flat base."""
    bulges = [
        _arc(x, y, r, r, np.pi * start, np.pi * end)
        for x, y, r, start, end in (
            (-0.6, 0.15, draw.uniform(0.28, 0.36), 0.5, 1.5),
            (-0.2, -0.15, draw.uniform(0.35, 0.45), 1.0, 1.75),
            (0.3, -0.05, draw.uniform(0.3, 0.4), 1.3, 1.95),
            (0.65, 0.2, draw.uniform(0.24, 0.32), 1.5, 2.5),
        )
    ]
    return [np.concatenate(bulges)]


def crescent(draw: np.random.Generator) -> list[Outline]:
    """Return a moon."""
    tip = draw.uniform(0.2, 0.35)
    inner, shift = draw.uniform(0.65, 0.8), draw.uniform(0.3, 0.45)
    outer = _arc(0, 0, 0.9, 0.9, tip * np.pi, (2 - tip) * np.pi)
    return [np.concatenate([outer, _arc(shift, 0, inner, inner, 1.7 * np.pi, 0.3 * np.pi)])]


def cross(draw: np.random.Generator) -> list[Outline]:
    """Return a plus."""
    arm = draw.uniform(0.16, 0.34)
    long = draw.uniform(0.75, 0.95)
    right = [(arm, -long), (arm, -arm), (long, -arm), (long, arm), (arm, arm), (arm, long)]
    return [_mirrored(right)]


def drop(draw: np.random.Generator) -> list[Outline]:
    """Return a drop of water."""
    wide, open_ = draw.uniform(0.5, 0.65), draw.uniform(0.08, 0.2)
    low = _arc(0, 0.35, wide, 0.6, -open_ * np.pi, (1 + open_) * np.pi)
    return [np.concatenate([low, np.array([(0.0, -1.0)])])]


def fish(draw: np.random.Generator) -> list[Outline]:
    """Return a body with a tail and an eye."""
    deep, tail = draw.uniform(0.35, 0.5), draw.uniform(0.3, 0.5)
    body = _arc(-0.15, 0, 0.75, deep, 0.12 * np.pi, 1.88 * np.pi)
    fins = np.array([(0.95, -tail), (draw.uniform(0.7, 0.85), 0), (0.95, tail)])
    return [np.concatenate([body, fins]), _arc(-0.55, -0.1, 0.09, 0.09)]


def flag(draw: np.random.Generator) -> list[Outline]:
    """Return a pole with a cloth."""
    pole, low = draw.uniform(0.07, 0.12), draw.uniform(0.0, 0.25)
    notch = draw.uniform(0.4, 0.8)
    cloth = np.array(
        [(-0.6 + pole, -0.9), (0.8, -0.9), (notch, (low - 0.9) / 2), (0.8, low), (-0.6 + pole, low)]
    )
    return [_box(-0.6 - pole, -1, -0.6 + pole, 1), cloth]


def flower(draw: np.random.Generator) -> list[Outline]:
    """Return petals round a hole."""
    petals, deep = int(draw.integers(5, 8)), draw.uniform(0.12, 0.22)
    angles = 2 * np.pi * np.arange(96) / 96
    hole = draw.uniform(0.16, 0.26)
    return [_round(0.7 + deep * np.cos(petals * angles)), _arc(0, 0, hole, hole)]


def gear(draw: np.random.Generator) -> list[Outline]:
    """Return teeth round a hole."""
    teeth, deep, hole = int(draw.integers(7, 11)), draw.uniform(0.6, 0.72), draw.uniform(0.2, 0.35)
    radii = np.tile([deep, deep, 0.92, 0.92], teeth)
    return [_round(radii), _arc(0, 0, hole, hole)]


def heart(draw: np.random.Generator) -> list[Outline]:
    """Return a heart."""
    t = np.linspace(0, 2 * np.pi, 64)
    flat = draw.uniform(0.8, 1.05)
    x = 0.9 * np.sin(t) ** 3
    y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)) / 17
    return [np.stack([x, flat * y], 1)]


def hexagon(draw: np.random.Generator) -> list[Outline]:
    """Return six equal sides, full or a frame."""
    return _frame(6, draw)


def house(draw: np.random.Generator) -> list[Outline]:
    """Return a roof, walls and a door."""
    eave, wall, door = draw.uniform(-0.25, 0.05), draw.uniform(0.55, 0.7), draw.uniform(0.12, 0.2)
    outline = _mirrored([(0, -0.95), (0.95, eave), (wall, eave), (wall, 0.9)])
    side = draw.uniform(-0.25, 0.25)
    return [outline, _box(side - door, draw.uniform(0.2, 0.45), side + door, 0.9)]


def key(draw: np.random.Generator) -> list[Outline]:
    """Return a bow, a shaft and two bits."""
    bow, thick = draw.uniform(0.32, 0.42), draw.uniform(0.08, 0.13)
    bits = [(x, thick + draw.uniform(0.18, 0.32)) for x in (0.45, 0.75)]
    return [
        _arc(-0.6, 0, bow, bow),
        _arc(-0.6, 0, bow / 2, bow / 2),
        _box(-0.6 + bow, -thick, 0.95, thick),
        *(_box(x, thick, x + 0.16, low) for x, low in bits),
    ]


def leaf(draw: np.random.Generator) -> list[Outline]:
    """Return two arcs that meet in tips, with a stalk."""
    t = np.linspace(-0.8, 0.8, 24)
    wide = draw.uniform(0.35, 0.55)
    skew = draw.uniform(0.6, 1.4)
    side = wide * np.cos(t / 0.8 * np.pi / 2) ** skew
    blade = np.concatenate([np.stack([side, t], 1), np.stack([-side, t], 1)[::-1]])
    return [blade, _box(-0.05, 0.75, 0.05, 1), _box(-0.03, -0.5, 0.03, 0.6)]


def mug(draw: np.random.Generator) -> list[Outline]:
    """Return a cup with a handle."""
    wide, high, grip = draw.uniform(0.4, 0.6), draw.uniform(0.55, 0.8), draw.uniform(0.3, 0.42)
    right = wide - 0.2
    handle = _arc(right, 0, grip, grip * 1.2, -np.pi / 2, np.pi / 2)
    hole = _arc(right, 0, grip * 0.6, grip * 0.75, np.pi / 2, -np.pi / 2)
    return [_box(-wide - 0.2, -high, right, high), np.concatenate([handle, hole])]


def pentagon(draw: np.random.Generator) -> list[Outline]:
    """Return five equal sides, full or a frame."""
    return _frame(5, draw)


def star(draw: np.random.Generator) -> list[Outline]:
    """Return five points."""
    return [_round(np.tile([0.95, draw.uniform(0.36, 0.5)], 5))]


def sun(draw: np.random.Generator) -> list[Outline]:
    """Return a disc and rays."""
    rays, disc, near = int(draw.integers(7, 11)), draw.uniform(0.36, 0.48), draw.uniform(0.55, 0.65)
    lines = [_arc(0, 0, disc, disc)]
    for turn in 2 * np.pi * np.arange(rays) / rays:
        x, y = np.cos(turn), np.sin(turn)
        across = 0.07 * np.array([-y, x])
        ends = np.array([(x, y)]) * [[near], [0.98]]
        lines.append(np.array([ends[0] - across, ends[1] - across, ends[1] + across]))
        lines[-1] = np.concatenate([lines[-1], [ends[0] + across]])
    return lines


def snowflake(draw: np.random.Generator) -> list[Outline]:
    """Return six points."""
    return [_round(np.tile([0.95, draw.uniform(0.4, 0.58)], 6))]


def tree(draw: np.random.Generator) -> list[Outline]:
    """Return a fir."""
    wide, step = draw.uniform(0.6, 0.8), draw.uniform(0.2, 0.35)
    right = [(0, -1), (0.7 * wide, -0.1), (step, -0.1), (wide, 0.6), (0.12, 0.6), (0.12, 0.98)]
    return [_mirrored(right)]


def umbrella(draw: np.random.Generator) -> list[Outline]:
    """Return a canopy and a crook."""
    high, thick = draw.uniform(0.75, 0.95), draw.uniform(0.05, 0.09)
    scallops = [_arc(x, 0, 0.3, draw.uniform(0.1, 0.2), 0, -np.pi) for x in (0.6, 0.0, -0.6)]
    canopy = np.concatenate([_arc(0, 0, 0.9, high, -np.pi, 0), *scallops])
    curve = np.concatenate(
        [
            _arc(0.28, 0.7, 0.28 + thick, 0.28 + thick, np.pi, 0),
            _arc(0.28, 0.7, 0.28 - thick, 0.28 - thick, 0, np.pi),
        ]
    )
    curve[:, 1] = 1.4 - curve[:, 1]
    return [canopy, _box(-thick, 0, thick, 0.7), curve]


def _frame(sides: int, draw: np.random.Generator) -> list[Outline]:
    outline = _round(np.full(sides, 0.92))
    return [outline, draw.uniform(0.4, 0.7) * outline] if draw.random() < 0.5 else [outline]


SHAPES: tuple[Shape, ...] = (
    anchor, arrow, bell, bolt, cloud, crescent, cross, drop, fish, flag, flower, gear, heart,
    hexagon, house, key, leaf, mug, pentagon, snowflake, star, sun, tree, umbrella,
)  # fmt: skip
CLASSES = tuple(shape.__name__ for shape in SHAPES)
