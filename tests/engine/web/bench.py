"""Times shipped models as WebAssembly beside onnxruntime-web and native code: `make bench-web`.

The two run in one process of Node, in turns; a time is the shortest of all runs. Native code, of
the best instruction set of this machine up to AVX2, is timed behind them.
"""

import argparse
import json
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from palmkit import engine
from palmkit.engine import _native
from palmkit.engine.exporters.onnx import dumps
from palmkit.engine.machine import cpu_name
from palmkit.engine.shapes import with_input_shapes
from tests.engine.native import golden
from tests.engine.web.package import node

NATIVE_S = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", type=Path, help="folder with node_modules/onnxruntime-web")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--relaxed", action="store_true", help="relaxed SIMD, in Node by a flag")
    options = parser.parse_args()
    flags = ("--experimental-wasm-relaxed-simd",) if options.relaxed else ()
    with tempfile.TemporaryDirectory() as scratch:
        folders = [written(path, Path(scratch, path.stem)) for path in golden.SHIPPED]
        arguments = (options.peer, options.threads, options.rounds, *folders)
        lines = node("bench.mjs", *arguments, flags=flags).splitlines()
        print(f"{cpu_name()}, {options.threads} threads, ms; apart: of the outputs' range, or of 1")
        print(
            "| network | palmkit | onnxruntime-web | times as fast | native | of native | apart |"
        )
        print("|---|---|---|---|---|---|---|")
        ratios, shares = list[float](), list[float]()
        for folder, line in zip(folders, lines, strict=True):
            found = json.loads(line)
            alone = native(folder, options.threads)
            ratios.append(found["onnxruntime"] / found["palmkit"])
            shares.append(alone / found["palmkit"])
            times: tuple[float, float] = (found["palmkit"], found["onnxruntime"])
            cells = [*times, ratios[-1], alone, shares[-1]]
            row = " | ".join(f"{cell:.3f}" for cell in cells)
            print(f"| {folder.name} | {row} | {found['apart']:.0e} |")
        means = [float(np.exp(np.mean(np.log(each)))) for each in (ratios, shares)]
        print(f"geometric means: {means[0]:.2f} times as fast, {means[1]:.2f} of native")


def written(path: Path, folder: Path) -> Path:
    """Write what bench.mjs reads of a model, of the sizes of its first plan."""
    golden.write_model(folder, path.read_bytes())
    graph = engine.convert(path)
    shapes = {name: array.shape for name, array in golden.inputs_of(path).items()}
    (folder / "model.onnx").write_bytes(dumps(with_input_shapes(graph, shapes)))
    return folder


def native(folder: Path, threads: int) -> float:
    """Return the milliseconds of the shortest run."""
    program = _native.Program
    _native.Program = partial(program, isa="avx2")  # type: ignore[misc,assignment]
    try:
        model = engine.load(folder / "model.palm", threads=threads)
        inputs = golden.inputs_of(folder / "model.palm")
        best, end = float("inf"), time.perf_counter() + NATIVE_S
        while time.perf_counter() < end:
            begin = time.perf_counter()
            model.run(inputs)
            best = min(best, time.perf_counter() - begin)
    finally:
        _native.Program = program  # type: ignore[misc]
    return 1e3 * best


if __name__ == "__main__":
    main()
