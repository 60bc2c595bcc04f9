"""palmkit convert: a model of another kind to .palm."""

from __future__ import annotations

import argparse
from pathlib import Path

from palmkit.kits.cli import model_files
from palmkit.kits.cli.command import Commands, UsageError, add_command, progress_bar

DESCRIPTION = f"""\
Turn a model of another kind into PalmKit's own format, exactly: inputs and outputs keep their
names and layouts. Operators that have no rule are listed all at once, and nothing is written.
`palmkit check` compares the result with the source. With an OUT that ends with .onnx, any model
that can be read becomes ONNX, for other engines, as far as ONNX has the operators.

{model_files.EXTRAS}"""
EXAMPLES = """\
  palmkit convert detector.onnx -o detector.palm
  palmkit convert detector.tflite -o detector.palm --fp16         half the size, weights rounded
  palmkit convert net.onnx -o net.palm --input-shape 1x3x320x320
  palmkit convert net.onnx -o net.palm --input-shape image=1x3xheightxwidth --input-shape k=1
  palmkit convert net.prototxt --weights net.caffemodel -o net.palm
  palmkit convert saved_model/ -o net.palm --signature serving_default
  palmkit convert net.onnx -o net.palm --metadata licence=Apache-2.0
  palmkit convert net.tflite -o net.onnx                          for other engines
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "convert",
        run,
        help="turn an ONNX, TFLite, TensorFlow or Caffe model into .palm, or into ONNX",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("model", metavar="IN", help=model_files.FILES)
    parser.add_argument(
        "-o", "--output", metavar="OUT", required=True, help="file to write: .palm or .onnx"
    )
    model_files.add_shapes(parser)
    parser.add_argument(
        "--fp16",
        action="store_true",
        help="store weights as float16, rounded (only where that loses nothing)",
    )
    parser.add_argument(
        "--metadata",
        action="append",
        default=[],
        type=_entry,
        metavar="KEY=VALUE",
        help="say something of the model in its file; may be repeated",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    model_files.add_source_options(parser)


def _entry(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    return key, value


def run(options: argparse.Namespace) -> int:
    """Convert one model."""
    from dataclasses import replace

    from palmkit import engine

    target = Path(options.output)
    if target.suffix.lower() not in (".palm", ".onnx"):
        raise UsageError(
            f"-o: expected a name that ends with .palm or .onnx, got {options.output!r}"
        )
    if options.fp16 and target.suffix.lower() != ".palm":
        raise UsageError("--fp16: for .palm only")
    if target.resolve() == Path(options.model).resolve():
        raise UsageError(f"-o: would overwrite the source: {options.output}")
    with progress_bar(2, "step", options.quiet) as bar:
        bar.set_description("read")
        graph = model_files.read(options)
        bar.update()
        bar.set_description("write")
        graph = replace(graph, metadata={**graph.metadata, **dict(options.metadata)})
        target.parent.mkdir(parents=True, exist_ok=True)
        engine.save(graph, target, "float16" if options.fp16 else "auto")
        bar.update()
    if not options.quiet:
        size_bytes = target.stat().st_size
        print(f"{options.output}: {len(graph.nodes)} nodes, {size_bytes:,} bytes")
    return 0
