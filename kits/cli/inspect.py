"""palmkit inspect: what is in a model file."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from palmkit.kits.cli.command import Commands, add_command, complain

EXAMPLES = """\
  palmkit inspect detector.palm
  palmkit inspect detector.onnx --json
  palmkit inspect detector.tflite --graph       every node, one a line
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "inspect",
        run,
        help="show what is in a model file",
        description="Show a model's inputs, outputs, metadata and operators.",
        examples=EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help=".palm, .onnx or .tflite file")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as one JSON object")
    form.add_argument("--graph", action="store_true", help="the whole graph as text")


def run(options: argparse.Namespace) -> int:
    """Show one model."""
    from palmkit import engine

    try:
        graph = engine.convert(options.model)
    except (engine.PalmError, OSError, ImportError) as error:
        complain(error)
        return 1
    if options.graph:
        print(graph)
        return 0
    ops = Counter(node.op for node in graph.nodes)
    facts: dict[str, str | int | dict[str, str] | dict[str, int]] = {
        "file": options.model,
        "size_bytes": Path(options.model).stat().st_size,
        "parameters": sum(
            int(value.size) for value in graph.constants.values() if value.dtype.kind == "f"
        ),
        "inputs": {name: str(type) for name, type in graph.inputs.items()},
        "outputs": {name: str(type) for name, type in graph.outputs.items()},
        "metadata": dict(graph.metadata),
        "nodes": len(graph.nodes),
        "ops": dict(ops.most_common()),
    }
    if options.json:
        print(json.dumps(facts))
        return 0
    for name, value in facts.items():
        if isinstance(value, dict):
            print(f"{name}:" if value else f"{name}: none")
            width = max(map(len, value), default=0)
            print("".join(f"  {key:{width}}  {each}\n" for key, each in value.items()), end="")
        else:
            print(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")
    return 0
