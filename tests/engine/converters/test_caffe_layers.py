"""Each layer type, with the parameters that it has, gives what Caffe's definition gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.engine.backends.reference import Reference
from palmkit.engine.converters import caffe
from palmkit.engine.converters.caffe.rules import registry
from tests.engine.converters.caffe_samples import Sample, picture

pytest.importorskip("google.protobuf")

Array = NDArray[Any]
RNG = np.random.default_rng(0)


def blob(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def positive(*shape: int) -> Array:
    return np.abs(blob(*shape)) + np.float32(0.5)


def weight(value: float) -> Array:
    return np.array([value], np.float32)


X = (2, 6, 7, 5)
TIES = np.array([[1, 3, 3, 2], [0, 0, 0, 0]], np.float32)
CONV = {"num_output": 8, "kernel_size": 3}
MARKS = np.array([[0, 1, 0], [1, 1, 1], [1, 0, 1], [1, 0, 0]], np.float32)
ROIS = np.array([[0, 0, 0, 6, 4], [1, 2, 1, 5, 3], [0, 3, 3, 3, 3], [1, -3, 5, 40, 9]], np.float32)
NMS = {"nms_threshold": 0.45, "top_k": 20}
PRIORS = np.concatenate(
    [
        np.sort(np.random.default_rng(2).random((30, 2, 2)), 1).reshape(1, 1, -1),
        np.tile([0.1, 0.1, 0.2, 0.2], 30)[None, None],
    ],
    1,
).astype(np.float32)
SSD = [(2, 120), (2, 90), PRIORS]

# type, bottoms (shapes, or values), blobs, parameters; "tops" is how many there are.
CASES: list[tuple[str, list[Any], list[Array], dict[str, Any]]] = [
    ("AbsVal", [X], [], {}),
    ("ArgMax", [X], [], {"axis": 1}),
    ("ArgMax", [X], [], {"axis": -1, "out_max_val": True}),
    ("ArgMax", [X], [], {"axis": 2, "top_k": 3}),
    ("ArgMax", [TIES], [], {"axis": 1, "top_k": 2}),
    ("ArgMax", [TIES], [], {}),
    ("ArgMax", [X], [], {"top_k": 4, "out_max_val": True}),
    ("Axpy", [(2, 6, 1, 1), X, X], [], {}),
    ("Axpy", [(2, 6), X, X], [], {}),
    ("BN", [X], [positive(1, 6, 1, 1), blob(1, 6, 1, 1)], {"bn_mode": "INFERENCE"}),
    ("BN", [X], [blob(1, 6, 1, 1), blob(6), blob(6), positive(6)], {"frozen": True}),
    ("BNLL", [X], [], {}),
    ("BatchNorm", [X], [blob(6), positive(6), weight(2.5)], {}),
    ("BatchNorm", [(3, 4)], [blob(4), positive(4), weight(1)], {"eps": 0.01}),
    ("BatchNorm", [X], [], {"use_global_stats": False}),
    ("BatchNorm", [X], [blob(6), positive(6), weight(1), blob(6), blob(6)], {}),
    ("Bias", [X], [blob(6)], {}),
    ("Bias", [X, (7,)], [], {"axis": 2}),
    ("Clip", [X], [], {"min": -0.5, "max": 0.75}),
    ("Concat", [X, (2, 3, 7, 5), X], [], {}),
    ("Concat", [X, X], [], {"axis": -1}),
    ("Concat", [X, X], [], {"concat_dim": 0}),
    ("Convolution", [X], [blob(8, 6, 3, 3), blob(8)], CONV),
    ("Convolution", [X], [blob(8, 6, 3, 3)], {**CONV, "bias_term": False, "pad": 1, "stride": 2}),
    (
        "Convolution",
        [X],
        [blob(8, 3, 3, 3), blob(8)],
        {**CONV, "group": 2, "pad": 2, "dilation": 2},
    ),
    ("Convolution", [X], [blob(8, 6, 3, 3), blob(8)], {**CONV, "pad": 2, "hole": 2}),
    (
        "Convolution",
        [X],
        [blob(4, 6, 3, 2), blob(4)],
        {
            "num_output": 4,
            "kernel_h": 3,
            "kernel_w": 2,
            "pad_h": 1,
            "pad_w": 0,
            "stride_h": 1,
            "stride_w": 2,
        },
    ),
    (
        "Convolution",
        [(1, 2, 4, 5, 3)],
        [blob(3, 2, 2, 3, 1), blob(3)],
        {"num_output": 3, "kernel_size": [2, 3, 1], "pad": [1, 0, 0], "stride": 2},
    ),
    ("Convolution", [(2, 3, 9)], [blob(4, 3, 3), blob(4)], {"num_output": 4, "kernel_size": 3}),
    ("ConvolutionDepthwise", [X], [blob(6, 1, 3, 3), blob(6)], {"num_output": 6, "kernel_size": 3}),
    (
        "DepthwiseConvolution",
        [X],
        [blob(6, 1, 3, 3)],
        {"num_output": 6, "kernel_size": 3, "group": 6, "bias_term": False, "pad": 1},
    ),
    ("Crop", [X, (2, 6, 4, 3)], [], {"axis": 2, "offset": [2, 1]}),
    ("Crop", [X, (2, 4, 5, 3)], [], {"axis": 1, "offset": 1}),
    ("Crop", [X, (9, 9, 7, 2)], [], {"axis": -1}),
    ("Deconvolution", [X], [blob(6, 8, 3, 3), blob(8)], {**CONV, "stride": 2}),
    ("Deconvolution", [X], [blob(6, 4, 4, 4), blob(8)], {**CONV, "kernel_size": 4, "group": 2}),
    (
        "Deconvolution",
        [X],
        [blob(6, 1, 4, 4)],
        {"num_output": 6, "kernel_size": 4, "stride": 2, "pad": 1, "group": 6, "bias_term": False},
    ),
    ("Deconvolution", [X], [blob(6, 8, 3, 3), blob(8)], {**CONV, "dilation": 2, "pad": 1}),
    ("DetectionOutput", SSD, [], {"num_classes": 3, "nms_param": NMS}),
    (
        "DetectionOutput",
        SSD,
        [],
        {"num_classes": 3, "code_type": "CENTER_SIZE", "keep_top_k": 7, "nms_param": NMS},
    ),
    (
        "DetectionOutput",
        [(1, 360), (1, 90), PRIORS],
        [],
        {
            "num_classes": 3,
            "share_location": False,
            "background_label_id": 2,
            "variance_encoded_in_target": True,
            "confidence_threshold": 0.25,
        },
    ),
    ("DetectionOutput", SSD, [], {"num_classes": 3, "confidence_threshold": 99.0}),
    (
        "DetectionOutput",
        [*SSD, (2, 60)],
        [],
        {"num_classes": 3, "objectness_score": 0.25, "nms_param": NMS},
    ),
    (
        "DetectionOutput",
        [*SSD, (2, 60), (2, 120)],
        [],
        {"num_classes": 3, "code_type": "CENTER_SIZE", "nms_param": NMS, "keep_top_k": 9},
    ),
    ("Dropout", [X], [], {"dropout_ratio": 0.3}),
    ("ELU", [X], [], {"alpha": 0.7}),
    ("Eltwise", [X, X, X], [], {"operation": "PROD"}),
    ("Eltwise", [X, X, X], [], {"operation": "MAX"}),
    ("Eltwise", [X, X], [], {"operation": "SUM", "coeff": [1.0, -0.5]}),
    ("Eltwise", [X, X], [], {}),
    (
        "Embed",
        [np.array([[0, 4], [3, 1], [2, 2]], np.float32)],
        [blob(5, 7), blob(7)],
        {"num_output": 7, "input_dim": 5},
    ),
    ("Exp", [X], [], {}),
    ("Exp", [X], [], {"base": 2.0, "scale": 0.5, "shift": -1.5}),
    ("Flatten", [X], [], {}),
    ("Flatten", [X], [], {"axis": 2}),
    ("Flatten", [X], [], {"axis": 0, "end_axis": 1}),
    ("Flatten", [X], [], {"axis": 1, "end_axis": -2}),
    ("InnerProduct", [X], [blob(9, 210), blob(9)], {"num_output": 9}),
    ("InnerProduct", [X], [blob(9, 35)], {"num_output": 9, "axis": 2, "bias_term": False}),
    ("InnerProduct", [(4, 6)], [blob(6, 9), blob(9)], {"num_output": 9, "transpose": True}),
    (
        "InnerProduct",
        [(4, 3, 6)],
        [blob(6, 9), blob(9)],
        {"num_output": 9, "transpose": True, "axis": -1},
    ),
    ("Interp", [X], [], {"height": 11, "width": 9}),
    ("Interp", [X], [], {"zoom_factor": 3}),
    ("Interp", [X], [], {"shrink_factor": 2}),
    ("Interp", [X], [], {"shrink_factor": 2, "zoom_factor": 4}),
    ("Interp", [X], [], {"height": 4, "width": 1, "pad_beg": -1, "pad_end": -2}),
    ("LRN", [X], [], {"alpha": 0.3, "beta": 0.6, "k": 2.0}),
    ("LRN", [X], [], {"local_size": 3, "alpha": 0.3, "norm_region": "WITHIN_CHANNEL"}),
    ("LSTM", [(4, 3, 5), MARKS], [blob(24, 5), blob(24), blob(24, 6)], {"num_output": 6}),
    (
        "LSTM",
        [(4, 3, 2, 2), MARKS, (3, 7), (1, 3, 6), (1, 3, 6)],
        [blob(24, 4), blob(24), blob(24, 7), blob(24, 6)],
        {"num_output": 6, "expose_hidden": True, "tops": 3},
    ),
    ("Log", [positive(2, 3)], [], {}),
    ("Log", [positive(2, 3)], [], {"base": 10.0, "scale": 2.0, "shift": 0.5}),
    ("MVN", [X], [], {}),
    ("MVN", [X], [], {"across_channels": True, "eps": 0.25}),
    ("MVN", [X], [], {"normalize_variance": False}),
    ("Mish", [X], [], {}),
    ("Normalize", [X], [blob(6)], {"across_spatial": False, "channel_shared": False}),
    ("Normalize", [X], [blob(1)], {"eps": 0.1}),
    ("PReLU", [X], [blob(6)], {}),
    ("PReLU", [X], [blob(1)], {"channel_shared": True}),
    ("Permute", [X], [], {"order": [0, 2, 3, 1]}),
    ("Permute", [X], [], {"order": [2]}),
    ("Pooling", [X], [], {"kernel_size": 2, "stride": 2}),
    ("Pooling", [X], [], {"kernel_size": 2, "stride": 2, "round_mode": "FLOOR"}),
    ("Pooling", [X], [], {"kernel_size": 2, "stride": 2, "ceil_mode": False}),
    ("Pooling", [X], [], {"kernel_size": 3, "stride": 2, "pad": 1, "tops": 2}),
    ("Pooling", [X], [], {"kernel_size": 2, "stride": 2, "pad": 1, "pool": "AVE"}),
    ("Pooling", [X], [], {"kernel_size": 3, "stride": 3, "pad": 2, "pool": "AVE"}),
    ("Pooling", [X], [], {"kernel_size": 3, "stride": 2, "pool": "AVE"}),
    ("Pooling", [X], [], {"kernel_h": 3, "kernel_w": 2, "stride_h": 2, "stride_w": 1}),
    ("Pooling", [X], [], {"kernel_size": 3, "pad_h": 1, "pad_w": 2}),
    ("Pooling", [(1, 2, 1, 3)], [], {"kernel_size": 2, "stride": 2}),
    ("Pooling", [(1, 2, 1, 3)], [], {"kernel_size": 2, "stride": 2, "pool": "AVE"}),
    ("Pooling", [X], [], {"pool": "AVE", "global_pooling": True}),
    ("Pooling", [X], [], {"pool": "MAX", "global_pooling": True}),
    ("Pooling", [(1, 2, 4, 5)], [], {"kernel_size": 1, "stride": 2}),
    ("Pooling", [(1, 2, 7, 5)], [], {"kernel_size": 1, "stride": 2, "pool": "AVE"}),
    ("Pooling", [(1, 2, 7, 7)], [], {"kernel_size": 2, "stride": 3, "pool": "AVE"}),
    ("Power", [X], [], {"scale": 0.5, "shift": 2.0}),
    ("Power", [X], [], {"power": 2.0, "scale": -1.5, "shift": 0.5}),
    ("Power", [positive(2, 3)], [], {"power": 0.5}),
    (
        "PriorBox",
        [(1, 2, 3, 4), (1, 3, 30, 50)],
        [],
        {"min_size": [9.0, 16.0], "aspect_ratio": [2.0, 2.0, 3.0], "clip": True},
    ),
    (
        "PriorBox",
        [(1, 2, 3, 4), (1, 3, 30, 50)],
        [],
        {
            "min_size": [9.0],
            "max_size": [16.0],
            "aspect_ratio": [2.0],
            "flip": False,
            "variance": [0.1, 0.1, 0.2, 0.2],
            "step": 8.0,
            "img_size": 60,
            "offset": 0.25,
        },
    ),
    (
        "PSROIPooling",
        [(2, 18, 7, 9), ROIS],
        [],
        {"spatial_scale": 0.5, "output_dim": 2, "group_size": 3},
    ),
    (
        "RNN",
        [(4, 3, 5), MARKS, (3, 7)],
        [blob(6, 5), blob(6), blob(6, 7), blob(6, 6), blob(6, 6), blob(6)],
        {"num_output": 6},
    ),
    (
        "RNN",
        [(4, 3, 5), MARKS, (1, 3, 6)],
        [blob(6, 5), blob(6), blob(6, 6), blob(6, 6), blob(6)],
        {"num_output": 6, "expose_hidden": True, "tops": 2},
    ),
    ("ROIPooling", [(2, 3, 7, 9), ROIS], [], {"pooled_h": 2, "pooled_w": 3}),
    (
        "ROIPooling",
        [(2, 3, 7, 9), ROIS.reshape(-1, 5, 1, 1)],
        [],
        {"pooled_h": 4, "pooled_w": 4, "spatial_scale": 0.375},
    ),
    ("ReLU", [X], [], {}),
    ("ReLU", [X], [], {"negative_slope": 0.1}),
    ("ReLU6", [(3, 40)], [], {}),
    ("Reduction", [X], [], {}),
    ("Reduction", [X], [], {"operation": "MEAN", "axis": 1, "coeff": 2.5}),
    ("Reduction", [X], [], {"operation": "ASUM", "axis": -1}),
    ("Reduction", [X], [], {"operation": "SUMSQ", "axis": 2}),
    ("Reorg", [(2, 8, 6, 4)], [], {"stride": 2}),
    ("Reorg", [(1, 9, 3, 6)], [], {"stride": 3}),
    ("Reshape", [X], [], {"shape": {"dim": [0, 3, -1]}}),
    ("Reshape", [X], [], {"shape": {"dim": [-1, 7]}, "axis": 1, "num_axes": 2}),
    ("Reshape", [X], [], {"shape": {"dim": [1]}, "axis": 1, "num_axes": 0}),
    ("Reshape", [X], [], {"shape": {"dim": [1, 1]}, "axis": -1, "num_axes": 0}),
    ("Scale", [X], [blob(6)], {}),
    ("Scale", [X], [blob(6, 7), blob(6, 7)], {"num_axes": 2, "bias_term": True}),
    ("Scale", [X], [blob(5)], {"axis": -1, "num_axes": -1}),
    ("Scale", [X, (2, 6)], [], {"axis": 0}),
    ("Scale", [X, (6, 7, 5)], [blob(6, 7, 5)], {"bias_term": True}),
    ("ShuffleChannel", [X], [], {"group": 3}),
    ("Sigmoid", [X], [], {}),
    ("Slice", [X], [], {"slice_point": [1, 4], "tops": 3}),
    ("Slice", [X], [], {"axis": 0, "tops": 2}),
    ("Slice", [X], [], {"slice_dim": 2, "slice_point": [3], "tops": 2}),
    ("Softmax", [X], [], {}),
    ("Softmax", [X], [], {"axis": -1}),
    ("Swish", [X], [], {"beta": 0.5}),
    ("TanH", [X], [], {}),
    ("Threshold", [X], [], {"threshold": 0.25}),
    ("Tile", [X], [], {"tiles": 3}),
    ("Tile", [X], [], {"axis": -2, "tiles": 2}),
    ("Upsample", [X], [], {"scale": 3}),
]


def is_value(bottom: Any) -> bool:
    return isinstance(bottom, np.ndarray)


def one_layer(case: tuple[str, list[Any], list[Array], dict[str, Any]]) -> Sample:
    type, bottoms, blobs, params = case
    inputs = {f"x{i}": x if is_value(x) else picture(*x, seed=i) for i, x in enumerate(bottoms)}
    sample = Sample(inputs)
    params = dict(params)
    sample.add(type, *inputs, blobs=blobs, tops=params.pop("tops", 1), name="y", **params)
    return sample


def assert_agrees(got: Array, wanted: Array) -> None:
    """To float32's rounding of the range."""
    assert got.dtype == np.float32
    assert got.shape == wanted.shape
    scale = np.abs(wanted[np.abs(wanted) < 1e30]).max(initial=0)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-6 * scale + 1e-30)


@pytest.mark.parametrize(
    "case",
    CASES,
    ids=[
        f"{case[0]} {case[1] if case[0] != 'DetectionOutput' else ''} {case[3]}" for case in CASES
    ],
)
def test_layer(case: Any, tmp_path: Path) -> None:
    sample = one_layer(case)
    graph = caffe.convert(sample.save(tmp_path))
    got = Reference().compile(graph).run(sample.inputs)
    assert list(got) == list(sample.outputs)
    for name, wanted in sample.outputs.items():
        assert_agrees(got[name], wanted)
        if case[0] != "DetectionOutput":
            assert graph.outputs[name].shape == wanted.shape


def test_every_rule_is_tried() -> None:
    tried = {case[0] for case in CASES}
    elsewhere = {"DummyData", "Padding", "Parameter", "Silence", "Split"}
    same = {"DepthwiseConv", "NormalizeBBox", "SiLU", "SpatialDropout"}
    assert sorted(registry()) == sorted(tried | elsewhere | same)
