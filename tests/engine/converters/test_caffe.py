"""Caffe networks: whole ones against Caffe's definitions, and RFB-320 against its other formats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.engine.backends import BACKENDS
from palmkit.engine.converters import caffe
from palmkit.engine.converters.caffe import schema
from palmkit.engine.ir import Type
from palmkit.engine.model import Model
from palmkit.engine.ops import registry as ops
from palmkit.engine.shapes import with_input_shapes
from tests.engine.converters.caffe_samples import (
    INPUT,
    RFB,
    SAMPLES,
    SHARED,
    Sample,
    assert_agrees,
    mobile_ssd,
    picture,
    run,
    save_text,
)

pytest.importorskip("google.protobuf")

Array = NDArray[Any]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SAMPLES)
def test_network(name: str, backend: str, tmp_path: Path) -> None:
    make, age = SAMPLES[name]
    sample = make()
    model = Model(caffe.convert(sample.save(tmp_path, age=age)), backend)
    assert_agrees(model.run(sample.inputs), sample.outputs)
    assert model.metadata == {"name": "sample"}


@pytest.mark.parametrize("kind", ["legacy", "double", "half"])
def test_blobs_of_other_kinds(kind: str, tmp_path: Path) -> None:
    sample = SAMPLES["alex_net"][0]()
    got = run(caffe.convert(sample.save(tmp_path, age="layers", kind=kind)), **sample.inputs)
    error = np.abs(got["prob"] - sample.outputs["prob"]).max()
    assert error < (1e-3 if kind == "half" else 1e-6)


def test_numbers_that_are_not_packed(tmp_path: Path) -> None:
    """One key a number, as protobuf writes lists that are not declared as packed."""
    number = b"\x2d" + np.float32(2.5).tobytes()
    blob = b"\x3a\x03\x0a\x01\x02" + number * 2
    layer = b"\x0a\x01s" + b"\x3a" + bytes([len(blob)]) + blob
    path = save_text(tmp_path, INPUT + 'layer { name: "s" type: "Scale" bottom: "data" top: "y" }')
    path.with_suffix(".caffemodel").write_bytes(b"\xa2\x06" + bytes([len(layer)]) + layer)
    x = picture(1, 2, 4, 4)
    np.testing.assert_array_equal(run(caffe.convert(path), data=x)["y"], x * np.float32(2.5))


@pytest.mark.parametrize("size", [(40, 72), (96, 64)])
def test_other_sizes_need_no_other_graph(size: tuple[int, int], tmp_path: Path) -> None:
    """Default boxes, reshapes and crops follow the picture's size."""
    small = mobile_ssd()
    graph = caffe.convert(small.save(tmp_path))
    other = Sample({"data": picture(1, 3, *size, seed=9)})
    for layer in small.layers:
        in_place = layer.tops == layer.bottoms[:1]
        other.add(
            layer.type,
            *layer.bottoms,
            blobs=layer.blobs,
            name=layer.name,
            in_place=in_place,
            **layer.params,
        )
    fixed = with_input_shapes(graph, {"data": (1, 3, *size)})
    assert_agrees(Model(fixed).run(other.inputs), other.outputs)
    free = with_input_shapes(graph, {"data": (1, 3, "height", "width")})
    assert_agrees(Model(free).run(other.inputs), other.outputs)


def test_sizes_that_are_told_at_run_time_only(tmp_path: Path) -> None:
    """Files that give a picture of one element, as OpenPose's do, mean that any size will do."""
    big = Sample({"image": picture(1, 3, 20, 28)})
    x = big.add("ReLU", big.conv("image", 4, 3, pad=1), in_place=True)
    x = big.add("Pooling", x, pool="MAX", kernel_size=2, stride=2)
    x = big.add("Pooling", x, pool="AVE", kernel_size=3, stride=2, pad=1)
    big.add("Concat", x, big.conv(x, 5, 7, pad=3))
    path = big.save(tmp_path)
    path.write_text(path.read_text().replace("dim: 20", "dim: 1").replace("dim: 28", "dim: 1"))
    graph = caffe.convert(path)
    assert graph.inputs["image"].shape == (1, 3, 1, 1)
    sized = with_input_shapes(graph, {"image": (1, 3, 20, 28)})
    assert_agrees(Model(sized).run(big.inputs), big.outputs)


def test_default_boxes_are_constants(tmp_path: Path) -> None:
    """They hang on sizes only, so nothing is left of them once the sizes are known."""
    graph = caffe.convert(mobile_ssd().save(tmp_path))
    assert "prior_box" in {node.op for node in graph.nodes}
    times = Model(graph, "reference").profile(runs=1)
    assert "prior_box" not in {step.op for step in times}


def faces() -> Array:
    """A picture with faces as RFB-320 takes it: float32[1, 3, 240, 320], -1..1."""
    image = pytest.importorskip("PIL.Image")
    rows = SHARED / "data" / "faces" / "index.jsonl"
    if not rows.is_file():
        pytest.skip("the pictures of ../shared/data are not here")
    first = json.loads(rows.read_text().splitlines()[0])
    with image.open(rows.parent / first["file"]) as opened:
        pixels = np.asarray(opened.convert("RGB").resize((320, 240)), np.float32)
    return np.ascontiguousarray((pixels - 127).transpose(2, 0, 1)[None] / 128)


def decoded(code: Array) -> Array:
    """RFB-320's boxes as corners: SSD's centre and size, variances 0.1 and 0.2."""
    cells = {8: (10, 16, 24), 16: (32, 48), 32: (64, 96), 64: (128, 192, 256)}
    boxes: list[tuple[float, ...]] = []
    for stride, sizes in cells.items():
        rows, columns = -(-240 // stride), -(-320 // stride)
        for y, x in np.ndindex(rows, columns):
            for size in sizes:
                boxes.append(((x + 0.5) / columns, (y + 0.5) / rows, size / 320, size / 240))
    prior = np.clip(np.array(boxes, np.float32), 0, 1)
    centre = prior[:, :2] + 0.1 * code[0, :, :2] * prior[:, 2:]
    half = np.exp(0.2 * code[0, :, 2:]) * prior[:, 2:] / 2
    return np.concatenate([centre - half, centre + half], 1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("what", ["faces", "noise"])
def test_every_format_of_rfb_320_gives_the_same_boxes(backend: str, what: str) -> None:
    if not RFB.is_dir():
        pytest.skip("the published networks of ../shared/teachers are not here: RFB-320")
    pytest.importorskip("onnx")
    pytest.importorskip("tflite")
    from palmkit.engine.converters import onnx, tflite

    noise = np.random.default_rng(0).uniform(-1, 1, (1, 3, 240, 320)).astype(np.float32)
    x = faces() if what == "faces" else noise
    wanted = Model(onnx.convert(RFB / "version-RFB-320.onnx"), backend).run({"input": x})
    found = int((wanted["scores"][0, :, 1] > 0.7).sum())
    assert found > 20 if what == "faces" else found == 0
    got = Model(caffe.convert(RFB / "RFB-320.prototxt"), backend).run({"input": x})
    assert np.abs(decoded(got["boxes"]) - wanted["boxes"][0]).max() < 2e-6
    assert np.abs(got["scores"] - wanted["scores"]).max() < 1e-5
    file = RFB / "version-RFB-320_without_postprocessing.tflite"
    nhwc = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    other = Model(tflite.convert(file), backend).run({"input_1": nhwc})
    assert np.abs(decoded(other["Identity"]) - wanted["boxes"][0]).max() < 1e-3
    assert np.abs(other["Identity_1"] - wanted["scores"]).max() < 1e-3


RULES = """
layer { name: "train" type: "Data" top: "data" top: "label" include { phase: TRAIN } }
layer { name: "only_test" type: "Power" bottom: "data" top: "a" power_param { shift: 1 }
        include { phase: TEST } }
layer { name: "not_test" type: "Power" bottom: "data" top: "b" exclude { phase: TEST } }
layer { name: "deep" type: "Power" bottom: "a" top: "b" include { min_level: 1 } }
layer { name: "staged" type: "Power" bottom: "a" top: "b" include { stage: "deploy" } }
layer { name: "in_place" type: "ReLU" bottom: "a" top: "a" }
layer { name: "again" type: "Power" bottom: "a" top: "a" power_param { scale: 2 } }
layer { name: "split" type: "Split" bottom: "a" top: "a1" top: "a2" }
layer { name: "drop" type: "Dropout" bottom: "a1" top: "d" }
layer { name: "unused" type: "Power" bottom: "a2" top: "u" power_param { power: 3 } }
layer { name: "silence" type: "Silence" bottom: "u" }
layer { name: "acc" type: "Accuracy" bottom: "d" bottom: "label" top: "accuracy" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "d" bottom: "label" top: "loss" }
"""


def test_phases_places_and_blobs_that_nobody_reads(tmp_path: Path) -> None:
    x = picture(1, 2, 4, 4)
    got = run(caffe.convert(save_text(tmp_path, INPUT + RULES)), data=x)
    assert list(got) == ["d"]
    np.testing.assert_allclose(got["d"], 2 * np.maximum(x + 1, 0), rtol=1e-6)


def test_stages_and_levels_of_the_net(tmp_path: Path) -> None:
    text = f'state {{ level: 2 stage: "deploy" }} {INPUT}'
    text += 'layer { name: "a" type: "AbsVal" bottom: "data" top: "y" include { min_level: 2 '
    text += 'stage: "deploy" not_stage: "train" } }'
    assert list(caffe.convert(save_text(tmp_path, text)).outputs) == ["y"]


@pytest.mark.parametrize(
    "head",
    [
        'input: "data" input_dim: 1 input_dim: 2 input_dim: 4 input_dim: 4',
        'input: "data" input_shape { dim: 1 dim: 2 dim: 4 dim: 4 }',
        'layer { name: "m" type: "MemoryData" top: "data" memory_data_param { batch_size: 1 '
        "channels: 2 height: 4 width: 4 } }",
        INPUT,
    ],
)
def test_inputs_of_every_age(head: str, tmp_path: Path) -> None:
    text = f'{head} layer {{ name: "y" type: "AbsVal" bottom: "data" top: "y" }}'
    graph = caffe.convert(save_text(tmp_path, text))
    assert graph.inputs == {"data": Type("float32", (1, 2, 4, 4))}


def test_v1_layers_without_parameters_of_their_own(tmp_path: Path) -> None:
    """V1 has types whose parameters came later; their defaults hold."""
    text = 'input: "data" input_dim: 1 input_dim: 2 input_dim: 4 input_dim: 4 '
    text += 'layers { name: "f" type: FLATTEN bottom: "data" top: "f" }'
    text += 'layers { name: "y" type: BNLL bottom: "f" top: "y" }'
    graph = caffe.convert(save_text(tmp_path, text))
    assert graph.outputs == {"y": Type("float32", (1, 32))}


def test_v1_layers_of_forks(tmp_path: Path) -> None:
    """DeepLab, DeconvNet and SegNet added layers before the format changed."""
    sample = Sample({"data": picture(1, 2, 5, 6)})
    x = sample.add("BN", "data", blobs=[sample.random(2), sample.random(2)], bn_mode="INFERENCE")
    x = sample.add("PReLU", x, blobs=[sample.random(2)])
    x = sample.add("Interp", x, zoom_factor=2)
    x = sample.conv(x, 3, 3, pad=2, hole=2)
    sample.add("Upsample", x, scale=2)
    path = sample.save(tmp_path, age="layers")
    assert_agrees(run(caffe.convert(path), **sample.inputs), sample.outputs)


V0 = """
input: "data" input_dim: 1 input_dim: 2 input_dim: 4 input_dim: 4
layers { layer { name: "pad" type: "padding" pad: 1 } bottom: "data" top: "padded" }
layers { layer { name: "c" type: "conv" num_output: 3 kernelsize: 3 stride: 2 biasterm: false }
         bottom: "padded" top: "c" }
layers { layer { name: "r" type: "relu" } bottom: "c" top: "c" }
layers { layer { name: "p" type: "pool" pool: AVE kernelsize: 2 stride: 1 } bottom: "c" top: "p" }
layers { layer { name: "n" type: "lrn" local_size: 3 alpha: 0.5 beta: 0.5 } bottom: "p" top: "n" }
layers { layer { name: "f" type: "innerproduct" num_output: 4 } bottom: "n" top: "f" }
layers { layer { name: "prob" type: "softmax" } bottom: "f" top: "prob" }
"""


def test_the_oldest_format(tmp_path: Path) -> None:
    """Fields of V0 lie in the layer itself, and padding is a layer of its own."""
    sample = Sample({"data": picture(1, 2, 4, 4)})
    x = sample.conv("data", 3, 3, stride=2, pad=1, bias_term=False)
    x = sample.add("ReLU", x, in_place=True)
    x = sample.add("Pooling", x, pool="AVE", kernel_size=2, stride=1)
    x = sample.add("LRN", x, local_size=3, alpha=0.5, beta=0.5)
    sample.add("Softmax", sample.dense(x, 4), name="prob")
    net = schema.messages(schema.WEIGHTS)["Net"]()
    for name, layer in (("c", sample.layers[0]), ("f", sample.layers[4])):
        written = net.layers.add().layer
        written.name = name
        for blob in layer.blobs:
            shape = (*[1] * (4 - blob.ndim), *blob.shape)
            sides = dict(zip(("num", "channels", "height", "width"), shape, strict=True))
            written.blobs.add(data=[blob.tobytes()], **sides)
    path = save_text(tmp_path, V0)
    path.with_suffix(".caffemodel").write_bytes(net.SerializeToString())
    assert_agrees(run(caffe.convert(path), **sample.inputs), sample.outputs)


def test_learned_parameters_and_constants_are_blobs(tmp_path: Path) -> None:
    text = (
        INPUT
        + """
    layer { name: "p" type: "Parameter" top: "p" parameter_param { shape { dim: [4, 4] } } }
    layer { name: "d" type: "DummyData" top: "d" dummy_data_param {
      shape { dim: [1, 2, 4, 4] } data_filler { type: "constant" value: 3 } } }
    layer { name: "s" type: "Scale" bottom: "data" bottom: "p" top: "s" scale_param { axis: 2 } }
    layer { name: "y" type: "Eltwise" bottom: "s" bottom: "d" top: "y" }
    """
    )
    x, p = picture(1, 2, 4, 4), picture(4, 4, seed=7)
    got = run(caffe.convert(save_text(tmp_path, text, {"p": [p]})), data=x)
    np.testing.assert_allclose(got["y"], x * p + 3, rtol=1e-6)


def test_maxima_go_back_to_their_places(tmp_path: Path) -> None:
    """SegNet's pooling with a mask and its Upsample."""
    sample = Sample({"data": picture(2, 3, 6, 7)})
    y, mask = sample.add("Pooling", "data", tops=2, name="pool", kernel_size=2, stride=2)
    sample.add("Upsample", y, mask, name="up", upsample_h=6, upsample_w=7)
    assert_agrees(run(caffe.convert(sample.save(tmp_path)), **sample.inputs), sample.outputs)


def test_dropout_of_forks_that_do_not_scale_in_training(tmp_path: Path) -> None:
    text = INPUT + (
        'layer { name: "y" type: "Dropout" bottom: "data" top: "y" '
        "dropout_param { dropout_ratio: 0.25 scale_train: false } }"
    )
    x = picture(1, 2, 4, 4)
    np.testing.assert_allclose(run(caffe.convert(save_text(tmp_path, text)), data=x)["y"], 0.75 * x)


def test_every_op_that_is_emitted_exists(tmp_path: Path) -> None:
    for make, age in SAMPLES.values():
        graph = caffe.convert(make().save(tmp_path, age=age))
        assert {node.op for node in graph.nodes} <= set(ops())


def test_graph_is_the_same_each_time(tmp_path: Path) -> None:
    path = SAMPLES["mobile_ssd"][0]().save(tmp_path)
    one, two = caffe.convert(path), caffe.convert(path)
    assert str(one) == str(two)
    assert str(replace(one, constants={})) == str(replace(two, constants={}))
