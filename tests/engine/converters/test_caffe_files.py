"""Which files a Caffe network is read from."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from palmkit.engine.converters import caffe
from palmkit.engine.converters.caffe import schema
from palmkit.engine.errors import ModelError, UnsupportedError
from tests.engine.converters.caffe_samples import RFB, SAMPLES, assert_agrees, run

pytest.importorskip("google.protobuf")


def test_rfb_320_from_its_weights_alone(tmp_path: Path) -> None:
    """A .caffemodel has the definition, too, with the splits that Caffe puts in."""
    if not RFB.is_dir():
        pytest.skip("the published networks of ../shared/teachers are not here: RFB-320")
    alone = tmp_path / "face.caffemodel"
    shutil.copy(RFB / "RFB-320.caffemodel", alone)
    x = np.random.default_rng(0).uniform(-1, 1, (1, 3, 240, 320)).astype(np.float32)
    wanted = run(caffe.convert(RFB / "RFB-320.caffemodel"), input=x)
    assert_agrees(run(caffe.convert(alone), input=x), wanted)


def test_the_other_file_is_found(tmp_path: Path) -> None:
    sample = SAMPLES["squeeze_net"][0]()
    prototxt = sample.save(tmp_path)
    model = prototxt.with_suffix(".caffemodel")
    (tmp_path / "other.caffemodel").write_bytes(b"not read")
    for graph in (
        caffe.convert(prototxt),
        caffe.convert(model),
        caffe.convert(str(prototxt), str(model)),
    ):
        assert_agrees(run(graph, **sample.inputs), sample.outputs)
    (tmp_path / "other.caffemodel").unlink()
    renamed = model.rename(tmp_path / "iter_1000.caffemodel")
    for graph in (
        caffe.convert(prototxt),
        caffe.convert(renamed),
        caffe.convert(prototxt, renamed),
    ):
        assert_agrees(run(graph, **sample.inputs), sample.outputs)


def test_of_several_definitions_the_deployed_one_is_taken(tmp_path: Path) -> None:
    sample = SAMPLES["squeeze_net"][0]()
    prototxt = sample.save(tmp_path)
    model = prototxt.with_suffix(".caffemodel").rename(tmp_path / "iter_1000.caffemodel")
    for name in ("solver", "train_val"):
        (tmp_path / f"{name}.prototxt").write_text("net: 'not read'")
    with pytest.raises(UnsupportedError, match="; looked for iter_1000.prototxt .* several"):
        caffe.convert(model)
    prototxt.rename(tmp_path / "deploy.prototxt")
    assert_agrees(run(caffe.convert(model), **sample.inputs), sample.outputs)


def test_layers_without_weights_are_named(tmp_path: Path) -> None:
    path = SAMPLES["squeeze_net"][0]().save(tmp_path)
    model = path.with_suffix(".caffemodel")
    whole = model.read_bytes()
    model.unlink()
    lacks = "8 layers lack weights: convolution1, convolution4, .*; looked for net.caffemodel"
    with pytest.raises(ModelError, match=lacks):
        caffe.convert(path)
    for name in ("a.caffemodel", "b.caffemodel"):
        (tmp_path / name).write_bytes(whole)
    with pytest.raises(ModelError, match="several other"):
        caffe.convert(path)
    net = schema.messages(schema.WEIGHTS)["Net"].FromString(whole)
    del net.layer[0]
    model.write_bytes(net.SerializeToString())
    with pytest.raises(ModelError, match="1 layers lack weights: convolution1$"):
        caffe.convert(path)


def test_files_are_recognised_by_content() -> None:
    text = [
        b'name: "VGG"',
        b"# a comment\n\n  input: 'data'",
        b"\xef\xbb\xbflayer {",
        b"layers{",
        b"input_dim: 1",
        b'name : "x"',
    ]
    net = schema.messages(schema.DEFINITION)["Net"]
    data = net(name="VGG_ILSVRC").SerializeToString()
    assert all(caffe.recognises(start) for start in text)
    assert caffe.recognises(data[:8])
    unnamed = net()
    unnamed.layer.add(name="conv1", type="Convolution")
    assert caffe.recognises(unnamed.SerializeToString()[:8])
    for start in (
        b"\x08\x08\x12\x07pytorc",
        b"\x0a\x30\x0a\x05input",
        b"PALM\0\0\0\0",
        b"",
        b"nametag",
    ):
        assert not caffe.recognises(start)
