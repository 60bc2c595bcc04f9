"""The .palm file to Graph: memory-mapped, and checked so that nothing in it is trusted."""

# The generated code has no types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from palmkit.engine.errors import ModelError, PalmError, UnsupportedError
from palmkit.engine.format import ALIGNMENT, FEATURES
from palmkit.engine.format.consistency import DIM_LIMIT, RANK_LIMIT, STORED_DTYPES, verify
from palmkit.engine.format.generated.AttributeKind import AttributeKind
from palmkit.engine.format.generated.Coding import Coding
from palmkit.engine.format.generated.Encoding import Encoding
from palmkit.engine.format.generated.Half import Half
from palmkit.engine.format.generated.Model import Model
from palmkit.engine.format.generated.Raw import Raw
from palmkit.engine.format.sections import Sections, mapped, reading
from palmkit.engine.ir import MOST_NESTED, Array, Attr, Dim, Graph, Node, Type, numpy_dtype

_T = TypeVar("_T")


def load(path: str | os.PathLike[str]) -> Graph:
    """Read a model file. Constants that are stored as they are lie in the mapped file.

    The file must not be changed in place while the graph lives; `save` never does that.
    Raises ModelError if the file cannot be read, is not a model, is damaged or of a newer format;
    UnsupportedError if it needs an op, an encoding or a feature that is not known; ShapeError if
    a type in it does not fit.
    """
    file_path = Path(path)
    with reading(file_path):
        return read(Sections(mapped(file_path)))


def loads(data: bytes) -> Graph:
    """Read a model from a copy of `data`; errors as those of `load`."""
    if not data:
        raise ModelError("not a model file: it is empty")
    pages = mmap.mmap(-1, len(data))
    pages.write(data)
    return read(Sections(pages))


def read(sections: Sections) -> Graph:
    """The graph of a file that is whole; errors as those of `load`."""
    try:
        graph = _Reader(sections.content, sections.data).graph()
    except PalmError:
        raise
    except Exception as error:
        raise ModelError(f"damaged: {error!r}") from error
    verify(graph)
    return graph


class _Reader:
    """Reads the tables of one file.

    A hostile file may point at one table, string or run of data many times, and so be far larger
    than it looks: what is read is counted, and is never more than the file holds.
    """

    def __init__(self, content: memoryview, data: memoryview) -> None:
        self._root: Any = Model.GetRootAs(content)
        self._data = data
        self._content_left = len(content)
        self._data_left = len(data)
        self._depth = 0

    def graph(self) -> Graph:
        root = self._root
        features = self._strings(root.FeaturesLength(), root.Features)
        unknown = [feature for feature in features if feature not in FEATURES]
        if unknown:
            raise UnsupportedError(f"upgrade palmkit: the file needs {', '.join(unknown)}")
        metadata = self._mapping(root.MetadataLength(), root.Metadata, self._property)
        return replace(self._graph(root), metadata=metadata)

    def _graph(self, table: Any) -> Graph:
        """The whole model, or a body: their tables have the same fields."""
        return Graph(
            inputs=self._mapping(table.InputsLength(), table.Inputs, self._value),
            outputs=self._mapping(table.OutputsLength(), table.Outputs, self._value),
            nodes=tuple(map(self._node, self._tables(table.NodesLength(), table.Nodes))),
            constants=self._mapping(table.ConstantsLength(), table.Constants, self._constant),
        )

    def _body(self, name: str, table: Any) -> Graph:
        if table is None:
            raise ModelError(f"damaged: attribute {name} has no graph")
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise ModelError(f"damaged: bodies are nested over {MOST_NESTED} deep")
        body = self._graph(table)
        self._depth -= 1
        return body

    def _count(self, size: int) -> None:
        self._content_left -= size
        if self._content_left < 0:
            raise ModelError("damaged: more in the tables than the file holds")

    def _tables(self, count: int, get: Callable[[int], Any]) -> Iterator[Any]:
        self._count(8 * count)  # an offset here, another at the head of the table
        return map(get, range(count))

    def _mapping(
        self, count: int, get: Callable[[int], Any], read: Callable[[Any], tuple[str, _T]]
    ) -> dict[str, _T]:
        entries: dict[str, _T] = {}
        for name, value in map(read, self._tables(count, get)):
            if name in entries:
                raise ModelError(f"damaged: two entries have one name: {name}")
            entries[name] = value
        return entries

    def _string(self, value: bytes | None) -> str:
        if value is None:
            raise ModelError("damaged: a string is missing")
        self._count(4 + len(value))
        return value.decode()

    def _strings(self, count: int, get: Callable[[int], bytes]) -> tuple[str, ...]:
        self._count(4 * count)
        return tuple(self._string(get(index)) for index in range(count))

    def _property(self, table: Any) -> tuple[str, str]:
        return self._string(table.Key()), self._string(table.Value())

    def _value(self, table: Any) -> tuple[str, Type]:
        shape = tuple(map(self._dim, self._tables(table.ShapeLength(), table.Shape)))
        return self._string(table.Name()), Type(_dtype(table.Type()), shape)

    def _dim(self, table: Any) -> Dim:
        name = table.Name()
        return int(table.Size()) if name is None else self._string(name)

    def _node(self, table: Any) -> Node:
        attributes = table.AttributesLength(), table.Attributes
        return Node(
            op=self._string(table.Op()),
            inputs=self._strings(table.InputsLength(), table.Inputs),
            outputs=self._strings(table.OutputsLength(), table.Outputs),
            attrs=self._mapping(*attributes, self._attribute),
            name=self._string(table.Name()),
        )

    def _attribute(self, table: Any) -> tuple[str, Attr]:
        name, kind = self._string(table.Name()), table.Kind()
        if kind == AttributeKind.Graph:
            return name, self._body(name, table.Graph())
        is_list = kind >= AttributeKind.Ints
        values: tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
        match kind - (AttributeKind.Ints if is_list else AttributeKind.Int):
            case AttributeKind.Int:
                self._count(8 * table.IntsLength())
                values = tuple(map(table.Ints, range(table.IntsLength())))
            case AttributeKind.Float:
                self._count(8 * table.FloatsLength())
                values = tuple(map(table.Floats, range(table.FloatsLength())))
            case AttributeKind.String:
                values = self._strings(table.StringsLength(), table.Strings)
            case _:
                raise ModelError(f"damaged: attribute {name} is of an unknown kind: {kind}")
        if is_list:
            return name, values
        if len(values) != 1:
            raise ModelError(f"damaged: attribute {name}: expected 1 value, got {len(values)}")
        return name, values[0]

    def _constant(self, table: Any) -> tuple[str, Array]:
        name, dtype = self._string(table.Name()), _dtype(table.Type())
        rank = table.ShapeLength()
        if rank > RANK_LIMIT:
            raise ModelError(f"constant {name}: expected at most {RANK_LIMIT} dims, got {rank}")
        shape = tuple(int(table.Shape(axis)) for axis in range(rank))
        if any(dim > DIM_LIMIT for dim in shape):
            raise ModelError(f"constant {name}: dims are over {DIM_LIMIT}: {list(shape)}")
        storage = table.Storage()
        kind, encoding = storage.EncodingType(), storage.Encoding()
        if kind == Encoding.Raw:
            raw: Any = Raw()
            raw.Init(encoding.Bytes, encoding.Pos)
            value = self._elements(name, raw, dtype, shape)
            if dtype == "bool" and value.view(np.uint8).max(initial=0) > 1:
                raise ModelError(f"constant {name}: expected bytes of 0 and 1")
        elif kind == Encoding.Half and dtype == "float32":
            half: Any = Half()
            half.Init(encoding.Bytes, encoding.Pos)
            value = self._elements(name, half, "float16", shape).astype(np.float32)
            value.flags.writeable = False
        else:
            known = {number: text for text, number in vars(Encoding).items() if text[0] != "_"}
            raise UnsupportedError(
                f"constant {name}: {dtype} constants that are stored as "
                f"{known.get(kind, kind)} cannot be read; upgrade palmkit"
            )
        return name, value

    def _elements(self, name: str, table: Any, dtype: str, shape: tuple[int, ...]) -> Array:
        run = table.Bytes()
        if run.Coding() != Coding.Plain:
            raise UnsupportedError(
                f"constant {name}: entropy-coded bytes cannot be read; upgrade palmkit"
            )
        order = tuple(map(int, map(table.Order, range(min(table.OrderLength(), RANK_LIMIT + 1)))))
        if order and sorted(order) != list(range(len(shape))):
            raise ModelError(f"constant {name}: not an order of its axes: {list(order)}")
        count, offset, size = prod(shape), run.Offset(), run.Size()
        stored = numpy_dtype(dtype).newbyteorder("<")
        if size != count * stored.itemsize:
            raise ModelError(f"constant {name}: {size} bytes do not fill {dtype}{list(shape)}")
        if offset % ALIGNMENT or offset + size > len(self._data):
            raise ModelError(f"constant {name}: its bytes lie outside the file")
        self._data_left -= size
        if self._data_left < 0:
            raise ModelError("damaged: more in the constants than the file holds")
        flat = np.frombuffer(self._data[offset : offset + size], stored)
        if not order:
            return flat.reshape(shape)
        return flat.reshape([shape[axis] for axis in order]).transpose(np.argsort(order))


def _dtype(number: int) -> str:
    if number >= len(STORED_DTYPES):
        raise ModelError(f"damaged: unknown data type: {number}")
    return STORED_DTYPES[number]
