"""palmkit show: draw a model."""

from __future__ import annotations

import argparse
from pathlib import Path

from palmkit.kits.cli import model_files
from palmkit.kits.cli.command import Commands, UsageError, add_command, write_whole

DESCRIPTION = """\
Draw a model: a box for each node with its operator, name, attributes, weights and output type, and
lines with shapes. Point at a box or a line to see all there is to know of it.

.svg    a picture for browsers and documents
.html   the same, to move in: drag or scroll, zoom with Ctrl and the wheel
.dot    for Graphviz
"""
EXAMPLES = """\
  palmkit show detector.palm -o detector.svg
  palmkit show detector.onnx -o detector.html --input-shape 1x3x480x640
  palmkit show detector.tflite -o detector.svg --optimised     what runs, and in which code
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "show",
        run,
        help="draw a model",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("model", metavar="FILE", help=model_files.FILES)
    parser.add_argument(
        "-o", "--output", required=True, metavar="OUT.svg", help="file to write: .svg, .html, .dot"
    )
    parser.add_argument(
        "--optimised",
        action="store_true",
        help="after the graph passes, as backend cpu runs it, and which nodes run in numpy",
    )
    model_files.add_shapes(parser)
    model_files.add_source_options(parser)


def run(options: argparse.Namespace) -> int:
    """Draw one model."""
    from palmkit.engine.drawing import FORMATS, describe
    from palmkit.engine.operators import numpy_nodes
    from palmkit.engine.passes import optimise

    target = Path(options.output)
    draw = FORMATS.get(target.suffix.lower())
    if draw is None:
        endings = ", ".join(FORMATS)
        raise UsageError(f"-o: expected a name that ends with {endings}, got {options.output!r}")
    graph = model_files.read(options)
    in_numpy = None
    if options.optimised:
        graph = optimise(graph)
        in_numpy = numpy_nodes(graph)
    sections = describe(graph, Path(options.model).name, in_numpy)
    subtitle = f"{len(graph.nodes)} nodes"
    if in_numpy is not None:
        native = len(graph.nodes) - len(in_numpy)
        subtitle += f" after optimisation, {native} of them native"
    write_whole(target, draw(sections, subtitle))
    print(f"{options.output}: {subtitle}")
    return 0
