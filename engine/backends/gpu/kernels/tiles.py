"""How the outputs of a convolution are shared out to threads and workgroups."""

from __future__ import annotations

from dataclasses import dataclass

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
    vectors of the image, else single numbers.
    """

    pixels: int
    row: int
    vectors: int
    depth: int
    window: tuple[int, int]
    stride: int
    wide: bool


@dataclass(frozen=True)
class Tiles:
    """Which outputs each thread of a workgroup computes.

    pixels, vectors: the outputs of one thread, side by side. splits: threads that share out the
    input channels of the same outputs. columns, rows: of a workgroup's other threads, along the
    output channels and along the pixels.
    """

    pixels: int
    vectors: int
    splits: int
    columns: int = 1
    rows: int = 1

    @property
    def lanes(self) -> int:
        """The threads of a workgroup that have outputs of their own."""
        return self.columns * self.rows

    @property
    def threads(self) -> int:
        """The threads of a workgroup."""
        return self.lanes * self.splits


def choose_tiles(target: Target, product: Product) -> Tiles:
    """Choose as much work for one thread as leaves enough threads for the device."""
    best, least = Tiles(1, 1, 1), float("inf")
    for pixels in _POWERS:
        for vectors in (1, 2):
            if pixels > product.row or product.vectors % vectors:
                continue
            if pixels * vectors > _MOST_SUMS:
                continue
            for splits in _POWERS:
                if splits > 1 and (
                    product.depth < VECTOR * splits
                    or splits * VECTOR > target.threads
                    or target.threads * pixels * vectors * _SUM_BYTES > target.shared_bytes
                ):
                    continue
                each = Tiles(pixels, vectors, splits)
                seconds = _expected(target, product, each)
                if seconds < least:
                    best, least = each, seconds
    return _with_lanes(target, product, best)


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
    steps = rows * -(-product.depth // tiles.splits) * each + 8 * sums
    if tiles.splits > 1:
        steps += 8 + 4 * tiles.splits
    return steps * max(1.0, _threads(product, tiles) * tiles.splits / target.invocations)


def _with_lanes(target: Target, product: Product, tiles: Tiles) -> Tiles:
    """Lay a workgroup's threads so that together they read the fewest weights and pixels."""
    threads = _threads(product, tiles)
    # Small workgroups where there are few threads: all of the device shall have some.
    most = target.threads
    while most > 64 and threads * tiles.splits < most * target.invocations / 512:
        most //= 2
    lanes = max(VECTOR, most // tiles.splits)
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
    return Tiles(tiles.pixels, tiles.vectors, tiles.splits, *best)
