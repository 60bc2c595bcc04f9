"""Convolutions and pooling: channels-last images, one kernel each."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from palmkit.engine.backends.cpu.costs import ranked_steps
from palmkit.engine.backends.cpu.registry import kernels, rule
from palmkit.engine.backends.cpu.rules.computed_weights import (
    Window,
    activation_of,
    convolve,
    convolve_transposed,
    finish,
    padded,
)
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Node
from palmkit.engine.ops.conv_transpose import place
from palmkit.engine.ops.windows import explicit_pads, windows_over
from palmkit.engine.steps.lowering import Lowering, channels_last, plain
from palmkit.engine.steps.step import Buffer, StepAttr, View

# Narrow dtypes of which the cost model has prices.
PRICED = ("bfloat16",)
# Seconds to cast a number and to have it take twice the memory, on the cost model's machine.
CAST_S = 1.5e-10


def window_attrs(node: Node, spatial: Sequence[int], kernel: Sequence[int]) -> dict[str, list[int]]:
    """Strides, dilations and pads in two dims; a one-dim window becomes one of height 1."""
    rank, windows = len(kernel), windows_over(node.attrs, spatial, kernel)
    begins, ends = windows.pads[:rank], windows.pads[rank:]
    return _two_dims(windows.strides, windows.dilations, begins, ends)


def _two_dims(
    strides: Sequence[int], dilations: Sequence[int], begins: Sequence[int], ends: Sequence[int]
) -> dict[str, list[int]]:
    if len(strides) == 1:
        strides, dilations, begins, ends = (1, *strides), (1, *dilations), (0, *begins), (0, *ends)
    return {
        "strides": list(strides),
        "dilations": list(dilations),
        "pads": [*begins, *ends],
    }


def image_view(view: View, rank: int) -> View:
    """The view with a height of 1 where the op has one spatial dim."""
    if rank == 4:
        return view
    n, length, channels = view.dims
    return View(view.buffer, view.dtype, (n, 1, length, channels))


def weight_view(lowering: Lowering, w: str, rank: int) -> View:
    """Constant weights, channels-last, with a height of 1 where the op has one spatial dim."""
    weights = lowering.constant_of(w, "weight").transpose(channels_last(rank))
    return lowering.constant(weights if rank == 4 else weights[:, None])


def need_image(lowering: Lowering, name: str) -> int:
    """The rank of a picture, or of a line; UnsupportedError for others."""
    rank = len(lowering.dims(name))
    if rank not in (3, 4):
        raise UnsupportedError(f"{rank - 2} spatial dims")
    return rank


def _activation(node: Node) -> dict[str, StepAttr]:
    name, params = activation_of(node)
    return {"activation": name, "activation_params": [*params]}


def _bias(lowering: Lowering, bias: str) -> View | None:
    """A convolution's bias, if it has one, as one number an output channel."""
    return lowering.constant(lowering.constant_of(bias, "bias").reshape(-1)) if bias else None


def _slope(lowering: Lowering, slope: str, channels: int) -> View | None:
    """PReLU's slope, if there is one, as one number an output channel."""
    if not slope:
        return None
    value = lowering.constant_of(slope, "slope")
    if value.size not in (1, channels):
        raise UnsupportedError("a slope that differs within a channel")
    return lowering.constant(np.broadcast_to(value.reshape(-1), (channels,)))


@rule("conv", "fused_conv", narrow=True)
def lower_conv(lowering: Lowering, node: Node) -> None:
    """x, w and y channels-last; w as [m, kh, kw, c / group]."""
    lowering.need_dtype(*node.inputs)
    x, w, bias, z, slope = (*node.inputs, "", "", "", "")[:5]
    if not all(lowering.is_constant(name) for name in (w, bias) if name):
        _lower_computed(lowering, node)
        return
    if len(lowering.dims(x)) == 5:
        _lower_volume(lowering, node)
        return
    rank = need_image(lowering, x)
    order = channels_last(rank)
    attrs: dict[str, StepAttr] = {
        **window_attrs(node, lowering.dims(x)[2:], lowering.dims(w)[2:]),
        "group": node.integer("group"),
        **_activation(node),
    }
    weights = weight_view(lowering, w, rank)
    narrow = bool(lowering.narrow) and _gains_by_narrow(lowering, node, weights, attrs)
    if narrow:
        attrs["precision"] = lowering.narrow
    elif not lowering.exact:
        attrs["precision"] = "normal"
    image = image_view(lowering.get(x, order, stored=narrow), rank)
    residual = image_view(lowering.get(z, order, stored=narrow), rank) if z else None
    dtype = lowering.kept_dtype(node.outputs[0]) if narrow else ""
    y = image_view(lowering.put(node.outputs[0], order, dtype), rank)
    # The float32 kernels of one group read a residual where they are about to write.
    plain = not narrow and attrs["group"] == 1
    over = residual and plain and residual.buffer is not image.buffer and residual.dims == y.dims
    lowering.step(
        "conv",
        {
            "image": image,
            "weights": weights,
            "bias": _bias(lowering, bias),
            "slope": _slope(lowering, slope, lowering.dims(w)[0]),
            "residual": residual,
        },
        {"y": y},
        attrs,
        in_place="residual" if over else None,
    )


def _lower_computed(lowering: Lowering, node: Node) -> None:
    """Weights or a bias that a run gives: a product of matrices, and what follows it."""
    x, w, bias, z, slope = (*node.inputs, "", "", "", "")[:5]
    rank = len(lowering.dims(x))
    order, y = channels_last(rank), node.outputs[0]
    pads = explicit_pads(node.attrs, lowering.dims(x)[2:], lowering.dims(w)[2:])
    window = Window(
        strides=list(node.integers("strides") or [1] * (rank - 2)),
        dilations=list(node.integers("dilations") or [1] * (rank - 2)),
        begins=pads[: rank - 2],
        ends=pads[rank - 2 :],
        group=node.integer("group"),
    )
    image, weights, result = lowering.get(x, order), lowering.get(w, order), lowering.put(y, order)
    row = lowering.get(bias, (0,)) if bias and lowering.is_constant(bias) else None
    row = row if window.group == 1 else None
    convolve(lowering, image, weights, row, result, window)
    finish(lowering, node, result, order, "" if row else bias, z, slope)


def _gains_by_narrow(
    lowering: Lowering, node: Node, weights: View, attrs: Mapping[str, StepAttr]
) -> bool:
    """Whether products of narrow numbers are faster than float32 with the casts that it needs.

    Mostly they are. For some large windows Winograd's way is there for float32 alone, and zeros are
    skipped in float32 alone.
    """
    if lowering.narrow not in PRICED:
        return True
    x, y = node.inputs[0], node.outputs[0]
    rank = len(lowering.dims(x))
    in_dims, out_dims = ([lowering.dims(n)[axis] for axis in channels_last(rank)] for n in (x, y))
    if rank == 3:
        in_dims, out_dims = ([n, 1, *rest] for n, *rest in (in_dims, out_dims))
    image = View(Buffer("input", 0), "float32", tuple(in_dims))
    result = View(Buffer("output", 0), "float32", tuple(out_dims))
    steps = [
        kernels().step(
            "conv",
            node.name,
            {"image": image, "weights": weights},
            {"y": result},
            {**attrs, "precision": precision},
        )
        for precision in (lowering.narrow, "normal")
    ]
    ranked = ranked_steps(steps, lowering.constants)
    narrow, wide = (candidates[0].seconds for candidates in ranked)
    cast = prod(out_dims)
    if lowering.located(x).view.dtype == lowering.narrow:
        cast += prod(in_dims)
    return narrow <= wide + CAST_S * cast


def _lower_volume(lowering: Lowering, node: Node) -> None:
    """Three spatial dims: the padding is a copy."""
    x, w, bias, z, slope = (*node.inputs, "", "", "", "")[:5]
    if z:
        raise UnsupportedError("a residual")
    order = channels_last(5)
    spatial, kernel = lowering.dims(x)[2:], lowering.dims(w)[2:]
    pads = explicit_pads(node.attrs, spatial, kernel)
    view = padded(lowering, lowering.get(x, order), pads[:3], pads[3:])
    weights = lowering.constant_of(w, "weight").transpose(order)
    lowering.step(
        "volume_conv",
        {
            "image": view,
            "weights": lowering.constant(weights),
            "bias": _bias(lowering, bias),
            "slope": _slope(lowering, slope, len(weights)),
        },
        {"y": lowering.put(node.outputs[0], order)},
        {
            "strides": list(node.integers("strides") or [1] * 3),
            "dilations": list(node.integers("dilations") or [1] * 3),
            "group": node.integer("group"),
            **_activation(node),
        },
    )


@rule("conv_transpose", "fused_conv_transpose", narrow=True)
def lower_conv_transpose(lowering: Lowering, node: Node) -> None:
    """x and y channels-last; w as [c, kh, kw, m / group]."""
    lowering.need_dtype(*node.inputs)
    x, w, bias, slope = (*node.inputs, "", "")[:4]
    if not lowering.type(node.outputs[0]).elements:
        lowering.put(node.outputs[0])
        return
    rank = len(lowering.dims(x))
    order = channels_last(rank)
    placed = place(
        lowering.type(x),
        lowering.dims(w)[2:],
        auto_pad=node.text("auto_pad"),
        dilations=node.integers("dilations"),
        output_padding=node.integers("output_padding"),
        output_shape=node.integers("output_shape"),
        pads=node.integers("pads"),
        strides=node.integers("strides"),
    )
    # The kernel packs weights before a model runs, and is for pictures and lines alone.
    is_packed = all(lowering.is_constant(name) for name in (w, bias) if name)
    if not is_packed or rank not in (3, 4):
        image, weights = lowering.get(x, order), lowering.get(w, plain(rank))
        result = lowering.put(node.outputs[0], order)
        convolve_transposed(lowering, image, weights, result, placed, node.integer("group"))
        finish(lowering, node, result, order, bias, "", slope)
        return
    extra = list(node.integers("output_padding") or [0] * (rank - 2))
    outputs, y = lowering.dims(node.outputs[0])[1], node.outputs[0]
    kernel, channels = lowering.dims(w)[2:], lowering.dims(x)[1]
    apart = tuple(placed.strides) == kernel and not any((*placed.begins, *placed.ends, *extra))
    single = node.integer("group") == 1 and set(placed.dilations) == {1}
    # The kernel that can do with narrow values.
    narrow = bool(lowering.narrow) and apart and single and channels % 2 == 0
    precision: dict[str, StepAttr] = {"precision": lowering.narrow} if narrow else {}
    dtype = lowering.kept_dtype(y) if narrow else ""
    lowering.step(
        "conv_transpose",
        {
            "image": image_view(lowering.get(x, order, stored=narrow), rank),
            "weights": weight_view(lowering, w, rank),
            "bias": _bias(lowering, bias),
            "slope": _slope(lowering, slope, outputs),
        },
        {"y": image_view(lowering.put(y, order, dtype), rank)},
        {
            **precision,
            **_two_dims(placed.strides, placed.dilations, placed.begins, placed.ends),
            "output_padding": extra if rank == 4 else [0, *extra],
            "group": node.integer("group"),
            **_activation(node),
        },
    )


@rule("max_pool", "average_pool", moves=True)
def lower_pool(lowering: Lowering, node: Node) -> None:
    """Channels-last windows; padding is not counted unless the op says so."""
    x = node.inputs[0]
    bytes_allowed = ("int8", "uint8") if node.op == "max_pool" else ()
    lowering.need_dtype(x, dtypes=("float32", *bytes_allowed))
    if len(lowering.dims(x)) == 5:
        lowering.need_dtype(x)
        _lower_volume_pool(lowering, node)
        return
    rank = need_image(lowering, x)
    order = channels_last(rank)
    kernel = [*node.integers("kernel_shape")]
    window = {
        "kernel": kernel if rank == 4 else [1, *kernel],
        **window_attrs(node, lowering.dims(x)[2:], kernel),
    }
    single = bool(node.outputs[0]) and len([name for name in node.outputs if name]) == 1
    dtype = lowering.kept_dtype(node.outputs[0]) if single else ""
    if lowering.located(x).view.dtype == "float32" and _shrinks(lowering, node):
        dtype = ""
    image = image_view(lowering.get(x, order, dtype=dtype), rank)
    outputs = {
        result: image_view(lowering.put(name, order, dtype), rank)
        for result, name in zip(("y", "indices"), node.outputs, strict=False)
        if name
    }
    if image.dtype not in ("float32", lowering.narrow):
        if set(outputs) != {"y"} or max(window["pads"]) >= min(kernel):
            raise UnsupportedError(f"{image.dtype} with indices or wide padding")
        if image.dtype == "uint8":
            lowering.step("pool_int8", {"image": image}, outputs, {"mode": "max", **window})
            return
        floats = [lowering.scratch("float32", view.dims) for view in (image, outputs["y"])]
        lowering.step("cast", {"x": image}, {"y": floats[0]})
        lowering.step("pool", {"image": floats[0]}, {"y": floats[1]}, {**_pooling(node), **window})
        lowering.step("cast", {"x": floats[1]}, outputs)
    elif len(outputs) == 2:
        if node.integer("storage_order"):
            raise UnsupportedError("storage_order")
        lowering.step("max_pool_indices", {"image": image}, outputs, {**window})
    elif not node.outputs[0]:
        raise UnsupportedError("indices alone")
    else:
        lowering.step("pool", {"image": image}, outputs, {**_pooling(node), **window})


def _shrinks(lowering: Lowering, node: Node) -> bool:
    """What it leaves is less, so that a cast behind it is cheaper than one before it."""
    return lowering.type(node.outputs[0]).elements < lowering.type(node.inputs[0]).elements


def _pooling(node: Node) -> dict[str, StepAttr]:
    return {
        "mode": "max" if node.op == "max_pool" else "average",
        "count_include_pad": 0 if node.op == "max_pool" else node.integer("count_include_pad"),
    }


def _lower_volume_pool(lowering: Lowering, node: Node) -> None:
    """Over height and width, then over depth: a window's cells are a product of ranges."""
    if len([name for name in node.outputs if name]) > 1:
        raise UnsupportedError("output Indices of three dims")
    x = node.inputs[0]
    kernel = [*node.integers("kernel_shape")]
    n, channels, depth, height, width = lowering.dims(x)
    windows = windows_over(node.attrs, (depth, height, width), kernel)
    strides, dilations, pads = windows.strides, windows.dilations, windows.pads
    order = channels_last(5)
    view, y = lowering.get(x, order), lowering.put(node.outputs[0], order)
    rows, columns = y.dims[2:4]
    flat = lowering.scratch(view.dtype, (n * depth, rows, columns, channels))

    def window(axes: tuple[int, ...]) -> dict[str, list[int]]:
        picked = [[values[axis] for axis in axes] for values in (kernel, strides, dilations)]
        begins, ends = [pads[axis] for axis in axes], [pads[axis + 3] for axis in axes]
        size = picked[0] if len(axes) == 2 else [*picked[0], 1]
        if len(axes) == 1:
            picked = [[*values, 1] for values in picked]
            begins, ends = [*begins, 0], [*ends, 0]
        return {
            "kernel": size,
            "strides": picked[1],
            "dilations": picked[2],
            "pads": [*begins, *ends],
        }

    source = View(view.buffer, view.dtype, (n * depth, height, width, channels))
    lowering.step("pool", {"image": source}, {"y": flat}, {**_pooling(node), **window((1, 2))})
    seen = View(flat.buffer, flat.dtype, (n, depth, rows * columns, channels))
    target = View(y.buffer, y.dtype, (n, y.dims[1], rows * columns, channels))
    lowering.step("pool", {"image": seen}, {"y": target}, {**_pooling(node), **window((0,))})


@rule("max_pooling_with_argmax_2d", moves=True)
def lower_max_pooling_with_argmax(lowering: Lowering, node: Node) -> None:
    """MediaPipe's pooling: the places are floats, in their window."""
    x = node.inputs[0]
    order, kernel = channels_last(4), [*node.integers("kernel_shape")]
    y = lowering.dims(node.outputs[0])
    kept = {lowering.kept_dtype(name) for name in node.outputs if name}
    # Places of larger windows would not round to themselves.
    dtype = lowering.narrow if kept == {lowering.narrow} and prod(kernel) <= 128 else "float32"
    outputs = {
        result: lowering.put(name, order, dtype)
        if name
        else lowering.scratch(dtype, [y[a] for a in order])
        for result, name in zip(("y", "indices"), (*node.outputs, ""), strict=False)
    }
    attrs: dict[str, StepAttr] = {"in_window": 1, "kernel": kernel}
    attrs |= window_attrs(node, lowering.dims(x)[2:], kernel)
    lowering.step(
        "max_pool_indices", {"image": lowering.get(x, order, dtype=dtype)}, outputs, attrs
    )


@rule("max_unpooling_2d", moves=True)
def lower_max_unpooling(lowering: Lowering, node: Node) -> None:
    """MediaPipe's way back."""
    x, indices = node.inputs
    order, kernel = channels_last(4), [*node.integers("kernel_shape")]
    strides = [*node.integers("strides")] or [1, 1]
    sizes = zip(
        lowering.dims(x)[2:], lowering.dims(node.outputs[0])[2:], strides, kernel, strict=True
    )
    begins = [max(0, (small - 1) * stride + k - big) // 2 for small, big, stride, k in sizes]
    places = lowering.get(indices, order, stored=True)
    dtype = places.dtype if lowering.kept_dtype(node.outputs[0]) == lowering.narrow else "float32"
    lowering.step(
        "max_unpool",
        {
            "image": lowering.get(x, order, dtype=dtype),
            "indices": lowering.get(indices, order, dtype=dtype),
        },
        {"y": lowering.put(node.outputs[0], order, dtype)},
        {"kernel": kernel, "strides": strides, "begins": begins},
    )


@rule("max_unpool")
def lower_max_unpool(lowering: Lowering, node: Node) -> None:
    """Zeros, and the elements put where their indices say."""
    x, indices = node.inputs[:2]
    lowering.need_dtype(x)
    lowering.need_dtype(indices, dtypes=("int64",))
    if any(node.inputs[2:]) or not lowering.type(x).elements:
        raise UnsupportedError("an output_shape")
    rank = len(lowering.dims(x))
    y = lowering.put(node.outputs[0])
    zeros = lowering.scratch(y.dtype, y.dims)
    lowering.step("fill", {}, {"y": zeros}, {"value": 0.0})
    places, values = (lowering.get(name, plain(rank)) for name in (indices, x))
    attrs: dict[str, StepAttr] = {"batch": 1, "dims": [prod(y.dims)], "inner": 1}
    lowering.step(
        "scatter_nd",
        {"x": zeros, "indices": places, "updates": values},
        {"y": y},
        attrs,
        in_place="x",
    )
