"""The mask kits on pictures as albums have them: turned, between bars, on a page, in a collage.

`python -m palmkit.models.segmentation.arrangements portrait|hair DATA LABELS TEACHERS` prints a
table for the model card, of the pictures with people of the dev split and of the held-out part of
the training pictures: mean IoU, that of the worst tenth, and the share below .5, by the kits and by
their peer. What is true of a picture goes where the picture goes; beside it nobody is, and what a
turned picture is mirrored into does not count.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from palmkit.models.degradations import UNCHANGED, Numbers, lines, numbers_of
from palmkit.models.kinds import PARTS, spread
from palmkit.models.segmentation.evaluate import as_they_come
from palmkit.models.segmentation.samples import Sample, read_samples
from palmkit.models.segmentation.scores import Masker, overlap
from palmkit.models.segmentation.sets import EMPTY, KINDS
from palmkit.models.segmentation.teachers import Picture

# A tall and a wide frame, width over height, and how much of its length bars have at least.
TALL, WIDE, BARS = 9 / 16, 16 / 9, 0.4
# Of a picture's longer side: the paper round a print, four times of it below.
PAPER, PAPER_COLOUR = 0.06, (245, 243, 238)
# Of a page on a telephone: its height over its width, where the picture begins, its margin.
PAGE, PAGE_TOP, PAGE_MARGIN = 19 / 9, 0.22, 0.04
PAGE_COLOUR, INK, FONT = (250, 250, 250), (30, 30, 30), cv2.FONT_HERSHEY_SIMPLEX
# The standard deviation of what is blurred, in widths of it.
BLUR = 1 / 25
# Of a collage: pictures a side, and the side of each in pixels.
COLLAGE, CELL = 2, 384


class Placed(NamedTuple):
    """A picture within another one, and what is true of it: the rows and columns it has there."""

    rows: slice
    columns: slice
    sample: Sample


class Arranged(NamedTuple):
    """A picture that others are in."""

    picture: Picture
    placed: Sequence[Placed]


Drawn = npt.NDArray[Any]
Arrangement = Callable[[Sequence[Sample]], Iterator[Arranged]]


def redrawn(sample: Sample, picture: Drawn, truth: Drawn, counted: Drawn) -> Sample:
    """Return a sample with what OpenCV has drawn of it; counted: not 0 where its truth counts."""
    return sample._replace(
        picture=np.asarray(picture, np.uint8),
        truth=np.asarray(truth, np.float32),
        counted=np.asarray(counted) > 0,
    )


def surrounded(
    sample: Sample, border: tuple[int, int, int, int], colour: tuple[int, int, int] = (0, 0, 0)
) -> Sample:
    """Return a sample with a border of one colour.

    border: how wide it is above, below, to the left and to the right, in pixels.
    """
    constant = cv2.BORDER_CONSTANT
    picture = cv2.copyMakeBorder(sample.picture, *border, constant, value=colour)
    truth = cv2.copyMakeBorder(sample.truth.astype(np.float32), *border, constant, value=0)
    counted = cv2.copyMakeBorder(sample.counted.astype(np.uint8), *border, constant, value=1)
    return redrawn(sample, picture, truth, counted)


def between_bars(sample: Sample, shape: float) -> Sample:
    """Return a sample between black bars above and below, or beside it, that fill a frame.

    shape: of the frame, width over height.
    """
    height, width = sample.picture.shape[:2]
    if shape < 1:
        each = max(round(BARS * height), math.ceil((width / shape - height) / 2))
        return surrounded(sample, (each, each, 0, 0))
    each = max(round(BARS * width), math.ceil((height * shape - width) / 2))
    return surrounded(sample, (0, 0, each, each))


def in_blur(sample: Sample) -> Sample:
    """Return a sample in a wide frame that its own picture fills, blurred."""
    framed = between_bars(sample, WIDE)
    height, width = framed.picture.shape[:2]
    own = sample.picture.shape[1]
    behind = cv2.resize(sample.picture, (width, round(height * width / own)))
    top = (behind.shape[0] - height) // 2
    picture = np.asarray(
        cv2.GaussianBlur(behind[top : top + height], (0, 0), BLUR * width), np.uint8
    )
    left = (width - own) // 2
    picture[:, left : left + own] = sample.picture
    return framed._replace(picture=picture)


def on_paper(sample: Sample) -> Sample:
    """Return a sample as a print."""
    each = round(PAPER * max(sample.picture.shape))
    return surrounded(sample, (each, 4 * each, each, each), PAPER_COLOUR)


def on_page(sample: Sample) -> Sample:
    """Return a sample as telephones show it: on a tall page with lines of text."""
    height, width = sample.picture.shape[:2]
    side = max(round(PAGE_MARGIN * width), 1)
    tall = round((width + 2 * side) * PAGE)
    top = round(PAGE_TOP * tall)
    below = max(tall - top - height, top)
    page = surrounded(sample, (top, below, side, side), PAGE_COLOUR)
    step = max(round(0.12 * width), 4)
    for start in (
        *range(step // 2, top - step, step),
        *range(top + height + step, top + height + below, step),
    ):
        where, size = (side, start + step // 2), step / 45
        text = f"Line {start} of some text"
        cv2.putText(page.picture, text, where, FONT, size, INK, 1, cv2.LINE_AA)
    return page


def turned(sample: Sample, degrees: float) -> Sample:
    """Return a sample turned counterclockwise, mirrored past its edges."""
    height, width = sample.picture.shape[:2]
    matrix = np.asarray(cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), degrees, 1))
    cos, sin = np.abs(matrix[0, :2]).tolist()
    size = round(width * cos + height * sin), round(width * sin + height * cos)
    matrix[0, 2] += (size[0] - width) / 2
    matrix[1, 2] += (size[1] - height) / 2
    picture = cv2.warpAffine(sample.picture, matrix, size, borderMode=cv2.BORDER_REFLECT_101)
    truth, counted = (
        cv2.warpAffine(each, matrix, size, flags=cv2.INTER_NEAREST)
        for each in (sample.truth.astype(np.float32), sample.counted.astype(np.uint8))
    )
    return redrawn(sample, picture, truth, counted)


def alone(arrange: Callable[[Sample], Sample], samples: Sequence[Sample]) -> Iterator[Arranged]:
    """Yield each sample, arranged."""
    for sample in samples:
        each = arrange(sample)
        yield Arranged(each.picture, [Placed(slice(None), slice(None), each)])


def collages(samples: Sequence[Sample]) -> Iterator[Arranged]:
    """Yield four samples each, as squares side by side, without what of them is too long."""
    order = np.random.default_rng(1).permutation(len(samples))
    count = COLLAGE**2
    for start in range(0, len(order) - count + 1, count):
        picture = np.zeros((COLLAGE * CELL, COLLAGE * CELL, 3), np.uint8)
        placed: list[Placed] = []
        for place, row in enumerate(order[start : start + count].tolist()):
            cell = square(samples[row])
            top, left = place // COLLAGE * CELL, place % COLLAGE * CELL
            rows, columns = slice(top, top + CELL), slice(left, left + CELL)
            picture[rows, columns] = cell.picture
            placed.append(Placed(rows, columns, cell))
        yield Arranged(picture, placed)


def square(sample: Sample) -> Sample:
    """Return the upper, middle square of a sample, in the size of a collage's."""
    height, width = sample.picture.shape[:2]
    side = min(height, width)
    part = slice(side), slice((width - side) // 2, (width - side) // 2 + side)
    size = (CELL, CELL)
    picture = cv2.resize(sample.picture[part], size)
    truth, counted = (
        cv2.resize(each[part], size, interpolation=cv2.INTER_NEAREST)
        for each in (sample.truth.astype(np.float32), sample.counted.astype(np.uint8))
    )
    return redrawn(sample, picture, truth, counted)


ARRANGEMENTS: dict[str, Arrangement] = {
    UNCHANGED: partial(alone, lambda sample: sample),
    "turned by 15 degrees": partial(alone, partial(turned, degrees=15)),
    "by 30 degrees": partial(alone, partial(turned, degrees=30)),
    "on the side": partial(alone, partial(turned, degrees=90)),
    "between bars, tall": partial(alone, partial(between_bars, shape=TALL)),
    "wide": partial(alone, partial(between_bars, shape=WIDE)),
    "wide, its own blurred": partial(alone, in_blur),
    "a print": partial(alone, on_paper),
    "on a page": partial(alone, on_page),
    "four side by side": collages,
}


def measured(arranged: Iterable[Arranged], masker: Masker) -> list[float]:
    """Return the IoU of each picture within others."""
    found: list[float] = []
    for picture, placed in arranged:
        mask = masker(picture)
        found += [overlap(mask[rows, columns], sample) for rows, columns, sample in placed]
    return found


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="masks of pictures as albums have them")
    parser.add_argument("task", choices=tuple(KINDS))
    parser.add_argument("data", type=Path, help="folder of the indexes")
    parser.add_argument("labels", type=Path, help="folder written by labels.py")
    parser.add_argument("teachers", type=Path, help="folder of the published networks")
    options = parser.parse_args(None if arguments is None else list(arguments))
    read = (read_samples(options.data, options.labels, options.task, part) for part in PARTS)
    samples = [each for part in read for each in part if each.set not in EMPTY]
    maskers = as_they_come(options.task, options.teachers)

    def numbers(arrange: Arrangement) -> Numbers:
        arranged = list(arrange(samples))
        return {
            name: numbers_of(
                "iou", spread(measured(tqdm(arranged, mininterval=5, leave=False), masker))
            )
            for name, masker in maskers.items()
        }

    for each in lines((name, numbers(arrange)) for name, arrange in ARRANGEMENTS.items()):
        print(each, flush=True)


if __name__ == "__main__":
    main()
