"""Checks of a graph before it is written and after it is read."""

import re
from collections.abc import Sequence

from palmkit.engine import ops
from palmkit.engine.errors import ModelError, PalmError, ShapeError
from palmkit.engine.ir import ANY_RANK, DTYPES, UNKNOWN, Dim, Graph, Type, check

RANK_LIMIT = 8
DIM_LIMIT = 2**31 - 1
VALUE_LIMIT_BYTES = 2**31
STORED_DTYPES = (*DTYPES, UNKNOWN.dtype)

_OP_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


def verify(graph: Graph) -> None:
    """Raise a PalmError unless a backend can take the graph as it is.

    Raises ModelError if a value is read before it is written, is written twice or has no type that
    can be known; ShapeError if a type is over the limits, or differs from the type that the graph
    states for an output; UnsupportedError for an unknown op.
    """
    check(graph)
    _verify_parts(graph, DTYPES)
    try:
        types = ops.infer_types(graph)
    except PalmError:
        raise
    except Exception as error:
        raise ModelError(f"types do not fit: {error!r}") from error
    for name, type in types.items():
        _verify_type(name, type)
    for node in graph.nodes:
        untyped = [name for name in node.outputs if name and name not in types]
        if untyped and any(name in types for name in node.outputs):
            raise ModelError(f"node {node.name}: {node.op} does not write {untyped[0]}")
    for name, type in graph.outputs.items():
        if name in types and not _agree(type, types[name]):
            raise ShapeError(f"output {name}: expected {type}, got {types[name]}")


def _verify_parts(graph: Graph, dtypes: Sequence[str]) -> None:
    """Check names, types and ops, also in bodies, whose types need not be known."""
    for name, type in [*graph.inputs.items(), *graph.outputs.items()]:
        _verify_name(name)
        _verify_type(name, type, dtypes)
    for name, value in graph.constants.items():
        _verify_name(name)
        _verify_type(name, Type.of(value))
    for node in graph.nodes:
        if not _OP_NAME.fullmatch(node.op):
            raise ModelError(f"node {node.name}: not the name of an op: {node.op!r}")
        if not any(node.outputs):
            raise ModelError(f"node {node.name}: {node.op} writes nothing")
        ops.find(node.op)
        for body in node.bodies:
            _verify_parts(body, STORED_DTYPES)


def _verify_name(name: str) -> None:
    if not name:
        raise ModelError("a graph input, output or constant has no name")


def _verify_type(name: str, type: Type, dtypes: Sequence[str] = DTYPES) -> None:
    if type.dtype not in dtypes:
        raise ModelError(f"value {name}: unknown dtype: {type.dtype}")
    if len(type.shape) > RANK_LIMIT:
        raise ShapeError(f"value {name}: expected at most {RANK_LIMIT} dims, got {type}")
    if not all(map(_is_dim, type.shape)):
        raise ShapeError(f"value {name}: expected dims from 0 to {DIM_LIMIT}, got {type}")
    if type.is_static and type.size_bytes > VALUE_LIMIT_BYTES:
        raise ShapeError(f"value {name}: expected at most {VALUE_LIMIT_BYTES} bytes, got {type}")


def _is_dim(dim: Dim) -> bool:
    return bool(dim) if isinstance(dim, str) else 0 <= dim <= DIM_LIMIT


def _agree(declared: Type, inferred: Type) -> bool:
    return declared.dtype == inferred.dtype and (
        ANY_RANK in (declared.shape, inferred.shape)
        or len(declared.shape) == len(inferred.shape)
        and all(
            isinstance(a, str) or isinstance(b, str) or a == b
            for a, b in zip(declared.shape, inferred.shape, strict=True)
        )
    )
