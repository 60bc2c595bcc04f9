"""palmkit bench: how long a model takes on this machine, here and in other engines."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmkit.kits.cli import model_files
from palmkit.kits.cli.command import (
    Commands,
    UsageError,
    above_bars,
    add_command,
    progress_bar,
)
from palmkit.kits.table import of_pictures

if TYPE_CHECKING:
    from palmkit.engine.bench.comparison import Comparison, Schedule
    from palmkit.engine.bench.nodes import Alone
    from palmkit.engine.ir import Graph

DESCRIPTION = """\
Time models on random input. Alone: milliseconds at best, in the middle and for 95 of 100 runs,
GFLOP/s, the share of what this machine can do at most, and where the time goes; --ops says it node
by node. Dims that stay open are 1 for a batch, else 320.

With --against also in other engines, where they are installed: pip install "palmkit[bench]".

ort        ONNX Runtime    openvino   OpenVINO    litert    LiteRT
ncnn       ncnn            mnn        MNN         opencv    OpenCV's dnn

With --backend gpu they are those that run on a GPU: ncnn, by Vulkan, and pytorch, in a CUDA graph,
which reads FILE.pt2 beside FILE.onnx, as torch.export.save writes it.

How it is made fair: each engine has a process of its own; they take turns, A B C A B C, and who has
no turn is stopped, spinning threads and all. A run writes the inputs and reads the outputs. All
compute in float32 (--precision low: in the least that each has; how far the outputs are from ours
in float32 is printed). Outputs are compared with ours: an engine that computes something else is
left out, and the reason is printed, as it is for one that cannot read a model. Engines that cannot
read a model's format get it through ONNX.

load       from opening the file to the first results, in a fresh process that has the library
memory     what that, and four runs, added to the process (Linux)
ratio      the best peer's time, load or memory over ours: above 1 we are better
GFLOP/s    two operations a multiply-accumulate of the network as it was written, our fastest run;
           "of peak": of the float32 multiply-adds on registers that this machine was measured at
           (Winograd computes with fewer and low precision faster: both may pass 100 %)

--kits times the kits instead: from a decoded frame of 640x480 to the result, with the options a kit
has by default, beside MediaPipe where it is installed (mediapipe 0.10.14 has the solutions that are
compared). Each runs on as many cores as --threads. MODEL is then a picture, with something to find.

Our own engine reads .palm, its format. What ncnn's and MNN's converters make is kept in the user's
cache folder, ~/.cache/palmkit/bench ($PALMKIT_CACHE_HOME/bench).
"""
EXAMPLES = """\
  palmkit bench detector.palm
  palmkit bench detector.onnx --ops --input-shape 1x3x480x640
  palmkit bench detector.tflite --threads 2 --json
  palmkit bench *.onnx --against all
  palmkit bench a.tflite b.onnx --against ort,openvino,litert --threads 1,2 -o report.html
  palmkit bench detector.onnx --against openvino --precision low
  palmkit bench detector.onnx --backend gpu --against ncnn,pytorch
  palmkit bench --kits face,mesh,portrait portrait.jpg
"""
# Larger numbers are taken for a typing error.
MOST_RUNS = 10**6
MOST_S = 86_400


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "bench",
        run,
        help="time models on this machine, also beside other engines",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("models", nargs="+", metavar="FILE", help=model_files.FILES)
    model_files.add_shapes(parser)
    parser.add_argument(
        "--threads",
        type=_counts,
        default=(1,),
        metavar="N[,N]",
        help="threads of one run (1); several, one after the other: 1,2",
    )
    parser.add_argument(
        "--precision",
        choices=("high", "low"),
        default="high",
        help="high: float32; low: the least that an engine has, such as bf16 (high)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a measurement")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    alone = parser.add_argument_group("alone")
    alone.add_argument("--ops", action="store_true", help="the time of each node")
    alone.add_argument(
        "--tune", action="store_true", help="as load's tune: with the algorithms timed first"
    )
    alone.add_argument("--runs", type=int, default=50, metavar="N", help="timed runs (50)")
    alone.add_argument(
        "--backend",
        default="cpu",
        metavar="NAME",
        help="of the engine, see palmkit.engine.load (cpu)",
    )
    beside = parser.add_argument_group("beside others")
    beside.add_argument(
        "--against",
        type=_engines,
        metavar="ENGINE[,ENGINE]",
        help="ort, openvino, litert, ncnn, mnn, opencv, pytorch, or all",
    )
    beside.add_argument(
        "-o", "--output", metavar="OUT", help="write a report: .html with plots, .md two tables"
    )
    beside.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="timed runs of each engine (2)"
    )
    beside.add_argument("--turns", type=int, default=20, metavar="N", help="in so many turns (20)")
    beside.add_argument(
        "--loads", type=int, default=3, metavar="N", help="fresh processes that load (3)"
    )
    kits = parser.add_argument_group("kits")
    kits.add_argument(
        "--kits",
        type=_jobs,
        metavar="JOB[,JOB]",
        help=f"{', '.join(of_pictures())}; ..._once: one pass for two; ..._video: a video; or all",
    )
    model_files.add_source_options(parser)


def _counts(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(each) for each in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers like 1,2, got {text!r}") from None


def _engines(text: str) -> tuple[str, ...]:
    from palmkit.engine.bench.engines import PEERS

    names = PEERS if text == "all" else tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(
                f"expected some of {', '.join(PEERS)}, or all, got {name!r}"
            )
    return names


def _jobs(text: str) -> tuple[str, ...]:
    from palmkit.kits.bench.jobs import JOBS

    names = tuple(JOBS) if text == "all" else tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in JOBS:
            raise argparse.ArgumentTypeError(
                f"expected some of {', '.join(JOBS)}, or all, got {name!r}"
            )
    return names


def run(options: argparse.Namespace) -> int:
    """Time the models."""
    for name in ("runs", "turns", "loads"):
        if not 1 <= (count := getattr(options, name)) <= MOST_RUNS:
            raise UsageError(f"--{name}: expected 1 to {MOST_RUNS:,}, got {count}")
    if not 0 < options.seconds <= MOST_S:
        raise UsageError(
            f"--seconds: expected more than 0, at most {MOST_S}, got {options.seconds}"
        )
    if min(options.threads) < 1:
        raise UsageError(f"--threads: expected at least 1, got {min(options.threads)}")
    if options.kits is not None:
        return _kits(options)
    if options.against is None and options.output is None:
        return _alone(options)
    if options.ops:
        raise UsageError("--ops: times our engine alone, without --against and -o")
    if options.tune:
        raise UsageError("--tune: times our engine alone, without --against and -o")
    if options.backend != "cpu" and options.backend.partition(":")[0] != "gpu":
        raise UsageError("--backend: beside others, with --against and -o, it is cpu or gpu")
    if options.output is not None and Path(options.output).suffix.lower() not in (".html", ".md"):
        raise UsageError(f"-o: expected a name that ends with .html or .md, got {options.output!r}")
    return _beside(options)


def _read(options: argparse.Namespace) -> list[tuple[str, Graph]]:
    """Read all models first, so that one that cannot be read ends it before anything is timed."""
    return [(path, model_files.read(options, path)) for path in options.models]


def _alone(options: argparse.Namespace) -> int:
    from palmkit.engine.bench.inputs import open_dims
    from palmkit.engine.bench.nodes import time_alone
    from palmkit.engine.bench.peak import peak_flops
    from palmkit.engine.errors import PalmError
    from palmkit.engine.model import Model

    graphs = _read(options)
    with progress_bar(
        len(graphs) * len(options.threads) * options.runs, "run", options.quiet
    ) as bar:
        for path, graph in graphs:
            for threads in options.threads:
                asked = (options.backend, threads, options.precision, options.tune)
                try:
                    model = Model(graph, *asked)
                except PalmError:
                    raise
                except ValueError as error:
                    raise UsageError(str(error)) from None
                bar.set_description(Path(path).name)
                found = time_alone(
                    model, open_dims(model.inputs), options.runs, lambda done: bar.update()
                )
                # It is of the CPU's cores.
                peak = peak_flops(threads) if options.backend == "cpu" else None
                with above_bars():
                    _print_alone(options, path, threads, model.devices, found, peak)
    return 0


def _print_alone(
    options: argparse.Namespace,
    path: str,
    threads: int,
    devices: tuple[str, ...],
    found: Alone,
    peak: float | None,
) -> None:
    from dataclasses import asdict

    times = found.times
    achieved = 2 * found.macs / (times.min_ms * 1e-3) if found.macs else None
    if options.json:
        facts: dict[str, Any] = {
            "file": path,
            "devices": devices,
            "threads": threads,
            "precision": options.precision,
            "tune": options.tune,
            "inputs": found.inputs,
            **asdict(times),
            "macs": found.macs,
            "flops_per_s": achieved,
            "peak_flops_per_s": peak,
            "ops_ms": found.ops_ms,
        }
        if options.ops:
            facts["nodes"] = [asdict(node) for node in found.nodes]
        print(json.dumps(facts))
        return
    of = f", {threads} threads" if threads > 1 else ""
    if options.backend != "cpu":
        of += f", on {' and '.join(devices)}"
    print(f"{path}: {', '.join(f'{k} {v}' for k, v in found.inputs.items())}{of}")
    print(
        f"{times.min_ms:.3f} ms at best, {times.median_ms:.3f} ms median, "
        f"{times.p95_ms:.3f} ms p95 of {times.runs} runs"
    )
    if achieved:
        share = f", {achieved / peak:.0%} of this machine's {peak * 1e-9:.0f}" if peak else ""
        print(f"{achieved * 1e-9:.1f} GFLOP/s{share}")
    if options.ops:
        for line in _node_lines(found):
            print(line)
        return
    total = sum(found.ops_ms.values()) or 1.0
    for op, op_ms in found.ops_ms.items():
        print(f"  {op:24} {op_ms:9.3f} ms {op_ms / total:6.1%}")


def _node_lines(found: Alone) -> list[str]:
    """Return a line a node, in running order."""
    rows = [("node", "op", "kernel", "ms", "share", "GFLOP/s")]
    for node in found.nodes:
        rate = f"{2e-6 * node.macs / node.ms:.1f}" if node.macs and node.ms else "-"
        name = node.node if len(node.node) <= 48 else f"...{node.node[-45:]}"
        rows.append((name, node.op, node.kernels, f"{node.ms:.4f}", f"{node.share:.1%}", rate))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return [
        "  ".join(
            f"{cell:{width}}" if column < 3 else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _beside(options: argparse.Namespace) -> int:
    from palmkit.engine.bench import table
    from palmkit.engine.bench.comparison import Schedule, compare, steps
    from palmkit.engine.bench.engines import OURS, PEERS, find, place_of
    from palmkit.engine.bench.peak import peak_flops
    from palmkit.engine.bench.subject import subject

    schedule = Schedule(options.seconds, options.turns, options.loads)
    peers: tuple[str, ...] = options.against or ()
    if peers == PEERS:
        peers = tuple(name for name in PEERS if place_of(options.backend) in find(name).places)
    names = (OURS, *peers)
    titles = {name: find(name).title for name in names}
    graphs = _read(options)
    is_cpu = place_of(options.backend) == "cpu"
    peaks = {threads: peak_flops(threads) if is_cpu else None for threads in options.threads}
    width = max(len(Path(path).name) for path, _ in graphs)
    comparisons: list[Comparison] = []
    total = len(graphs) * len(options.threads) * steps(len(names), schedule)
    with progress_bar(total, "step", options.quiet) as bar:
        for threads in options.threads:
            lines = table.Table(titles, width)
            if not options.json:
                with above_bars():
                    print(f"{threads} thread{'s' if threads > 1 else ''}\n{lines.head()}")
            for path, graph in graphs:
                name = Path(path).name

                def report(step: str, name: str = name) -> None:
                    bar.set_description(f"{name}: {step}", refresh=False)
                    bar.update()

                with subject(Path(path), graph) as each:
                    found = compare(
                        each,
                        names,
                        threads,
                        options.precision,
                        schedule,
                        report=report,
                        backend=options.backend,
                    )
                comparisons.append(found)
                with above_bars():
                    if options.json:
                        print(json.dumps(table.facts(found, peaks)), flush=True)
                    else:
                        print(lines.line(found, peaks[threads]), flush=True)
    _print_summary(options, comparisons, titles)
    if options.output is not None:
        _write_report(options, comparisons, titles, peaks, schedule)
    return 0 if all(each.ours for each in comparisons) else 1


def _print_summary(
    options: argparse.Namespace, comparisons: list[Comparison], titles: dict[str, str]
) -> None:
    from palmkit.engine.bench import table

    means, scaling = table.means(comparisons), table.scaling(comparisons)
    if options.json:
        print(json.dumps({"means": means, "scaling": scaling}))
        return
    first = [each for each in comparisons if each.threads == options.threads[0]]
    print()
    for line in table.loads(first, titles):
        print(line)
    print()
    for line in table.summary(means, scaling):
        print(line)
    for line in (*table.errors(comparisons), *table.refusals(comparisons, titles)):
        print(line)


def _write_report(
    options: argparse.Namespace,
    comparisons: list[Comparison],
    titles: dict[str, str],
    peaks: dict[int, float | None],
    schedule: Schedule,
) -> None:
    from palmkit.engine.bench.report import Method, write

    method = Method.of(schedule)
    write(Path(options.output), comparisons, titles, peaks, method, options.precision)
    if not options.json:
        print(f"\n{options.output}")


def _kits(options: argparse.Namespace) -> int:
    """Time the jobs on every picture."""
    from palmkit.engine.bench import table
    from palmkit.engine.bench.comparison import Schedule, steps
    from palmkit.kits.bench.jobs import JOBS, time_job
    from palmkit.kits.image import read_image

    for name in ("ops", "tune", "output"):
        if getattr(options, name):
            raise UsageError(f"--{name}: not with --kits")
    schedule = Schedule(options.seconds, options.turns, options.loads)
    pictures = [(Path(path).name, read_image(path)) for path in options.models]
    titles = {"palmkit": "PalmKit", "mediapipe": "MediaPipe"}
    width = max(len(JOBS[name].title) for name in options.kits)
    comparisons: list[Comparison] = []
    runs = len(pictures) * len(options.threads) * len(options.kits)
    with progress_bar(runs * steps(len(titles), schedule), "step", options.quiet) as bar:
        for file, picture in pictures:
            for threads in options.threads:
                lines = table.Table(titles, width)
                if not options.json:
                    with above_bars():
                        print(f"{file}, {threads} core{'s' if threads > 1 else ''}")
                        print(lines.head())
                for name in options.kits:
                    job = JOBS[name]

                    def report(step: str, title: str = job.title) -> None:
                        bar.set_description(f"{title}: {step}", refresh=False)
                        bar.update()

                    found = time_job(job, picture, threads, schedule, report=report)
                    comparisons.append(found)
                    with above_bars():
                        if options.json:
                            facts = {"file": file, **table.facts(found, {})}
                            print(json.dumps(facts), flush=True)
                        else:
                            print(lines.line(found, None), flush=True)
    if not options.json:
        for line in table.refusals(comparisons, titles):
            print(line)
    return 0 if all(each.ours for each in comparisons) else 1
