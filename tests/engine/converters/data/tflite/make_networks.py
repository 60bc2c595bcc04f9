"""Make networks.npz.xz: quantized networks of every operator, by TensorFlow's own converter.

    python make_networks.py FOLDER

Run in an environment of its own with tensorflow-cpu; the tests do not need it. Writes the file
NAME.KIND.tflite for each network and kind of quantization that the folder lacks, says which the
converter refuses or dies of, and packs the folder. 2.21 made the file, but for recurrent layers of
integers, at which it dies, and lstm_fused_wide, of which it makes a loop: 2.15.1 made these, in the
same folder.
"""

# TensorFlow has no types, and is not there where this is linted.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import importlib
import io
import lzma
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

Shape = tuple[int, ...]
PICTURE = (1, 8, 8, 4)
ROWS = (2, 12)
SERIES = (1, 5, 6)


@dataclass(frozen=True)
class Network:
    """make: the network as a function of tensorflow and its inputs, which lie in low..high."""

    name: str
    make: Callable[..., Any]
    shapes: tuple[Shape, ...] = (PICTURE,)
    low: float = -3.0
    high: float = 3.0
    is_layer: bool = False


def weights(*dims: int, spread: float = 1.0) -> Any:
    """Random weights; those of the last axis differ in size, so that scales per axis do."""
    random = np.random.default_rng(dims)
    sizes = spread ** np.linspace(-1, 1, dims[-1])
    return (random.normal(size=dims) * sizes / np.sqrt(np.prod(dims[:-1]))).astype(np.float32)


def unary(name: str, find: str = "", **more: Any) -> Network:
    """A function of one element; find: where tensorflow has it, if not in tf.nn or tf.math."""

    def make(tf: Any, x: Any) -> Any:
        found: Any = tf
        for part in (find or f"nn.{name}").split("."):
            found = getattr(found, part)
        return found(x)

    return Network(name, make, **more)


def convolution(name: str, spread: float = 2.0, **more: Any) -> Network:
    """A convolution with a bias and an activation."""
    settings: dict[str, Any] = {"strides": 1, "padding": "SAME", **more}
    act = settings.pop("act", "relu")

    def make(tf: Any, x: Any) -> Any:
        y = tf.nn.conv2d(x, weights(3, 3, 4, 8, spread=spread), **settings) + weights(8)
        return y if act is None else getattr(tf.nn, act)(y)

    return Network(name, make)


def by_depth(name: str, multiplier: int, **more: Any) -> Network:
    """A convolution by depth with a bias."""
    settings = {"strides": (1, 1, 1, 1), "padding": "SAME", **more}

    def make(tf: Any, x: Any) -> Any:
        w = weights(3, 3, 4, multiplier, spread=2.0)
        return tf.nn.relu6(tf.nn.depthwise_conv2d(x, w, **settings) + weights(4 * multiplier))

    return Network(name, make)


def pair(name: str, op: str, second: Shape = PICTURE, **more: Any) -> Network:
    """An operator on two inputs, one perhaps broadcast."""

    def make(tf: Any, x: Any, z: Any) -> Any:
        found: Any = tf
        for part in op.split("."):
            found = getattr(found, part)
        return found(x, z)

    return Network(name, make, (PICTURE, second), **more)


def layer(name: str, shape: Shape, kind: str, *args: Any, **more: Any) -> Network:
    """A layer of Keras, its weights drawn the same each time."""

    both_ways = more.pop("both_ways", False)

    def make(tf: Any, x: Any) -> Any:
        tf.keras.utils.set_random_seed(7)
        made = getattr(tf.keras.layers, kind)(*args, **more)
        if both_ways:
            made = tf.keras.layers.Bidirectional(made)
        return made(x)

    return Network(name, make, (shape,), is_layer=True)


def _residual(tf: Any, x: Any) -> Any:
    y = tf.nn.relu6(tf.nn.conv2d(x, weights(1, 1, 4, 16), 1, "SAME") + weights(16))
    y = tf.nn.relu6(tf.nn.depthwise_conv2d(y, weights(3, 3, 16, 1), (1, 1, 1, 1), "SAME"))
    y = x + tf.nn.conv2d(y, weights(1, 1, 16, 4), 1, "SAME") + weights(4)
    return tf.nn.softmax(tf.reduce_mean(y, (1, 2)) @ weights(4, 7))


def _attention(tf: Any, x: Any) -> Any:
    q, k, v = (x @ weights(6, 6, spread=s) for s in (1.0, 1.5, 2.0))
    return tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 2.5) @ v


def _state(tf: Any, x: Any) -> Any:
    """A state by hand: an average that is carried over the steps."""
    state = tf.zeros((1, 6))
    for step in tf.unstack(x, axis=1):
        state = 0.75 * state + 0.25 * tf.tanh(step @ weights(6, 6))
    return state


NETWORKS: tuple[Network, ...] = (
    convolution("conv"),
    convolution("conv_spread", spread=300.0, act=None),
    convolution("conv_strided", strides=2, act="relu6"),
    convolution("conv_valid", padding="VALID", act="tanh"),
    convolution("conv_dilated", dilations=2, act="leaky_relu"),
    by_depth("by_depth", 1),
    by_depth("by_depth_twice", 2, strides=(1, 2, 2, 1)),
    Network("conv_groups", lambda tf, x: tf.nn.conv2d(x, weights(3, 3, 2, 8), 1, "SAME")),
    Network("conv_transpose", lambda tf, x: tf.nn.conv2d_transpose(
        x, weights(3, 3, 8, 4), (1, 16, 16, 8), 2, "SAME") + weights(8)),
    Network("conv_transpose_valid", lambda tf, x: tf.nn.conv2d_transpose(
        x, weights(2, 2, 8, 4), (1, 16, 16, 8), 2, "VALID")),
    Network("conv_3d", lambda tf, x: tf.nn.conv3d(
        x, weights(2, 2, 2, 4, 6), (1, 1, 1, 1, 1), "SAME"), ((1, 4, 6, 6, 4),)),
    Network("conv_1d", lambda tf, x: tf.nn.conv1d(x, weights(3, 6, 5), 1, "SAME") + weights(5),
            ((1, 12, 6),)),
    Network("dense", lambda tf, x: tf.nn.relu(x @ weights(12, 9, spread=4.0) + weights(9)),
            (ROWS,)),
    Network("dense_wide", lambda tf, x: x @ weights(48, 40, spread=3.0) + weights(40), ((3, 48),)),
    Network("conv_wide", lambda tf, x: tf.nn.conv2d(x, weights(3, 3, 16, 16), 1, "SAME"),
            ((1, 6, 6, 16),)),
    Network("dense_plain", lambda tf, x: x @ weights(12, 9), (ROWS,)),
    Network("dense_of_rows", lambda tf, x: tf.tensordot(x, weights(6, 9), 1) + weights(9),
            (SERIES,)),
    Network("matmul", lambda tf, x, z: tf.matmul(x, z), ((2, 6, 6), (2, 6, 6))),
    Network("matmul_transposed", lambda tf, x, z: tf.matmul(x, z, transpose_b=True),
            ((2, 5, 6), (2, 7, 6))),
    Network("residual_block", _residual),
    Network("attention", _attention, (SERIES,)),
    Network("state", _state, (SERIES,)),
    unary("relu"), unary("relu6"), unary("tanh", "tanh"), unary("sigmoid", "sigmoid"),
    unary("elu"), unary("gelu"), unary("softplus"), unary("silu"), unary("leaky_relu"),
    unary("exp", "exp", low=-2, high=2), unary("abs", "abs"), unary("neg", "negative"),
    unary("square", "square"), unary("sqrt", "sqrt", low=0.0, high=9),
    unary("rsqrt", "math.rsqrt", low=0.2, high=9), unary("log", "math.log", low=0.1, high=9),
    unary("sin", "sin"), unary("cos", "cos"), unary("floor", "floor"),
    unary("ceil", "math.ceil", low=-3.1, high=3.3),
    unary("round", "round"), unary("sign", "sign"), unary("softmax"), unary("log_softmax"),
    Network("hard_swish", lambda tf, x: x * tf.nn.relu6(x + 3.0) * (1 / 6)),
    Network("prelu", lambda tf, x: tf.nn.relu(x) - weights(4) * tf.nn.relu(-x)),
    layer("prelu_layer", PICTURE, "PReLU", "uniform", shared_axes=(1, 2)),
    Network("l2_normalization", lambda tf, x: tf.nn.l2_normalize(x, -1)),
    Network("softmax_hot", lambda tf, x: tf.nn.softmax(x * 20.0)),
    pair("add", "add"), pair("sub", "subtract"), pair("mul", "multiply"),
    pair("div", "divide", low=0.5, high=4), pair("maximum", "maximum"), pair("minimum", "minimum"),
    pair("squared_difference", "math.squared_difference"), pair("add_row", "add", (1, 1, 1, 4)),
    pair("mul_row", "multiply", (1, 1, 1, 4)), pair("sub_one", "subtract", (1, 1, 1, 1)),
    pair("pow", "pow", low=0.5, high=2), pair("floor_div", "math.floordiv", low=0.5, high=4),
    Network("add_relu", lambda tf, x, z: tf.nn.relu(x + z * 0.1), (PICTURE, PICTURE)),
    Network("add_constant", lambda tf, x: x + weights(4)),
    Network("mul_constant", lambda tf, x: x * weights(4) * 40.0),
    Network("greater", lambda tf, x, z: tf.cast(x > z, tf.float32), (PICTURE, PICTURE)),
    Network("equal", lambda tf, x, z: tf.cast(tf.equal(x, z), tf.float32), (PICTURE, PICTURE)),
    Network("where", lambda tf, x, z: tf.where(x > 0.5, x, z), (PICTURE, PICTURE)),
    Network("add_n", lambda tf, x, z: tf.add_n([x, z, x]), (PICTURE, PICTURE)),
    Network("max_pool", lambda tf, x: tf.nn.max_pool2d(x, 2, 2, "VALID")),
    Network("max_pool_same", lambda tf, x: tf.nn.max_pool2d(x, 3, 1, "SAME")),
    Network("average_pool", lambda tf, x: tf.nn.avg_pool2d(x, 2, 2, "VALID")),
    Network("average_pool_same", lambda tf, x: tf.nn.avg_pool2d(x, 3, 1, "SAME")),
    Network("mean", lambda tf, x: tf.reduce_mean(x, (1, 2))),
    Network("mean_channels", lambda tf, x: tf.reduce_mean(x, 3, keepdims=True)),
    Network("mean_of_relu", lambda tf, x: tf.reduce_mean(tf.nn.relu(x), (1, 2), keepdims=True)),
    Network("sum", lambda tf, x: tf.reduce_sum(x, (1, 2))),
    Network("sum_channels", lambda tf, x: tf.reduce_sum(x, -1)),
    Network("reduce_max", lambda tf, x: tf.reduce_max(x, -1)),
    Network("reduce_min", lambda tf, x: tf.reduce_min(x, (1, 2))),
    Network("reduce_prod", lambda tf, x: tf.reduce_prod(x, -1), low=0.5, high=1.5),
    Network("variance", lambda tf, x: tf.math.reduce_variance(x, -1, keepdims=True)),
    layer("layer_normalization", SERIES, "LayerNormalization"),
    Network("arg_max", lambda tf, x: tf.argmax(x, -1, tf.int32)),
    Network("arg_min", lambda tf, x: tf.argmin(x, 1, tf.int32)),
    Network("top_k", lambda tf, x: tf.math.top_k(x, 3)[0]),
    Network("cumsum", lambda tf, x: tf.cumsum(x, 1)),
    Network("reshape", lambda tf, x: tf.reshape(x, (1, 64, 4))),
    Network("transpose", lambda tf, x: tf.transpose(x, (0, 3, 1, 2))),
    Network("concat", lambda tf, x, z: tf.concat((x, z * 3.0), -1), (PICTURE, PICTURE)),
    Network("stack", lambda tf, x, z: tf.stack((x, z), 1), (PICTURE, PICTURE)),
    Network("unstack", lambda tf, x: tf.unstack(x, axis=3)[2] + tf.unstack(x, axis=3)[0]),
    Network("split", lambda tf, x: tf.nn.relu(tf.split(x, 2, -1)[1]) - tf.split(x, 2, -1)[0]),
    Network("split_v", lambda tf, x: tf.nn.relu(tf.split(x, (1, 3), -1)[1])),
    Network("slice", lambda tf, x: tf.slice(x, (0, 1, 2, 0), (1, 5, 5, 3))),
    Network("strided_slice", lambda tf, x: x[:, 1:7:2, ::-1]),
    Network("gather", lambda tf, x: tf.gather(x, (3, 0, 2), axis=1)),
    Network("gather_nd", lambda tf, x: tf.gather_nd(x, ((0, 1), (0, 5)))),
    Network("pad", lambda tf, x: tf.pad(x, ((0, 0), (1, 2), (0, 1), (0, 0)))),
    Network("pad_v2", lambda tf, x: tf.pad(x, ((0, 0), (1, 2), (0, 1), (0, 0)),
                                           constant_values=-1.5)),
    Network("mirror_pad", lambda tf, x: tf.pad(x, ((0, 0), (1, 2), (0, 1), (0, 0)), "REFLECT")),
    Network("tile", lambda tf, x: tf.tile(x, (1, 2, 1, 3))),
    Network("broadcast_to", lambda tf, x: tf.broadcast_to(x, (2, 8, 8, 4))),
    Network("reverse", lambda tf, x: tf.reverse(x, (1,))),
    Network("space_to_depth", lambda tf, x: tf.nn.space_to_depth(x, 2)),
    Network("depth_to_space", lambda tf, x: tf.nn.depth_to_space(x, 2)),
    Network("space_to_batch", lambda tf, x: tf.space_to_batch(x, (2, 2), ((0, 0), (0, 0)))),
    Network("batch_to_space", lambda tf, x: tf.batch_to_space(x, (2, 2), ((0, 0), (0, 0))),
            ((4, 4, 4, 4),)),
    Network("resize_bilinear", lambda tf, x: tf.image.resize(x, (13, 11))),
    Network("resize_doubled", lambda tf, x: tf.image.resize(x, (16, 16))),
    Network("resize_corners", lambda tf, x: tf.compat.v1.image.resize_bilinear(
        x, (15, 15), align_corners=True)),
    Network("resize_nearest", lambda tf, x: tf.image.resize(x, (13, 11), "nearest")),
    Network("squeeze_expand", lambda tf, x: tf.expand_dims(tf.squeeze(x, 0), 1)),
    Network("local_response", lambda tf, x: tf.nn.local_response_normalization(x, 2)),
    Network("cast_and_back", lambda tf, x: tf.cast(tf.cast(x, tf.int32), tf.float32)),
    layer("gru_unrolled", SERIES, "GRU", 5, unroll=True),
    layer("rnn_unrolled", SERIES, "SimpleRNN", 5, unroll=True),
    layer("lstm", SERIES, "LSTM", 7, return_sequences=True),
    layer("lstm_last", SERIES, "LSTM", 7),
    layer("lstm_backwards", SERIES, "LSTM", 7, go_backwards=True, return_sequences=True),
    layer("lstm_both_ways", SERIES, "LSTM", 7, return_sequences=True, both_ways=True),
    layer("lstm_unrolled", SERIES, "LSTM", 7, unroll=True),
    layer("gru", SERIES, "GRU", 7, return_sequences=True),
    layer("rnn", SERIES, "SimpleRNN", 7, return_sequences=True),
    layer("lstm_wide", (1, 9, 16), "LSTM", 40, return_sequences=True),
    layer("lstm_fused_wide", (1, 5, 32), "LSTM", 40, return_sequences=True),
    layer("gru_wide", (1, 9, 16), "GRU", 40, return_sequences=True),
    layer("rnn_wide", (1, 9, 32), "SimpleRNN", 40, return_sequences=True),
    Network("by_depth_wide", lambda tf, x: tf.nn.depthwise_conv2d(
        x, weights(3, 3, 128, 1), (1, 1, 1, 1), "SAME"), ((1, 5, 5, 128),)),
    Network("conv_transpose_wide", lambda tf, x: tf.nn.conv2d_transpose(
        x, weights(3, 3, 12, 16), (1, 8, 8, 12), 2, "SAME"), ((1, 4, 4, 16),)),
    Network("matmul_wide", lambda tf, x: tf.matmul(x, weights(2, 40, 40)), ((2, 5, 40),)),
)  # fmt: skip


def kinds(network: Network) -> tuple[str, ...]:
    """Only weights of 1024 numbers are quantized alone; the older way takes no layers of Keras."""
    if network.name.endswith("_wide"):
        return ("int8", "dynamic", "dynamic_tensor")
    return ("int8", "tensor", "int16") if network.is_layer else ("int8", "tensor", "int16", "uint8")


def examples(network: Network) -> Iterator[list[Any]]:
    """Inputs for the converter to see the ranges of."""
    random = np.random.default_rng(11)
    for _ in range(24):
        yield [
            random.uniform(network.low, network.high, shape).astype(np.float32)
            for shape in network.shapes
        ]


def converted(tf: Any, network: Network, kind: str) -> bytes:
    """The network as a .tflite file."""
    if kind == "uint8":
        return _of_uint8(tf, network)
    signature = [tf.TensorSpec(shape, tf.float32) for shape in network.shapes]
    if network.is_layer:
        given = tf.keras.Input(batch_shape=network.shapes[0])
        model = tf.keras.Model(given, network.make(tf, given))
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
    else:
        module = tf.Module()
        function = tf.function(lambda *inputs: network.make(tf, *inputs), signature)
        module.function = function.get_concrete_function()
        converter = tf.lite.TFLiteConverter.from_concrete_functions([module.function], module)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    sets = tf.lite.OpsSet
    if kind.endswith("tensor"):
        converter._experimental_disable_per_channel = True  # noqa: SLF001
    if kind.startswith("dynamic"):
        return bytes(converter.convert())
    converter.representative_dataset = lambda: examples(network)
    if kind == "int16":
        name = "EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8"
        converter.target_spec.supported_ops = [getattr(sets, name)]
        converter.inference_input_type = converter.inference_output_type = tf.int16
    else:
        converter.target_spec.supported_ops = [sets.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return bytes(converter.convert())


def _of_uint8(tf: Any, network: Network) -> bytes:
    """Convert by the older converter: ranges come from fake quantization and a default."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        names = [f"x{i}" for i in range(len(network.shapes))]
        inputs = [
            v1.placeholder(tf.float32, shape, name)
            for name, shape in zip(names, network.shapes, strict=True)
        ]
        made = network.make(tf, *inputs)
        session.run(v1.global_variables_initializer())
        converter = v1.lite.TFLiteConverter.from_session(session, inputs, [made])
        converter.inference_type = tf.uint8
        step = (network.high - network.low) / 255
        zero = float(np.clip(round(-network.low / step), 0, 255))
        converter.quantized_input_stats = dict.fromkeys(names, (zero, 1 / step))
        converter.default_ranges_stats = (-6, 6)
        return bytes(converter.convert())


def write(folder: Path, names: list[str]) -> None:
    """Write these files, and behind each a line of what the converter says."""
    tf = importlib.import_module("tensorflow")
    networks = {network.name: network for network in NETWORKS}
    for name in names:
        network, kind = name.split(".")
        try:
            (folder / f"{name}.tflite").write_bytes(converted(tf, networks[network], kind))
            said = ""
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            said = next((line for line in lines if "error" in line), " ".join(lines[:1]))[:200]
        with (folder / "said.txt").open("a") as log:
            log.write(f"{name}: {said}\n")


def main() -> None:
    """Write every network in every kind, in processes of their own: some end with theirs."""
    folder, *names = Path(sys.argv[1]), *sys.argv[2:]
    if names:
        write(folder, names)
        return
    folder.mkdir(parents=True, exist_ok=True)
    said = folder / "said.txt"
    said.write_text("")
    wanted = [f"{network.name}.{kind}" for network in NETWORKS for kind in kinds(network)]
    wanted = [name for name in wanted if not (folder / f"{name}.tflite").exists()]
    done = 0
    while done < len(wanted):
        command = [sys.executable, __file__, str(folder), *wanted[done:]]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        done = len(said.read_text().splitlines())
        if done < len(wanted):
            with said.open("a") as log:
                log.write(f"{wanted[done]}: the converter died\n")
            done += 1
    refused = [line for line in said.read_text().splitlines() if not line.endswith(": ")]
    print("\n".join(refused))
    arrays: dict[str, Any] = {}
    for file in sorted(folder.glob("*.tflite")):
        model = file.read_bytes()
        if model not in (array.tobytes() for array in arrays.values()):
            arrays[file.stem] = np.frombuffer(model, np.uint8)
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    path = Path(__file__).with_name("networks.npz.xz")
    path.write_bytes(lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(wanted)} networks, {len(refused)} refused, {len(arrays)} different files packed")


if __name__ == "__main__":
    main()
