"""What Caffe's layers compute, element by element as its C++ has it: slow, in float64.

Written from the layers' published sources and not from our rules: the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil, floor, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Params = dict[str, Any]
Forward = Callable[..., Any]
FORWARD: dict[str, Forward] = {}


def layer(*types: str) -> Callable[[Forward], Forward]:
    def register(function: Forward) -> Forward:
        FORWARD.update(dict.fromkeys(types, function))
        return function

    return register


def each(**functions: Callable[[Array], Array]) -> None:
    for name, function in functions.items():
        FORWARD[name] = partial(_apply, function)


def _apply(function: Callable[[Array], Array], p: Params, blobs: Any, x: Array) -> Any:
    return function(x)


each(
    Sigmoid=lambda x: 1 / (1 + np.exp(-x)),
    TanH=np.tanh,
    AbsVal=np.abs,
    BNLL=lambda x: np.where(x > 0, x + np.log(1 + np.exp(-np.abs(x))), np.log(1 + np.exp(x))),
    ReLU6=lambda x: np.minimum(np.maximum(x, 0), 6),
    Mish=lambda x: x * np.tanh(np.log(1 + np.exp(x))),
    Dropout=lambda x: x,
)


@layer("ReLU")
def relu(p: Params, blobs: Any, x: Array) -> Any:
    return np.maximum(x, 0) + p.get("negative_slope", 0) * np.minimum(x, 0)


@layer("PReLU")
def prelu(p: Params, blobs: Any, x: Array) -> Any:
    y = np.array(x)
    for c in range(x.shape[1]):
        slope = blobs[0].reshape(-1)[0 if p.get("channel_shared") else c]
        y[:, c] = np.maximum(x[:, c], 0) + slope * np.minimum(x[:, c], 0)
    return y


@layer("ELU")
def elu(p: Params, blobs: Any, x: Array) -> Any:
    return np.maximum(x, 0) + p.get("alpha", 1) * (np.exp(np.minimum(x, 0)) - 1)


@layer("Swish")
def swish(p: Params, blobs: Any, x: Array) -> Any:
    return x / (1 + np.exp(-p.get("beta", 1) * x))


@layer("Clip")
def clip(p: Params, blobs: Any, x: Array) -> Any:
    return np.maximum(p["min"], np.minimum(x, p["max"]))


@layer("Threshold")
def threshold(p: Params, blobs: Any, x: Array) -> Any:
    return (x > p.get("threshold", 0)).astype(float)


@layer("Power")
def power(p: Params, blobs: Any, x: Array) -> Any:
    return (p.get("shift", 0) + p.get("scale", 1) * x) ** p.get("power", 1)


@layer("Exp")
def exp(p: Params, blobs: Any, x: Array) -> Any:
    base = p.get("base", -1)
    return (np.e if base == -1 else base) ** (p.get("shift", 0) + p.get("scale", 1) * x)


@layer("Log")
def logarithm(p: Params, blobs: Any, x: Array) -> Any:
    base = p.get("base", -1)
    return np.log(p.get("shift", 0) + p.get("scale", 1) * x) / (1 if base == -1 else log(base))


@layer("Eltwise")
def eltwise(p: Params, blobs: Any, *xs: Array) -> Any:
    operation = p.get("operation", "SUM")
    if operation == "SUM":
        return sum(c * x for c, x in zip(p.get("coeff", [1] * len(xs)), xs, strict=True))
    y = xs[0]
    for x in xs[1:]:
        y = y * x if operation == "PROD" else np.where(x > y, x, y)
    return y


@layer("Axpy")
def axpy(p: Params, blobs: Any, a: Array, x: Array, y: Array) -> Any:
    return a.reshape(*a.shape[:2], 1, 1) * x + y


@layer("Embed")
def embed(p: Params, blobs: Any, x: Array) -> Any:
    return np.array([blobs[0][int(i)] for i in x.flat]).reshape(*x.shape, -1) + blobs[1]


def listed(value: Any) -> list[Any]:
    whole: Any = value
    return whole if isinstance(value, list) else [value]


def sides(p: Params, name: str, default: int, rank: int = 2) -> list[int]:
    short = name.split("_")[0]
    if f"{short}_h" in p:
        return [p[f"{short}_h"], p[f"{short}_w"]]
    values = listed(p.get(name, default))
    return values if len(values) > 1 else values * rank


def taps(p: Params, rank: int) -> tuple[list[int], list[int], list[int], list[int]]:
    return (
        sides(p, "kernel_size", 0, rank),
        sides(p, "stride", 1, rank),
        sides(p, "pad", 0, rank),
        sides(p, "hole" if "hole" in p else "dilation", 1, rank),
    )


@layer("Convolution", "DepthwiseConvolution", "ConvolutionDepthwise")
def convolution(p: Params, blobs: Any, x: Array, depthwise: bool = False) -> Any:
    rank = x.ndim - 2
    kernel, stride, pad, dilation = taps(p, rank)
    w = blobs[0]
    group = x.shape[1] // w.shape[1]
    sizes = [
        (x.shape[2 + i] + 2 * pad[i] - (dilation[i] * (kernel[i] - 1) + 1)) // stride[i] + 1
        for i in range(rank)
    ]
    y = np.zeros((len(x), len(w), *sizes))
    per = len(w) // group
    for place in np.ndindex(*sizes):
        for tap in np.ndindex(*kernel):
            at = [place[i] * stride[i] - pad[i] + tap[i] * dilation[i] for i in range(rank)]
            if all(0 <= at[i] < x.shape[2 + i] for i in range(rank)):
                for g in range(group):
                    inputs = x[(slice(None), slice(g * w.shape[1], (g + 1) * w.shape[1]), *at)]
                    weights = w[(slice(g * per, (g + 1) * per), slice(None), *tap)]
                    y[(slice(None), slice(g * per, (g + 1) * per), *place)] += inputs @ weights.T
    return y + blobs[1].reshape(-1, *[1] * rank) if len(blobs) > 1 else y


@layer("Deconvolution")
def deconvolution(p: Params, blobs: Any, x: Array) -> Any:
    kernel, stride, pad, dilation = taps(p, 2)
    w, group = blobs[0], p.get("group", 1)
    sizes = [
        stride[i] * (x.shape[2 + i] - 1) + dilation[i] * (kernel[i] - 1) + 1 - 2 * pad[i]
        for i in range(2)
    ]
    per, each_in = w.shape[1], x.shape[1] // group
    y = np.zeros((len(x), per * group, *sizes))
    for place in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*kernel):
            at = [place[i] * stride[i] - pad[i] + tap[i] * dilation[i] for i in range(2)]
            if all(0 <= at[i] < sizes[i] for i in range(2)):
                for g in range(group):
                    chosen = slice(g * each_in, (g + 1) * each_in)
                    out = slice(g * per, (g + 1) * per)
                    y[(slice(None), out, *at)] += (
                        x[(slice(None), chosen, *place)] @ w[(chosen, slice(None), *tap)]
                    )
    return y + blobs[1].reshape(-1, 1, 1) if len(blobs) > 1 else y


@layer("InnerProduct")
def inner_product(p: Params, blobs: Any, x: Array) -> Any:
    axis = p.get("axis", 1) % x.ndim
    flat = x.reshape(*x.shape[:axis], -1)
    w = blobs[0].reshape(-1, flat.shape[-1]).T if not p.get("transpose") else blobs[0]
    return flat @ w + (blobs[1].reshape(-1) if len(blobs) > 1 else 0)


@layer("Pooling")
def pooling(p: Params, blobs: Any, x: Array) -> Any:
    kernel, stride, pad, _ = taps(p, 2)
    mean = p.get("pool", "MAX") == "AVE"
    sizes = x.shape[2:]
    if p.get("global_pooling"):
        kernel = list(sizes)
    rounded = floor if p.get("round_mode") == "FLOOR" or p.get("ceil_mode") is False else ceil
    out = [rounded((sizes[i] + 2 * pad[i] - kernel[i]) / stride[i]) + 1 for i in range(2)]
    for i in range(2):
        if any(pad) and (out[i] - 1) * stride[i] >= sizes[i] + pad[i]:
            out[i] -= 1
    y, mask = np.zeros((*x.shape[:2], *out)), np.zeros((*x.shape[:2], *out))
    for place in np.ndindex(*out):
        start = [place[i] * stride[i] - pad[i] for i in range(2)]
        end = [min(start[i] + kernel[i], sizes[i] + pad[i]) for i in range(2)]
        count = (end[0] - start[0]) * (end[1] - start[1])
        inside = [(max(start[i], 0), min(end[i], sizes[i])) for i in range(2)]
        window = x[:, :, inside[0][0] : inside[0][1], inside[1][0] : inside[1][1]]
        flat = window.reshape(*x.shape[:2], -1)
        if mean:
            y[(..., *place)] = flat.sum(-1) / count
        elif not flat.size:
            y[(..., *place)] = np.finfo(np.float32).min
        else:
            y[(..., *place)] = flat.max(-1)
            at = flat.argmax(-1)
            width = inside[1][1] - inside[1][0]
            rows, columns = at // width + inside[0][0], at % width + inside[1][0]
            mask[(..., *place)] = rows * sizes[1] + columns
    return [y, mask]


@layer("BatchNorm")
def batch_norm(p: Params, blobs: Any, x: Array) -> Any:
    shape = (1, -1, *[1] * (x.ndim - 2))
    if p.get("use_global_stats") is False:
        axes = (0, *range(2, x.ndim))
        mean, variance = x.mean(axes), x.var(axes)
    else:
        mean, variance = blobs[0] / blobs[2], blobs[1] / blobs[2]
    y = (x - mean.reshape(shape)) / np.sqrt(variance + p.get("eps", 1e-5)).reshape(shape)
    if len(blobs) > 3:
        y = y * blobs[3].reshape(shape) + blobs[4].reshape(shape)
    return y


@layer("BN")
def bn(p: Params, blobs: Any, x: Array) -> Any:
    scale, bias, *rest = (blob.reshape(1, -1, 1, 1) for blob in blobs)
    return ((x - rest[0]) / np.sqrt(rest[1] + p.get("eps", 1e-5)) if rest else x) * scale + bias


def spread(x: Array, other: Array, axis: int) -> Any:
    axis %= x.ndim
    shape = [1] * x.ndim
    shape[axis : axis + other.ndim] = other.shape
    return other.reshape(shape)


@layer("Scale")
def scale(p: Params, blobs: Any, x: Array, other: Array | None = None) -> Any:
    axis = p.get("axis", 1)
    factor = blobs[0] if other is None else other
    y = x * spread(x, factor, axis)
    return y + spread(x, blobs[-1], axis) if p.get("bias_term") else y


@layer("Bias")
def bias(p: Params, blobs: Any, x: Array, other: Array | None = None) -> Any:
    return x + spread(x, blobs[0] if other is None else other, p.get("axis", 1))


@layer("LRN")
def lrn(p: Params, blobs: Any, x: Array) -> Any:
    size, alpha = p.get("local_size", 5), p.get("alpha", 1)
    half, y = size // 2, np.zeros(x.shape)
    if p.get("norm_region") == "WITHIN_CHANNEL":
        for h, w in np.ndindex(*x.shape[2:]):
            near = x[:, :, max(h - half, 0) : h + half + 1, max(w - half, 0) : w + half + 1]
            sums = (near**2).sum((2, 3))
            y[:, :, h, w] = x[:, :, h, w] * (1 + alpha * sums / size**2) ** -p.get("beta", 0.75)
        return y
    for c in range(x.shape[1]):
        sums = (x[:, max(c - half, 0) : c + half + 1] ** 2).sum(1)
        y[:, c] = x[:, c] * (p.get("k", 1) + alpha / size * sums) ** -p.get("beta", 0.75)
    return y


@layer("MVN")
def mvn(p: Params, blobs: Any, x: Array) -> Any:
    rows = x.reshape(len(x) if p.get("across_channels") else x.shape[0] * x.shape[1], -1)
    y = rows - rows.mean(1, keepdims=True)
    if p.get("normalize_variance", True):
        y = y / (np.sqrt((y**2).mean(1, keepdims=True)) + p.get("eps", 1e-9))
    return y.reshape(x.shape)


@layer("Normalize")
def normalize(p: Params, blobs: Any, x: Array) -> Any:
    axes = (1, 2, 3) if p.get("across_spatial", True) else (1,)
    norm = np.sqrt((x**2).sum(axes, keepdims=True) + p.get("eps", 1e-10))
    return x / norm * blobs[0].reshape(1, -1, 1, 1)


@layer("Softmax")
def softmax(p: Params, blobs: Any, x: Array) -> Any:
    powers = np.exp(x - x.max(p.get("axis", 1), keepdims=True))
    return powers / powers.sum(p.get("axis", 1), keepdims=True)
