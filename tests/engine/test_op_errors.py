"""What ops refuse: errors that name the op, the node and the types."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from palmkit.engine.errors import ModelError, ShapeError, UnsupportedError
from palmkit.engine.ir import UNKNOWN, Attr, Graph, Known, Node, Type
from palmkit.engine.ops import find, infer_node, infer_types, run_reference


def test_missing_op_lists_what_there_is() -> None:
    with pytest.raises(
        UnsupportedError, match=r"no op 'magic'; known: abs, .*, add, and, .*, where"
    ):
        find("magic")
    with pytest.raises(UnsupportedError, match="no op 'windows'"):
        find("windows")


def f32(*shape: int) -> Type:
    return Type("float32", shape)


def constant(*values: float, dtype: str = "int64") -> Known:
    return Known.of(np.array(values, dtype))


REFUSED: list[tuple[str, Sequence[Type | None], dict[str, Attr], str]] = [
    ("add", [f32(2), f32(3)], {}, "add: cannot broadcast float32[2] with float32[3]"),
    ("add", [f32(2), Type("int64", (2,))], {}, "expected one dtype, got float32[2] and int64[2]"),
    ("sigmoid", [Type("int32", (2,))], {}, "sigmoid: expected one of float32, float16, float64"),
    ("conv", [f32(1, 3, 8, 8), f32(4, 2, 3, 3)], {}, "group 1 does not divide float32[1, 3, 8, 8]"),
    ("conv", [f32(1, 3, 2, 2), f32(4, 3, 3, 3)], {}, "kernel of [3, 3] does not fit"),
    ("conv", [f32(1, 3, 8, 8), f32(4, 3, 3, 3), f32(5)], {}, "expected a bias of [4]"),
    ("conv", [f32(1, 3, 8, 8), f32(4, 3, 3, 3)], {"strides": (2,)}, "not for 2 spatial axes"),
    ("conv_transpose", [f32(1, 3, 8, 8), f32(4, 3, 3, 3)], {}, "group 1 does not divide"),
    (
        "conv",
        [f32(1, 3, 8, 8), f32(4, 3, 3, 5)],
        {"auto_pad": "SAME_UPPER", "dilations": (1, 1 << 20)},
        "conv: pads: expected at most 1048576, got 2097152",
    ),
    (
        "conv_transpose",
        [f32(1, 3, 8, 8), f32(3, 4, 3, 3)],
        {"output_shape": (8, 1 << 24)},
        "conv_transpose: pads: expected at most 1048576",
    ),
    (
        "max_pool",
        [f32(1, 3, 8, 8)],
        {"auto_pad": "SAME_UPPER", "kernel_shape": (2, 1 << 21)},
        "max_pool: kernel_shape: expected at most 1048576, got 2097152",
    ),
    ("gather", [f32(4, 3), constant(0, 4)], {}, "gather: index 4 is outside of an axis of 4"),
    ("gather", [f32(4, 3), constant(-4)], {"axis": 1}, "gather: index -4 is outside of an axis"),
    (
        "gather_nd",
        [f32(4, 3), Known.of(np.array([[1, 2], [3, 3]]))],
        {},
        "gather_nd: index 3 is outside of an axis of 3",
    ),
    (
        "gather_elements",
        [f32(2, 3), Known.of(np.array([[0, -3, 1]]))],
        {},
        "gather_elements: index -3 is outside of an axis of 2",
    ),
    (
        "scatter_elements",
        [f32(2, 3), Known.of(np.array([[2]])), f32(1, 1)],
        {},
        "scatter_elements: index 2 is outside of an axis of 2",
    ),
    (
        "scatter_nd",
        [f32(2, 3), Known.of(np.array([[2]])), f32(1, 3)],
        {},
        "scatter_nd: index 2 is outside of an axis of 2",
    ),
    (
        "reverse_sequence",
        [f32(2, 3), constant(1, 2, 3)],
        {},
        "reverse_sequence: expected lengths in 0..2, got [1, 2, 3]",
    ),
    ("arg_max", [f32(0, 3)], {}, "arg_max: axis 0 of float32[0, 3] is empty"),
    (
        "resize",
        [f32(1, 1, 2, 2), None, None, Type("int64", (1,))],
        {"axes": (4,)},
        "resize: axis 4 is outside",
    ),
    (
        "center_crop_pad",
        [f32(2, 3), Type("int64", (1,))],
        {"axes": (2,)},
        "center_crop_pad: axis 2 is outside of float32[2, 3]",
    ),
    ("max_pool", [f32(8, 8)], {"kernel_shape": (2, 2)}, "expected rank 3.., got float32[8, 8]"),
    ("gemm", [f32(2, 3), f32(4, 5)], {}, "gemm: cannot multiply float32[2, 3] by float32[4, 5]"),
    ("matmul", [f32(2, 3), f32(4, 5)], {}, "matmul: cannot multiply"),
    ("prelu", [f32(3), f32(2, 3)], {}, "prelu: cannot broadcast float32[2, 3] to float32[3]"),
    ("concat", [f32(2, 3), f32(3, 3)], {"axis": 1}, "concat: cannot join"),
    ("concat", [f32(2, 3)], {"axis": 2}, "concat: axis 2 is outside of float32[2, 3]"),
    ("split", [f32(7)], {"num_outputs": 10**9}, "cannot cut axis 0 of float32[7] into 1000000000"),
    ("split", [f32(7), constant(3, 3)], {}, "split: cannot cut"),
    ("reshape", [f32(2, 3), constant(4, -1)], {}, "reshape: cannot make [4, -1] of float32[2, 3]"),
    ("transpose", [f32(2, 3)], {"perm": (0, 0)}, "not a permutation"),
    ("squeeze", [f32(2, 3), constant(0)], {}, "squeeze: expected a dim of 1"),
    ("unsqueeze", [f32(2, 3), constant(0, 0)], {}, "an axis of float32[2, 3] is named twice"),
    ("reduce_sum", [f32(2, 3), constant(2)], {}, "reduce_sum: axis 2 is outside"),
    ("expand", [f32(2, 3), constant(4)], {}, "expand: cannot broadcast"),
    ("pad", [f32(3), constant(-2, -2)], {}, "pad: cannot cut"),
    ("pad", [f32(3), constant(3, 0)], {"mode": "reflect"}, "pad: cannot reflect"),
    ("tile", [f32(3), constant(3, 2)], {}, "tile: expected 1 repeats"),
    ("depth_to_space", [f32(1, 6, 2, 2)], {"blocksize": 2}, "blocksize 2 does not divide"),
    ("resize", [f32(1, 1, 2, 2)], {}, "resize: expected one of scales or sizes"),
    ("fused_conv", [f32(1, 3, 3, 3), f32(2, 3, 1, 1), None, f32(1, 3, 3, 3)], {}, "cannot add"),
]


@pytest.mark.parametrize(("op", "inputs", "attrs", "message"), REFUSED)
def test_shape_error_names_op_and_types(
    op: str, inputs: Sequence[Type | None], attrs: dict[str, Attr], message: str
) -> None:
    node = Node(op, tuple(map(str, inputs)), ("y",), attrs, "the node")
    with pytest.raises(ShapeError, match=re.escape(message)) as caught:
        infer_node(node, inputs)
    assert str(caught.value).startswith(f"node the node: {op}")


def test_unknown_attribute_is_a_damaged_model() -> None:
    node = Node("relu", ("x",), ("y",), {"colour": 3}, "the node")
    with pytest.raises(ModelError, match=r"node the node: relu does not take \(float32\[2\]\)"):
        infer_node(node, [f32(2)])


@pytest.mark.parametrize(
    ("op", "attrs", "message"),
    [
        ("conv", {"strides": (1, 1 << 21)}, "strides: expected at most 1048576, got 2097152"),
        ("conv_transpose", {"dilations": (0, 1)}, "dilations: expected at least 1, got 0"),
        ("conv", {"kernel_shape": (-1, 3)}, "kernel_shape: expected at least 1, got -1"),
    ],
)
def test_attributes_that_no_sizes_fit_need_no_types(
    op: str, attrs: dict[str, Attr], message: str
) -> None:
    node = Node(op, ("x", "w"), ("y",), attrs, "the node")
    graph = Graph({"x": Type("float32", (1, 3, "height", 8))}, {"y": UNKNOWN}, (node,))
    given = replace(graph, constants={"w": np.zeros((3, 3, 3, 3), np.float32)})
    with pytest.raises(
        ModelError, match=f"node the node: {op} does not take .*: attribute {message}"
    ):
        infer_types(given)


def test_shape_that_is_computed_is_unsupported() -> None:
    node = Node("reshape", ("x", "s"), ("y",))
    with pytest.raises(UnsupportedError, match=r"reshape: shape: expected a constant, got int64"):
        infer_node(node, [f32(2), Type("int64", (1,))])


def test_index_out_of_range_is_typed() -> None:
    with pytest.raises(ModelError, match="gather"):
        run_reference(Node("gather", ("x", "i"), ("y",)), [np.zeros(3), np.array([3])])
