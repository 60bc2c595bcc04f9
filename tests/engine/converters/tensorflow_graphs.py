"""TensorFlow graphs for tests, written with our own messages: no TensorFlow is needed."""

from __future__ import annotations

import io
import lzma
from pathlib import Path
from typing import Any

import numpy as np

from palmkit.engine.converters.tensorflow.schema import DTYPES, messages
from palmkit.engine.ir import Array

DATA = Path(__file__).parent / "data" / "tensorflow"
_NUMBERS = {name: number for number, name in DTYPES.items()}


def archive(name: str) -> dict[str, dict[str, Array]]:
    """Return an archive of recorded cases: the arrays of each case by the name after the slash."""
    found: dict[str, dict[str, Array]] = {}
    with np.load(io.BytesIO(lzma.decompress((DATA / name).read_bytes()))) as arrays:
        for key in arrays.files:
            case, _, rest = key.partition("/")
            found.setdefault(case, {})[rest] = arrays[key]
    return found


def named(arrays: dict[str, Array], kind: str) -> dict[str, Array]:
    """Return the arrays whose key begins with `kind`, by the rest of the key: x:0 is x."""
    return {
        key.removeprefix(kind).removesuffix(":0"): value
        for key, value in arrays.items()
        if key.startswith(kind)
    }


class GraphWriter:
    """A GraphDef under construction."""

    def __init__(self, graph: Any = None) -> None:
        """Add to `graph`, a GraphDef or FunctionDef."""
        self.graph = messages()["GraphDef"]() if graph is None else graph

    def node(self, op: str, name: str, *inputs: str, **attrs: Any) -> str:
        """Add a node with attributes by their kind in Python, and return its name."""
        nodes = self.graph.node_def if hasattr(self.graph, "node_def") else self.graph.node
        node = nodes.add(name=name, op=op, input=inputs)
        for key, value in attrs.items():
            set_attr(node.attr[key], value)
        return name

    def placeholder(self, name: str, *dims: int | None, dtype: str = "float32") -> str:
        """Add an input; None is a dim that is not known."""
        node = self.node("Placeholder", name, dtype=np.dtype(dtype))
        shape = self.graph.node[-1].attr["shape"].shape
        for dim in dims:
            shape.dim.add(size=-1 if dim is None else dim)
        shape.SetInParent()
        return node

    def const(self, name: str, value: Any, dtype: str = "float32") -> str:
        """Add a constant."""
        return self.node("Const", name, value=np.array(value, dtype), dtype=np.dtype(dtype))

    def bytes(self) -> bytes:
        """Return the file."""
        return bytes(self.graph.SerializeToString())


def set_attr(attr: Any, value: Any) -> None:
    """Set an AttrValue by the kind of a Python value; an np.dtype is a type, an array a tensor."""
    if isinstance(value, bool):
        attr.b = value
    elif isinstance(value, int):
        attr.i = value
    elif isinstance(value, float):
        attr.f = value
    elif isinstance(value, str):
        attr.s = value.encode()
    elif isinstance(value, np.dtype):
        attr.type = _NUMBERS[value.name]
    elif hasattr(value, "nbytes"):
        set_tensor(attr.tensor, np.asarray(value))
    elif isinstance(value, tuple):
        attr.list.i.extend(value)
    else:
        attr.CopyFrom(value)


def set_tensor(tensor: Any, value: Array) -> None:
    """Fill a TensorProto with the bytes of an array."""
    tensor.Clear()
    tensor.dtype = _NUMBERS[value.dtype.name]
    for dim in value.shape:
        tensor.tensor_shape.dim.add(size=dim)
    tensor.tensor_shape.SetInParent()
    tensor.tensor_content = value.tobytes()


def function(name: str) -> Any:
    """Return an AttrValue that names a function."""
    value = messages()["AttrValue"]()
    value.func.name = name
    return value


def with_shapes(graph: bytes, inputs: dict[str, Array]) -> bytes:
    """Return the graph with placeholders of these inputs' shapes."""
    parsed = messages()["GraphDef"].FromString(graph)
    for node in parsed.node:
        if node.op == "Placeholder" and node.name in inputs:
            shape = node.attr["shape"].shape
            shape.Clear()
            for dim in inputs[node.name].shape:
                shape.dim.add(size=dim)
            shape.SetInParent()
    return bytes(parsed.SerializeToString())
