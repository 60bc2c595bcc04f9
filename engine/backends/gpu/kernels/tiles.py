"""How the outputs of a convolution are shared out to threads and workgroups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product as product_of

from palmkit.engine.backends.gpu.emission import Target
from palmkit.engine.backends.gpu.wgsl import VECTOR

_POWERS = (1, 2, 4, 8, 16, 32)
# A vector of sums in the memory of a workgroup.
_SUM_BYTES = 16
# Vectors of sums that a thread has registers for.
_MOST_SUMS = 8


@dataclass(frozen=True)
class Product:
    """A convolution as a product of matrices.

    pixels: of the output; row: how many of them lie side by side. vectors: of output channels, of a
    group if there are several. depth: the steps along the input channels. window: its rows, and its
    columns that a step goes through. stride: from a pixel to the next. wide: whether a step reads
    vectors of the image, else single numbers. bands: into how many parts the window's rows can be
    shared out.
    """

    pixels: int
    row: int
    vectors: int
    depth: int
    window: tuple[int, int]
    stride: int
    wide: bool
    bands: int = 1


@dataclass(frozen=True)
class Tiles:
    """Which outputs each thread of a workgroup computes.

    pixels, vectors: the outputs of one thread, side by side. splits: threads that share out the
    input channels of the same outputs; bands: those that share out the window's rows. columns,
    rows: of a workgroup's other threads, along the output channels and along the pixels.
    """

    pixels: int
    vectors: int
    splits: int
    bands: int = 1
    columns: int = 1
    rows: int = 1

    @property
    def lanes(self) -> int:
        """The threads of a workgroup that have outputs of their own."""
        return self.columns * self.rows

    @property
    def parts(self) -> int:
        """The threads that share out the same outputs."""
        return self.splits * self.bands

    @property
    def threads(self) -> int:
        """The threads of a workgroup."""
        return self.lanes * self.parts


@lru_cache(1024)
def choose_tiles(target: Target, product: Product) -> Tiles:
    """Choose as much work for one thread as leaves enough threads for the device."""
    best, least = Tiles(1, 1, 1), float("inf")
    for each in _possible(target, product):
        seconds = _expected(target, product, each)
        if seconds < least:
            best, least = each, seconds
    return _with_lanes(target, product, best)


def _possible(target: Target, product: Product) -> Iterator[Tiles]:
    sizes = product_of(_POWERS, (1, 2), _POWERS, sorted({1, product.bands}))
    for each in (Tiles(*size) for size in sizes):
        sums = each.pixels * each.vectors
        if each.pixels > product.row or product.vectors % each.vectors or sums > _MOST_SUMS:
            continue
        if each.splits > 1 and product.depth < VECTOR * each.splits:
            continue
        if each.parts > 1 and (
            each.parts * VECTOR > target.threads
            or target.threads * sums * _SUM_BYTES > target.shared_bytes
        ):
            continue
        yield each


def _threads(product: Product, tiles: Tiles) -> int:
    """How many threads have outputs of their own."""
    steps = -(-product.row // tiles.pixels) * (product.pixels // product.row)
    return steps * (product.vectors // tiles.vectors)


def _expected(target: Target, product: Product, tiles: Tiles) -> float:
    """What it takes, in reads of a thread: they and the products, as often as all begin anew."""
    sums = tiles.pixels * tiles.vectors
    rows, columns = product.window
    reads = min(tiles.pixels * columns, (tiles.pixels - 1) * product.stride + columns)
    reads += (VECTOR if product.wide else 1) * tiles.vectors * columns
    each = reads + (2 if product.wide else 0.5) * sums * columns
    steps = rows // tiles.bands * -(-product.depth // tiles.splits) * each + 8 * sums
    if tiles.parts > 1:
        steps += 8 + 4 * tiles.parts
    return steps * max(1.0, _threads(product, tiles) * tiles.parts / target.invocations)


def _with_lanes(target: Target, product: Product, tiles: Tiles) -> Tiles:
    """Lay a workgroup's threads so that together they read the fewest weights and pixels."""
    threads = _threads(product, tiles)
    # Small workgroups where there are few threads: all of the device shall have some.
    most = target.threads
    while most > 64 and threads * tiles.parts < most * target.invocations / 512:
        most //= 2
    lanes = max(VECTOR, _power(most // tiles.parts))
    columns = -(-product.vectors // tiles.vectors)
    steps = -(-threads // columns)
    best, fewest = (lanes, 1), 0
    for rows in _POWERS:
        side = lanes // rows
        if rows > lanes or (rows > 1 and (rows > steps or side * tiles.vectors < VECTOR)):
            continue
        groups = -(-columns // side) * -(-steps // rows)
        read = groups * (side * tiles.vectors * VECTOR + rows * tiles.pixels)
        if not fewest or read < fewest:
            best, fewest = (side, rows), read
    return Tiles(tiles.pixels, tiles.vectors, tiles.splits, tiles.bands, *best)


def _power(number: int) -> int:
    """The largest power of two that is not over a number."""
    return 1 << number.bit_length() >> 1
