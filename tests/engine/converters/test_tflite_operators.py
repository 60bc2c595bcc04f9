"""Every operator with a rule gives the numbers that LiteRT gives."""

from typing import Any

import numpy as np
import pytest

from palmkit.engine.converters.tflite import RULES, convert
from palmkit.engine.ir import Array
from palmkit.engine.model import Model
from palmkit.engine.passes import optimise
from tests.engine.converters.tflite_models import (
    RANDOM,
    RELU,
    RELU6,
    SAME,
    VALID,
    Fed,
    One,
    assert_agrees,
    assert_same,
    flexbuffers,
    floats,
    ints,
    litert,
    one,
)

X = (1, 6, 5, 4)
WHOLE = RANDOM.integers(-9, 9, (3, 4)).astype(np.int32)
DIVISOR = np.array([[2, -3, 5, -7]], np.int32)
TRUTH = np.array([[True, False, True], [False, False, True]])
ROWS = np.array([0, 2, 2, 1, 0], np.int32)
POSITIVE = np.abs(floats(*X)) + np.float32(0.1)
SSD_OPTIONS = {
    "max_detections": 5, "detections_per_class": 4,
    "nms_score_threshold": 0.2, "nms_iou_threshold": 0.5, "num_classes": 3,
    "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip


def ssd(regular: bool, classes: int) -> bytes:
    chosen = {"use_regular_nms": regular, "max_classes_per_detection": classes}
    return bytes(flexbuffers.Dumps({**SSD_OPTIONS, **chosen}))


CORNERS = RANDOM.uniform(0, 0.6, (12, 2)).astype(np.float32)
BOXES = np.concatenate([CORNERS, CORNERS + np.float32(0.3)], 1)
SCORES = RANDOM.permutation(np.linspace(0.05, 0.95, 12)).astype(np.float32)


def number(value: Any) -> Array:
    return np.array(value, np.float32)


def conv(op: str = "CONV_2D", weights: Array | None = None, **values: Any) -> Any:
    options = "Conv2DOptions" if op == "CONV_2D" else "DepthwiseConv2DOptions"
    weights = floats(7, 3, 2, 4) if weights is None else weights
    bias = floats(weights.shape[0 if op == "CONV_2D" else 3])
    ones = ("strideH", "strideW", "dilationHFactor", "dilationWFactor")
    chosen: dict[str, Any] = {**dict.fromkeys(ones, 1), **values}
    return one(op, X, weights, bias, options=options, **chosen)


def transposed(kernel: int, stride: int, padding: int, height: int, width: int) -> Any:
    return one(
        "TRANSPOSE_CONV", ints(1, height, width, 3), floats(3, kernel, kernel, 4), X,
        options="TransposeConvOptions", padding=padding, strideH=stride, strideW=stride,
    )  # fmt: skip


CASES = [
    conv(padding=SAME),
    conv(padding=VALID, fusedActivationFunction=RELU),
    conv(padding=SAME, strideH=2, strideW=3, fusedActivationFunction=RELU6),
    conv(padding=SAME, dilationHFactor=2, dilationWFactor=2),
    conv("DEPTHWISE_CONV_2D", floats(1, 3, 3, 4), padding=SAME, depthMultiplier=1, strideH=2,
         strideW=2),
    conv("DEPTHWISE_CONV_2D", floats(1, 3, 3, 8), padding=VALID, depthMultiplier=2),
    transposed(3, 2, SAME, 12, 10),
    transposed(3, 2, SAME, 11, 9),
    transposed(4, 2, SAME, 12, 10),
    transposed(3, 2, VALID, 13, 11),
    transposed(2, 2, VALID, 12, 10),
    *(
        one(op, X, options="Pool2DOptions", padding=padding, strideH=2, strideW=2, filterHeight=3,
            filterWidth=2)
        for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D")
        for padding in (SAME, VALID)
    ),
    *(
        one(f"RESIZE_{kind}", X, ints(*size),
            options=f"Resize{options}Options", alignCorners=align, halfPixelCenters=half, version=3)
        for kind, options in (("BILINEAR", "Bilinear"), ("NEAREST_NEIGHBOR", "NearestNeighbor"))
        for size in ((12, 10), (3, 7), (1, 1), (9, 13))
        for align, half in ((False, False), (True, False), (False, True))
    ),
    one("FULLY_CONNECTED", (3, 8), floats(5, 8), floats(5), options="FullyConnectedOptions",
        fusedActivationFunction=RELU, rank=2),
    one("FULLY_CONNECTED", (3, 8), floats(5, 8), None, options="FullyConnectedOptions", rank=2),
    one("FULLY_CONNECTED", (2, 3, 8), floats(5, 8), floats(5), options="FullyConnectedOptions",
        keepNumDims=True, rank=3),
    one("FULLY_CONNECTED", (2, 3, 8), floats(5, 8), floats(5), options="FullyConnectedOptions",
        rank=2),
    one("BATCH_MATMUL", (2, 3, 4), (2, 4, 5), options="BatchMatMulOptions", rank=3),
    one("BATCH_MATMUL", (2, 4, 3), (2, 5, 4), options="BatchMatMulOptions", adjX=True, adjY=True,
        rank=3),
    one("ADD", X, floats(4), options="AddOptions", fusedActivationFunction=RELU6),
    one("SUB", X, X, options="SubOptions", fusedActivationFunction=RELU),
    one("MUL", X, floats(1, 6, 1, 1), options="MulOptions"),
    one("DIV", X, floats(4), options="DivOptions"),
    one("MAXIMUM", X, X, options="MaximumMinimumOptions"),
    one("MINIMUM", X, floats(4), options="MaximumMinimumOptions"),
    one("POW", X, np.array(2, np.float32), options="PowOptions"),
    one("PRELU", X, floats(1, 1, 4)),
    one("SQUARED_DIFFERENCE", X, X),
    *(
        one(op, X)
        for op in (
            "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "LOGISTIC", "TANH",
            "HARD_SWISH", "ELU", "EXP", "NEG",
            "ABS", "FLOOR", "CEIL", "ROUND", "SQUARE",
        )
    ),
    one("LEAKY_RELU", X, options="LeakyReluOptions", alpha=0.3),
    one("L2_NORMALIZATION", X, options="L2NormOptions"),
    one("SOFTMAX", X, options="SoftmaxOptions", beta=1.0),
    one("SOFTMAX", (3, 7), options="SoftmaxOptions", beta=0.5, rank=2),
    one("MEAN", X, ints(1, 2), options="ReducerOptions", keepDims=True),
    one("MEAN", X, ints(1, 2), options="ReducerOptions", rank=2),
    one("SUM", X, ints(-1), options="ReducerOptions", rank=3),
    one("REDUCE_MAX", X, ints(1), options="ReducerOptions", keepDims=True),
    one("REDUCE_MIN", X, ints(2), options="ReducerOptions", keepDims=True),
    one("REDUCE_PROD", X, ints(3), options="ReducerOptions", keepDims=True),
    one("ARG_MAX", X, np.array(3, np.int32), options="ArgMaxOptions", outputType=2,
        outputs=("int32",), rank=3),
    one("ARG_MAX", X, np.array(1, np.int32), options="ArgMaxOptions", outputType=4,
        outputs=("int64",), rank=3),
    one("CAST", X, options="CastOptions", inDataType=0, outDataType=2, outputs=("int32",)),
    one("SHAPE", X, options="ShapeOptions", outType=2, outputs=("int32",), rank=1),
    one("RESHAPE", X, ints(2, -1, 4), options="ReshapeOptions", rank=3),
    one("RESHAPE", X, options="ReshapeOptions", newShape=[30, 4], rank=2),
    one("SQUEEZE", (1, 6, 1, 4), options="SqueezeOptions", squeezeDims=[2], rank=3),
    one("SQUEEZE", (1, 6, 1, 4), options="SqueezeOptions", rank=2),
    one("EXPAND_DIMS", (6, 4), ints(-1), options="ExpandDimsOptions", rank=3),
    one("TRANSPOSE", X, ints(3, 0, 2, 1), options="TransposeOptions"),
    one("CONCATENATION", X, X, options="ConcatenationOptions", axis=-1),
    one("CONCATENATION", X, X, options="ConcatenationOptions", axis=1),
    one("PACK", X, X, X, options="PackOptions", valuesCount=3, axis=1, rank=5),
    one("PACK", X, X, options="PackOptions", valuesCount=2, axis=-1, rank=5),
    one("UNPACK", (3, 2, 4), options="UnpackOptions", num=2, axis=1, rank=2,
        outputs=("float32",) * 2),
    one("SPLIT", np.array(2, np.int32), (1, 3, 6, 2), options="SplitOptions", numSplits=3,
        outputs=("float32",) * 3),
    one("SPLIT_V", X, ints(2, -1, 1), np.array(1, np.int32), options="SplitVOptions", numSplits=3,
        outputs=("float32",) * 3),
    one("SLICE", X, ints(0, 1, 2, 0), ints(1, 3, -1, 2), options="SliceOptions",
        dims=(1, 3, 3, 2)),
    one("STRIDED_SLICE", X, ints(0, 1, 4, 0), ints(1, 6, 0, 4), ints(1, 2, -1, 1),
        options="StridedSliceOptions"),
    one("STRIDED_SLICE", X, ints(0, 1, -1, 0), ints(0, 0, 0, 0), ints(1, 2, -1, 1),
        options="StridedSliceOptions", beginMask=5, endMask=15),
    one("STRIDED_SLICE", X, ints(0, 2, -1), ints(1, 3, 0), ints(1, 1, 1),
        options="StridedSliceOptions", shrinkAxisMask=6, rank=2),
    one("PAD", X, ints([0, 0], [1, 2], [0, 1], [3, 0]), options="PadOptions"),
    one("PADV2", X, ints([0, 0], [1, 2], [0, 1], [0, 0]), np.array([2.5], np.float32),
        options="PadV2Options"),
    one("MIRROR_PAD", X, ints([0, 0], [2, 1], [1, 2], [0, 0]), options="MirrorPadOptions", mode=0),
    one("MIRROR_PAD", X, ints([0, 0], [1, 1], [1, 0], [0, 0]), options="MirrorPadOptions", mode=1),
    one("GATHER", X, ints(3, 0, 3), options="GatherOptions", axis=2),
    one("TILE", X, ints(1, 2, 1, 3), options="TileOptions"),
    one("BROADCAST_TO", (1, 1, 5, 4), ints(2, 6, 5, 4), options="BroadcastToOptions", version=2),
    one("DEPTH_TO_SPACE", (1, 3, 2, 12), options="DepthToSpaceOptions", blockSize=2),
    one("SPACE_TO_DEPTH", (1, 4, 6, 3), options="SpaceToDepthOptions", blockSize=2),
    one("SPACE_TO_BATCH_ND", (2, 4, 5, 3), ints(2, 3), ints([0, 2], [1, 0]),
        options="SpaceToBatchNDOptions"),
    one("BATCH_TO_SPACE_ND", (12, 3, 2, 3), ints(2, 3), ints([1, 0], [0, 2]),
        options="BatchToSpaceNDOptions"),
    one("RELU", Fed(floats(2, 70)), rank=2),
    *(one(op, X) for op in ("SIN", "COS", "SIGN", "LOG_SOFTMAX")),
    *(one(op, Fed(POSITIVE)) for op in ("LOG", "SQRT", "RSQRT")),
    *(one("GELU", X, options="GeluOptions", approximate=kind) for kind in (False, True)),
    one("L2_POOL_2D", X, options="Pool2DOptions", padding=SAME, strideH=2, strideW=2,
        filterHeight=3, filterWidth=2),
    one("LOCAL_RESPONSE_NORMALIZATION", X, options="LocalResponseNormalizationOptions", radius=1,
        bias=1.5, alpha=0.7, beta=0.6),
    one("FAKE_QUANT", X, options="FakeQuantOptions", min=-1.3, max=2.1, numBits=8),
    one("FAKE_QUANT", X, options="FakeQuantOptions", min=-1.3, max=2.1, numBits=4),
    one("CONV_3D", (1, 4, 5, 6, 2), floats(2, 3, 2, 2, 5), floats(5), options="Conv3DOptions",
        padding=SAME, strideD=1, strideH=2, strideW=1, rank=5),
    one("CONV_3D", (1, 4, 5, 6, 2), floats(2, 3, 2, 2, 5), floats(5), options="Conv3DOptions",
        padding=VALID, strideD=1, strideH=1, strideW=2, fusedActivationFunction=RELU, rank=5),
    one("CONV_3D_TRANSPOSE", ints(1, 4, 6, 6, 5), floats(2, 3, 3, 5, 2), (1, 2, 3, 3, 2),
        options="Conv3DOptions", padding=SAME, strideD=2, strideH=2, strideW=2, rank=5),
    conv("DEPTHWISE_CONV_2D", floats(1, 3, 3, 4), padding=SAME, depthMultiplier=1,
         dilationHFactor=2, dilationWFactor=2, strideH=1, strideW=1),
    one("CONV_2D", (1, 6, 5, 4), floats(6, 3, 3, 2), floats(6), options="Conv2DOptions",
        padding=SAME, strideH=1, strideW=1),
    one("ADD", Fed(WHOLE), DIVISOR, options="AddOptions", outputs=("int32",), rank=2),
    one("SUB", Fed(WHOLE), DIVISOR, options="SubOptions", outputs=("int32",), rank=2,
        fusedActivationFunction=RELU6),
    one("MUL", Fed(WHOLE), DIVISOR, options="MulOptions", outputs=("int32",), rank=2),
    one("DIV", Fed(WHOLE), DIVISOR, options="DivOptions", outputs=("int32",), rank=2),
    one("ADD_N", X, X, X, options="AddNOptions"),
    one("ADD_N", Fed(WHOLE), WHOLE, options="AddNOptions", outputs=("int32",), rank=2),
    one("FLOOR_DIV", Fed(WHOLE), DIVISOR, options="FloorDivOptions", outputs=("int32",), rank=2),
    one("FLOOR_DIV", X, floats(4), options="FloorDivOptions"),
    one("FLOOR_MOD", Fed(WHOLE), DIVISOR, options="FloorModOptions", outputs=("int32",), rank=2),
    one("FLOOR_MOD", X, floats(4), options="FloorModOptions"),
    one("ATAN2", X, X),
    one("BITWISE_XOR", Fed(WHOLE), DIVISOR, options="BitwiseXorOptions", outputs=("int32",),
        rank=2),
    one("RIGHT_SHIFT", Fed(WHOLE), ints([0, 1, 2, 3]), options="RightShiftOptions",
        outputs=("int32",), rank=2),
    one("RIGHT_SHIFT", Fed(WHOLE.astype(np.uint32)), np.array([[0, 1, 2, 3]], np.uint32),
        options="RightShiftOptions", outputs=("uint32",), rank=2),
    *(
        one(op, Fed(WHOLE), DIVISOR, options=options, outputs=("bool",), rank=2)
        for op, options in (
            ("EQUAL", "EqualOptions"), ("NOT_EQUAL", "NotEqualOptions"),
            ("GREATER", "GreaterOptions"), ("GREATER_EQUAL", "GreaterEqualOptions"),
            ("LESS", "LessOptions"), ("LESS_EQUAL", "LessEqualOptions"),
        )
    ),
    one("LOGICAL_AND", Fed(TRUTH), TRUTH[:, ::-1].copy(), options="LogicalAndOptions",
        outputs=("bool",), rank=2),
    one("LOGICAL_OR", Fed(TRUTH), TRUTH[:, ::-1].copy(), options="LogicalOrOptions",
        outputs=("bool",), rank=2),
    one("LOGICAL_NOT", Fed(TRUTH), options="LogicalNotOptions", outputs=("bool",), rank=2),
    one("SELECT", Fed(TRUTH), (2, 3), (2, 3), options="SelectOptions", rank=2),
    one("SELECT", Fed(TRUTH[0]), (3, 4), (3, 4), options="SelectOptions", rank=2),
    one("SELECT_V2", Fed(TRUTH), (3,), (1, 1), options="SelectV2Options", rank=2),
    one("BATCH_MATMUL", (2, 3, 4), floats(2, 5, 4), options="BatchMatMulOptions", adjY=True,
        rank=3),
    one("ARG_MIN", X, np.array(-1, np.int32), options="ArgMinOptions", outputType=2,
        outputs=("int32",), rank=3),
    one("REDUCE_ANY", Fed(TRUTH), ints(1), options="ReducerOptions", outputs=("bool",), rank=1),
    one("REDUCE_ALL", Fed(TRUTH), ints(0), options="ReducerOptions", keepDims=True,
        outputs=("bool",), rank=2),
    *(
        one("CUMSUM", X, np.array(2, np.int32), options="CumsumOptions", exclusive=exclusive,
            reverse=reverse)
        for exclusive in (False, True)
        for reverse in (False, True)
    ),
    one("BUCKETIZE", X, options="BucketizeOptions", boundaries=[-1.0, 0.0, 0.5],
        outputs=("int32",)),
    one("CAST", Fed(WHOLE), options="CastOptions", inDataType=2, outDataType=0, rank=2),
    one("CAST", X, options="CastOptions", inDataType=0, outDataType=6, outputs=("bool",)),
    one("BITCAST", X, options="BitcastOptions", outputs=("int32",), dims=X),
    one("BITCAST", Fed(WHOLE.view(np.uint8).reshape(3, 4, 4)), options="BitcastOptions",
        outputs=("int32",), dims=(3, 4)),
    one("RANK", X, options="RankOptions", outputs=("int32",), rank=0),
    one("FILL", Fed(ints(2, 3)), number(1.5), options="FillOptions", rank=2),
    one("ZEROS_LIKE", X, options="ZerosLikeOptions"),
    one("RANGE", np.array(3, np.int32), Fed(np.array(12, np.int32)), np.array(2, np.int32),
        options="RangeOptions", outputs=("int32",), rank=1),
    one("BROADCAST_ARGS", Fed(ints(3, 1)), ints(2, 1, 4), outputs=("int32",), rank=1),
    one("RESHAPE", X, Fed(ints(2, -1, 4)), options="ReshapeOptions", rank=3),
    one("TRANSPOSE", (2, 3, 4), ints(-1, 0, 1), options="TransposeOptions", rank=3),
    one("SLICE", X, Fed(ints(0, 1, 2, 0)), ints(1, 3, -1, 2), options="SliceOptions",
        dims=(1, 3, 3, 2)),
    one("STRIDED_SLICE", X, ints(0, 1, 0), ints(1, 4, 3), ints(1, 2, 1),
        options="StridedSliceOptions", ellipsisMask=2),
    one("STRIDED_SLICE", X, ints(-1, 0, 0), ints(4, 0, 2), ints(1, 1, 1),
        options="StridedSliceOptions", ellipsisMask=2, shrinkAxisMask=1, rank=3),
    one("STRIDED_SLICE", X, ints(0, 0, 1), ints(1, 0, 4), ints(1, 1, 2),
        options="StridedSliceOptions", newAxisMask=2, rank=5),
    one("STRIDED_SLICE", X, ints(0, 0, 1), ints(0, 0, 4), ints(1, 1, 1),
        options="StridedSliceOptions", newAxisMask=1, ellipsisMask=2, rank=5),
    one("STRIDED_SLICE", X, Fed(ints(0, 1, 1, 0)), Fed(ints(1, 5, 4, 4)), ints(1, 2, 1, 1),
        options="StridedSliceOptions", beginMask=4, shrinkAxisMask=1, rank=3),
    one("STRIDED_SLICE", X, ints(0, 1, 2, 0), ints(1, 3, 2, 4), ints(1, 1, 1, 1),
        options="StridedSliceOptions", offset=True, version=8),
    one("MIRROR_PAD", X, ints([0, 0], [3, 2], [2, 4], [0, 1]), options="MirrorPadOptions", mode=1),
    one("REVERSE_V2", X, ints(1, 2), options="ReverseV2Options"),
    one("REVERSE_V2", X, ints(-1), options="ReverseV2Options"),
    one("REVERSE_SEQUENCE", (4, 5, 3), ints(2, 5, 1), options="ReverseSequenceOptions", seqDim=1,
        batchDim=2, rank=3),
    one("REVERSE_SEQUENCE", (4, 5, 3), ints(2, 0, 1, 3), options="ReverseSequenceOptions",
        seqDim=2, batchDim=0, rank=3),
    one("DYNAMIC_UPDATE_SLICE", X, (1, 2, 2, 4), Fed(ints(0, 3, 9, 0)), version=2),
    one("SPACE_TO_BATCH_ND", (2, 6, 3), ints(2), ints([0, 2]), options="SpaceToBatchNDOptions",
        rank=3),
    one("BATCH_TO_SPACE_ND", (6, 3, 3), ints(2), ints([1, 0]), options="BatchToSpaceNDOptions",
        rank=3),
    one("GATHER", (2, 3, 5), ints([1, 0], [2, 2]), options="GatherOptions", axis=1, batchDims=1,
        rank=3),
    one("GATHER", (2, 3, 5, 4), ints([1, 0, 3], [2, 2, 4]), options="GatherOptions", axis=2,
        batchDims=1),
    one("GATHER", X, np.array(2, np.int32), options="GatherOptions", axis=-1, rank=3),
    one("GATHER_ND", (3, 4, 5), ints([0, 1], [2, 3]), options="GatherNdOptions", rank=2),
    one("EMBEDDING_LOOKUP", ROWS, Fed(floats(3, 4)), rank=2),
    *(
        one("EMBEDDING_LOOKUP_SPARSE", ints(1, 3, 0), ints([0, 0], [2, 0], [2, 1]), ints(3, 2),
            Fed(number([1, 2, 4])), (4, 3), options="EmbeddingLookupSparseOptions",
            combiner=combiner, rank=2)
        for combiner in (0, 1, 2)
    ),
    one("EMBEDDING_LOOKUP_SPARSE", ints(1, 3), ints([0, 1, 0], [1, 0, 1]), ints(2, 2, 2),
        Fed(number([1, 2])), (4, 3, 2), options="EmbeddingLookupSparseOptions", rank=4),
    one("HASHTABLE_LOOKUP", Fed(ints(4, 9, 2)), ints(1, 2, 4), (3, 2), rank=2,
        outputs=("float32", "uint8")),
    one("SCATTER_ND", ints([1], [3], [1]), (3, 2), ints(5, 2), options="ScatterNdOptions", rank=2),
    one("SPARSE_TO_DENSE", ints([0, 1], [2, 3]), ints(3, 4), (2,), number(-1),
        options="SparseToDenseOptions", rank=2),
    one("SPARSE_TO_DENSE", ints(0, 2), ints(5), number(3), Fed(number(-1)),
        options="SparseToDenseOptions", rank=1),
    one("SEGMENT_SUM", (5, 2), np.sort(ROWS), options="SegmentSumOptions", rank=2),
    *(
        one(f"UNSORTED_SEGMENT_{kind}", (5, 2), ROWS, np.array(4, np.int32),
            options=f"UnsortedSegment{kind.capitalize()}Options", rank=2)
        for kind in ("SUM", "PROD", "MAX", "MIN")
    ),
    one("UNSORTED_SEGMENT_SUM", (5, 2), ints(0, -1, 2, 1, 0), np.array(4, np.int32),
        options="UnsortedSegmentSumOptions", rank=2),
    one("ONE_HOT", Fed(ROWS), np.array(4, np.int32), number(2), number(-1),
        options="OneHotOptions", axis=-1, rank=2),
    one("ONE_HOT", Fed(ROWS), np.array(2, np.int32), number(2), number(-1),
        options="OneHotOptions", axis=0, rank=2),
    one("TOPK_V2", (3, 9), np.array(4, np.int32), options="TopKV2Options",
        outputs=("float32", "int32"), rank=2),
    one("TOPK_V2", Fed(number([[1, 3, 3, 0, 3]])), np.array(4, np.int32), options="TopKV2Options",
        outputs=("float32", "int32"), rank=2),
    one("UNIQUE", Fed(np.array([3, 1, 3, 2, 1], np.int32)), options="UniqueOptions", idxOutType=2,
        outputs=("int32", "int32"), rank=1),
    one("WHERE", Fed(TRUTH), options="WhereOptions", outputs=("int64",), rank=2),
    one("MATRIX_DIAG", (2, 3), options="MatrixDiagOptions", rank=3),
    one("MATRIX_SET_DIAG", (2, 3, 5), (2, 3), options="MatrixSetDiagOptions", rank=3),
    one("MATRIX_SET_DIAG", (2, 5, 3), (2, 3), options="MatrixSetDiagOptions", rank=3),
    *(
        one("NON_MAX_SUPPRESSION_V4", Fed(BOXES), Fed(SCORES), np.array(most, np.int32),
            number(overlap), number(0.1), options="NonMaxSuppressionV4Options",
            outputs=("int32", "int32"), rank=1)
        for most, overlap in ((12, 0.3), (3, 0.5), (12, 0.9))
    ),
    *(
        one("NON_MAX_SUPPRESSION_V5", Fed(BOXES), Fed(SCORES), np.array(12, np.int32),
            number(overlap), number(0.1), number(sigma), options="NonMaxSuppressionV5Options",
            outputs=("int32", "float32", "int32"), rank=1)
        for overlap, sigma in ((0.3, 0.0), (1.0, 0.5), (0.7, 0.2))
    ),
    *(
        one("TFLite_Detection_PostProcess", (1, 12, 4), Fed(RANDOM.random((1, 12, 4), np.float32)),
            np.abs(BOXES), outputs=("float32",) * 4, custom=ssd(regular, classes))
        for regular, classes in ((True, 1), (False, 1), (False, 2))
    ),
    *(
        one(f"STABLEHLO_{op}", X, X) for op in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM")
    ),
    one("DILATE", X, ints(1, 3, 2, 1), number(1.5), options="DilateOptions"),
    one("STABLEHLO_SHIFT_LEFT", Fed(ints(1, -5, 7)), ints(1, 2, 3), outputs=("int32",), rank=1,
        options="StablehloShiftLeftOptions"),
    one("STABLEHLO_PAD", (2, 3), number(1.5), options="StablehloPadOptions",
        edgePaddingLow=[1, 0], edgePaddingHigh=[0, 2], interiorPadding=[1, 2], rank=2),
    one("STABLEHLO_AND", Fed(TRUTH), TRUTH[:, ::-1].copy(), outputs=("bool",), rank=2),
    one("STABLEHLO_AND", Fed(WHOLE), WHOLE[::-1].copy(), outputs=("int32",), rank=2),
    one("STABLEHLO_PAD", (2, 3), number(1.5), options="StablehloPadOptions",
        edgePaddingLow=[1, 0], edgePaddingHigh=[2, 3], interiorPadding=[0, 0], rank=2),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_operator(case: One) -> None:
    model, inputs = case.pack()
    wanted = litert(model, inputs)
    graph = convert(model)
    assert_agrees(graph, inputs, wanted)
    assert_agrees(optimise(graph), inputs, wanted)
    assert_same(Model(graph, "cpu").run(inputs), wanted)


ELSEWHERE = {
    "test_tflite": {"DENSIFY"},
    "test_tflite_quantized": {"QUANTIZE", "DEQUANTIZE"},
    "test_tflite_recurrent": {
        "LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "RNN",
        "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN", "SVDF",
    },
    "test_tflite_control_flow": {
        "IF", "WHILE", "CALL", "STABLEHLO_COMPOSITE", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE",
        "ASSIGN_VARIABLE",
    },
    "test_tflite_spectra": {"RFFT2D", "REAL", "IMAG", "COMPLEX_ABS"},
    "test_tflite_mediapipe": {
        "Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D",
        "Landmarks2TransformMatrix", "TransformTensorBilinear", "TransformLandmarks",
    },
}  # fmt: skip


def test_every_rule_is_tried() -> None:
    tried = {parameter.values[0].op for parameter in CASES}
    assert set(RULES) == tried.union(*ELSEWHERE.values())
