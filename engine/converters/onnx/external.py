"""Weights that lie in files beside the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from palmkit.engine.errors import ModelError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

_MOST_SHARING = 4


def read_external_data(model: ModelProto, folder: Path) -> None:
    """Read the weights that lie in other files into the model.

    Raises ModelError for a file that is missing or outside of `folder`, and for a range that the
    file does not have. Tensors may share bytes, but all of them together must not exceed four times
    what the files hold.
    """
    files: dict[str, bytes] = {}
    read_bytes = 0
    for tensor in _tensors(model):
        if tensor.data_location != tensor.EXTERNAL:
            continue
        entries = {each.key: each.value for each in tensor.external_data}
        name = entries.get("location", "")
        if name not in files:
            files[name] = _read(folder, name, tensor.name)
        data = files[name]
        offset = _number(entries, "offset", 0, tensor.name)
        length = _number(entries, "length", len(data) - offset, tensor.name)
        if length < 0 or offset + length > len(data):
            raise ModelError(
                f"tensor {tensor.name}: {name} has no {length} bytes at {offset}, of {len(data)}"
            )
        read_bytes += length
        if read_bytes > _MOST_SHARING * sum(map(len, files.values())):
            raise ModelError(f"tensor {tensor.name}: too many tensors share the bytes of {name}")
        tensor.raw_data = data[offset : offset + length]
        tensor.data_location = tensor.DEFAULT
        del tensor.external_data[:]


def _read(folder: Path, name: str, tensor: str) -> bytes:
    path = (folder / name).resolve()
    if not name or not path.is_relative_to(folder.resolve()):
        raise ModelError(f"tensor {tensor}: its file is not in the model's folder: {name!r}")
    if not path.is_file():
        raise ModelError(f"tensor {tensor}: there is no file {path}")
    return path.read_bytes()


def _number(entries: dict[str, str], key: str, default: int, tensor: str) -> int:
    text = entries.get(key, str(default))
    if not text.isdecimal() and key in entries:
        raise ModelError(f"tensor {tensor}: {key} of its bytes is not a number: {text!r}")
    return int(text)


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    yield from _tensors_of(model.graph)
    for function in model.functions:
        yield from _tensors_of_nodes(function.node)


def _tensors_of(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for body in (attribute.g, *attribute.graphs):
                yield from _tensors_of(body)
