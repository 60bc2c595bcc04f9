"""palmkit compress: a model made smaller, or faster, for a loss that one allows."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmkit.engine.reading import read_bytes
from palmkit.kits.cli import model_files
from palmkit.kits.cli.command import (
    Commands,
    UsageError,
    add_command,
    check_writable,
    finite,
    progress_bar,
    seed,
)
from palmkit.kits.cli.process import complain, reason
from palmkit.kits.table import judged

if TYPE_CHECKING:
    from palmkit.engine.compress.compress import Compressed
    from palmkit.engine.compress.pipeline import Evaluate, Step
    from palmkit.engine.ir import Graph

DESCRIPTION = """\
Make a model smaller, or faster, and lose no more than you allow. You need some of the data that the
model will see, 20 to 500 pictures in a folder; no training, no labels.

steps, in order; each is measured and taken back if it loses too much
  network transform   the same numbers from fewer layers
  neuron pruning      channels that matter least are taken out
  synapse pruning     weights that matter least become zero
  quantization        weights in few bits (--target size), or layers in int8 (--target speed)
  entropy coding      what comes often is written short: nothing is lost

with --target speed
  Layers are computed in int8 where that takes less time on this machine, conversions between int8
  and float32 included. If all of them lose too much, those stay in float32 that lose the most for
  the time they gain; a table at the end names them. Synapses are pruned last. A step that makes
  runs slower is taken back. --int8 quantizes all layers that --max-loss allows, faster or not.

what is measured
  --kit face          the kit looks at DATA with both models: are the results the same
  DATA has a folder for each class of the model's one output: the share of right answers
  else                how far the outputs are from the float model's, over their spread
A loss of 1% is one per cent of what the float model has. Every second picture measures and is used
for nothing else.

in a hurry, one thing alone
  --fp16      half the size, next to no loss, needs no data
  --bits 4    each layer's weights become one of 16 numbers: about an eighth of the size; no data
  --int8      layers computed on bytes: a quarter of the size and faster; needs data
With --max-loss and data these are measured, too, and refused if they lose more.

How to read the report (--report): each step's bytes, metric and time, and which layers the bytes
are in. Bytes of steps are without plans, with which the file that is written is ready to run: these
add some. If the budget cannot be kept the best that was reached is printed, and nothing is written.
"""
EXAMPLES = """\
  palmkit compress net.onnx -o small.palm --fp16
  palmkit compress net.onnx -o small.palm --data photos/ --max-loss 1% --report report.html
  palmkit compress face.palm -o face-small.palm --kit face --data photos/ --max-size 300KB
  palmkit compress net.onnx -o fast.palm --data photos/ --target speed --range -1 1
  palmkit compress net.palm -o small.palm --data photos/ --resume work/    go on after Ctrl-C
  palmkit compress net.palm -o net-shut.palm --fp16 --strip-names --key-file secret.key
"""
_MOST_LAYERS = 12
_SIZES = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "kib": 1024, "mib": 1024**2}


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "compress",
        run,
        help="make a model smaller or faster, for a loss that you allow",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("model", metavar="IN", help=model_files.FILES)
    parser.add_argument("-o", "--output", metavar="OUT.palm", required=True, help="file to write")
    parser.add_argument(
        "--data", metavar="DIR", help="pictures, or .npz files with an array for each input"
    )
    parser.add_argument(
        "--kit", choices=tuple(judged()), help="the kit whose model IN is: measure its results"
    )
    parser.add_argument(
        "--max-loss", type=_share, metavar="1%", help="of the metric, at most (1%%)"
    )
    parser.add_argument("--max-size", type=_size, metavar="300KB", help="of the file, at most")
    parser.add_argument(
        "--target", choices=("size", "speed"), help="what to win where they are at odds (size)"
    )
    quick = parser.add_mutually_exclusive_group()
    quick.add_argument("--fp16", action="store_true", help="weights as float16, nothing else")
    quick.add_argument("--int8", action="store_true", help="layers in int8, nothing else")
    quick.add_argument(
        "--bits", type=int, metavar="N", help="2^N different weights a layer, nothing else; 1 to 8"
    )
    parser.add_argument(
        "--pictures", type=int, default=100, metavar="N", help="of DIR, at most (100)"
    )
    parser.add_argument(
        "--range",
        nargs=2,
        type=finite,
        default=(0.0, 1.0),
        metavar=("LOW", "HIGH"),
        help="what black and white are for the model (0 1); not with --kit",
    )
    parser.add_argument(
        "--tuning",
        type=int,
        metavar="N",
        help="steps of fine-tuning where a cut loses too much; more take longer and lose less; "
        "0: none (40; 0 with --target speed)",
    )
    parser.add_argument(
        "--report", metavar="FILE.html", help="write what each step did, with plots"
    )
    parser.add_argument(
        "--resume", metavar="DIR", help="keep what is done there, and go on from it"
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of what is chosen (0)")
    parser.add_argument(
        "--strip-names", action="store_true", help="leave out the names of layers and tensors"
    )
    parser.add_argument(
        "--key-file",
        metavar="FILE",
        help="encrypt the file with this key: 32 bytes; it is opened by load(path, key=...)",
    )
    parser.add_argument("--json", action="store_true", help="the steps as one JSON object")
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    model_files.add_shapes(parser)
    model_files.add_source_options(parser)


def _share(text: str) -> float:
    number = text.removesuffix("%")
    try:
        value = float(number) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"expected a share like 1% or 0.01, got {text!r}")
    return value


def _size(text: str) -> int:
    found = re.fullmatch(r"([0-9.]+) *([kmi]*b?)", text.strip().lower())
    try:
        return int(float(found[1]) * _SIZES[found[2]]) if found else 1 // 0
    except (ValueError, KeyError, ArithmeticError):
        raise argparse.ArgumentTypeError(f"expected a size like 300KB, got {text!r}") from None


def run(options: argparse.Namespace) -> int:
    """Compress one model."""
    from dataclasses import replace

    from palmkit.engine.compress import report
    from palmkit.engine.compress.names import strip_names

    _check(options)
    key = _key(options.key_file)
    target = Path(options.output)
    for file in filter(None, (options.output, options.report)):
        check_writable(Path(file))
    with progress_bar(1000, "", options.quiet or options.json) as bar:
        bar.set_description("read")
        graph = model_files.read(options)
        result = _compressed(options, graph, bar)
        bar.set_description("write")
        small = strip_names(result.graph) if options.strip_names else result.graph
        small = replace(small, metadata=graph.metadata)
        written = _write(small, target, key)
    if options.max_size is not None and written > options.max_size:
        target.unlink()
        from palmkit.engine.errors import CompressionError

        raise CompressionError(
            f"budget of {options.max_size:,} bytes: the best reached is {written:,} with plans"
        )
    before = Path(options.model)
    was = before.stat().st_size if before.is_file() else result.stages[0].size_bytes
    reached = f"{written:,} bytes with plans, {_compared(was, written)}"
    facts = {
        "model": f"{options.model}, {was:,} bytes",
        "file": f"{options.output}, {reached}",
        "steps": "bytes below are without plans, each constant by what takes the fewest bytes",
        "metric": _metric(options),
        "loss": f"{result.loss:.2%} of {result.baseline:.4f}" if options.data else "not measured",
    }
    code = 0
    if options.report:
        try:
            report.write(Path(options.report), f"{target.name}, compressed", facts, result.stages)
        except OSError as error:
            complain(f"{options.output} is written, its report is not: {reason(error)}")
            code = 1
    if options.json:
        stages = [asdict(stage) for stage in result.stages]
        said = {"file": options.output, "size_bytes": written, "source_bytes": was}
        loss = result.loss if options.data else None
        print(json.dumps({**said, "loss": loss, "stages": stages}, default=str))
    elif not options.quiet:
        _print(result, bool(options.data))
        if options.data:
            _print_choices(result)
            allowed = "" if _is_unlimited(options) else f", {_allowed(options):.2%} allowed"
            print(f"loss {result.loss:.2%}{allowed}, on pictures held back")
        print(f"{options.output}: {reached}, {was:,} bytes")
    return code


def _compared(was: int, written: int) -> str:
    if written >= was:
        return "not smaller than the model given"
    return f"{was / written:.2f} times smaller than the model given"


def _check(options: argparse.Namespace) -> None:
    if Path(options.output).suffix.lower() != ".palm":
        raise UsageError(f"-o: expected a name that ends with .palm, got {options.output!r}")
    if Path(options.output).resolve() == Path(options.model).resolve():
        raise UsageError(f"-o: would overwrite the source: {options.output}")
    if options.report:
        page, *models = map(os.path.realpath, (options.report, options.output, options.model))
        if page in models:
            raise UsageError(f"--report: would overwrite a model: {options.report}")
    if options.bits is not None and not 1 <= options.bits <= 8:
        raise UsageError(f"--bits: expected 1 to 8, got {options.bits}")
    if options.tuning is not None and options.tuning < 0:
        raise UsageError(f"--tuning: expected 0 or more, got {options.tuning}")
    if options.pictures < 1:
        raise UsageError(f"--pictures: expected at least 1, got {options.pictures}")
    quick = options.fp16 or options.bits is not None
    if options.data is None and not quick:
        what = "--int8" if options.int8 else "compression"
        raise UsageError(
            f"{what} needs --data: pictures that the model will see; or --fp16, --bits"
        )
    if options.data is None and (options.kit or options.max_loss is not None):
        raise UsageError(
            "--kit and --max-loss: expected with --data, which the loss is measured on"
        )
    if options.target and (quick or options.int8):
        raise UsageError("--target: expected without --fp16, --int8 and --bits")


def _key(path: str | None) -> bytes | None:
    if path is None:
        return None
    from palmkit.engine.format.encryption import KEY_BYTES

    key = read_bytes(path)
    if len(key) != KEY_BYTES:
        raise UsageError(f"--key-file: expected {KEY_BYTES} bytes, got {len(key)}: {path}")
    return key


def _compressed(options: argparse.Namespace, graph: Graph, bar: Any) -> Compressed:
    from palmkit.engine.compress.compress import compress, without_data

    steps = _steps(options)
    if options.data is None:
        return without_data(graph, steps)
    found, evaluate = _data(options, graph, bar.refresh)
    names = [step.name for step in steps]

    def told(name: str, share: float, text: str) -> None:
        bar.set_description(f"{name}: {text}" if text else name, refresh=False)
        bar.n = int(1000 * (names.index(name) + share) / len(names))
        bar.refresh()

    return compress(
        graph,
        found,
        evaluate,
        max_loss=_allowed(options),
        max_bytes=options.max_size,
        target=options.target or "size",
        steps=steps,
        folder=None if options.resume is None else Path(options.resume),
        seed=options.seed,
        progress=told,
    )


def _is_unlimited(options: argparse.Namespace) -> bool:
    """Return whether anything may be lost: a quick case without a given limit."""
    quick = options.fp16 or options.int8 or options.bits is not None
    return options.max_loss is None and quick


def _allowed(options: argparse.Namespace) -> float:
    """Return the allowed loss."""
    if options.max_loss is not None:
        return float(options.max_loss)
    return 0.99 if _is_unlimited(options) else 0.01


def _steps(options: argparse.Namespace) -> list[Step]:
    """Return all steps, or those of a quick case."""
    from palmkit.engine.compress.steps import (
        Clustering,
        EntropyCoding,
        Float16,
        Integers,
        default_steps,
    )

    if options.fp16:
        return [Float16()]
    if options.int8:
        return [Integers(required=True)]
    if options.bits is not None:
        return [Clustering(bits=options.bits, required=True), EntropyCoding()]
    return default_steps(options.target or "size", options.tuning)


def _data(
    options: argparse.Namespace, graph: Graph, told: Callable[[], object]
) -> tuple[list[dict[str, Any]], Evaluate | None]:
    """Return the samples, and the metric of the model."""
    from palmkit.engine.compress.compress import split
    from palmkit.engine.errors import CompressionError, PalmError
    from palmkit.kits.cli import calibration

    files = calibration.find(Path(options.data), options.pictures, options.seed)
    if options.kit:
        from palmkit.kits.compression import JOBS, KitAgreement

        used, held = split(calibration.pictures(files, told))
        job = JOBS[options.kit]
        try:
            return KitAgreement(job, graph, used).samples, KitAgreement(job, graph, held)
        except CompressionError:
            raise
        except PalmError as error:
            what = job.title.partition(";")[0]
            raise CompressionError(
                f"--kit {options.kit}: the model is not {what}: {error}"
            ) from error
    found, labels = calibration.samples(files, graph, tuple(options.range), told)
    if len(files.classes) > 1 and len(files.classes) == calibration.classes_of(graph):
        pairs = list(zip(found, labels, strict=True))
        working, measured = split(pairs)
        names = sorted(set(labels))
        return [sample for sample, _ in working], calibration.Accuracy(measured, names)
    return found, None


def _metric(options: argparse.Namespace) -> str:
    if options.kit:
        from palmkit.kits.compression import JOBS

        return f"{JOBS[options.kit].title}, against the float model's on {options.data}"
    return f"on {options.data}" if options.data else "none"


def _write(graph: Graph, target: Path, key: bytes | None) -> int:
    """Write the file and return its size in bytes."""
    from palmkit import engine

    target.parent.mkdir(parents=True, exist_ok=True)
    engine.save(graph, target, "smallest", key=key)
    return target.stat().st_size


def _print(result: Compressed, measured: bool) -> None:
    for stage in result.stages:
        metric = f"  metric {stage.metric:.4f}" if measured else ""
        ms = f"  {stage.run_ms:.2f} ms" if stage.run_ms is not None else ""
        kept = "" if stage.kept else f"  (not taken: {stage.why})"
        print(f"{stage.name:18} {stage.size_bytes:>12,} bytes{metric}{ms}{kept}")


def _print_choices(result: Compressed) -> None:
    """Print which layers stayed in float32 and why, and what a run takes before and after."""
    for stage in result.stages:
        kept = [layer for layer in stage.layers if not layer.integer]
        if not stage.layers or not stage.kept:
            continue
        print(f"{len(stage.layers) - len(kept)} of {len(stage.layers)} layers in int8")
        if kept:
            print(f"{'in float32':32} {'loses alone':>11} {'float ms':>9} {'int8 ms':>9}  why")
        for layer in kept[:_MOST_LAYERS]:
            name = layer.name if len(layer.name) <= 32 else f"…{layer.name[-31:]}"
            lost = "" if layer.noise is None else f"{layer.noise:.2%}"
            float_ms, integer_ms = (
                "" if each is None else f"{each:.3f}" for each in (layer.float_ms, layer.integer_ms)
            )
            shared = f" ({layer.together} layers at once)" if layer.together > 1 else ""
            print(f"{name:32} {lost:>11} {float_ms:>9} {integer_ms:>9}  {layer.why}{shared}")
        if len(kept) > _MOST_LAYERS:
            print(f"and {len(kept) - _MOST_LAYERS} more, see --report or --json")
    if result.run_ms is not None:
        before, now = result.run_ms
        print(f"{before:.2f} ms a run before, {now:.2f} now: measured, 1 thread")
