"""Damaged and hostile .tflite files: errors of ours, no hang, no more memory than the file's."""

from __future__ import annotations

import random
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine.converters.tflite import convert
from palmkit.engine.errors import ModelError, PalmError, UnsupportedError
from palmkit.engine.format.consistency import verify
from tests.engine.converters.tflite_models import (
    RELU,
    SAME,
    VALID,
    ModelFile,
    flexbuffers,
    floats,
    ints,
    schema,
)

TEACHERS = Path(__file__).parents[3].parent / "shared" / "teachers"
MOST_SECONDS = 10
MOST_EXTRA_BYTES = 64 << 20


def small() -> ModelFile:
    """A layer, a quantized one, a custom operator with options, a reshape."""
    file = ModelFile()
    file.input("x", (1, 6, 6, 4))
    file.tensor("weights", floats(3, 3, 3, 4))
    file.tensor("bias", floats(3))
    file.tensor("a", (1, 6, 6, 3))
    stored = np.random.default_rng(0).integers(-9, 9, (2, 1, 1, 3)).astype(np.int8)
    file.tensor("q_weights", stored, scale=[0.1, 0.2])
    file.tensor("b", (1, 6, 6, 2))
    file.tensor("shape", ints(24, 3))
    file.tensor("c", (24, 3))
    file.tensor("d", (1, 4, 4))
    layer = {"strideH": 1, "strideW": 1, "fusedActivationFunction": RELU}
    file.operator(
        "CONV_2D", ["x", "weights", "bias"], ["a"], "Conv2DOptions", padding=SAME, **layer
    )
    file.operator("CONV_2D", ["a", "q_weights"], ["b"], "Conv2DOptions", padding=VALID, **layer)
    file.operator("RESHAPE", ["b", "shape"], ["c"], "ReshapeOptions")
    options = {
        "left_rotation_idx": 0, "right_rotation_idx": 1, "subset_idxs": [1, 2, 3],
        "output_height": 4, "output_width": 4, "scale_x": 1.5, "scale_y": 1.5,
        "target_rotation_radians": 0.0,
    }  # fmt: skip
    custom = bytes(flexbuffers.Dumps(options))
    file.operator("Landmarks2TransformMatrix", ["c"], ["d"], custom=custom, version=2)
    return file


def mutants(model: bytes, count: int, seed: int) -> Any:
    """Cuts, flipped bits, and words set to what lengths and offsets are attacked with."""
    chance = random.Random(seed)
    for number in range(count):
        data = bytearray(model)
        if number % 8 == 0:
            yield bytes(data[: chance.randrange(len(data))])
            continue
        # Most of a file is weights: the tables stand at its ends.
        for _ in range(chance.choice((1, 1, 2, 5))):
            near = min(len(data), 6000)
            place = chance.randrange(near) if chance.random() < 0.5 else -1 - chance.randrange(near)
            place %= len(data) - 4
            kind = chance.randrange(4)
            if kind == 0:
                data[place] ^= 1 << chance.randrange(8)
            elif kind == 1:
                data[place] = chance.choice((0, 1, 2, 127, 128, 255))
            else:
                word = chance.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**16, len(data), 12345))
                data[place : place + 4] = int(word).to_bytes(4, "little")
        yield bytes(data)


def try_all(model: bytes, count: int, seed: int) -> tuple[int, int]:
    """How many were refused, and how many are models still."""
    refused = fine = 0
    for data in mutants(model, count, seed):
        start = time.process_time()
        try:
            verify(convert(data))
            fine += 1
        except PalmError:
            refused += 1
        assert time.process_time() - start < MOST_SECONDS
    return refused, fine


def test_mutants_of_a_small_model() -> None:
    refused, fine = try_all(small().pack(["d"]), 1200, 1)
    assert refused > 200
    assert fine > 50


def test_the_small_model_is_whole() -> None:
    graph = convert(small().pack(["d"]))
    assert graph.outputs["d"].shape == (1, 4, 4)


@pytest.mark.parametrize(
    "stem", ["face_detection_full_range_sparse", "face_landmark_with_attention"]
)
def test_mutants_of_a_published_model(stem: str) -> None:
    path = TEACHERS / f"{stem}.tflite"
    if not path.exists():
        pytest.skip(f"the published networks of ../shared/teachers are not here: {stem}")
    refused, fine = try_all(path.read_bytes(), 24, 2)
    assert refused > 2
    assert fine > 2


def assert_refused(
    file: ModelFile | bytes, message: str, error: type[PalmError] = ModelError
) -> None:
    data = file if isinstance(file, bytes) else file.pack(["d"])
    with pytest.raises(error, match=message):
        convert(data)


def test_the_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.tflite"
    path.write_bytes(small().pack(["d"])[:200])
    with pytest.raises(ModelError, match=r"broken\.tflite: "):
        convert(path)


def test_a_cycle() -> None:
    file = small()
    file.operators[0].inputs = np.array([file.names.index("b"), 1, 2], np.int32)
    assert_refused(file, "node a: reads a tensor nobody writes: b")


def test_a_tensor_that_is_written_twice() -> None:
    file = small()
    file.operators[1].outputs = np.array([file.names.index("a")], np.int32)
    assert_refused(file, r"operator 1 \(CONV_2D\): tensor is written twice: a")


def test_an_operator_that_writes_an_input() -> None:
    file = small()
    file.operators[1].outputs = np.array([0], np.int32)
    assert_refused(file, "writes an input: x")


@pytest.mark.parametrize("index", [99, -2])
def test_a_tensor_that_is_not_there(index: int) -> None:
    file = small()
    file.operators[0].inputs = np.array([0, index, 2], np.int32)
    assert_refused(file, rf"graph 0, operator 0 \(CONV_2D\): no tensor of number {index}")


def test_a_buffer_that_is_not_there() -> None:
    file = small()
    file.tensors[1].buffer = 77
    assert_refused(file, r"tensor 1 \(weights\): no buffer of number 77")


def test_an_operator_code_that_is_not_there() -> None:
    file = small()
    file.operators[0].opcodeIndex = 50
    assert_refused(file, "operator code 50 is not in the file's list")


def test_a_graph_output_that_is_not_there() -> None:
    file = small()
    file.inputs = [0, 60]
    assert_refused(file, "graph 0, inputs: no tensor of number 60")


def test_a_missing_required_input() -> None:
    file = small()
    file.operators[0].inputs = np.array([0], np.int32)
    assert_refused(file, "node a: CONV_2D: its inputs or options do not fit")


@pytest.mark.parametrize("dims", [(3, 3, 3, 5), (2**20, 2**20, 1, 1), (3, 3, 3), (-1, 3, 3, 4)])
def test_a_shape_that_its_buffer_has_not(dims: tuple[int, ...]) -> None:
    file = small()
    file.tensors[1].shape = np.array(dims, np.int32)
    assert_refused(file, r"tensor 1 \(weights\)")


def test_a_shape_with_a_negative_dim() -> None:
    file = small()
    file.tensors[0].shape = np.array([1, -7, 6, 4], np.int32)
    assert_refused(file, r"tensor 0 \(x\): shape \[1, -7, 6, 4\]")


def test_a_shape_of_too_many_dims() -> None:
    file = small()
    file.tensors[0].shape = np.ones(40, np.int32)
    assert_refused(file, "more than 32 dims")


def test_layers_that_do_not_fit() -> None:
    file = small()
    file.tensors[0].shape = np.array([1, 6, 6, 5], np.int32)
    assert_refused(file, "contradicts itself: node a: conv")


@pytest.mark.parametrize("field", ["strideH", "dilationHFactor"])
@pytest.mark.parametrize("value", [0, -3, (1 << 20) + 1, 2**31 - 1])
def test_a_stride_that_cannot_be(field: str, value: int) -> None:
    file = small()
    setattr(file.operators[0].builtinOptions, field, value)
    assert_refused(file, "node a: conv")


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("filterHeight", "node a: max_pool: kernel_shape: expected at most 1048576"),
        ("strideW", "node a: max_pool does not take .*strides: expected at most 1048576"),
    ],
)
def test_a_pool_that_cannot_be(field: str, message: str) -> None:
    file = ModelFile()
    file.input("x", (1, 6, 6, 4))
    file.tensor("a", (1, 3, 3, 4))
    options = {"strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2, field: 2**31 - 1}
    file.operator("MAX_POOL_2D", ["x"], ["a"], "Pool2DOptions", padding=SAME, **options)
    with pytest.raises(ModelError, match=message):
        convert(file.pack(["a"]))


@pytest.mark.parametrize("index", [-7, 4, 2**31 - 1])
def test_constant_indices_that_are_outside(index: int) -> None:
    file = ModelFile()
    file.input("x", (4, 3))
    file.tensor("at", ints(0, index))
    file.tensor("d", (2, 3))
    file.operator("GATHER", ["x", "at"], ["d"], "GatherOptions")
    assert_refused(file, f"node d: gather: index {index} is outside of an axis of 4")


def test_an_activation_that_is_unknown() -> None:
    file = small()
    file.operators[0].builtinOptions.fusedActivationFunction = 99
    assert_refused(file, "no fused activation of number 99")


def test_options_of_another_operator() -> None:
    file = small()
    file.operators[0].builtinOptionsType = schema.BuiltinOptions.PadOptions
    file.operators[0].builtinOptions = schema.PadOptionsT()
    assert_refused(file, "node a: CONV_2D: its inputs or options do not fit")


def test_constants_of_text_are_refused() -> None:
    file = small()
    file.tensors[1].type = schema.TensorType.STRING
    assert_refused(file, r"tensor 1 \(weights\): constant of type STRING", UnsupportedError)


def sparse(**changes: Any) -> ModelFile:
    """y = x + a sparse constant of [4, 6], rows dense, columns compressed."""
    dense = np.zeros((4, 6), np.float32)
    dense[0, 1], dense[0, 5], dense[2, 0], dense[3, 3] = 1, 2, 3, 4
    file = ModelFile()
    file.input("x", (4, 6))
    file.tensor("sparse", np.array([1, 2, 3, 4], np.float32))
    file.tensors[-1].shape = np.array(changes.get("shape", (4, 6)), np.int32)
    sparsity = schema.SparsityParametersT()
    sparsity.traversalOrder = np.array(changes.get("order", (0, 1)), np.int32)
    rows, columns = schema.DimensionMetadataT(), schema.DimensionMetadataT()
    rows.format, rows.denseSize = 0, changes.get("rows", 4)
    columns.format = 1
    columns.arraySegmentsType = columns.arrayIndicesType = 1
    columns.arraySegments, columns.arrayIndices = schema.Int32VectorT(), schema.Int32VectorT()
    columns.arraySegments.values = np.array(changes.get("segments", (0, 2, 2, 3, 4)), np.int32)
    columns.arrayIndices.values = np.array(changes.get("indices", (1, 5, 0, 3)), np.int32)
    sparsity.dimMetadata = [rows, columns]
    file.tensors[-1].sparsity = sparsity
    file.tensor("whole", (4, 6))
    file.tensor("d", (4, 6))
    file.operator("DENSIFY", ["sparse"], ["whole"], "DensifyOptions")
    file.operator("ADD", ["x", "whole"], ["d"], "AddOptions")
    return file


def test_a_sparse_constant() -> None:
    graph = convert(sparse().pack(["d"]))
    wanted = [[0, 1, 0, 0, 0, 2], [0] * 6, [3, 0, 0, 0, 0, 0], [0, 0, 0, 4, 0, 0]]
    np.testing.assert_array_equal(graph.constants["whole"], wanted)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": (0, 0)}, "2 levels do not fit"),
        ({"order": (0, 1, 2)}, "2 levels do not fit"),
        ({"shape": (2**15, 2**15)}, "4 stored elements are too few"),
        ({"shape": (4, 0)}, "4 stored elements are too few"),
        ({"rows": 2**30}, "level 0 is of size 1073741824"),
        ({"rows": -4}, "level 0 is of size -4"),
        ({"segments": (0, 2, 1, 3, 4)}, "segments of level 1 do not grow"),
        ({"segments": (0, 2, 2, 3, 2**30)}, "segments of level 1 do not grow"),
        ({"segments": (0, 2)}, "out of bounds"),
        ({"segments": (0, 2, 2, 3, 6), "indices": (1, 5, 0, 3, 1, 2)}, "6 places for 4 stored"),
        ({"indices": (1, 5, 0)}, "out of bounds"),
        ({"indices": (1, 5, 0, 60)}, "out of bounds"),
        ({"indices": (1, -5, 0, 3)}, "a negative index"),
    ],
)
def test_sparse_constants_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    assert_refused(sparse(**changes), message)


@pytest.mark.parametrize(
    ("op", "constants", "options"),
    [
        ("RESHAPE", [ints(2**30, 2**30)], "ReshapeOptions"),
        ("PAD", [ints([0, 2**30], [0, 0], [0, 0], [0, 0])], "PadOptions"),
        ("PAD", [ints([0, 1])], "PadOptions"),
        ("TRANSPOSE", [ints(0, 1, 2, 9)], "TransposeOptions"),
        ("TRANSPOSE", [ints(0, 0, 1, 2)], "TransposeOptions"),
        ("TILE", [ints(2**30, 2**30, 1, 1)], "TileOptions"),
        ("RESIZE_BILINEAR", [ints(2**30, 2**30)], "ResizeBilinearOptions"),
        ("STRIDED_SLICE", [ints(0, 0), ints(1, 1), ints(0, 1)], "StridedSliceOptions"),
        ("STRIDED_SLICE", [ints(*[0] * 6), ints(*[1] * 6), ints(*[1] * 6)], "StridedSliceOptions"),
        ("SPACE_TO_BATCH_ND", [ints(0, 2), ints([0, 0], [0, 0])], "SpaceToBatchNDOptions"),
        ("SPACE_TO_BATCH_ND", [ints(*[1] * 9), ints(*[[0, 0]] * 9)], "SpaceToBatchNDOptions"),
        ("GATHER", [ints(0, 1000)], "GatherOptions"),
        ("MIRROR_PAD", [ints([-1, 0])], "MirrorPadOptions"),
    ],
)
def test_sizes_without_bounds_do_no_harm(op: str, constants: list[Any], options: str) -> None:
    """Refused, or a graph of small size: what it would need is needed when it runs."""
    file = ModelFile()
    file.input("x", (1, 6, 6, 4))
    names = [file.tensor(f"c{i}", value) for i, value in enumerate(constants)]
    file.tensor("d", (1, 1, 1, 1))
    file.operator(op, ["x", *names], ["d"], options)
    data = file.pack(["d"])
    tracemalloc.start()
    try:
        graph = convert(data)
        assert sum(value.nbytes for value in graph.constants.values()) < len(data)
    except PalmError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < MOST_EXTRA_BYTES


def test_constants_that_are_folded_stay_small() -> None:
    """A constant expanded to a billion elements is not one."""
    file = ModelFile()
    file.input("x", (1,))
    file.tensor("dims", ints(2**10, 2**10, 2**10))
    file.tensor("one", np.array(1, np.float32))
    file.tensor("full", (1, 1, 1))
    file.tensor("d", (1, 1, 1))
    file.operator("FILL", ["dims", "one"], ["full"], "FillOptions")
    file.operator("ADD", ["full", "x"], ["d"], "AddOptions")
    graph = convert(file.pack(["d"]))
    assert graph.outputs["d"].shape == (2**10, 2**10, 2**10)
    assert sum(value.nbytes for value in graph.constants.values()) < 1 << 12


def test_one_buffer_for_many_tensors_is_kept_once() -> None:
    """2000 tensors that name the same megabyte."""
    file = ModelFile()
    file.input("x", (1,))
    file.tensor("much", np.zeros(1 << 18, np.float32))
    for number in range(2_000):
        file.tensor(f"t{number}", (1 << 18,))
        file.tensors[-1].buffer = 1
    file.tensor("d", (1,))
    file.operator("NEG", ["x"], ["d"])
    data = file.pack(["d"])
    tracemalloc.start()
    convert(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST_EXTRA_BYTES


def test_names_that_are_all_the_same_take_no_longer() -> None:
    file = ModelFile()
    file.input("x", (1,))
    for number in range(4000):
        file.tensor(f"t{number}", (1,))
    for number in range(3999):
        file.operator("NEG", ["x"], [f"t{number}"])
    for tensor in file.tensors:
        tensor.name = b"same"
    start = time.process_time()
    graph = convert(file.pack(["t0", "t7"]))
    assert time.process_time() - start < MOST_SECONDS
    assert list(graph.outputs) == ["same.1", "same.2"]
