"""IR to ONNX: an op is the operator of its name, so what is left is to find the opset.

Only the IR's own constructs are rewritten: transposes that cancel (a channels-last source has one
at each layer), and MediaPipe's pooling with indices, whose pairs are MaxPool and MaxUnpool. Where
an operator can be written in two ways, the way is chosen that more engines read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from palmkit.engine.converters.onnx.graph import NEWEST_OPSET, op_name
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import (
    UNKNOWN,
    Attr,
    Graph,
    Node,
    Type,
    fresh_name,
    numpy_dtype,
    value_names,
)
from palmkit.engine.ops import infer_types
from palmkit.engine.passes import steps
from palmkit.engine.passes.cancel_transposes import cancel_transposes
from palmkit.engine.passes.fold_constants import fold_constants
from palmkit.engine.passes.merge_common import merge_common
from palmkit.engine.passes.merge_reshapes import merge_reshapes
from palmkit.engine.passes.remove_dead_code import remove_dead_code
from palmkit.engine.passes.remove_identities import remove_identities
from palmkit.engine.passes.resolve_padding import resolve_padding

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto

# None of these writes an op that ONNX does not have. ONNX Runtime takes no dilation with auto_pad.
PIPELINE = (
    remove_dead_code,
    fold_constants,
    remove_identities,
    merge_reshapes,
    merge_common,
    cancel_transposes,
    resolve_padding,
)
# The oldest opset that has axes as inputs everywhere, as the IR does; most engines read it.
OLDEST_OPSET = 18
_LARGEST_BYTES = (1 << 31) - 1
# pnnx does not know the default mode of a pad.
_WRITTEN_OUT: Mapping[str, Mapping[str, str]] = {"pad": {"mode": "constant"}}
_POOL, _UNPOOL = "max_pooling_with_argmax_2d", "max_unpooling_2d"


def dumps(graph: Graph) -> bytes:
    """Return the model as an .onnx file, in the oldest opset from 18 on that can express it.

    Raises UnsupportedError listing every op that ONNX does not have, or if the package onnx is
    missing; ModelError or ShapeError if the graph contradicts itself.
    """
    try:
        import onnx
    except ImportError:
        raise UnsupportedError(
            'writing ONNX models needs the package onnx: pip install "palmkit[onnx]"'
        ) from None
    for _, changed in steps(graph, PIPELINE):
        graph = changed
    graph = _with_whole_resizes(_with_unpooling(graph))
    _check_ops(graph)
    size_bytes = sum(value.nbytes for value in graph.constants.values())
    if size_bytes > _LARGEST_BYTES:
        raise UnsupportedError(f"an .onnx file holds at most 2 GB, the weights are {size_bytes}")
    failure = ""
    for opset in range(OLDEST_OPSET, NEWEST_OPSET + 1):
        try:
            model = _model(graph, opset)
            check: Any = onnx.checker
            check.check_model(model)
        except (onnx.checker.ValidationError, _NotInOpset) as error:
            failure = str(error)
            continue
        content: bytes = model.SerializeToString()
        return content
    raise UnsupportedError(f"cannot be written as ONNX: {' '.join(failure.split())}")


class _NotInOpset(Exception):
    """Raised for an operator, or an attribute of one, that is of a newer opset."""


@cache
def operators() -> Mapping[str, str]:
    """Return ONNX's operators by our names for them."""
    from onnx import defs

    schemas = defs.get_all_schemas()
    return {op_name(each.name): each.name for each in schemas if not each.domain}


def _check_ops(graph: Graph) -> None:
    lacking: dict[str, str] = {}
    for node in graph.nodes:
        if node.op not in operators():
            lacking.setdefault(node.op, node.label)
        elif node.bodies:
            lacking.setdefault(f"{node.op} (control flow)", node.label)
    if lacking:
        raise UnsupportedError(
            "ONNX has no operator for, or PalmKit does not write: "
            + ", ".join(f"{op} (at {name})" for op, name in lacking.items())
        )


def _model(graph: Graph, opset: int) -> ModelProto:
    from onnx import helper, numpy_helper

    read = {name for node in graph.nodes for name in node.inputs} | set(graph.outputs)
    taken = set[str]()
    names = [fresh_name(taken, node.label) for node in graph.nodes]
    made = helper.make_graph(
        [_node(node, name, opset) for node, name in zip(graph.nodes, names, strict=True)],
        "palmkit",
        [_value(name, type) for name, type in graph.inputs.items()],
        [_value(name, type) for name, type in graph.outputs.items()],
        [
            numpy_helper.from_array(np.array(value, order="C"), name)
            for name, value in graph.constants.items()
            if name in read
        ],
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        made,
        opset_imports=opsets,
        producer_name="palmkit",
        ir_version=helper.find_min_ir_version_for(opsets),
    )
    helper.set_model_props(model, dict(graph.metadata))
    return model


def _node(node: Node, name: str, opset: int) -> NodeProto:
    from onnx import defs, helper

    operator = operators()[node.op]
    try:
        schema = defs.get_schema(operator, opset, "")
    except defs.SchemaError:
        raise _NotInOpset(f"{operator} is not in opset {opset}") from None
    attrs: dict[str, Any] = dict(_WRITTEN_OUT.get(node.op, {}))
    for key, value in node.attrs.items():
        if key not in schema.attributes:
            raise _NotInOpset(f"{operator} has no attribute {key} in opset {opset}")
        if value != ():
            attrs[key] = _attr(value, schema.attributes[key].type)
    inputs = list(node.inputs)
    while inputs and not inputs[-1]:
        inputs.pop()
    if len(inputs) > schema.max_input:
        raise _NotInOpset(f"{operator} has {schema.max_input} inputs in opset {opset}")
    return helper.make_node(operator, inputs, list(node.outputs), name, **attrs)


def _attr(value: Attr, wanted: Any) -> Any:
    """Return an attribute as the operator's schema has it: in the IR 1 may stand for 1.0."""
    from onnx import defs, helper, numpy_helper

    kinds = defs.OpSchema.AttrType
    if wanted == kinds.INT and isinstance(value, str):
        return helper.np_dtype_to_tensor_dtype(numpy_dtype(value))
    if wanted == kinds.FLOAT and isinstance(value, int):
        return float(value)
    if wanted == kinds.TENSOR and isinstance(value, np.ndarray):
        return numpy_helper.from_array(value)
    if isinstance(value, tuple):
        return [float(each) if wanted == kinds.FLOATS else each for each in value]
    return value


def _value(name: str, type: Type) -> ValueInfoProto:
    from onnx import helper

    if type.dtype == UNKNOWN.dtype:
        raise UnsupportedError(f"the type is not known before the model runs: {name}")
    element = helper.np_dtype_to_tensor_dtype(numpy_dtype(type.dtype))
    return helper.make_tensor_value_info(name, element, type.shape if type.has_rank else None)


def _with_whole_resizes(graph: Graph) -> Graph:
    """Write resizes of some axes as resizes of all: OpenCV and pnnx know no others."""
    types = infer_types(graph)
    constants, names = dict(graph.constants), value_names(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        axes, x = node.attrs.get("axes"), types.get(node.inputs[0] if node.inputs else "")
        # The last input is the sizes, or the scales where the sizes are left out.
        wanted = graph.constants.get(node.inputs[-1]) if node.inputs else None
        plain = node.attrs.get("keep_aspect_ratio_policy", "stretch") == "stretch"
        given = [name for name in node.inputs[1:] if name]
        if (
            node.op == "resize"
            and isinstance(axes, tuple)
            and x is not None
            and x.is_static
            and wanted is not None
            and len(given) == 1
            and plain
        ):
            is_size = wanted.dtype.kind == "i"
            whole = np.array(x.dims if is_size else [1] * len(x.dims), wanted.dtype)
            whole[list(_ints(axes))] = wanted
            name = fresh_name(names, f"{node.inputs[-1]}_whole")
            constants[name] = whole
            attrs = {key: value for key, value in node.attrs.items() if key != "axes"}
            node = replace(node, inputs=(*node.inputs[:-1], name), attrs=attrs)
        nodes.append(node)
    return graph.with_nodes(tuple(nodes), constants)


def _with_unpooling(graph: Graph) -> Graph:
    """Write MediaPipe's pairs, where the indices of one pooling are read by unpoolings alone."""
    if not any(node.op == _UNPOOL for node in graph.nodes):
        return graph
    types = infer_types(graph)
    pools = {
        node.outputs[1]: node
        for node in graph.nodes
        if node.op == _POOL and len(node.outputs) == 2 and _only_unpooled(graph, node, types)
    }
    constants, names = dict(graph.constants), value_names(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op == _POOL and node.outputs[-1] in pools:
            node = replace(node, op="max_pool")
        elif node.op == _UNPOOL and node.inputs[1] in pools:
            shape = fresh_name(names, f"{node.outputs[0]}_shape")
            constants[shape] = np.array(types[node.outputs[0]].dims, np.int64)
            attrs = {name: node.attrs[name] for name in ("kernel_shape", "strides")}
            node = replace(node, op="max_unpool", inputs=(*node.inputs, shape), attrs=attrs)
        nodes.append(node)
    return graph.with_nodes(tuple(nodes), constants)


def _only_unpooled(graph: Graph, pool: Node, types: Mapping[str, Type]) -> bool:
    """Return whether windows neither overlap nor overhang and unpoolings give the pooled shape."""
    source = types[pool.inputs[0]]
    kernel, strides = pool.attrs["kernel_shape"], pool.attrs["strides"]
    readers = [node for node in graph.nodes if pool.outputs[1] in node.inputs]
    if not isinstance(kernel, tuple) or kernel != strides or pool.outputs[1] in graph.outputs:
        return False
    return all(
        size % int(window) == 0 for size, window in zip(source.dims[2:], _ints(kernel), strict=True)
    ) and all(
        node.op == _UNPOOL
        and node.inputs[0] != pool.outputs[1]
        and (node.attrs["kernel_shape"], node.attrs["strides"]) == (kernel, strides)
        and types[node.outputs[0]].dims == source.dims
        for node in readers
    )


def _ints(values: Sequence[Any]) -> Iterator[int]:
    return (int(each) for each in values)
