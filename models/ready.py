"""Adds plans to the shipped models, for the sizes that kits use first; weights stay.

`python -m palmkit.models.ready [NAME...]` rewrites models/NAME/NAME.palm and its entry in
models/index.toml. Other sizes are planned when they first come.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from palmkit.engine import Graph, convert, save
from palmkit.kits.table import KITS

MODELS = Path(__file__).parent
Shapes = Mapping[str, Sequence[int]]


def shapes_of(name: str, graph: Graph) -> list[Shapes] | None:
    """Return the shapes to plan a model for; None for its own shapes, if all are known."""
    found: list[Shapes] = []
    for entry in KITS.values():
        for sizes in entry.load_kit().first_dims().get(name, ()):
            inputs = graph.inputs.items()
            found.append({each: _bound(type.shape, sizes) for each, type in inputs})
    return found or None


def _bound(shape: Sequence[int | str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(dim if isinstance(dim, int) else sizes[dim] for dim in shape)


def make_ready(name: str, path: Path) -> None:
    """Rewrite the model of this name with plans."""
    graph = convert(path)
    save(graph, path, weights="smallest", shapes=shapes_of(name, graph))


def entered(index: str, name: str, content: bytes) -> str:
    """Return models/index.toml with a model's new size and digest."""
    head, mark, table = index.partition(f"[{name}]\n")
    if not mark:
        raise ValueError(f"models/index.toml has no {name}")
    table = re.sub(r"size_bytes = \d+", f"size_bytes = {len(content)}", table, count=1)
    digest = hashlib.sha256(content).hexdigest()
    return head + mark + re.sub(r'sha256 = "\w+"', f'sha256 = "{digest}"', table, count=1)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    names = sorted(path.stem for path in MODELS.glob("*/*.palm"))
    parser = argparse.ArgumentParser(description="plans for the shipped models")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; all")
    options = parser.parse_args(None if arguments is None else list(arguments))
    for name in options.names or names:
        path = MODELS / name / f"{name}.palm"
        before = path.stat().st_size
        make_ready(name, path)
        index = MODELS / "index.toml"
        index.write_text(entered(index.read_text("utf-8"), name, path.read_bytes()), "utf-8")
        print(f"{name}: {before} -> {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
