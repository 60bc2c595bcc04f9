"""Shared parts of the commands about model files: the file, and input shapes."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from palmkit.kits.cli.command import UsageError

if TYPE_CHECKING:
    from palmkit.engine.ir import Dim, Graph

FILES = ".palm, .onnx, .tflite, .pb, .prototxt, .caffemodel, LightGBM's text or a SavedModel folder"
EXTRAS = """\
.onnx, .tflite, TensorFlow and Caffe models are read with libraries that come as extras:
pip install "palmkit[onnx]", "palmkit[tflite]", "palmkit[tensorflow]", "palmkit[caffe]"
"""

_DIM = re.compile(r"[0-9]{1,19}|\?|[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)


def add_shapes(parser: argparse.ArgumentParser) -> None:
    """Add --input-shape, which may be given for every input."""
    parser.add_argument(
        "--input-shape",
        dest="input_shapes",
        action="append",
        default=[],
        type=_shape,
        metavar="[NAME=]1x3x224x224",
        help="shape of an input; a dim may be a name, or ? for any size; with commas, too: "
        "1,3,height,width; the name may be left out if there is one input; may be repeated",
    )


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Add what some formats need besides the file."""
    group = parser.add_argument_group("other formats")
    group.add_argument(
        "--weights",
        metavar="FILE",
        help="of a Caffe .prototxt: its .caffemodel (the one that lies beside it)",
    )
    group.add_argument(
        "--signature", metavar="NAME", help="of a TensorFlow SavedModel (serving_default)"
    )


def _shape(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, shape = text.rpartition("=")
    dims = tuple(shape.split("," if "," in shape else "x")) if shape else ()
    for dim in dims:
        if not _DIM.fullmatch(dim.strip()):
            raise argparse.ArgumentTypeError(
                f"expected numbers, names or ? with x or commas between, like image=1x3x224x224, "
                f"got {text!r}"
            )
    return name, tuple(dim.strip() for dim in dims)


def _shapes(options: argparse.Namespace, graph: Graph) -> dict[str, tuple[Dim, ...]]:
    """Return the shapes given, by input.

    Raises UsageError if a name is missing, unknown or given twice.
    """
    shapes: dict[str, tuple[Dim, ...]] = {}
    for name, dims in options.input_shapes:
        if not name and len(graph.inputs) == 1:
            name = next(iter(graph.inputs))
        if name not in graph.inputs:
            inputs = ", ".join(graph.inputs)
            wrong = f"no input {name!r}" if name else "which input"
            raise UsageError(f"--input-shape: {wrong}; the model's inputs: {inputs}")
        if name in shapes:
            raise UsageError(f"--input-shape: given twice for the input {name}")
        shapes[name] = tuple(
            int(dim) if dim.isdigit() else f"{name}_{axis}" if dim == "?" else dim
            for axis, dim in enumerate(dims)
        )
    return shapes


def read(options: argparse.Namespace, path: str | None = None) -> Graph:
    """Return the model of the arguments, with the input shapes that were given.

    Raises PalmError, OSError or ImportError if it cannot be read or cannot have these shapes.
    """
    from palmkit import engine

    given = {"weights": options.weights, "signature": options.signature}
    try:
        graph = engine.convert(options.model if path is None else path, **given)
    except engine.PalmError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from None
    return shaped(options, graph)


def shaped(options: argparse.Namespace, graph: Graph) -> Graph:
    """Return the graph with the given input shapes; raise ShapeError if it cannot have them."""
    from palmkit.engine.shapes import with_input_shapes

    shapes = _shapes(options, graph)
    return with_input_shapes(graph, shapes) if shapes else graph
