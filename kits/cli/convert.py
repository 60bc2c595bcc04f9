"""palmkit convert: a model of another kind to .palm."""

from __future__ import annotations

import argparse
from pathlib import Path

from palmkit.kits.cli.command import Commands, add_command, complain

EXAMPLES = """\
  palmkit convert detector.onnx -o detector.palm
  palmkit convert detector.tflite -o detector.palm --weights float16
  palmkit convert detector.onnx -o detector.palm --metadata threshold=0.6
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "convert",
        run,
        help="turn an .onnx or .tflite model into .palm",
        description="Turn an ONNX or TFLite model into PalmKit's own format.",
        examples=EXAMPLES,
    )
    parser.add_argument("source", metavar="SOURCE", help=".onnx (extra onnx) or .tflite (tflite)")
    parser.add_argument("-o", "--output", metavar="OUT.palm", required=True, help="file to write")
    parser.add_argument(
        "--weights",
        choices=("auto", "float32", "float16"),
        default="auto",
        help="how weights are stored; auto: float16 where that loses nothing (auto)",
    )
    parser.add_argument(
        "--metadata",
        action="append",
        default=[],
        type=_entry,
        metavar="KEY=VALUE",
        help="say something of the model in its file; may be repeated",
    )


def _entry(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    return key, value


def run(options: argparse.Namespace) -> int:
    """Convert one model."""
    from dataclasses import replace

    from palmkit import engine

    if Path(options.output).suffix.lower() != ".palm":
        options.usage_error(f"-o: expected a name that ends with .palm, got {options.output!r}")
    try:
        graph = engine.convert(options.source)
        graph = replace(graph, metadata={**graph.metadata, **dict(options.metadata)})
        engine.save(graph, options.output, options.weights)
    except (engine.PalmError, OSError, ImportError) as error:
        complain(error)
        return 1
    size_bytes = Path(options.output).stat().st_size
    print(f"{options.output}: {len(graph.nodes)} nodes, {size_bytes:,} bytes")
    return 0
