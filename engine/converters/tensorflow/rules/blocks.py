"""Blocks of pixels moved into channels or batches, and back."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tensorflow.rules.layouts import as_before, channels_first
from palmkit.engine.converters.tensorflow.site import Site, rule
from palmkit.engine.errors import ModelError


@rule("SpaceToDepth", "DepthToSpace")
def _space_to_depth(n: Site) -> None:
    x, size = channels_first(n, n.value(0)), n.integer("block_size", 1)
    if n.op == "DepthToSpace":
        y = n.emit("depth_to_space", x, blocksize=size, mode="DCR")
    else:
        y = n.emit("space_to_depth", x, blocksize=size)
    n.finish(as_before(n, y))


@rule("SpaceToBatchND", "SpaceToBatch", "BatchToSpaceND", "BatchToSpace")
def _space_and_batch(n: Site) -> None:
    """Keep only the padding and the cropping of a dilated convolution's group."""
    if n.op.endswith("ND"):
        blocks, amounts = n.integers(1), n.value(2)
    else:
        blocks, amounts = (n.integer("block_size", 1),) * 2, n.value(1)
    rank, count = n.rank(0), len(blocks)
    if rank < 1 + count or min(blocks, default=1) < 1:
        raise ModelError(f"node {n.name}: {n.op}: blocks {blocks} do not fit a rank of {rank}")
    turned = n.emit("transpose", n.as_int64(amounts), perm=(1, 0))
    ends = n.emit("reshape", turned, n.int64(2 * count))
    begins, ends = n.emit_many("split", 2, ends, "", axis=0, num_outputs=2)
    known = [n.known_value(each) for each in (begins, ends)]
    is_whole = all(each is not None and not each.any() for each in known)
    x = n.value(0)
    if n.op.startswith("Space"):
        if not is_whole:
            none = n.int64(*[0] * (rank - 1 - count))
            pads = n.emit("concat", n.int64(0), begins, none, n.int64(0), ends, none, axis=0)
            x = n.emit("pad", x, pads)
        n.finish(x if n.dilation else space_to_batch(n, x, blocks, rank))
        return
    if not n.dilation:
        x = batch_to_space(n, x, blocks, rank)
    if not is_whole:
        axes = n.int64(*range(1, 1 + count))
        dims = n.emit("gather", n.emit("shape", x), axes, axis=0)
        x = n.emit("slice", x, begins, n.emit("sub", dims, ends), axes)
    n.finish(x)


def _dims(n: Site, value: str, rank: int) -> list[str]:
    """Write the dims of a value, each int64[1]."""
    shape = n.emit("shape", value)
    return [n.emit("gather", shape, n.int64(axis), axis=0) for axis in range(rank)]


def space_to_batch(n: Site, x: str, blocks: tuple[int, ...], rank: int) -> str:
    """[batch, *spatial, *rest] -> [block * batch, *(spatial / block), *rest]."""
    dims, sizes = _dims(n, x, rank), [n.int64(block) for block in blocks]
    count = len(blocks)
    inner = [n.emit("div", d, b) for d, b in zip(dims[1 : 1 + count], sizes, strict=True)]
    split = [dims[0], *(each for pair in zip(inner, sizes, strict=True) for each in pair)]
    split += dims[1 + count :]
    perm = (
        *range(2, 2 + 2 * count, 2),
        0,
        *range(1, 1 + 2 * count, 2),
        *range(1 + 2 * count, rank + count),
    )
    x = n.emit("reshape", x, n.emit("concat", *split, axis=0))
    batch = n.emit("mul", dims[0], n.int64(int(np.prod(blocks))))
    shape = n.emit("concat", batch, *inner, *dims[1 + count :], axis=0)
    return n.emit("reshape", n.emit("transpose", x, perm=perm), shape)


def batch_to_space(n: Site, x: str, blocks: tuple[int, ...], rank: int) -> str:
    """Write the inverse of space_to_batch."""
    dims, sizes = _dims(n, x, rank), [n.int64(block) for block in blocks]
    count = len(blocks)
    batch = n.emit("div", dims[0], n.int64(int(np.prod(blocks))))
    x = n.emit("reshape", x, n.emit("concat", *sizes, batch, *dims[1:], axis=0))
    perm = [count]
    for axis in range(count):
        perm += [count + 1 + axis, axis]
    perm += range(2 * count + 1, rank + count)
    outer = [n.emit("mul", d, b) for d, b in zip(dims[1 : 1 + count], sizes, strict=True)]
    shape = n.emit("concat", batch, *outer, *dims[1 + count :], axis=0)
    return n.emit("reshape", n.emit("transpose", x, perm=tuple(perm)), shape)
