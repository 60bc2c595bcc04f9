"""palmkit bench: how long a model takes on this machine."""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from statistics import median

from palmkit.engine.bench import SIDE, open_dims, random_inputs
from palmkit.engine.errors import PalmError
from palmkit.engine.ir import Type
from palmkit.engine.model import Model
from palmkit.kits.cli import models
from palmkit.kits.cli.command import Commands, UsageError, add_command

EXAMPLES = """\
  palmkit bench detector.palm
  palmkit bench detector.onnx --threads 2 --input-shape 1x3x480x640
  palmkit bench detector.tflite --json
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "bench",
        run,
        help="time a model on this machine",
        description=f"""\
Time a model on random input, and its operators: milliseconds at best, in the middle, and each
operator's share. Dims that stay open are 1 for a batch, else {SIDE}.
""",
        examples=EXAMPLES,
    )
    parser.add_argument("model", metavar="FILE", help=models.FILES)
    models.add_shapes(parser)
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads used (1)")
    parser.add_argument("--runs", type=int, default=50, metavar="N", help="timed runs (50)")
    parser.add_argument("--backend", default="cpu", help="cpu or reference (cpu)")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    models.add_source_options(parser)


def run(options: argparse.Namespace) -> int:
    """Time one model."""
    if options.runs < 1:
        raise UsageError(f"--runs: expected at least 1, got {options.runs}")
    graph = models.read(options)
    try:
        model = Model(graph, backend=options.backend, threads=options.threads)
    except PalmError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from None
    times = _time(model, open_dims(model.inputs), options.runs)
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
