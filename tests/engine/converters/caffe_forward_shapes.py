"""What Caffe's layers that move, cut, join and count compute, and its recurrent ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.engine.converters.caffe_forward import FORWARD, Array, Params, layer, listed

__all__ = ["FORWARD", "Array", "Params", "layer", "listed"]


@layer("Concat")
def concat(p: Params, blobs: Any, *xs: Array) -> Any:
    return np.concatenate(xs, p.get("axis", p.get("concat_dim", 1)))


@layer("Slice")
def cut(p: Params, blobs: Any, x: Array, tops: int = 2) -> Any:
    points: Any = p.get("slice_point", tops)
    axis = p["axis"] if "axis" in p else p.get("slice_dim", 1)
    return np.split(x, points, axis)


@layer("Crop")
def crop(p: Params, blobs: Any, x: Array, like: Array) -> Any:
    axis = p.get("axis", 2) % x.ndim
    offsets = listed(p.get("offset", 0))
    for i in range(axis, x.ndim):
        start: int = offsets[0 if len(offsets) == 1 else i - axis]
        x = np.take(x, range(start, start + like.shape[i]), i)
    return x


@layer("Flatten")
def flatten(p: Params, blobs: Any, x: Array) -> Any:
    first, last = p.get("axis", 1) % x.ndim, p.get("end_axis", -1) % x.ndim
    return x.reshape(*x.shape[:first], -1, *x.shape[last + 1 :])


@layer("Reshape")
def reshape(p: Params, blobs: Any, x: Array) -> Any:
    axis = p.get("axis", 0)
    axis = axis if axis >= 0 else x.ndim + 1 + axis
    count = p.get("num_axes", -1)
    end = x.ndim if count == -1 else axis + count
    dims = [d or x.shape[axis + i] for i, d in enumerate(p["shape"]["dim"])]
    return x.reshape(*x.shape[:axis], *dims, *x.shape[end:])


@layer("Permute")
def permute(p: Params, blobs: Any, x: Array) -> Any:
    order = p["order"]
    return x.transpose(*order, *(i for i in range(x.ndim) if i not in order))


@layer("ShuffleChannel")
def shuffle_channel(p: Params, blobs: Any, x: Array) -> Any:
    group = p["group"]
    per = x.shape[1] // group
    return x[:, [g * per + i for i in range(per) for g in range(group)]]


@layer("Reorg")
def reorg(p: Params, blobs: Any, x: Array) -> Any:
    """Reorganise as Darknet's reorg_cpu does."""
    n, c, h, w = x.shape
    s = p["stride"]
    flat, y = x.reshape(n, -1), np.zeros((n, x[0].size))
    for k, j, i in np.ndindex(c, h, w):
        at, block = k % (c // s**2), k // (c // s**2)
        row, column = j * s + block // s, i * s + block % s
        y[:, i + w * (j + h * k)] = flat[:, column + w * s * (row + h * s * at)]
    return y.reshape(n, c * s * s, h // s, w // s)


@layer("ArgMax")
def arg_max(p: Params, blobs: Any, x: Array) -> Any:
    k, both = p.get("top_k", 1), p.get("out_max_val", False)
    rows = np.moveaxis(x, p["axis"], -1) if "axis" in p else x.reshape(len(x), -1)
    found = np.zeros((*rows.shape[:-1], k, 2))
    for at in np.ndindex(*rows.shape[:-1]):
        found[at] = [(v, i) for v, i in sorted(((v, i) for i, v in enumerate(rows[at])))[::-1][:k]]
    values, indices = found[..., 0], found[..., 1]
    if "axis" in p:
        return np.moveaxis(values if both else indices, -1, p["axis"])
    y = np.stack([indices, values], 1) if both else indices[:, None]
    return y.reshape(*y.shape, *[1] * max(0, x.ndim - 3))


@layer("Reduction")
def reduction(p: Params, blobs: Any, x: Array) -> Any:
    rows = x.reshape(*x.shape[: p.get("axis", 0)], -1)
    operation = p.get("operation", "SUM")
    rows = {"ASUM": np.abs(rows), "SUMSQ": rows**2}.get(operation, rows)
    y = rows.mean(-1) if operation == "MEAN" else rows.sum(-1)
    return np.asarray(y * p.get("coeff", 1))


@layer("Tile")
def tile(p: Params, blobs: Any, x: Array) -> Any:
    return np.concatenate([x] * p["tiles"], p.get("axis", 1))


@layer("Interp")
def interp(p: Params, blobs: Any, x: Array) -> Any:
    begin, end = -p.get("pad_beg", 0), p.get("pad_end", 0)
    x = x[:, :, begin : x.shape[2] + end, begin : x.shape[3] + end]
    shrink, zoom = p.get("shrink_factor", 1), p.get("zoom_factor", 1)
    if "height" in p:
        sizes = [p["height"], p["width"]]
    else:
        sizes = [((size - 1) // shrink) * zoom + 1 for size in x.shape[2:]]
    y = np.zeros((*x.shape[:2], *sizes))
    for h, w in np.ndindex(*sizes):
        at = [
            i * (x.shape[2 + a] - 1) / (sizes[a] - 1) if sizes[a] > 1 else 0
            for a, i in enumerate((h, w))
        ]
        low = [int(i) for i in at]
        high = [min(i + 1, x.shape[2 + a] - 1) for a, i in enumerate(low)]
        dy, dx = at[0] - low[0], at[1] - low[1]
        y[:, :, h, w] = (1 - dy) * (
            (1 - dx) * x[:, :, low[0], low[1]] + dx * x[:, :, low[0], high[1]]
        ) + dy * ((1 - dx) * x[:, :, high[0], low[1]] + dx * x[:, :, high[0], high[1]])
    return y


@layer("Upsample")
def upsample(p: Params, blobs: Any, x: Array, mask: Array | None = None) -> Any:
    factor = p.get("scale", 2)
    if mask is None:
        return x.repeat(factor, 2).repeat(factor, 3)
    sizes = (
        [p["upsample_h"], p["upsample_w"]]
        if "upsample_h" in p
        else [n * factor for n in x.shape[2:]]
    )
    y = np.zeros((*x.shape[:2], sizes[0] * sizes[1]))
    for at in np.ndindex(*x.shape):
        y[(*at[:2], int(mask[at]))] = x[at]
    return y.reshape(*x.shape[:2], *sizes)


def states(p: Params, bottoms: Sequence[Array], count: int, n: int) -> tuple[list[Array], Any]:
    given = list(bottoms[len(bottoms) - count :]) if p.get("expose_hidden") else []
    static = bottoms[0] if len(bottoms) > len(given) else None
    return [s[0] for s in given] or [np.zeros((n, p["num_output"]))] * count, static


@layer("LSTM")
def lstm(p: Params, blobs: Any, x: Array, marks: Array, *bottoms: Array) -> Any:
    size, n = p["num_output"], x.shape[1]
    (h, c), static = states(p, bottoms, 2, n)
    rows: list[Array] = []
    for t in range(len(x)):
        new_h, new_c = np.zeros((n, size)), np.zeros((n, size))
        for s in range(n):
            total = blobs[0] @ x[t, s].reshape(-1) + blobs[1] + blobs[-1] @ (marks[t, s] * h[s])
            if static is not None:
                total = total + blobs[2] @ static[s].reshape(-1)
            i, f, o = 1 / (1 + np.exp(-total[: 3 * size])).reshape(3, size)
            g = np.tanh(total[3 * size :])
            new_c[s] = marks[t, s] * f * c[s] + i * g
            new_h[s] = o * np.tanh(new_c[s])
        h, c = new_h, new_c
        rows.append(h)
    return [np.stack(rows), h[None], c[None]]


@layer("RNN")
def rnn(p: Params, blobs: Any, x: Array, marks: Array, *bottoms: Array) -> Any:
    (h,), static = states(p, bottoms, 1, x.shape[1])
    rows: list[Array] = []
    for t in range(len(x)):
        total = x[t].reshape(x.shape[1], -1) @ blobs[0].T + blobs[1]
        if static is not None:
            total = total + static.reshape(len(static), -1) @ blobs[2].T
        h = np.tanh(total + (h * marks[t][:, None]) @ blobs[-3].T)
        rows.append(np.tanh(h @ blobs[-2].T + blobs[-1]))
    return [np.stack(rows), h[None]]
