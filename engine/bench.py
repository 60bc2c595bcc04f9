"""Time models beside other engines: python -m palmkit.engine.bench MODEL... [--threads N].

Each engine runs in a process of its own; the processes take turns (A B C A B C ...), so that a
noisy machine is noisy for all. Every timed run writes the inputs and reads the outputs, in
float32. Minimum and median of many runs; the ratio is the best peer's minimum over ours.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from palmkit.engine.files import convert
from palmkit.engine.ir import Array, Type

Run = Callable[[], object]
Open = Callable[[Path, int, dict[str, Array]], Run]

# What a dim that is only a name stands for.
BATCH_NAMES = ("batch", "n", "N", "batch_size")
SIDE = 320


def _open_palmkit(path: Path, threads: int, inputs: dict[str, Array]) -> Run:
    from palmkit import engine

    model = engine.load(path, threads=threads)
    return lambda: model.run(inputs)


def _open_onnxruntime(path: Path, threads: int, inputs: dict[str, Array]) -> Run:
    ort: Any = import_module("onnxruntime")
    options: Any = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session: Any = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


def _open_litert(path: Path, threads: int, inputs: dict[str, Array]) -> Run:
    litert: Any = import_module("ai_edge_litert.interpreter")
    interpreter: Any = litert.Interpreter(model_path=str(path), num_threads=threads)
    interpreter.allocate_tensors()
    slots = {d["name"]: d["index"] for d in interpreter.get_input_details()}
    outputs = [d["index"] for d in interpreter.get_output_details()]

    def run() -> object:
        for name, value in inputs.items():
            interpreter.set_tensor(slots[name], value)
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in outputs]

    return run


def _open_openvino(path: Path, threads: int, inputs: dict[str, Array]) -> Run:
    openvino: Any = import_module("openvino")
    core: Any = openvino.Core()
    network: Any = core.read_model(str(path))
    if any(port.partial_shape.is_dynamic for port in network.inputs):
        network.reshape({port: inputs[port.any_name].shape for port in network.inputs})
    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    request: Any = core.compile_model(network, "CPU", options).create_infer_request()
    arguments = [inputs[port.any_name] for port in network.inputs]

    def run() -> object:
        return [np.array(value) for value in request.infer(arguments).values()]

    return run


ENGINES: dict[str, Open] = {
    "palmkit": _open_palmkit,
    "onnxruntime": _open_onnxruntime,
    "litert": _open_litert,
    "openvino": _open_openvino,
}
READS = {
    "palmkit": (".palm", ".onnx", ".tflite"),
    "onnxruntime": (".onnx",),
    "litert": (".tflite",),
    "openvino": (".onnx", ".tflite"),
}


def open_dims(types: Mapping[str, Type]) -> dict[str, int]:
    """A size for every dim that is only a name: 1 for a batch, else 320."""
    names = {dim for type in types.values() for dim in type.shape if isinstance(dim, str)}
    return {name: 1 if name in BATCH_NAMES else SIDE for name in sorted(names)}


def random_inputs(types: Mapping[str, Type], sizes: Mapping[str, int]) -> dict[str, Array]:
    """Seeded noise, 0..1, for every input; sizes: of the dims that are only names."""
    random = np.random.default_rng(0)
    return {
        name: random.random(
            [dim if isinstance(dim, int) else sizes[dim] for dim in type.shape]
        ).astype(type.dtype)
        for name, type in types.items()
    }


def _serve(pipe: Connection, name: str, path: Path, threads: int) -> None:
    """In the engine's process: open the model, then time as many runs as asked."""
    try:
        types = convert(path).inputs
        run = ENGINES[name](path, threads, random_inputs(types, open_dims(types)))
        for _ in range(5):
            run()
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}".splitlines()[0])
        return
    pipe.send(None)
    while count := pipe.recv():
        seconds: list[float] = []
        for _ in range(count):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        pipe.send(seconds)


def compare(
    path: Path, engines: Sequence[str], threads: int, rounds: int, runs: int
) -> dict[str, dict[str, float] | str]:
    """Minimum and median milliseconds of each engine, or why it did not run.

    Engines that do not read such files are left out.
    """
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    results: dict[str, dict[str, float] | str] = {}
    workers: list[Any] = []
    for name in engines:
        if path.suffix not in READS[name]:
            continue
        ours, theirs = context.Pipe()
        worker = context.Process(target=_serve, args=(theirs, name, path, threads), daemon=True)
        worker.start()
        workers.append(worker)
        theirs.close()
        try:
            refusal = ours.recv()
        except EOFError:
            refusal = "its process died"
        if refusal is None:
            pipes[name] = ours
        else:
            results[name] = refusal
    times: dict[str, list[float]] = {name: [] for name in pipes}
    for _ in range(rounds):
        for name, pipe in pipes.items():
            pipe.send(runs)
            times[name] += pipe.recv()
    for pipe in pipes.values():
        pipe.send(0)
    for worker in workers:
        worker.join(5)
    for name, seconds in times.items():
        results[name] = {"min_ms": min(seconds) * 1e3, "median_ms": median(seconds) * 1e3}
    return results


def _line(model: str, engines: Sequence[str], results: Mapping[str, dict[str, float] | str]) -> str:
    """A row of the table: each engine's minimum, and how many times faster ours is."""
    times = {name: r["min_ms"] for name, r in results.items() if isinstance(r, dict)}
    cells = [f"{times[name]:13.3f}" if name in times else f"{'-':>13}" for name in engines]
    own = times.pop("palmkit", None)
    ratio = f"{min(times.values()) / own:8.2f}" if own and times else f"{'-':>8}"
    return f"{model[:37]:38}{''.join(cells)}{ratio}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, one line a model; --json gives every number."""
    parser = argparse.ArgumentParser(
        prog="python -m palmkit.engine.bench",
        description="Time models beside other engines, in turns, on this machine.",
        epilog="example: python -m palmkit.engine.bench face.tflite --threads 2",
    )
    parser.add_argument("models", nargs="+", type=Path, help=".palm, .onnx or .tflite files")
    parser.add_argument("--threads", type=int, default=1, help="threads of each engine (1)")
    parser.add_argument("--rounds", type=int, default=20, help="turns each engine gets (20)")
    parser.add_argument("--runs", type=int, default=20, help="timed runs a turn (20)")
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--json", type=Path, help="write every number to this file")
    options = parser.parse_args(arguments)
    report: dict[str, dict[str, dict[str, float] | str]] = {}
    print(f"{'minimum ms':38}" + "".join(f"{name:>13}" for name in options.engines) + "   ratio")
    for path in options.models:
        results = compare(path, options.engines, options.threads, options.rounds, options.runs)
        report[path.name] = results
        print(_line(path.name, options.engines, results), flush=True)
        for name, result in results.items():
            if isinstance(result, str):
                print(f"{path.name}: {name} did not run: {result}", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
