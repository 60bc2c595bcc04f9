"""Export of trained weights as model files that are as small as they can be without a loss.

`python -m palmkit.models.icons.export WEIGHTS OUT` takes a folder of squeeze.py's arrays and writes
OUT/float.palm, weights as float32, and OUT/NAME.palm for each compressed network. In these the
channels that only zeros read are removed, biases are float16 and weights in the writer's smallest
storage.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from palmkit.engine.compress.prune_neurons import remove_unread
from palmkit.engine.ir import Array, Graph, Node
from palmkit.models.icons.draw import LOOKS
from palmkit.models.icons.network import restored
from palmkit.models.icons.shapes import CLASSES
from palmkit.models.training.export import export_onnx

VERSION = "1.0"
LICENCE = "Apache-2.0"


def describe(name: str, size: int) -> dict[str, str]:
    """Return the model file's metadata.

    size: of the pictures.
    """
    return {
        "name": name,
        "version": VERSION,
        "licence": LICENCE,
        "input": f"image: float32[1, 3, {size}, {size}], RGB 0..255",
        "outputs": "logits: float32[1, classes]",
        "labels": "\n".join(CLASSES),
        "data": "drawn by models/icons/draw.py",
    }


def networks(weights: Path) -> dict[str, dict[str, Array]]:
    """Return the arrays of each network in an .npz file, by its name."""
    found: dict[str, dict[str, Array]] = {}
    with np.load(weights) as arrays:
        for key in arrays.files:
            name, part = key.split("/", 1)
            found.setdefault(name, {})[part] = arrays[key]
    return found


def as_graph(arrays: Mapping[str, Array], name: str, size: int, folder: Path) -> Graph:
    """Return the network of folded weights for pictures of a size, by way of ONNX in a folder."""
    from palmkit.engine import convert

    network = restored(arrays)
    onnx = folder / f"{name}.onnx"
    export_onnx(network, torch.zeros(1, 3, size, size), ["logits"], onnx)
    graph = convert(onnx)
    onnx.unlink()
    return replace(graph, metadata=describe(name, size))


def with_short_names(graph: Graph) -> Graph:
    """Return the graph with numbers for names, except for inputs and outputs."""
    kept = {"", *graph.inputs, *graph.outputs}
    names = {name: name for name in kept}
    for name in [*graph.constants, *(name for node in graph.nodes for name in node.outputs)]:
        names.setdefault(name, str(len(names) - len(kept)))
    nodes = tuple(
        Node(
            node.op,
            tuple(names[each] for each in node.inputs),
            tuple(names[each] for each in node.outputs),
            node.attrs,
        )
        for node in graph.nodes
    )
    return graph.with_nodes(nodes, {names[key]: value for key, value in graph.constants.items()})


def compact(graph: Graph) -> Graph:
    """Return the graph without what the file does not need; biases are rounded to float16."""
    graph = remove_unread(graph)
    constants = dict(graph.constants)
    for name, value in constants.items():
        if value.ndim == 1 and value.dtype == np.float32:
            constants[name] = value.astype(np.float16).astype(np.float32)
            constants[name].flags.writeable = False
    return with_short_names(replace(graph, constants=constants))


def export(weights: Path, out: Path, look: str = "plain") -> dict[str, Path]:
    """Write every network's file; return them by name, the float one first.

    look: the look of its training pictures, one of LOOKS.
    """
    from palmkit.engine import save

    out.mkdir(parents=True, exist_ok=True)
    written: dict[str, Path] = {}
    groups = [weights / f"{group}.npz" for group in ("float", "baseline", "ours")]
    for path in groups:
        for name, arrays in networks(path).items():
            graph = as_graph(arrays, name, LOOKS[look].size, out)
            written[name] = out / f"{name}.palm"
            if path == groups[0]:
                save(graph, written[name], shapes=())
            else:
                save(compact(graph), written[name], weights="smallest", shapes=())
    return written


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="export the networks of icons")
    parser.add_argument("weights", type=Path, help="folder of float.npz, baseline.npz, ours.npz")
    parser.add_argument("out", type=Path, help="folder that takes the files")
    parser.add_argument("--look", choices=tuple(LOOKS), default="plain")
    options = parser.parse_args(None if arguments is None else list(arguments))
    for name, path in export(options.weights, options.out, options.look).items():
        print(f"{name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
