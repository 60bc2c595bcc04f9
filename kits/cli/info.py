"""palmkit info: what is in a model file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from palmkit.kits.cli import model_files, plan
from palmkit.kits.cli.command import Commands, UsageError, add_command

if TYPE_CHECKING:
    from palmkit.engine.ir import Dim, Graph
    from palmkit.engine.summary import Summary

DESCRIPTION = """\
Show what is in a model: inputs, outputs, operators, sizes, and what one run of it takes.

parameters    elements of the weights
MACs          multiply-accumulates of convolutions, matrix products and recurrent layers
activations   memory for the values between the nodes, as backend cpu plans it
The last two are of one run: a model with open sizes has them for given ones, --input-shape
1x3x480x640, or for a batch of 1 if nothing else is open.

--plan shows what backend cpu does, step by step: the kernel, and of which branch it is where two
threads (--threads 2) take one each; its algorithm, and whether the cost
model chose it, or timing on this machine (--tune); the shapes of what it reads and writes; what
the cost model expects of one thread; where in the arena the output lies, = before the offset if it
is written over an input.
"""
EXAMPLES = """\
  palmkit info detector.palm
  palmkit info detector.onnx --json
  palmkit info detector.onnx --input-shape 1x3x480x640     MACs and memory at that size
  palmkit info detector.tflite --graph                     every node, one a line
  palmkit info detector.palm --plan                        every step of a run
  palmkit info detector.palm --plan -o plan.html           the memory that it takes, drawn
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "info",
        run,
        help="show what is in a model file, and what it takes to run",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("model", metavar="FILE", help=model_files.FILES)
    model_files.add_shapes(parser)
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--graph", action="store_true", help="the whole graph as text")
    form.add_argument("--plan", action="store_true", help="what runs, in which order and memory")
    plan.add_options(parser)
    model_files.add_source_options(parser)


def run(options: argparse.Namespace) -> int:
    """Show one model."""
    from palmkit.engine.format.encodings import stored_bytes
    from palmkit.engine.shapes import with_input_shapes
    from palmkit.engine.summary import summarise

    if options.graph and options.json:
        raise UsageError("--graph and --json: expected one of them")
    plan.check_options(options)
    graph = model_files.read(options)
    if options.graph:
        print(graph)
        return 0
    batches = _open_batches(graph)
    if options.plan:
        plan.show(options, with_input_shapes(graph, batches) if batches else graph)
        return 0
    facts = _facts(options.model, summarise(graph))
    if batches:
        of_one = summarise(with_input_shapes(graph, batches))
        facts |= {"macs": of_one.macs, "activation_bytes": of_one.activation_bytes}
        facts["integer_macs"] = of_one.integer_macs
        facts |= {"uncounted_nodes": of_one.uncounted, "batch": 1}
    path = Path(options.model)
    if path.is_file() and (stored := stored_bytes(path)):
        facts["weights_bytes"] = stored
    if options.json:
        print(json.dumps(facts))
    else:
        _print(facts)
    return 0


def _open_batches(graph: Graph) -> dict[str, tuple[Dim, ...]]:
    """Return shapes with a batch of 1 if only first dims are open; else none."""
    shapes = {
        name: (1, *type.shape[1:])
        for name, type in graph.inputs.items()
        if not type.is_static and type.has_rank
    }
    dims = [dim for shape in shapes.values() for dim in shape]
    return {} if any(isinstance(dim, str) for dim in dims) else dict(shapes)


def _facts(file: str, summary: Summary) -> dict[str, Any]:
    path = Path(file)
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return {
        "file": file,
        "size_bytes": sum(each.stat().st_size for each in files),
        "inputs": {name: str(type) for name, type in summary.inputs.items()},
        "outputs": {name: str(type) for name, type in summary.outputs.items()},
        "metadata": dict(summary.metadata),
        "nodes": summary.nodes,
        "ops": dict(summary.ops),
        "parameters": summary.parameters,
        "weights_bytes": dict(summary.weights),
        "macs": summary.macs,
        "uncounted_nodes": summary.uncounted,
        "integer_macs": summary.integer_macs,
        "activation_bytes": summary.activation_bytes,
    }


def _print(facts: dict[str, Any]) -> None:
    macs, uncounted = facts["macs"], facts["uncounted_nodes"]
    if macs is None:
        counted = "unknown: sizes are open, see --input-shape"
    else:
        counted = f"{_short(macs)}  ({macs:,})"
        counted += ", for a batch of 1" if "batch" in facts else ""
        counted += f", without {uncounted} nodes that only a run can tell" if uncounted else ""
    activations = facts["activation_bytes"]
    integers = facts["integer_macs"]
    if macs and integers:
        counted += f", {integers / macs:.1%} of them in int8"
    lines = {
        "file": f"{facts['file']}  {_size(facts['size_bytes'])}",
        "parameters": f"{_short(facts['parameters'])}  ({facts['parameters']:,})",
        "weights": ", ".join(f"{_size(n)} {kind}" for kind, n in facts["weights_bytes"].items()),
        "MACs": counted,
        "activations": "unknown" if activations is None else _size(activations),
    }
    for key, value in lines.items():
        print(f"{key:12} {value or 'none'}")
    for key in ("inputs", "outputs", "metadata", "ops"):
        entries = facts[key]
        title = f"{facts['nodes']} nodes" if key == "ops" else key
        print(f"\n{title}" if entries else f"\n{title}: none")
        width = max(map(len, entries), default=0)
        for name, value in entries.items():
            print(f"  {name:{width}}  {shorten(str(value), 120)}")


def _short(count: int) -> str:
    """Return the count with three or four digits and a unit of a power of a thousand."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return str(count)


def _size(size_bytes: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= size:
            return f"{size_bytes / size:.4g} {unit}"
    return f"{size_bytes} bytes"
