"""A model in the forms that the engines read."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from palmkit.engine.bench.comparison import Subject
from palmkit.engine.bench.inputs import open_dims, random_inputs
from palmkit.engine.errors import PalmError
from palmkit.engine.files import save
from palmkit.engine.ir import Graph
from palmkit.engine.shapes import with_input_shapes
from palmkit.engine.summary import is_quantized, summarise

_MOVERS = ("transpose", "reshape", "squeeze", "unsqueeze", "flatten", "identity")
_FOREIGN = {".onnx": "onnx", ".tflite": "tflite"}
# What torch.export.save writes, beside the model.
_EXPORTED = ".pt2"


@contextmanager
def subject(path: Path, graph: Graph) -> Generator[Subject, None, None]:
    """Yield the model for a comparison, on random inputs; its files are removed afterwards.

    path: the model's file; graph: the graph read from it, with the desired input shapes. Open sizes
    become 1 for a batch, else 320.
    """
    sizes = open_dims(graph.inputs)
    fixed = {
        name: [dim if isinstance(dim, int) else sizes[dim] for dim in type.shape]
        for name, type in graph.inputs.items()
        if not type.is_static
    }
    if fixed:
        graph = with_input_shapes(graph, fixed)
    files: dict[str, Path] = {}
    missing: dict[str, str] = {}
    if form := _FOREIGN.get(path.suffix.lower()):
        files[form] = path
    if (exported := path.with_suffix(_EXPORTED)).is_file():
        files["pt2"] = exported
    else:
        missing["pt2"] = f"there is no {exported.name} beside the model"
    with tempfile.TemporaryDirectory(prefix="palmkit-bench-") as folder:
        files["palm"] = Path(folder) / "model.palm"
        save(graph, files["palm"])
        if "onnx" not in files:
            target = Path(folder) / "model.onnx"
            try:
                save(graph, target)
                files["onnx"] = target
            except PalmError as error:
                missing["onnx"] = f"the model as ONNX: {error}"
        yield Subject(
            name=path.name,
            files=files,
            inputs=random_inputs(graph.inputs, sizes),
            outputs=tuple(graph.outputs),
            macs=summarise(graph).macs,
            missing=missing,
            is_quantized=is_quantized(graph),
            spans={name: span for name in graph.outputs if (span := _span(graph, name))},
        )


def _span(graph: Graph, name: str) -> float:
    """Return the largest distance between levels of an output; 0 if it is not made from bytes."""
    producers = {output: node for node in graph.nodes for output in node.outputs}
    while (node := producers.get(name)) is not None and node.op in _MOVERS:
        name = node.inputs[0]
    if node is None or node.op != "dequantize_linear" or node.inputs[1] not in graph.constants:
        return 0.0
    return 255 * float(graph.constants[node.inputs[1]].max(initial=0))
