"""How good a mask is beside the true one; palmkit.models.segmentation.evaluate has the protocol."""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
import numpy.typing as npt

from palmkit.models.segmentation.crop import Flags
from palmkit.models.segmentation.samples import Sample
from palmkit.models.segmentation.sets import OPACITIES
from palmkit.models.segmentation.teachers import Array, Picture

# Of the diagonal: as DAVIS has it, and one pixel of these pictures.
TOLERANCES = {"boundary": 0.008, "edge": 0.0025}
# Of the clip that a still picture becomes.
FRAMES = 10
# How far from an outline there is fringe, of the diagonal, and from what error on it has failed.
FRINGE, FAILED_FRINGE = 0.02, 0.2

Masker = Callable[[Picture], Array]


def overlap(mask: Array, sample: Sample) -> float:
    """Return the intersection over union of what is above 0.5."""
    ours, true = (mask > 0.5) & sample.counted, (sample.truth > 0.5) & sample.counted
    either = (ours | true).sum()
    return float((ours & true).sum() / either) if either else 1.0


def outline(mask: Flags) -> npt.NDArray[np.uint8]:
    """Return pixels that differ from the one to the right, below, or diagonal, as in DAVIS."""
    below, right = np.roll(mask, -1, 0), np.roll(mask, -1, 1)
    corner = np.roll(below, -1, 1)
    below[-1], right[:, -1] = mask[-1], mask[:, -1]
    corner[-1], corner[:, -1] = right[-1], below[:, -1]
    edge: Flags = (mask != below) | (mask != right) | (mask != corner)
    return edge.astype(np.uint8)


def boundary(mask: Array, sample: Sample, tolerance: float) -> float:
    """Return the F-score of the outlines, matched within this share of the diagonal."""
    true = outline((sample.truth > 0.5) & sample.counted)
    ours = outline((mask > 0.5) & sample.counted)
    if not true.any() or not ours.any():
        return float(not true.any() and not ours.any())
    reach = math.ceil(tolerance * math.hypot(*mask.shape))
    disk = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    precision = (ours & np.asarray(cv2.dilate(true, disk), np.uint8)).sum() / ours.sum()
    recall = (true & np.asarray(cv2.dilate(ours, disk), np.uint8)).sum() / true.sum()
    return float(2 * precision * recall / max(precision + recall, 1e-9))


def fringe(mask: Array, sample: Sample) -> float | None:
    """Return the error of a cut-out's opacity round its outline; None where it is not known."""
    if sample.set not in OPACITIES:
        return None
    reach = math.ceil(FRINGE * math.hypot(*mask.shape))
    disk = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    near = np.asarray(cv2.dilate(outline(sample.truth > 0.5), disk)) > 0
    return float(np.abs(mask - sample.truth)[near].mean())


def flicker(masker: Masker, picture: Picture, seed: int) -> float:
    """Return the change between frames of a moved, zoomed, noisy still, over the mask's mean."""
    random = np.random.default_rng(seed)
    height, width = picture.shape[:2]
    drift, zoom = random.uniform(-1.5, 1.5, 2), random.uniform(0.995, 1.005)
    total, mean = 0.0, 0.0
    before: Array | None = None
    for frame in range(FRAMES):
        scale = 1.06 * zoom**frame
        shift = drift * frame + random.normal(0, 0.3, 2)
        start = (1 - scale) * np.asarray([width, height]) / 2 + shift
        matrix = np.asarray([[scale, 0, start[0]], [0, scale, start[1]]])
        moved = cv2.warpAffine(picture, matrix, (width, height), borderMode=cv2.BORDER_REFLECT)
        noise = random.normal(0, 4, moved.shape)
        mask = masker((moved + noise).clip(0, 255).astype(np.uint8))
        back = cv2.warpAffine(mask, matrix, (width, height), flags=cv2.WARP_INVERSE_MAP | 1)
        inside = back[height // 8 : -height // 8, width // 8 : -width // 8]
        inner = np.asarray(inside, np.float32)
        if before is not None:
            total += float(np.abs(inner - before).mean())
            mean += float(inner.mean())
        before = inner
    return total / max(mean, 1e-6)
