"""palmkit bench: how long a model takes on this machine."""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from statistics import median

from palmkit.engine.bench import SIDE, open_dims, random_inputs
from palmkit.engine.ir import Type
from palmkit.engine.model import Model
from palmkit.kits.cli.command import Commands, add_command, complain

EXAMPLES = """\
  palmkit bench detector.palm
  palmkit bench detector.onnx --threads 2 --dim height=480 --dim width=640
  palmkit bench detector.tflite --json
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "bench",
        run,
        help="time a model on this machine",
        description="Time a model on random input, and its operators.",
        examples=EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help=".palm, .onnx or .tflite file")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads used (1)")
    parser.add_argument("--runs", type=int, default=50, metavar="N", help="timed runs (50)")
    parser.add_argument("--backend", default="cpu", help="cpu or reference (cpu)")
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        type=_size,
        metavar="NAME=N",
        help=f"size of a dim that the model leaves open (1 for a batch, else {SIDE})",
    )
    parser.add_argument("--json", action="store_true", help="as one JSON object")


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not number.isdigit() or int(number) < 1:
        raise argparse.ArgumentTypeError(f"expected NAME=N with N at least 1, got {text!r}")
    return name, int(number)


def run(options: argparse.Namespace) -> int:
    """Time one model."""
    from palmkit import engine

    if options.runs < 1:
        options.usage_error(f"--runs: expected at least 1, got {options.runs}")
    try:
        model = engine.load(options.model, backend=options.backend, threads=options.threads)
    except (engine.PalmError, OSError, ImportError) as error:
        complain(error)
        return 1
    except ValueError as error:
        options.usage_error(str(error))
        raise
    sizes = open_dims(model.inputs)
    for name, size in options.dim:
        if name not in sizes:
            known = ", ".join(sizes) or "none"
            options.usage_error(f"--dim: the model leaves no such dim open ({known}): {name}")
        sizes[name] = size
    try:
        times = _time(model, sizes, options.runs)
    except engine.PalmError as error:
        complain(error)
        return 1
    if options.json:
        print(json.dumps({"file": options.model, "threads": options.threads, **asdict(times)}))
        return 0
    print(f"{options.model}: {', '.join(f'{k} {v}' for k, v in times.inputs.items())}")
    print(f"{times.min_ms:.3f} ms at best, {times.median_ms:.3f} ms median of {options.runs} runs")
    for op, op_ms in sorted(times.ops_ms.items(), key=lambda item: -item[1]):
        print(f"  {op:24} {op_ms:9.3f} ms")
    return 0


@dataclass(frozen=True)
class Times:
    """What was run, and how long it took; ops_ms: the nodes of each op together, one run."""

    inputs: dict[str, str]
    min_ms: float
    median_ms: float
    ops_ms: dict[str, float]


def _time(model: Model, sizes: dict[str, int], runs: int) -> Times:
    inputs = random_inputs(model.inputs, sizes)
    model.run(inputs)
    taken_ms: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        model.run(inputs)
        taken_ms.append((time.perf_counter() - start) * 1e3)
    ops_ms: dict[str, float] = defaultdict(float)
    for step in model.profile(inputs, min(runs, 10)):
        ops_ms[step.op] += step.seconds * 1e3
    types = {name: str(Type.of(array)) for name, array in inputs.items()}
    return Times(types, min(taken_ms), median(taken_ms), dict(ops_ms))
