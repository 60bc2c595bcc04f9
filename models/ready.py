"""Put plans into the shipped models, for what kits ask of them first; their numbers stay.

`python -m palmkit.models.ready [NAME...]` rewrites models/NAME/NAME.palm and its entry in
models/index.toml. Sizes that are not among the plans are planned when they come.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from palmkit.engine import Graph, convert, save
from palmkit.kits.detector import sheet_shape
from palmkit.kits.face.decode import SIDE_MULTIPLE
from palmkit.kits.face.search import CLOSER_SIDE, MOST_CLOSER

MODELS = Path(__file__).parent
# The longer side of what detectors see, as their kits ask for it.
SIZES: Mapping[str, Sequence[int]] = {"face_detector": (160, 320, 640), "hand_detector": (224,)}
# Of the longer side to the shorter one, of most pictures and videos.
RATIOS = (1, 4 / 3, 3 / 2, 16 / 9)
# Items of a page.
RERANKED = 50
Shapes = Mapping[str, Sequence[int]]


def picture_shapes(longest: Iterable[int]) -> list[Shapes]:
    """What detectors see of upright and lying pictures whose longer side becomes one of these."""
    shapes: dict[tuple[int, ...], None] = {}
    for side in longest:
        for ratio in RATIOS:
            other = math.ceil(round(side / ratio) / SIDE_MULTIPLE) * SIDE_MULTIPLE
            shapes.update({(1, side, other, 3): None, (1, other, side, 3): None})
    return [{"image": shape} for shape in shapes]


def closer_shapes() -> list[Shapes]:
    """What the face detector sees of any number of places that it looks closer at."""
    shapes = {sheet_shape(count + 1, CLOSER_SIDE): None for count in range(MOST_CLOSER)}
    return [{"image": (1, *shape)} for shape in shapes]


def shapes_of(name: str, graph: Graph) -> list[Shapes] | None:
    """What a model is to have plans for; None for its own shapes, if all are known."""
    if name == "reranker":
        known = {"pages": 1, "count": RERANKED}
        return [
            {
                each: [dim if isinstance(dim, int) else known[dim] for dim in type.shape]
                for each, type in graph.inputs.items()
            }
        ]
    if name not in SIZES:
        return None
    closer = closer_shapes() if name == "face_detector" else []
    return [*picture_shapes(SIZES[name]), *closer]


def make_ready(name: str, path: Path) -> None:
    """Write the model of this name once more, with plans."""
    graph = convert(path)
    save(graph, path, weights="smallest", shapes=shapes_of(name, graph))


def entered(index: str, name: str, content: bytes) -> str:
    """models/index.toml with a model's new size and digest."""
    head, mark, table = index.partition(f"[{name}]\n")
    if not mark:
        raise ValueError(f"models/index.toml has no {name}")
    table = re.sub(r"size_bytes = \d+", f"size_bytes = {len(content)}", table, count=1)
    digest = hashlib.sha256(content).hexdigest()
    return head + mark + re.sub(r'sha256 = "\w+"', f'sha256 = "{digest}"', table, count=1)


def main(arguments: Iterable[str] | None = None) -> None:
    """Command line."""
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
