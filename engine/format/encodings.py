"""How the constants of a .palm file are stored, and in how many bytes."""

# The generated code has no types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palmkit.engine.format import IDENTIFIER
from palmkit.engine.format.constants import encoding_of, stored_dtype
from palmkit.engine.format.generated.AttributeKind import AttributeKind
from palmkit.engine.format.generated.Coding import Coding
from palmkit.engine.format.generated.Encoding import Encoding
from palmkit.engine.format.reader import tables_of
from palmkit.engine.format.sections import Sections, mapped, pages_of

_NAMES = {number: name.lower() for name, number in vars(Encoding).items() if name[0] != "_"}
_HALF = "float16"


@dataclass(frozen=True)
class StoredConstant:
    """A constant of a file, with its storage and size.

    name: the constant's name, in a body of control flow the name used there.
    stored: how it is stored, such as "int64", "float32 as float16" or "float32 as quantized,
    coded".
    """

    name: str
    stored: str
    size_bytes: int


def stored_bytes(path: str | os.PathLike[str]) -> dict[str, int]:
    """Return the bytes of the constants by how they are stored, most first.

    path: a .palm file that `load` has read without an error; another kind of file gives {}.
    The keys are those of `StoredConstant.stored`.
    """
    file = Path(path)
    with file.open("rb") as opened:
        if opened.read(8)[4:] != IDENTIFIER:
            return {}
    sizes = Counter[str]()
    for constant in stored_constants(Sections(mapped(file))):
        sizes[constant.stored] += constant.size_bytes
    return dict(sizes.most_common())


def constants_of(content: bytes) -> list[StoredConstant]:
    """Return the stored constants of a file's content."""
    return list(stored_constants(Sections(pages_of(content))))


def stored_constants(sections: Sections) -> Iterator[StoredConstant]:
    """Yield every constant of a file, including those of bodies."""
    for table in _constants(tables_of(sections)):
        dtype = stored_dtype(table.Type())
        name = table.Name().decode()
        kind, _ = encoding_of(name, dtype, table.Storage())
        runs = list(_runs(name, dtype, table.Storage()))
        as_what = _HALF if kind == Encoding.Half else _NAMES[kind]
        stored = dtype if kind == Encoding.Raw else f"{dtype} as {as_what}"
        is_coded = any(run.Coding() != Coding.Plain for run in runs)
        size_bytes = sum(run.Size() for run in runs)
        yield StoredConstant(name, f"{stored}, coded" if is_coded else stored, size_bytes)


def _runs(name: str, dtype: str, storage: Any) -> Iterator[Any]:
    kind, table = encoding_of(name, dtype, storage)
    if kind == Encoding.Sparse:
        yield table.Positions()
        yield from _runs(name, dtype, table.Values())
    elif kind == Encoding.Codebook:
        yield from (table.Entries(), table.Indices())
    else:
        yield table.Bytes()
        if kind == Encoding.Quantized:
            yield from _runs(name, "float32", table.Scales())


def _constants(graph: Any) -> Iterator[Any]:
    """Yield the constants of a graph and of the bodies in it."""
    yield from map(graph.Constants, range(graph.ConstantsLength()))
    for node in map(graph.Nodes, range(graph.NodesLength())):
        for attribute in map(node.Attributes, range(node.AttributesLength())):
            if attribute.Kind() == AttributeKind.Graph:
                yield from _constants(attribute.Graph())
