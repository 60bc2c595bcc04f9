"""Make operators.npz.xz: graphs of single operators with the numbers that TensorFlow gives.

Run in an environment of its own with tensorflow-cpu (2.21 made the file); the tests do not need it.
Each case is a frozen graph (case/graph, its bytes), inputs (case/in:name) and outputs
(case/out:name); what has functions of its own for control flow is there a second time, lowered to
switches, merges and frames.
"""

# TensorFlow has no types, and is not there where this is linted.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import importlib
import io
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

tf: Any = importlib.import_module("tensorflow")
freezing: Any = importlib.import_module("tensorflow.python.framework.convert_to_constants")
raw: Any = tf.raw_ops
rng = np.random.default_rng(0)

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def add(name: str, function: Callable[..., Any], *inputs: Any) -> None:
    """A case."""
    CASES[name] = (function, inputs)


def normal(*shape: int) -> Any:
    """Normal numbers."""
    return rng.normal(0, 1, shape).astype(np.float32)


def uniform(*shape: int) -> Any:
    """Numbers of 0.1..0.9."""
    return rng.uniform(0.1, 0.9, shape).astype(np.float32)


def integers(low: int, high: int, *shape: int) -> Any:
    """Whole numbers."""
    return rng.integers(low, high, shape).astype(np.int32)


def apply(operators: str, x_name: str = "x") -> Callable[..., Any]:
    """Several operators of one input."""
    return lambda x: [getattr(raw, name)(**{x_name: x}) for name in operators.split()]


def pairs(operators: str) -> Callable[..., Any]:
    """Several operators of two inputs."""
    return lambda x, y: [getattr(raw, name)(x=x, y=y) for name in operators.split()]


def elementwise() -> None:
    """Unary and binary operators."""
    names = "Abs Ceil Cos Cosh Erf Erfc Exp Expm1 Floor IsFinite IsInf IsNan Neg Rint Round Sigmoid"
    add("unary", apply(f"{names} Sign Sin Sinh Square Tan Tanh Atan Asinh"), normal(3, 5))
    add("activations", apply("Elu Relu Relu6 Selu Softplus Softsign", "features"), normal(3, 5) * 4)
    add("positive", apply("Sqrt Rsqrt Log Log1p Reciprocal Inv Asin Acos Atanh"), uniform(3, 5))
    add("acosh", apply("Acosh"), uniform(3, 5) + 1)
    add("leaky", lambda x: [tf.nn.leaky_relu(x, 0.3), tf.nn.gelu(x), tf.nn.silu(x)], normal(3, 5))
    names = "AddV2 Sub Mul RealDiv Maximum Minimum SquaredDifference DivNoNan FloorDiv FloorMod Mod"
    names += " Atan2 Equal NotEqual Less LessEqual Greater GreaterEqual Xdivy"
    add("binary", pairs(names), normal(3, 5), normal(5))
    names = "AddV2 Sub Mul Maximum Minimum FloorDiv FloorMod TruncateDiv TruncateMod Equal Less"
    names += " SquaredDifference BitwiseAnd BitwiseOr BitwiseXor"
    add("binary_int", pairs(names), integers(-9, 9, 3, 5), np.array([3, -2, 4, -5, 1], np.int32))
    add("pow", lambda x, y: [tf.pow(x, y), tf.math.xlogy(y, x)], uniform(3, 5), normal(5))
    add("mul_no_nan", tf.math.multiply_no_nan, normal(3), np.array([0, 1, np.inf], np.float32))
    logic = [tf.logical_and, tf.logical_or, tf.math.logical_xor]
    add("logic", lambda x, y: [f(x > 0, y > 0) for f in logic], normal(9), normal(9))
    add("add_n", lambda x, y: tf.add_n([x, y, x]), normal(3), normal(3))
    add("clip", lambda x: tf.clip_by_value(x, -0.5, 0.5), normal(3, 4))
    add("clip_by_row", lambda x, y: tf.clip_by_value(x, -y, y), normal(3, 4), uniform(4))
    add("where", lambda c, x, y: tf.where(c > 0, x, y), normal(3, 1), normal(3, 4), normal(4))
    add(
        "select",
        lambda c, x, y: raw.Select(condition=c > 0, x=x, y=y),
        normal(3),
        normal(3, 4),
        normal(3, 4),
    )
    add(
        "shift",
        lambda x: [tf.bitwise.right_shift(x, 1), tf.bitwise.left_shift(x, 2)],
        integers(0, 20, 5),
    )
    types = [tf.int32, tf.bool, tf.float16, tf.float64]
    add("cast", lambda x: [tf.cast(x, each) for each in types], normal(3, 4) * 3)
    add("half", lambda x: tf.cast(tf.nn.relu(tf.cast(x, tf.float16) * 2), tf.float32), normal(3, 4))
    add("bytes", lambda x: tf.cast(x, tf.float32) / 255.0, np.arange(12, dtype=np.uint8))
    add("double", lambda x: tf.matmul(x, x, transpose_b=True), normal(3, 4).astype(np.float64))
    add(
        "fake_quant",
        lambda x: [
            tf.quantization.fake_quant_with_min_max_args(x, -2.3, 3.1),
            tf.quantization.fake_quant_with_min_max_vars(
                x, -1.0, 2.7, num_bits=4, narrow_range=True
            ),
            tf.quantization.fake_quant_with_min_max_vars_per_channel(
                x, [-1.0, -2.0, -0.1], [1.0, 0.5, 3.0]
            ),
        ],
        normal(5, 3) * 2,
    )


def reductions() -> None:
    """Reductions, sorting, sums along an axis."""
    functions = [tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min, tf.reduce_prod]
    functions += [tf.math.reduce_euclidean_norm, tf.reduce_logsumexp, tf.math.reduce_variance]
    add("reduce", lambda x: [f(x, [1]) for f in functions], normal(2, 3, 4))
    add("reduce_two", lambda x: [f(x, [0, -1], keepdims=True) for f in functions], normal(2, 3, 4))
    add("reduce_all", lambda x: [f(x) for f in functions], normal(2, 3, 4))
    add("reduce_none", lambda x: tf.reduce_sum(x, []), normal(2, 3))
    add("reduce_rank", lambda x: tf.reduce_sum(x, tf.range(1, tf.rank(x))), normal(2, 3, 4))
    add("all_any", lambda x: [tf.reduce_all(x > -1, 1), tf.reduce_any(x > 1, [0])], normal(5, 6))
    add("arg", lambda x: [tf.argmax(x, 1), tf.argmin(x, -1, output_type=tf.int32)], normal(3, 6))
    add("cumsum", lambda x: [tf.cumsum(x, 1), tf.cumsum(x, 0, True, True)], normal(3, 6))
    add("cumprod", lambda x: tf.math.cumprod(x, 1), normal(3, 4))
    add("top_k", lambda x: tf.math.top_k(x, 3), normal(3, 6))
    add("top_all", lambda x: tf.math.top_k(x, tf.minimum(10, tf.shape(x)[-1])), normal(3, 6))
    add("softmax", lambda x: [tf.nn.softmax(x), tf.nn.log_softmax(x)], normal(2, 3, 4))
    add("softmax_one", lambda x: tf.nn.softmax(x, 1), normal(2, 3, 4))
    add("norms", lambda x: [tf.math.l2_normalize(x, -1), tf.nn.l2_loss(x)], normal(3, 4))
    add("moments", lambda x: tf.nn.moments(x, [0, 1]), normal(4, 5))
    add("sort", lambda x: [tf.sort(x), tf.argsort(x)], normal(3, 5))
    add("bincount", lambda x: tf.math.bincount(x, axis=-1, minlength=4), integers(0, 4, 2, 5))
    add(
        "multi_hot",
        lambda x: tf.math.bincount(x, None, 4, 4, axis=-1, binary_output=True),
        integers(0, 9, 2, 3),
    )
    add("bucketize", lambda x: raw.Bucketize(input=x, boundaries=[-1.0, 0.0, 0.5]), normal(3, 4))
    add(
        "bounds",
        lambda x: [tf.searchsorted([[-1.0, 0.0, 1.0]], x, side) for side in ("left", "right")],
        normal(1, 5),
    )
    stored = tf.bitcast(tf.constant([[0, 7, 255]], tf.uint8), tf.quint8)
    modes = ("MIN_COMBINED", "MIN_FIRST", "SCALED")
    add(
        "dequantize",
        lambda x: [
            x + raw.Dequantize(input=stored, min_range=-1.3, max_range=2.1, mode=mode)
            for mode in modes
        ],
        normal(2, 3),
    )
    add("segments", lambda x: tf.math.segment_sum(x, [0, 0, 2]), normal(3, 2))
    add("unsorted", lambda x: tf.math.unsorted_segment_sum(x, [0, -1, 0], 4), normal(3, 2))


def movement() -> None:
    """Shapes, slices, picks."""
    add("shape", lambda x: [tf.shape(x), tf.size(x), tf.rank(x)], normal(3, 4))
    add("shape_n", lambda x, y: tf.shape_n([x, y]), normal(3, 4), normal(2))
    add(
        "reshape",
        lambda x: [
            tf.reshape(x, [-1, 2]),
            tf.reshape(x, [tf.shape(x)[0], -1]),
            tf.reshape(x, [tf.shape(x)[0], 2, 2]),
            tf.reshape(x, tf.concat([tf.shape(x), [1]], 0)),
        ],
        normal(3, 4),
    )
    add("squeeze", lambda x: [tf.squeeze(x, [1]), tf.expand_dims(x, -1), x[None]], normal(3, 1, 4))
    add("transpose", lambda x: [tf.transpose(x), tf.transpose(x, [1, 0, 2])], normal(2, 3, 4))
    add(
        "concat",
        lambda x, y: [tf.concat([x, y], -1), tf.stack([x, y], 1)],
        normal(2, 3),
        normal(2, 3),
    )
    add("split", lambda x: tf.split(x, 2, 1) + tf.split(x, [1, -1, 2], 1), normal(2, 6))
    add(
        "slice",
        lambda x: [
            tf.slice(x, [0, 1], [-1, 2]),
            tf.slice(x, [tf.shape(x)[0] - 2, 0], [2, tf.shape(x)[1] - 1]),
        ],
        normal(3, 4),
    )
    add(
        "strided_slice",
        lambda x: [
            *(x[0], x[-1], x[:, 1:3], x[..., 0], x[..., ::2], x[::-1], x[:, tf.newaxis, 1]),
            *(x[tf.newaxis, ..., -2:, tf.newaxis], x[1:, ..., :-1], x[-2:-1, ::-1, 3:0:-1]),
        ],
        normal(3, 4, 5),
    )
    for name, place in (("strided_slice_at", 1), ("strided_slice_at_end", -1)):
        add(
            name,
            lambda x, i: [x[i], x[i:], x[:, : tf.shape(x)[1] - 1], x[:, i, ..., 0]],
            normal(3, 4, 5),
            np.array(place, np.int32),
        )
    places = integers(0, 4, 2, 3)
    add("gather", lambda x, i: [tf.gather(x, i), tf.gather(x, i, axis=1)], normal(4, 4, 4), places)
    add(
        "gather_batch",
        lambda x, i: [tf.gather(x, i, axis=axis, batch_dims=1) for axis in (1, 2, 3)],
        normal(2, 5, 4, 4),
        places,
    )
    add("gather_nd", tf.gather_nd, normal(3, 4, 5), integers(0, 3, 3, 2))
    add(
        "scatter_nd",
        lambda x: [
            tf.scatter_nd([[1], [3], [1]], x, [5, 2]),
            tf.tensor_scatter_nd_update(tf.zeros([5, 2]), [[0], [2], [4]], x),
            tf.tensor_scatter_nd_add(tf.ones([5, 2]), [[0], [2], [2]], x),
            tf.tensor_scatter_nd_max(tf.zeros([5, 2]), [[0], [2], [4]], x),
        ],
        normal(3, 2),
    )
    add(
        "pad",
        lambda x: [
            tf.pad(x, [[1, 0], [2, 3]]),
            tf.pad(x, [[1, 0], [2, 3]], constant_values=2.0),
            tf.pad(x, [[1, 1], [2, 2]], "REFLECT"),
            tf.pad(x, [[1, 0], [1, 1]], "SYMMETRIC"),
            tf.pad(x, [[2, 3], [3, 1]], "SYMMETRIC"),
            tf.pad(x, [[0, 10 - tf.shape(x)[0]], [0, 0]]),
        ],
        normal(4, 5),
    )
    add(
        "tile",
        lambda x: [
            tf.tile(x, [2, 3]),
            tf.broadcast_to(x[:1], [4, 5]),
            tf.zeros_like(x),
            tf.ones_like(x),
            tf.repeat(x, 2, axis=1),
        ],
        normal(4, 5),
    )
    add(
        "range",
        lambda n: [tf.range(n), tf.fill([n, 2], 1.5), tf.linspace(0.0, 1.0, 5)],
        np.int32(6),
    )
    add(
        "one_hot",
        lambda i: [tf.one_hot(i, 5), tf.one_hot(i, 4, axis=0, on_value=2.0, off_value=-1.0)],
        np.array([0, 2, -1, 7, 4], np.int32),
    )
    add("one_hot_middle", lambda i: tf.one_hot(i, 5, axis=1), integers(-1, 6, 2, 3))
    add(
        "reverse",
        lambda x: [
            tf.reverse(x, [1, -1]),
            tf.reverse_sequence(x, [1, 2], seq_axis=1, batch_axis=0),
            tf.reverse_sequence(x, [1, 2, 2, 0], seq_axis=0, batch_axis=2),
        ],
        normal(2, 3, 4),
    )
    add("roll", lambda x: [tf.roll(x, 1, 1), tf.roll(x, [-5, 2], [0, 1])], normal(3, 4))
    band = tf.linalg.band_part
    add("band", lambda x: [band(x, 1, 2), band(x, -1, 0), band(x, 0, -1)], normal(2, 5, 5))
    add("diag", lambda x: [tf.linalg.diag(x), tf.linalg.diag_part(x)], normal(3, 4))
    add("nonzero", lambda x: [tf.where(x > 0), tf.boolean_mask(x, x > 0)], normal(4, 5))
    add("unique", lambda x: tf.unique_with_counts(x), integers(0, 4, 9))
    add("stitch", lambda x: tf.dynamic_stitch([[0, 2], [1]], [x[:2], x[2:]]), normal(3, 2))


def layers() -> None:
    """Convolutions, pools, pictures, boxes."""
    x, w, d = normal(2, 9, 10, 4), normal(3, 3, 4, 5), normal(3, 3, 4, 2)
    conv, explicit = tf.nn.conv2d, [[0, 0], [1, 2], [0, 1], [0, 0]]
    add("conv", lambda x: [conv(x, w, 2, "SAME"), conv(x, w, [1, 2, 1, 1], "VALID")], x)
    add("conv_pads", lambda x: conv(x, w, 1, explicit), x)
    add("conv_dilated", lambda x: conv(x, w, 1, "SAME", dilations=2), x)
    add("atrous", lambda x: [tf.nn.atrous_conv2d(x, w, 2, "SAME")], x)
    add("atrous_valid", lambda x: [tf.nn.atrous_conv2d(x, w, 3, "VALID")], x)
    turned, back, small = normal(3, 3, 3, 4), tf.nn.conv2d_transpose, x[:1, :4, :5]
    for padding, sizes in (("SAME", (8, 7)), ("VALID", (9, 10))):
        add(
            f"conv_transpose_{padding.lower()}",
            lambda x, padding=padding, sizes=sizes: [
                back(x, turned, [1, size, size + 2, 3], 2, padding) for size in sizes
            ],
            small,
        )
    add(
        "conv_transpose_to",
        lambda x: back(
            tf.nn.max_pool2d(x, 2, 2, "SAME"), turned, tf.concat([tf.shape(x)[:3], [3]], 0), 2
        ),
        small,
    )
    depthwise = tf.nn.depthwise_conv2d
    add("depthwise", lambda x: depthwise(x, d, [1, 2, 2, 1], "SAME"), x)
    add("depthwise_dilated", lambda x: depthwise(x, d, [1] * 4, "VALID", dilations=[2, 2]), x)
    add(
        "max_pool",
        lambda x: [tf.nn.max_pool2d(x, 3, 2, "SAME"), tf.nn.max_pool2d(x, 2, 1, "VALID")],
        x,
    )
    add(
        "avg_pool",
        lambda x: [tf.nn.avg_pool2d(x, 3, 2, "SAME"), tf.nn.avg_pool2d(x, 2, 1, "VALID")],
        x,
    )
    add(
        "pool_places",
        lambda x: [
            *tf.nn.max_pool_with_argmax(x, 2, 2, "SAME"),
            *tf.nn.max_pool_with_argmax(x, 3, 2, "VALID", include_batch_in_index=True),
        ],
        x,
    )
    numbers = {"scale": normal(4), "offset": normal(4), "mean": normal(4), "variance": uniform(4)}
    add("batch_norm", lambda x: raw.FusedBatchNormV3(x=x, **numbers, is_training=False)[0], x)
    batch = {**numbers, "mean": [], "variance": []}
    add("batch_norm_training", lambda x: raw.FusedBatchNormV3(x=x, **batch)[0], x)
    add(
        "bias",
        lambda x: raw.BiasAdd(value=x, bias=[1.0, 2.0], data_format="NCHW"),
        normal(1, 2, 3, 3),
    )
    add(
        "lrn", lambda x: tf.nn.local_response_normalization(x, 2, 1.5, 0.3, 0.7), normal(2, 5, 6, 9)
    )
    blocks = [[0, 0], [1, 1]]
    add(
        "space_to_depth",
        lambda x: [tf.nn.space_to_depth(x, 2), tf.nn.depth_to_space(x, 2)],
        x[:, :8],
    )
    add("space_to_batch", lambda x: tf.space_to_batch(x, [3, 2], blocks), x)
    add("batch_to_space", lambda x: tf.batch_to_space(tf.concat([x, x], 0), [2, 2], blocks), x)
    add("einsum", lambda x, y: tf.einsum("bij,bjk->bk", x, y), normal(2, 3, 4), normal(2, 4, 5))
    add(
        "matmul",
        lambda x, y: [x @ y, tf.matmul(x, y, True), tf.matmul(x, y, False, True)],
        normal(4, 4),
        normal(4, 4),
    )
    add(
        "matmul_batch",
        lambda x, y: tf.matmul(x, y, adjoint_b=True),
        normal(2, 1, 4, 4),
        normal(3, 4, 4),
    )
    x = normal(2, 5, 6, 3)
    for corners, centres in ((False, False), (True, False), (False, True)):
        how = {"align_corners": corners, "half_pixel_centers": centres}
        name = "corners" if corners else "centres" if centres else "legacy"
        for kind in ("Bilinear", "NearestNeighbor", "Bicubic"):
            add(
                f"resize_{kind.lower()}_{name}",
                lambda x, kind=kind, how=how: [
                    getattr(raw, f"Resize{kind}")(images=x, size=size, **how)
                    for size in ([9, 7], [3, 4], [10, 12])
                ],
                x,
            )
    add("resize_twice", lambda x: tf.image.resize(x, 2 * tf.shape(x)[1:3]), x)
    boxes = [[0, 0, 1, 1], [0.2, 0.3, 0.7, 0.8], [-0.2, 0.1, 1.3, 0.9], [0.8, 0.9, 0.1, 0.2]]
    add(
        "crop_and_resize",
        lambda x, b: [
            tf.image.crop_and_resize(x, b, [0, 1, 1, 0], [5, 4]),
            tf.image.crop_and_resize(x, b, [0, 1, 1, 0], [3, 3], "nearest", 9.0),
        ],
        x,
        np.array(boxes, np.float32),
    )
    add("pictures", lambda x: [tf.image.flip_left_right(x), tf.image.rgb_to_grayscale(x)], x)
    patches = {"ksizes": [1, 2, 3, 1], "strides": [1, 2, 2, 1], "rates": [1, 1, 2, 1]}
    patch = raw.ExtractImagePatches
    add("patches", lambda x: patch(images=x[..., :2], **patches, padding="SAME"), x)
    add("contrast", lambda x: tf.image.adjust_contrast(x, 1.5), x)


def spectra() -> None:
    """Fourier transforms, and the numbers between."""
    signal, sound = tf.signal, normal(64)
    add("stft", lambda x: tf.abs(signal.stft(x, 16, 8)), sound)
    parts = [tf.math.real, tf.math.imag, tf.math.angle]
    add("stft_parts", lambda x: [f(signal.stft(x, 12, 5, pad_end=True)) for f in parts], sound)
    add("stft_inverse", lambda x: signal.inverse_stft(signal.stft(x, 16, 8), 16, 8), sound)
    add("mfcc", signal.mfccs_from_log_mel_spectrograms, normal(2, 3, 8))
    add("fft", lambda x: tf.math.real(signal.ifft(signal.fft(tf.complex(x, x * 2)))), normal(3, 8))
    add("rfft", lambda x: signal.irfft(signal.rfft(x, [20]), [20]), normal(3, 9))


def suppression() -> None:
    """Choosing boxes."""
    low = uniform(20, 2) / 2
    boxes, scores = np.concatenate([low, low + uniform(20, 2) / 2], 1), uniform(20)
    add("nms", lambda b, s: tf.image.non_max_suppression(b, s, 10, 0.4, 0.2), boxes, scores)
    add(
        "nms_padded",
        lambda b, s: [
            *raw.NonMaxSuppressionV4(
                boxes=b,
                scores=s,
                max_output_size=15,
                iou_threshold=0.4,
                score_threshold=0.2,
                pad_to_max_output_size=True,
            )
        ],
        boxes,
        scores,
    )
    add(
        "nms_soft",
        lambda b, s: tf.image.non_max_suppression_with_scores(b, s, 10, 0.6, 0.1, 0.5),
        boxes,
        scores,
    )
    combined = tf.image.combined_non_max_suppression
    batch = np.stack([boxes, boxes[::-1]])[:, :, None]
    scores = rng.uniform(0, 1, (2, 20, 3)).astype(np.float32)
    add("nms_combined", lambda b, s: [*combined(b, s, 5, 8, 0.4, 0.3)], batch, scores)
    add(
        "nms_combined_padded",
        lambda b, s: [*combined(tf.tile(b, [1, 1, 3, 1]) * 1.3, s, 5, 30, 0.4, 0.3, True)],
        batch,
        scores,
    )


def control_flow() -> None:
    """Conditionals, loops, lists."""
    for name, number in (("cond", 1), ("cond_not", -1)):
        add(
            name,
            lambda x, i: tf.cond(i > 0, lambda: x * 2.0, lambda: tf.reduce_sum(x) + x),
            normal(3, 4),
            np.array(number, np.int32),
        )

    def is_not_done(i: Any, _: Any) -> Any:
        return i < 4

    add(
        "while",
        lambda x: tf.while_loop(
            is_not_done, lambda i, a: (i + 1, a * 1.1 + tf.cast(i, tf.float32)), [0, x]
        ),
        normal(3, 4),
    )
    grows = [tf.TensorSpec([], tf.int32), tf.TensorSpec([None, 4])]
    add(
        "while_grows",
        lambda x: tf.while_loop(
            is_not_done, lambda i, a: (i + 1, tf.concat([a, x], 0)), [0, x], shape_invariants=grows
        )[1],
        normal(3, 4),
    )

    def nested(x: Any) -> Any:
        def turn(i: Any, a: Any) -> Any:
            step = tf.while_loop(lambda j, _: j < i, lambda j, b: (j + 1, b + 0.5), [0, a])[1]
            half = tf.cond(tf.reduce_sum(step) > 3, lambda: step * 0.5, lambda: step + 1)
            return i + 1, half

        return tf.while_loop(is_not_done, turn, [0, x])[1]

    add("while_nested", nested, normal(3))
    add("map", lambda x: tf.map_fn(lambda row: tf.nn.softmax(row * 2.0), x), normal(3, 4))
    add(
        "map_two",
        lambda x: tf.map_fn(
            lambda row: (tf.reduce_sum(row), row[::-1]),
            x,
            fn_output_signature=(tf.float32, tf.float32),
        ),
        normal(3, 4),
    )
    add("scan", lambda x: tf.scan(lambda a, b: a * 0.5 + b, x), normal(5, 4))
    add(
        "case",
        lambda x, i: tf.switch_case(i, [lambda: x, lambda: x * 2, lambda: x + 5]),
        normal(3),
        np.array(1, np.int32),
    )

    def array(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 3)
        for i in range(3):
            rows = rows.write(i, x * float(i))
        return rows.stack(), rows.concat()

    add("tensor_array", array, normal(2, 3))


def main() -> None:
    """Freeze and run every case; sizes are left open where TensorFlow can do without."""
    for family in (elementwise, reductions, movement, layers, spectra, suppression, control_flow):
        family()
    found: dict[str, Any] = {}
    for name, (function, inputs) in CASES.items():
        specs = [tf.TensorSpec([None] * np.ndim(x), np.asarray(x).dtype) for x in inputs]

        def outputs(*tensors: Any, function: Callable[..., Any] = function) -> Any:
            return tf.nest.map_structure(tf.identity, function(*tensors))

        try:
            concrete = tf.function(outputs).get_concrete_function(*specs)
        except ValueError:
            specs = [tf.TensorSpec(np.shape(x), np.asarray(x).dtype) for x in inputs]
            concrete = tf.function(outputs).get_concrete_function(*specs)
        results = tf.nest.flatten(concrete(*map(tf.constant, inputs)))
        for suffix, lower in (("", False), ("_lowered", True)):
            frozen = freezing.convert_variables_to_constants_v2(concrete, lower_control_flow=lower)
            graph = frozen.graph.as_graph_def()
            if lower and not any(node.op in ("Switch", "Enter") for node in graph.node):
                continue
            case = f"{name}{suffix}"
            found[f"{case}/graph"] = np.frombuffer(graph.SerializeToString(), np.uint8)
            for tensor, x in zip(frozen.inputs, inputs, strict=True):
                found[f"{case}/in:{tensor.name}"] = x
            for tensor, y in zip(frozen.outputs, results, strict=True):
                found[f"{case}/out:{tensor.name}"] = y.numpy()
    data = io.BytesIO()
    np.savez(data, **found)
    path = Path(__file__).with_name("operators.npz.xz")
    path.write_bytes(lzma.compress(data.getvalue(), preset=9))
    print(f"{len(CASES)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
