"""palmkit check: whether a model gives the numbers of its source."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from palmkit.kits.cli import model_files
from palmkit.kits.cli.command import (
    Commands,
    UsageError,
    add_command,
    finite,
    progress_bar,
    seed,
)

if TYPE_CHECKING:
    from palmkit.engine.compare import Comparison, Fault
    from palmkit.engine.ir import Array, Graph, Type

DESCRIPTION = """\
Run a model and the source it was converted from on the same inputs, and compare every output.

The source runs in the engine of its own format: .onnx in ONNX Runtime, .tflite in LiteRT, where
these are installed; else as a fresh conversion on backend reference (numpy).
The error of an output is its largest difference over its range. Where one is above the tolerance
the first wrong node is searched and printed with its inputs, and who is to blame: the converter or
an op, the file, a graph pass, or a kernel.
With --precision low products are of 8 bits: expect 1e-3 to 1e-1, most where inputs are noise.
A file written with --fp16 has rounded weights: expect 1e-3, not 1e-4. Where a .tflite file has
8-bit weights and float activations, LiteRT rounds the activations as well: expect 1e-2.

Exit code 0: they agree; 1: they do not, or one of them cannot be run.
"""
# The inputs of all runs are in memory at once.
MOST_RUNS = 10_000
STAGES = {"plain": "conversion", "file": "file", "optimised": "graph passes", "cpu": "kernels"}
EXAMPLES = """\
  palmkit check net.palm --source net.onnx
  palmkit check net.palm --source net.tflite --input image=photo.jpg --range -1 1
  palmkit check net.palm --source net.onnx --input tokens=tokens.npy --runs 1
  palmkit check net.palm --source net.onnx --input rate=16000 --input-shape wave=1x512
  palmkit check net.palm --source net.onnx --input-shape 1x3x480x640 --json
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "check",
        run,
        help="compare a model with its source, and find the first wrong node",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("model", metavar="OUT.palm", help="the model to check")
    parser.add_argument("--source", required=True, metavar="IN", help=model_files.FILES)
    parser.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        type=_input,
        metavar="NAME=VALUE",
        help="what an input gets: an .npy file, a picture, or a number for all its elements; "
        "inputs left out are random",
    )
    model_files.add_shapes(parser)
    parser.add_argument(
        "--range",
        nargs=2,
        type=finite,
        metavar=("LOW", "HIGH"),
        help="of random floats and of pictures (-1 1, pictures 0 1)",
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of random inputs (0)")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="random inputs (3)")
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="T",
        help="largest difference over an output's range (1e-4; with --precision low 0.1)",
    )
    parser.add_argument(
        "--precision",
        choices=("high", "normal", "low"),
        default="high",
        help="of the model's arithmetic (high)",
    )
    parser.add_argument(
        "--absolute",
        type=float,
        default=5e-7,
        metavar="A",
        help="differences up to this are rounding, however small an output's range is (5e-7)",
    )
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    model_files.add_source_options(parser)


def _input(text: str) -> tuple[str, str]:
    name, equals, file = text.partition("=")
    if not name or not equals or not file:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, file


def run(options: argparse.Namespace) -> int:
    """Compare one model with its source."""
    from palmkit import engine
    from palmkit.engine.compare import compare
    from palmkit.engine.sources import open_source

    if not 1 <= options.runs <= MOST_RUNS:
        raise UsageError(f"--runs: expected 1 to {MOST_RUNS:,}, got {options.runs}")
    if options.tolerance is None:
        options.tolerance = 0.1 if options.precision == "low" else 1e-4
    for name in ("tolerance", "absolute"):
        if not getattr(options, name) >= 0:
            raise UsageError(f"--{name}: expected 0 or more, got {getattr(options, name)}")
    if options.range is not None and options.range[0] > options.range[1]:
        low, high = options.range
        raise UsageError(f"--range: expected LOW and HIGH, got {low:g} and {high:g}")
    with progress_bar(None, "step", options.quiet) as bar:

        def report(step: str) -> None:
            bar.set_description(step, refresh=False)
            bar.update()

        report("read")
        file = model_files.shaped(options, engine.convert(options.model))
        plain = model_files.read(options, options.source)
        _need_same_borders(file, plain)
        notes: list[str] = []
        try:
            source = open_source(options.source)
        except engine.BackendError as error:
            source = None
            notes.append(f"{error}; compared with our own reference instead")
        runs = _runs(options, file)
        limits = options.tolerance, options.absolute
        found = compare(file, plain, source, runs, *limits, report, options.precision)
    if options.json:
        facts = {**asdict(found), "agrees": found.agrees, "notes": [*notes, *found.notes]}
        print(json.dumps(_finite({"file": options.model, "source_file": options.source, **facts})))
    else:
        for line in (*(f"note: {note}" for note in (*notes, *found.notes)), *_lines(found)):
            print(line)
    return 0 if found.agrees else 1


def _need_same_borders(file: Graph, plain: Graph) -> None:
    from palmkit.engine import ModelError

    for what, ours, theirs in (
        ("inputs", file.inputs, plain.inputs),
        ("outputs", file.outputs, plain.outputs),
    ):
        if set(ours) != set(theirs):
            raise ModelError(
                f"not converted from this source: {what} are {', '.join(ours)}, the source's: "
                f"{', '.join(theirs)}"
            )


def _runs(options: argparse.Namespace, graph: Graph) -> list[dict[str, Array]]:
    """Return the inputs of each run; given ones are the same in all of them."""
    files: dict[str, Array] = {}
    numbers: dict[str, float] = {}
    sizes: dict[str, int] = {}
    for name, text in options.inputs:
        if name not in graph.inputs:
            raise UsageError(f"--input: no such input ({', '.join(graph.inputs)}): {name}")
        try:
            numbers[name] = float(text)
        except ValueError:
            files[name] = _read(name, text, graph.inputs[name], options.range or (0.0, 1.0))
    for name, array in files.items():
        sizes.update(zip(map(str, graph.inputs[name].shape), array.shape, strict=False))
    types = {
        name: _sized(name, type, sizes) for name, type in graph.inputs.items() if name not in files
    }
    random = np.random.default_rng(options.seed)
    low, high = options.range or (-1.0, 1.0)

    def value(name: str) -> Array:
        if name in files:
            return files[name]
        if name in numbers:
            # Values out of the type's range wrap or become infinite, without a warning.
            with np.errstate(all="ignore"):
                return np.full(types[name].dims, numbers[name]).astype(types[name].dtype)
        return _random(random, types[name], low, high)

    runs = options.runs if len(files) + len(numbers) < len(graph.inputs) else 1
    return [{name: value(name) for name in graph.inputs} for _ in range(runs)]


def _sized(name: str, type: Type, sizes: Mapping[str, int]) -> Type:
    """Return the type with these sizes for its open dims; a first one is the batch, and 1."""
    from palmkit.engine import ShapeError

    dims = tuple(
        sizes.get(dim, dim if axis else 1) if isinstance(dim, str) else dim
        for axis, dim in enumerate(type.shape)
    )
    if any(isinstance(dim, str) for dim in dims):
        example = "x".join(dim.upper() if isinstance(dim, str) else str(dim) for dim in dims)
        raise ShapeError(
            f"input {name}: sizes are open: {type}; choose them: --input-shape {name}={example}"
        )
    return type.__class__(type.dtype, dims)


def _random(random: np.random.Generator, type: Type, low: float, high: float) -> Array:
    """Return uniform noise: floats in the range, any bytes, other integers 0 or 1."""
    from palmkit.engine.ir import numpy_dtype

    dtype = numpy_dtype(type.dtype)
    if type.dtype in ("uint8", "int8"):
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max + 1, type.dims).astype(dtype)
    if dtype.kind in "iub":
        return random.integers(0, 2, type.dims).astype(dtype)
    return random.uniform(low, high, type.dims).astype(dtype)


def _read(name: str, file: str, type: Type, limits: tuple[float, float]) -> Array:
    """Return an input from an .npy file, or from a picture resized and scaled to limits."""
    from palmkit.engine import ModelError, ShapeError
    from palmkit.engine.array_files import read_array
    from palmkit.engine.ir import numpy_dtype

    if Path(file).suffix.lower() == ".npy":
        try:
            array = read_array(file)
        except ValueError as error:
            raise ModelError(f"not an .npy array: {file}: {error}") from None
        if array.dtype.name != type.dtype:
            raise ShapeError(f"input {name}: expected {type}, got {array.dtype.name}: {file}")
        return array
    import cv2

    from palmkit.kits.image import read_image

    channels_last = len(type.shape) == 4 and type.shape[-1] in (1, 3)
    channels_first = len(type.shape) == 4 and not channels_last and type.shape[1] in (1, 3)
    if not channels_last and not channels_first:
        raise ShapeError(f"input {name}: expected an .npy file for {type}, got a picture: {file}")
    picture = read_image(file)
    sides = type.shape[1:3] if channels_last else type.shape[2:]
    height, width = (
        side if isinstance(side, int) else own
        for side, own in zip(sides, picture.shape[:2], strict=True)
    )
    resized = np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA))
    if (type.shape[-1] if channels_last else type.shape[1]) == 1:
        resized = np.asarray(cv2.cvtColor(resized, cv2.COLOR_RGB2GRAY))[..., None]
    dtype = numpy_dtype(type.dtype)
    if dtype.kind == "f":
        low, high = limits
        resized = low + resized.astype(np.float64) * ((high - low) / 255)
    batch = np.ascontiguousarray(resized[None].astype(dtype))
    return batch if channels_last else np.ascontiguousarray(batch.transpose(0, 3, 1, 2))


def _lines(found: Comparison) -> list[str]:
    width = max(map(len, found.errors), default=0)
    runs = f"{found.runs} run{'' if found.runs == 1 else 's'}"
    verdict = "agrees with" if found.agrees else "DIFFERS from"
    lines = [
        f"{verdict} {found.source}, {runs}, tolerance {found.tolerance:g} of each output's range"
    ]
    for name, error in found.errors.items():
        mark = "" if error <= found.tolerance else "   <- too much"
        lines.append(f"  {name:{width}}  {error:.2e}  root mean square {found.rms[name]:.1e}{mark}")
    added = "  ".join(f"{STAGES[stage]} {error:.1e}" for stage, error in found.stages.items())
    lines.append(f"  added by the {added}")
    if found.fault is not None:
        lines += ["", *_fault_lines(found.fault)]
    return lines


def _fault_lines(fault: Fault) -> list[str]:
    node = f"{fault.op} {_short(fault.name or fault.value)}"
    if fault.grows:
        lines = [
            f"at fault: {fault.blamed}; or nobody, and it is rounding: no node is wrong by itself",
            f"first node whose error has grown too large: {node}",
        ]
    else:
        lines = [
            f"at fault: {fault.blamed}",
            f"first wrong node: {node}, wrong though its inputs are right",
        ]
    lines.append(f"  {_short(fault.node, 400)}")
    if len(fault.nodes) > 1:
        lines.append(f"or one of those before it: {', '.join(map(_short, fault.nodes[:-1]))}")
    error = f"error {fault.error:.2e} of its range"
    lines.append(f"  writes {_short(fault.value)}: {fault.type}, {error}")
    for each in fault.operands:
        kind = "constant" if each.is_constant else "input"
        differs = f", error {each.error:.2e}" if each.error else ""
        limits = f"{each.low:g} to {each.high:g}"
        lines.append(f"  {kind} {_short(each.name)}: {each.type}, {limits}{differs}")
    return lines


def _short(text: str, most: int = 70) -> str:
    """Return the text, or its beginning and end, as some formats have very long names."""
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-most // 2 :]}"


def _finite(value: Any) -> Any:
    """Return a value for JSON, with infinities and NaN as text."""
    if isinstance(value, dict):
        entries = cast(dict[str, Any], value).items()
        return {key: _finite(each) for key, each in entries}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in cast(list[Any], value)]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value
