"""Caffe files that are damaged, hostile, or of a fork give an error that says where."""

from __future__ import annotations

import random
import re
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from palmkit.engine.converters import caffe
from palmkit.engine.converters.caffe import schema
from palmkit.engine.errors import ModelError, PalmError, UnsupportedError
from tests.engine.converters.caffe_samples import INPUT, SAMPLES, mobile_ssd, save_text

pytest.importorskip("google.protobuf")


def test_one_error_lists_all_layers_without_a_rule(tmp_path: Path) -> None:
    text = INPUT + (
        'layer { name: "f1" type: "Foo" bottom: "data" top: "a" }'
        'layer { name: "f2" type: "Foo" bottom: "a" top: "b" }'
        'layer { name: "s" type: "SPP" bottom: "b" top: "c" }'
        'layer { name: "conv" type: "Convolution" bottom: "c" top: "d" '
        "convolution_param { num_output: 1 kernel_size: 1 bias_term: false mystery: 3 } }"
        'layer { name: "lrn" type: "LRN" bottom: "d" top: "e" lrn_param { new { a: 1 } } '
        "secret_param { b: -2 } }"
    )
    with pytest.raises(UnsupportedError) as caught:
        caffe.convert(save_text(tmp_path, text))
    message = str(caught.value)
    for part in (
        "2 Caffe layer types have no rule",
        "Foo (2: f1, f2)",
        "SPP (1: s)",
        "layer conv (Convolution): convolution_param.mystery",
        "layer lrn (LRN): lrn_param.new, secret_param",
        "net.prototxt",
        "Cut the network",
    ):
        assert part in message


def test_fields_that_cannot_matter_are_skipped(tmp_path: Path) -> None:
    text = f"""
    # a comment with \xe9 in it
    mystery: 1 quantized {{ a: "b" "c" }} {INPUT}
    layer {{ name: "y" type: "Pooling" bottom: "data" top: "y" lr_policy: -3 engine: "MKL"
      pooling_param: < pool: MAX, kernel_size: 2; engine: CAFFE > transform_param {{ scale: 0.5 }}
      param {{ lr_mult: [1, 2] }} propagate_down: [true] loss_weight: 1e-3 }}
    layer {{ name: "old" type: "WeirdLoss" bottom: "y" top: "z" weird_param {{ x: 1 }} }}
    """
    path = save_text(tmp_path, "")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode("latin-1"))
    assert list(caffe.convert(path).outputs) == ["y"]


def test_a_training_definition_says_what_to_take_instead(tmp_path: Path) -> None:
    text = (
        'layer { name: "d" type: "Data" top: "data" top: "label" data_param { source: "x" } }'
        'layer { name: "y" type: "AbsVal" bottom: "data" top: "y" }'
    )
    with pytest.raises(UnsupportedError, match="Data .1: d; reads a training set: take the deploy"):
        caffe.convert(save_text(tmp_path, text))


def test_operations_of_forks_are_unsupported(tmp_path: Path) -> None:
    text = INPUT + (
        'layer { name: "y" type: "Eltwise" bottom: "data" bottom: "data" top: "y" '
        "eltwise_param { operation: DIV } }"
    )
    with pytest.raises(UnsupportedError, match="only a fork of Caffe"):
        caffe.convert(save_text(tmp_path, text))


def test_parameters_of_forks_need_the_text(tmp_path: Path) -> None:
    """Each fork gives its parameters another number, so bytes alone do not tell them."""
    net = schema.messages(schema.DEFINITION)["Net"]()
    data = net.layer.add(name="data", type="Input", top=["data"])
    data.input_param.shape.add(dim=[1, 4, 2, 2])
    net.layer.add(name="y", type="ShuffleChannel", bottom=["data"], top=["y"])
    path = tmp_path / "net.caffemodel"
    path.write_bytes(net.SerializeToString())
    with pytest.raises(UnsupportedError, match="y .ShuffleChannel.: .* only the .prototxt names"):
        caffe.convert(path)
    net.layer[1].type = "Pooling"
    net.layer[1].pooling_param.kernel_size = 2
    pooling = net.layer[1].pooling_param.SerializeToString() + b"\xa8\x3f\x01"
    del net.layer[1]
    layer = b'\x0a\x01y\x12\x07Pooling\x1a\x04data"\x01y\xca\x07' + bytes([len(pooling)]) + pooling
    path.write_bytes(net.SerializeToString() + b"\xa2\x06" + bytes([len(layer)]) + layer)
    with pytest.raises(UnsupportedError, match="y .Pooling.: pooling_param field 1013"):
        caffe.convert(path)


def test_the_extra_is_named_where_protobuf_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_text(tmp_path, INPUT)
    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor_pb2", None)
    schema.messages.cache_clear()
    try:
        with pytest.raises(UnsupportedError, match=re.escape('pip install "palmkit[caffe]"')):
            caffe.convert(path)
    finally:
        schema.messages.cache_clear()


def layer(type: str, params: str = "", bottoms: str = "data", top: str = "y") -> str:
    read = " ".join(f'bottom: "{bottom}"' for bottom in bottoms.split())
    return f'layer {{ name: "bad" type: "{type}" {read} top: "{top}" {params} }}'


DAMAGED = {
    "no text": ("this is { no: prototxt", "not a readable Net"),
    "another text": ('{"json": [1, 2]}', "not a readable Net"),
    "empty": ("", "it has no layers"),
    "only a name": ('name: "x"', "it has no layers"),
    "cut": (INPUT + 'layer { name: "x" type: "ReLU', "not a readable Net"),
    "nested": ("a { " * 5000 + "}" * 5000, "net.prototxt"),
    "two ages": (INPUT + 'layers { name: "x" type: RELU }', "two ages"),
    "no input": ('layer { name: "x" type: "ReLU" top: "y" }', "no inputs"),
    "no output": (INPUT, "no outputs"),
    "no such bottom": (INPUT + layer("ReLU", bottoms="nope"), "bad .ReLU.: .* writes: nope"),
    "reads itself": (INPUT + layer("ReLU", bottoms="y"), "bad .ReLU.: .* writes: y"),
    "cycle": (
        INPUT + layer("Eltwise", bottoms="data b") + layer("ReLU", bottoms="y", top="b"),
        "bad .Eltwise.: .* writes: b",
    ),
    "top twice": (INPUT + layer("ReLU") + layer("TanH"), "bad .TanH.: blob is written twice: y"),
    "tops alike": (
        INPUT + layer("Split", 'top: "y"'),
        "bad .Split.: blob is written twice: y",
    ),
    "input twice": (INPUT + INPUT + layer("ReLU"), "declared twice: data"),
    "too many tops": (INPUT + layer("ReLU", 'top: "z"'), "bad .ReLU.: expected 1 tops, got 2"),
    "too few bottoms": (INPUT + layer("Crop"), "bad .Crop.: expected 2 bottoms, got 1"),
    "no bottom": (INPUT + layer("ReLU", bottoms=""), "expected 1 bottoms, got 0"),
    "no weights": (INPUT + layer("InnerProduct"), "1 layers lack weights: bad; looked for net"),
    "no kernel": (INPUT + layer("Pooling"), "bad .Pooling.: expected a kernel above its pad"),
    "kernel too large": (
        INPUT + layer("Pooling", "pooling_param { kernel_size: 9 }"),
        "bad .Pooling.: .*does not fit",
    ),
    "huge kernel": (
        INPUT + layer("Pooling", "pooling_param { kernel_size: 4294967295 }"),
        "bad .Pooling.",
    ),
    "negative": (INPUT + layer("Pooling", "pooling_param { kernel_size: -1 }"), "not a readable"),
    "axis": (INPUT + layer("Softmax", "softmax_param { axis: 4 }"), "axis 4 is outside"),
    "concat": (
        INPUT + layer("Flatten", top="f") + layer("Concat", bottoms="data f", top="c"),
        "bad .Concat.",
    ),
    "eltwise": (
        INPUT + layer("Flatten", top="f") + layer("Eltwise", bottoms="data f", top="c"),
        "bad .Eltwise.: expected bottoms of one shape",
    ),
    "reshape": (
        INPUT + layer("Reshape", "reshape_param { shape { dim: 7 dim: -1 } }"),
        "bad .Reshape.",
    ),
    "reshape twice": (
        INPUT + layer("Reshape", "reshape_param { shape { dim: -1 dim: -1 } }"),
        "bad .Reshape.",
    ),
    "huge reshape": (
        INPUT + layer("Reshape", "reshape_param { shape { dim: 9223372036854775807 dim: 4 } }"),
        "bad .Reshape.",
    ),
    "permute": (INPUT + layer("Permute", "permute_param { order: 1 order: 1 }"), "bad .Permute."),
    "slice": (INPUT + layer("Slice", 'top: "z" slice_param { slice_point: 9 }'), "bad .Slice."),
    "crop": (
        INPUT + layer("Crop", "crop_param { offset: 1 }", bottoms="data data"),
        "bad .Crop.: axis 2 .* is too short",
    ),
    "huge tile": (
        INPUT + layer("Tile", "tile_param { tiles: 2147483647 }") + layer("Tile", top="z"),
        "bad .Tile.: expected 1 or more tiles",
    ),
    "priors": (
        INPUT + layer("PriorBox", "prior_box_param { min_size: -4 }", bottoms="data data"),
        "bad .PriorBox.",
    ),
    "nan": (
        INPUT + layer("PriorBox", "prior_box_param { min_size: nan }", bottoms="data data"),
        "bad .PriorBox.",
    ),
    "many priors": (
        INPUT
        + layer(
            "PriorBox",
            f"prior_box_param {{ min_size: 4 {'aspect_ratio: 2 ' * 300} }}",
            bottoms="data data",
        ),
        "bad .PriorBox.: .*at most 256",
    ),
    "huge priors": (
        INPUT.replace("4, 4", "1000000, 1000000")
        + layer("PriorBox", "prior_box_param { min_size: 4 }", bottoms="data data"),
        "bad .PriorBox.: .*expected 1 to",
    ),
    "input of zero": (INPUT.replace("4, 4", "0, 4") + layer("ReLU"), "expected dims above 0"),
    "input of minus": (INPUT.replace("4, 4", "-4, 4") + layer("ReLU"), "expected dims above 0"),
    "input without dims": (
        'layer { name: "d" type: "Input" top: "data" }' + layer("ReLU"),
        "1 tops, but 0 shapes",
    ),
    "input_dim": ('input: "data" input_dim: 1 input_dim: 2' + layer("ReLU"), "bad|net"),
    "lrn": (INPUT + layer("LRN", "lrn_param { local_size: 4 }"), "odd local_size"),
    "log": (INPUT + layer("Log", "log_param { base: -3 }"), "expected a base above 0"),
    "argmax": (INPUT + layer("ArgMax", "argmax_param { top_k: 99 axis: 1 }"), "expected top_k"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_definition(case: str, tmp_path: Path) -> None:
    text, message = DAMAGED[case]
    with pytest.raises(ModelError, match=message) as caught:
        caffe.convert(save_text(tmp_path, text))
    assert "net.prototxt" in str(caught.value)


def test_stochastic_pooling_is_unsupported(tmp_path: Path) -> None:
    text = INPUT + layer("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }")
    with pytest.raises(UnsupportedError, match="bad .Pooling.: stochastic"):
        caffe.convert(save_text(tmp_path, text))


INNER = layer("InnerProduct", "inner_product_param { num_output: 3 }")


@pytest.mark.parametrize(
    ("blobs", "message"),
    [
        ([np.zeros((3, 31)), np.zeros(3)], r"bad .InnerProduct.: blob 0: expected \[3, 32\]"),
        ([np.zeros((32, 3)), np.zeros(3)], r"blob 0: expected \[3, 32\], got \[32, 3\]"),
        ([np.zeros((3, 32)), np.zeros(4)], r"blob 1: expected \[3\], got \[4\]"),
        ([np.zeros((3, 32))], "1 layers lack weights: bad$"),
    ],
)
def test_weights_that_do_not_fit(blobs: list[np.ndarray], message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        caffe.convert(save_text(tmp_path, INPUT + INNER, {"bad": blobs}))


@pytest.mark.parametrize(
    "blob",
    [
        {"data": [b"1234"], "dims": [1 << 40, 1 << 40]},
        {"data": [b"1234"], "dims": [-1, -1]},
        {"data": [b"12345"], "dims": [1]},
        {"double_data": [b"1234"], "dims": [1]},
        {"raw_data": b"123", "raw_data_type": 2, "dims": [1]},
        {"dims": [96]},
        {"data": [b"1234"], "dims": []},
    ],
)
def test_blobs_against_their_real_size(blob: dict[str, object], tmp_path: Path) -> None:
    """Memory is that of the file, whatever it says of its shapes."""
    path = save_text(tmp_path, INPUT + INNER)
    net = schema.messages(schema.WEIGHTS)["Net"]()
    dims = blob.pop("dims")
    net.layer.add(name="bad").blobs.add(**blob).shape.dim.extend(dims)
    path.with_suffix(".caffemodel").write_bytes(net.SerializeToString())
    tracemalloc.start()
    with pytest.raises(ModelError, match="net.caffemodel: layer bad: blob 0|lack weights: bad"):
        caffe.convert(path)
    assert tracemalloc.get_traced_memory()[1] < 5 << 20
    tracemalloc.stop()


def test_numbers_of_an_unknown_kind(tmp_path: Path) -> None:
    path = save_text(tmp_path, INPUT + INNER)
    net = schema.messages(schema.WEIGHTS)["Net"]()
    net.layer.add(name="bad").blobs.add(raw_data=b"1", raw_data_type=4).shape.dim.append(1)
    path.with_suffix(".caffemodel").write_bytes(net.SerializeToString())
    with pytest.raises(UnsupportedError, match="layer bad: blob 0: numbers of kind 4"):
        caffe.convert(path)


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, b"\0" * 9, b"\xa2\x06\x7f\0", b"\x0a\x03abc"])
def test_weights_that_are_none(data: bytes, tmp_path: Path) -> None:
    path = save_text(tmp_path, INPUT + INNER)
    path.with_suffix(".caffemodel").write_bytes(data)
    with pytest.raises(ModelError, match="net.caffemodel"):
        caffe.convert(path)
    alone = tmp_path / "alone" / "x.caffemodel"
    alone.parent.mkdir()
    alone.write_bytes(data)
    with pytest.raises(ModelError, match="x.caffemodel"):
        caffe.convert(alone)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """Protobuf hands them on as bytes, or in pure Python refuses them."""
    layer = b"\x0a\x02a\xff\x12\x03F\xffo\x1a\x02d\xfe"
    path = tmp_path / "net.caffemodel"
    path.write_bytes(b"\xa2\x06" + bytes([len(layer)]) + layer)
    with pytest.raises((UnsupportedError, ModelError), match="net.caffemodel: .*(F\ufffdo|utf-8)"):
        caffe.convert(path)


def test_files_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot read model .*nope.prototxt"):
        caffe.convert(tmp_path / "nope.prototxt")
    path = save_text(tmp_path, INPUT + INNER)
    with pytest.raises(ModelError, match="cannot read model .*nope.caffemodel"):
        caffe.convert(path, tmp_path / "nope.caffemodel")
    with pytest.raises(ModelError, match="cannot read model"):
        caffe.convert(tmp_path)


def test_weights_as_hdf5(tmp_path: Path) -> None:
    path = save_text(tmp_path, INPUT + INNER)
    path.with_suffix(".caffemodel").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(40))
    with pytest.raises(UnsupportedError, match="net.caffemodel: weights as HDF5"):
        caffe.convert(path)


def test_the_files_changed_about(tmp_path: Path) -> None:
    path = SAMPLES["squeeze_net"][0]().save(tmp_path)
    with pytest.raises(ModelError, match="expected a network as text"):
        caffe.convert(path.with_suffix(".caffemodel"), path)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, cut out, put in again, or a number made huge."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(len(damaged) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(damaged):
            damaged[at] = rng.randrange(256)
        elif kind == 1:
            del damaged[at : at + rng.choice((1, 3, 50))]
        elif kind == 2:
            start = rng.randrange(len(damaged) + 1)
            damaged[at:at] = damaged[start : start + rng.choice((2, 30, 200))]
        elif kind == 3:
            damaged[at:at] = rng.choice((b"-", b"0", b"9999999999", b"}", b"{", b'"', b"\xff\x7f"))
        else:
            digits = [m.span() for m in re.finditer(rb"\d+", bytes(damaged))]
            if digits:
                first, last = rng.choice(digits)
                damaged[first:last] = rng.choice((b"0", b"1", b"2", b"7", b"-1", b"4000000000"))
    return bytes(damaged)


def fuzz(tmp_path: Path, seed: int, rounds: int) -> dict[str, int]:
    """Convert damaged files; only PalmErrors may come of them. Returns how often what came."""
    rng = random.Random(seed)
    path = mobile_ssd().save(tmp_path)
    model = path.with_suffix(".caffemodel")
    text, weights = path.read_bytes(), model.read_bytes()
    found: dict[str, int] = {}
    for i in range(rounds):
        path.write_bytes(mutated(text, rng) if i % 3 else text)
        model.write_bytes(weights if i % 3 else mutated(weights, rng))
        try:
            caffe.convert(model if i % 7 == 0 else path)
            result = "graph"
        except PalmError as error:
            result = type(error).__name__
        found[result] = found.get(result, 0) + 1
    return found


def test_random_damage(tmp_path: Path) -> None:
    found = fuzz(tmp_path, 0, 90)
    assert set(found) == {"graph", "ModelError", "UnsupportedError"}
