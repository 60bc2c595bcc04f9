"""Reading a .palm file as a Graph: memory-mapped, and checked so that nothing in it is trusted."""

# The generated code has no types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from palmkit.engine.errors import ModelError, PalmError, UnsupportedError
from palmkit.engine.flatbuffer_tables import indexed
from palmkit.engine.format import ENCRYPTED, FEATURES, PACKED
from palmkit.engine.format.consistency import verify
from palmkit.engine.format.constants import Constants, stored_dtype
from palmkit.engine.format.generated.AttributeKind import AttributeKind
from palmkit.engine.format.generated.Coding import Coding
from palmkit.engine.format.generated.Model import Model
from palmkit.engine.format.sections import Sections, inflated, opened, pages_of, reading
from palmkit.engine.ir import MOST_NESTED, Array, Attr, Dim, Graph, Node, Type

_T = TypeVar("_T")


def load(path: str | os.PathLike[str], key: bytes | None = None) -> Graph:
    """Read a model file, with its key if it is encrypted.

    Constants that are stored plainly stay in the mapped file, so the file must not be changed in
    place while the graph lives; `save` never does that.
    Raises ModelError if the file cannot be read, is not a model, is damaged or of a newer format;
    UnsupportedError if it needs an op, an encoding or a feature that is not known; ShapeError if a
    type in it does not fit.
    """
    file_path = Path(path)
    with reading(file_path):
        return read(opened(file_path, key))


def loads(data: bytes) -> Graph:
    """Read a model from a copy of `data`; raise what `load` raises."""
    return read(Sections(pages_of(data)))


def read(sections: Sections) -> Graph:
    """Return the graph of a checked file; raise what `load` raises."""
    try:
        graph = _Reader(sections.content, sections.data).opened().graph()
    except PalmError:
        raise
    except Exception as error:
        raise ModelError(f"damaged: {error!r}") from error
    verify(graph)
    return graph


def tables_of(sections: Sections) -> Any:
    """Return the model's table, inflated if it is packed, of a file that `read` accepts."""
    return _Reader(sections.content, sections.data).opened().root


class _Reader:
    """Reads the tables of one file.

    A hostile file may point at one table, string or run of data many times, and so be far larger
    than it looks. Everything read is counted, and may not exceed what the file holds.
    """

    def __init__(self, content: memoryview, data: memoryview, is_inner: bool = False) -> None:
        self.root: Any = Model.GetRootAs(content)
        self._is_inner = is_inner
        self._data = data
        self._constants = Constants(data)
        self._content_left = len(content)
        self._depth = 0

    def opened(self) -> "_Reader":
        """Return the reader of the model itself, if these tables only say where it lies."""
        features = self._features()
        if ENCRYPTED in features:
            raise ModelError("damaged: says that it is encrypted, and is not")
        if PACKED not in features:
            return self
        if self._is_inner:
            raise ModelError("damaged: packed twice")
        tables = self._unpacked(self.root.Packed())
        return _Reader(tables, self._data, is_inner=True).opened()

    def graph(self) -> Graph:
        root = self.root
        metadata = self._mapping(root.MetadataLength(), root.Metadata, self._property)
        return replace(self._graph(root), metadata=metadata)

    def _features(self) -> tuple[str, ...]:
        features = self._strings(self.root.FeaturesLength(), self.root.Features)
        unknown = [feature for feature in features if feature not in FEATURES]
        if unknown:
            raise UnsupportedError(f"upgrade palmkit: the file needs {', '.join(unknown)}")
        return features

    def _unpacked(self, run: Any) -> memoryview:
        """Return the tables that were deflated."""
        if run is None or run.Coding() != Coding.Deflate:
            raise ModelError("damaged: no packed tables")
        end = run.Offset() + run.Size()
        if end > len(self._data):
            raise ModelError("damaged: the packed tables lie outside the file")
        return memoryview(inflated(self._data[run.Offset() : end], run.DecodedSize()))

    def _graph(self, table: Any) -> Graph:
        """Return the whole model, or a body: their tables have the same fields."""
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
        self._count(8 * count)  # four bytes of offset here, four more at the head of the table
        return map(indexed, map(get, range(count)))

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
        return self._string(table.Name()), Type(stored_dtype(table.Type()), shape)

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
        name = self._string(table.Name())
        return name, self._constants.read(name, table)
