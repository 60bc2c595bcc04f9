"""How the constants of a .palm file are stored."""

# The generated code has no types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palmkit.engine.format import IDENTIFIER
from palmkit.engine.format.generated.AttributeKind import AttributeKind
from palmkit.engine.format.generated.Encoding import Encoding
from palmkit.engine.format.generated.Model import Model
from palmkit.engine.ir import DTYPES

_NAMES = {number: name.lower() for name, number in vars(Encoding).items() if name[0] != "_"}


def stored_bytes(path: str | os.PathLike[str]) -> dict[str, int]:
    """Bytes of the constants by encoding, most first: "float32 as float16", "int64 raw".

    path: a .palm file that `load` has read without an error; {} for another kind of file.
    """
    content = Path(path).read_bytes()
    if content[4:8] != IDENTIFIER:
        return {}
    sizes = Counter[str]()
    for constant in _constants(Model.GetRootAs(content)):
        storage = constant.Storage()
        table = storage.Encoding()
        encoding: Any = _table(storage.EncodingType())
        encoding.Init(table.Bytes, table.Pos)
        dtype: str = DTYPES[int(constant.Type())]
        name = _NAMES[storage.EncodingType()]
        stored = f"{dtype} as float16" if name == "half" else dtype if name == "raw" else ""
        sizes[stored or f"{dtype} as {name}"] += encoding.Bytes().Size()
    return dict(sizes.most_common())


def _constants(graph: Any) -> Iterator[Any]:
    """The constants of a graph and of the bodies in it."""
    yield from map(graph.Constants, range(graph.ConstantsLength()))
    for node in map(graph.Nodes, range(graph.NodesLength())):
        for attribute in map(node.Attributes, range(node.AttributesLength())):
            if attribute.Kind() == AttributeKind.Graph:
                yield from _constants(attribute.Graph())


def _table(kind: int) -> Any:
    from palmkit.engine.format.generated.Half import Half
    from palmkit.engine.format.generated.Raw import Raw

    return Half() if kind == Encoding.Half else Raw()
