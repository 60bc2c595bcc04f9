"""Make models.npz.xz: small SavedModels and frozen graphs, with the numbers that TensorFlow gives.

Run in an environment of its own with tensorflow-cpu (2.21 made the file); the tests do not need it.
All weights are random. Each model has the files of its SavedModel (model/file:path) with inputs
and outputs (model/in:name, model/out:name), the frozen graph (model/graph) with the names there
(model/frozen_in:name, model/frozen_out:name), or both.
"""

# TensorFlow has no types, and is not there where this is linted.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import importlib
import io
import lzma
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

tf: Any = importlib.import_module("tensorflow")
keras: Any = importlib.import_module("keras")
freezing: Any = importlib.import_module("tensorflow.python.framework.convert_to_constants")
layers: Any = keras.layers
v1: Any = tf.compat.v1
rng = np.random.default_rng(3)

FOUND: dict[str, Any] = {}


def normal(*shape: int) -> Any:
    """Normal numbers."""
    return rng.normal(0, 1, shape).astype(np.float32)


def keep_files(name: str, folder: Path) -> None:
    """Keep the files of a SavedModel, but for the fingerprint, which nobody reads."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "fingerprint.pb":
            key = f"{name}/file:{path.relative_to(folder).as_posix()}"
            FOUND[key] = np.frombuffer(path.read_bytes(), np.uint8)


def keep_keras(name: str, model: Any, x: Any) -> None:
    """A Keras model, saved and frozen, with any batch."""
    for variable in model.weights:
        shape = variable.shape
        if "variance" in variable.path or "gamma" in variable.path:
            variable.assign(rng.uniform(0.5, 1.5, shape))
        elif len(shape) < 2:
            variable.assign(rng.normal(0, 0.2, shape))
    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False)
        keep_files(name, Path(folder))
        signature = tf.saved_model.load(folder).signatures["serving_default"]
    (key,) = signature.structured_input_signature[1]
    FOUND[f"{name}/in:{key}"] = x
    for output, value in signature(**{key: tf.constant(x)}).items():
        FOUND[f"{name}/out:{output}"] = value.numpy()
    spec = tf.TensorSpec([None, *model.inputs[0].shape[1:]], x.dtype)
    concrete = tf.function(lambda x: model(x, training=False)).get_concrete_function(spec)
    frozen = freezing.convert_variables_to_constants_v2(concrete)
    graph = frozen.graph.as_graph_def()
    FOUND[f"{name}/graph"] = np.frombuffer(graph.SerializeToString(), np.uint8)
    FOUND[f"{name}/frozen_in:{frozen.inputs[0].name}"] = x
    for tensor, value in zip(frozen.outputs, tf.nest.flatten(concrete(x)), strict=True):
        FOUND[f"{name}/frozen_out:{tensor.name}"] = value.numpy()


def convolutional() -> Any:
    """Separable convolutions, normalisation, squeeze and excitation, as in MobileNetV3."""
    image = layers.Input((24, 32, 3))
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(image)
    x = layers.Activation("hard_swish")(layers.BatchNormalization()(x))
    y = layers.ReLU(max_value=6)(layers.DepthwiseConv2D(3, padding="same")(x))
    gate = layers.GlobalAveragePooling2D(keepdims=True)(y)
    gate = layers.Conv2D(8, 1, activation="hard_sigmoid")(gate)
    x = layers.Add()([x, layers.Multiply()([y, gate])])
    x = layers.PReLU(shared_axes=[1, 2])(layers.ZeroPadding2D(((0, 1), (0, 1)))(x))
    x = layers.Conv2D(12, 3, strides=2, groups=2)(x)
    x = layers.Conv2D(8, 3, dilation_rate=2, padding="same", activation="elu")(x)
    return keras.Model(
        image, layers.Dense(5, activation="softmax")(layers.Flatten()(layers.MaxPool2D(2)(x)))
    )


def encoder_decoder() -> Any:
    """A small U-Net of any size."""
    image = layers.Input((None, None, 3))
    first = layers.Conv2D(4, 3, padding="same", activation="relu")(image)
    second = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.MaxPool2D(2)(first))
    x = layers.SeparableConv2D(8, 3, padding="same")(layers.AveragePooling2D(2)(second))
    x = layers.Conv2DTranspose(8, 3, strides=2, padding="same")(x)
    x = layers.LeakyReLU(negative_slope=0.1)(layers.Concatenate()([x, second]))
    x = layers.Concatenate()([layers.UpSampling2D()(x), first])
    return keras.Model(image, layers.Conv2D(2, 1, activation="sigmoid")(x))


def recurrent() -> Any:
    """LSTM, GRU and a plain cell, one of them both ways."""
    words = layers.Input((None, 4))
    x = layers.Bidirectional(layers.LSTM(5, return_sequences=True))(words)
    x = layers.GRU(6, return_sequences=True)(x)
    return keras.Model(words, layers.Dense(3)(layers.SimpleRNN(4)(x)))


def masked() -> Any:
    """Words as numbers, of which 0 is none."""
    words = layers.Input((None,), dtype="int32")
    return keras.Model(words, layers.LSTM(4)(layers.Embedding(9, 4, mask_zero=True)(words)))


def attention() -> Any:
    """A transformer's layer."""
    words = layers.Input((6, 8))
    x = layers.LayerNormalization()(words + layers.MultiHeadAttention(2, 4)(words, words))
    x = layers.LayerNormalization()(x + layers.Dense(8)(layers.Dense(12, activation="gelu")(x)))
    return keras.Model(words, layers.Dense(2)(layers.GlobalAveragePooling1D()(x)))


def keep_v1(name: str, build: Callable[[], tuple[list[Any], list[Any]]], inputs: list[Any]) -> None:
    """A graph of TensorFlow 1, saved and frozen."""
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        v1.set_random_seed(1)
        placeholders, results = build()
        outputs = [tf.identity(each, name=f"out{k}") for k, each in enumerate(results)]
        session.run(v1.global_variables_initializer())
        feeds = dict(zip(placeholders, inputs, strict=True))
        values = session.run(outputs, feeds)
        names = [each.op.name for each in outputs]
        frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), names)
        FOUND[f"{name}/graph"] = np.frombuffer(frozen.SerializeToString(), np.uint8)
        with tempfile.TemporaryDirectory() as folder:
            v1.saved_model.simple_save(
                session,
                f"{folder}/saved",
                {f"x{k}": each for k, each in enumerate(placeholders)},
                {f"y{k}": each for k, each in enumerate(outputs)},
            )
            keep_files(name, Path(folder, "saved"))
    for k, (placeholder, x) in enumerate(zip(placeholders, inputs, strict=True)):
        FOUND[f"{name}/frozen_in:{placeholder.name}"] = FOUND[f"{name}/in:x{k}"] = x
    for k, (output, y) in enumerate(zip(outputs, values, strict=True)):
        FOUND[f"{name}/frozen_out:{output.name}"] = FOUND[f"{name}/out:y{k}"] = y


def weight(name: str, *shape: int) -> Any:
    """A variable of TensorFlow 1."""
    return v1.get_variable(name, shape, initializer=v1.random_normal_initializer(0.1, 0.3))


def switched() -> tuple[list[Any], list[Any]]:
    """A network with is_training, as TensorFlow 1 wrote it."""
    image = v1.placeholder(tf.float32, [None, None, None, 3], "image")
    training = v1.placeholder_with_default(False, [], "is_training")
    bias = weight("bias", 6)
    x = tf.nn.bias_add(tf.nn.conv2d(image, weight("w", 3, 3, 3, 6), 2, "SAME"), bias)
    scale, offset, mean = weight("scale", 6), weight("offset", 6), weight("mean", 6)
    variance = tf.abs(weight("variance", 6)) + 0.5
    norm = v1.nn.fused_batch_norm
    x = v1.cond(
        training,
        lambda: norm(x, scale, offset, is_training=True)[0],
        lambda: norm(x, scale, offset, mean, variance, is_training=False)[0],
    )
    x = tf.nn.atrous_conv2d(tf.nn.relu6(x), weight("w2", 3, 3, 6, 4), 2, "SAME")
    x = v1.image.resize_bilinear(x, tf.shape(image)[1:3], align_corners=True)
    return [image], [tf.nn.softmax(x), tf.argmax(x, -1), tf.reduce_mean(x, [1, 2])]


def looped() -> tuple[list[Any], list[Any]]:
    """A loop over tensor arrays with a conditional in it."""
    words = v1.placeholder(tf.float32, [None, 5, 4], "words")
    w, steps = weight("w", 8, 4), tf.transpose(words, [1, 0, 2])
    count = tf.shape(steps)[0]
    given = v1.TensorArray(tf.float32, count).unstack(steps)

    def turn(i: Any, state: Any, rows: Any) -> Any:
        state = tf.tanh(tf.matmul(tf.concat([given.read(i), state], 1), w))
        state = v1.cond(tf.reduce_sum(state) > 0, lambda: state, lambda: state * 0.5 + 1.0)
        return i + 1, state, rows.write(i, state)

    start = [0, tf.zeros_like(steps[0]), v1.TensorArray(tf.float32, count)]
    _, state, rows = v1.while_loop(lambda i, *_: i < count, turn, start)
    return [words], [state, tf.transpose(rows.stack(), [1, 0, 2])]


def conditional() -> tuple[list[Any], list[Any]]:
    """Conditionals inside of each other, constants among their results."""
    x, number = v1.placeholder(tf.float32, [None, 4], "x"), v1.placeholder(tf.int32, [], "number")
    y = v1.cond(
        number > 1,
        lambda: tf.matmul(x, weight("w", 4, 3)),
        lambda: v1.cond(
            number > 0, lambda: x[:, :3] * 2 + [1.0, 2.0, 3.0], lambda: tf.zeros_like(x)[:, 1:]
        ),
    )
    return [x, number], [y, v1.cond(number < 5, lambda: tf.constant(3.0), lambda: x[0, 0])]


def detector() -> tuple[list[Any], list[Any]]:
    """A detector as the Object Detection API writes it: resized one by one, suppressed likewise."""
    pictures = v1.placeholder(tf.uint8, [None, None, None, 3], "image_tensor")
    resize = v1.image.resize_images
    x = v1.map_fn(lambda one: resize(one, [16, 16]), tf.cast(pictures, tf.float32))
    x = (2 / 255.0) * x - 1.0
    x = tf.nn.relu6(tf.nn.conv2d(x, weight("w0", 3, 3, 3, 6), 2, "SAME"))
    x = tf.nn.relu6(tf.nn.conv2d(x, weight("w1", 3, 3, 6, 8), 2, "SAME"))
    places = tf.reshape(tf.nn.conv2d(x, weight("boxes", 3, 3, 8, 4), 1, "SAME"), [-1, 16, 4])
    logits = tf.nn.conv2d(x, weight("scores", 1, 1, 8, 3), 1, "SAME")
    scores = tf.sigmoid(tf.reshape(logits, [tf.shape(x)[0], -1, 3]) * 0.1)
    middle = (tf.range(4, dtype=tf.float32) + 0.5) / 4.0
    centres = tf.reshape(tf.stack(tf.meshgrid(middle, middle, indexing="ij"), -1), [-1, 2])
    centre, half = places[..., :2] * 0.1 + centres, tf.exp(places[..., 2:] * 0.1) * 0.2
    boxes = tf.concat([centre - half, centre + half], -1)

    def suppress(one: Any) -> Any:
        kept, best, labels = [], [], []
        for label in (1, 2):
            choose = tf.image.non_max_suppression
            chosen = choose(one[0], one[1][:, label], 5, 0.5, score_threshold=0.3)
            missing = 5 - tf.shape(chosen)[0]
            kept.append(tf.pad(tf.gather(one[0], chosen), [[0, missing], [0, 0]]))
            best.append(tf.pad(tf.gather(one[1][:, label], chosen), [[0, missing]]))
            labels.append(tf.fill([5], float(label)))
        top = tf.nn.top_k(tf.concat(best, 0), 6)
        found = [tf.gather(tf.concat(each, 0), top.indices) for each in (kept, labels)]
        return tf.clip_by_value(found[0], 0.0, 1.0), top.values, found[1]

    return [pictures], list(v1.map_fn(suppress, (boxes, scores), dtype=(tf.float32,) * 3))


def blocks() -> tuple[list[Any], list[Any]]:
    """The fused cells of LSTM and GRU."""
    words = v1.placeholder(tf.float32, [5, None, 3], "words")
    zeros, none = tf.zeros([tf.shape(words)[1], 4]), tf.zeros([4])
    own = {name: weight(name, 4) for name in ("wci", "wcf", "wco")}
    plain = dict.fromkeys(own, none)
    both = {"w": weight("w", 7, 16), "b": weight("b", 16)}
    start, raw = {"cs_prev": zeros, "h_prev": zeros}, tf.raw_ops
    cell = raw.LSTMBlockCell(x=words[0], **start, **own, **both, use_peephole=True)
    start = {"cs_prev": cell.cs, "h_prev": cell.h}
    whole = raw.BlockLSTM(seq_len_max=5, x=words, **start, **plain, **both, cell_clip=-1.0)
    peep = {**own, "use_peephole": True}
    looking = raw.BlockLSTM(seq_len_max=5, x=words, **start, **peep, **both, cell_clip=-1.0)
    short = raw.BlockLSTM(seq_len_max=3, x=words, **start, **plain, **both, cell_clip=0.5)
    second = raw.BlockLSTMV2(seq_len_max=5, x=words, **start, **plain, **both)
    gates = {"w_ru": weight("w_ru", 7, 8), "b_ru": weight("b_ru", 8)}
    gates.update(w_c=weight("w_c", 7, 4), b_c=weight("b_c", 4))
    gated = raw.GRUBlockCell(x=words[0], h_prev=cell.h, **gates)
    found = [cell.h, cell.cs, whole.h, whole.cs[-1], looking.h, short.h, short.cs, second.h]
    return [words], [*found, gated.h]


def main() -> None:
    """Make them all."""
    keras.utils.set_random_seed(0)
    keep_keras("convolutional", convolutional(), normal(1, 24, 32, 3))
    keep_keras("encoder_decoder", encoder_decoder(), normal(1, 12, 20, 3))
    keep_keras("recurrent", recurrent(), normal(2, 5, 4))
    keep_keras("masked", masked(), np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]], np.int32))
    keep_keras("attention", attention(), normal(2, 6, 8))
    v1.disable_control_flow_v2()
    for has_handles in (False, True):
        (v1.enable_resource_variables if has_handles else v1.disable_resource_variables)()
        suffix = "_handles" if has_handles else ""
        keep_v1(f"switched{suffix}", switched, [normal(2, 9, 10, 3)])
        keep_v1(f"looped{suffix}", looped, [normal(3, 5, 4)])
    for number in range(3):
        keep_v1(f"conditional{number}", conditional, [normal(2, 4), np.array(number, np.int32)])
    pictures = rng.integers(0, 255, (2, 20, 30, 3)).astype(np.uint8)
    keep_v1("detector", detector, [pictures])
    keep_v1("blocks", blocks, [normal(5, 2, 3)])
    data = io.BytesIO()
    np.savez(data, **FOUND)
    path = Path(__file__).with_name("models.npz.xz")
    path.write_bytes(lzma.compress(data.getvalue(), preset=9))
    print(f"{len({key.split('/')[0] for key in FOUND})} models, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
