"""What a run costs through ctypes and cffi: `python -m tests.engine.native.calls --help`.

Both run the same plan of the same file in turns, from NumPy arrays into new ones, and check dtypes,
sizes and layout of what they get. ctypes: `palmkit.engine._native`. cffi: palm.h.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import palmkit.models
from palmkit import engine
from palmkit.engine import _native
from palmkit.engine.ir import Array
from tests.engine.format.samples import network
from tests.engine.native.program import HEADER, library

FACE_MESH = Path(palmkit.models.__file__).parent / "face_mesh" / "face_mesh.palm"
Outputs = list[tuple[str, tuple[int, ...], np.dtype[Any]]]


def _library() -> Path:
    folder = library()
    if folder is None:
        raise FileNotFoundError("libpalm.so is not built: make test")
    return folder / "libpalm.so"


class Cffi:
    """A session of a file's first plan, run by cffi without compiling anything."""

    def __init__(self, path: Path, inputs: Mapping[str, Array], outputs: Outputs) -> None:
        self._ffi: Any = import_module("cffi").FFI()
        text = (HEADER / "palm.h").read_text()
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        body = "\n".join(lines).split('extern "C" {')[1].rsplit("}", 1)[0]
        self._ffi.cdef(body.replace("PALM_API ", ""))
        self._c = c = self._ffi.dlopen(str(_library()))
        model, program, session = (
            self._ffi.new(f"palm_{name} **") for name in ("model", "program", "session")
        )
        self._check(c.palm_open(str(path).encode(), model))
        self._check(c.palm_program_create(model[0], 0, self._ffi.NULL, program))
        self._check(c.palm_session_create(program[0], 1, session))
        self._session, self._outputs = session[0], outputs
        self._inputs = [(name, x.dtype, x.nbytes) for name, x in inputs.items()]
        self._in = self._ffi.new("palm_input[]", len(inputs))
        self._out = self._ffi.new("palm_output[]", len(outputs))

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(self._ffi.string(self._c.palm_error()).decode())

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run as NativeProgram.run does."""
        kept: list[Any] = []
        for (name, dtype, nbytes), buffer in zip(self._inputs, self._in, strict=True):
            x = np.ascontiguousarray(inputs[name])
            if x.dtype != dtype or x.nbytes != nbytes:
                raise ValueError(name)
            kept.append(view := self._ffi.from_buffer(x))
            buffer.data, buffer.size = view, nbytes
        outputs = {name: np.empty(dims, dtype) for name, dims, dtype in self._outputs}
        for y, buffer in zip(outputs.values(), self._out, strict=True):
            kept.append(view := self._ffi.from_buffer(y))
            buffer.data, buffer.size = view, y.nbytes
        self._check(
            self._c.palm_run(self._session, self._in, len(self._in), self._out, len(self._out))
        )
        return outputs


Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]


def ways_of(path: Path) -> tuple[dict[str, Run], dict[str, Array]]:
    """Return both ways, and inputs for which they gave the same outputs."""
    model = engine.load(path)
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.standard_normal(type.dims).astype(type.dtype)
        for name, type in model.inputs.items()
    }
    (program,) = model._programs.values()  # pyright: ignore[reportPrivateUsage]
    outputs = [(name, type.dims, np.dtype(type.dtype)) for name, type in model.outputs.items()]
    ways: dict[str, Run] = {"ctypes": program.run, "cffi": Cffi(path, inputs, outputs).run}
    expected = program.run(inputs)
    for run in ways.values():
        assert all(np.array_equal(expected[name], y) for name, y in run(inputs).items())
    return ways, inputs


def time_runs(path: Path, rounds: int) -> None:
    """Print microseconds a run for each way: the minimum, and the first decile."""
    ways, inputs = ways_of(path)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name in random.sample(sorted(ways), len(ways)):
            run, begin = ways[name], time.perf_counter()
            run(inputs)
            times[name].append((time.perf_counter() - begin) * 1e6)
    fast = {name: statistics.quantiles(each, n=10)[0] for name, each in times.items()}
    for name, each in times.items():
        more = fast[name] - fast["ctypes"]
        print(
            f"{path.stem}: {name}: least {min(each):.2f} us, a tenth up to {fast[name]:.2f} us:"
            f" {more:+.2f} us, {more / fast['ctypes']:+.2%}"
        )


def time_imports(rounds: int) -> None:
    """Print milliseconds to load each way's library in a new process with NumPy."""
    head = "import numpy, time; t = time.perf_counter(); "
    tail = "; print(time.perf_counter() - t)"
    commands = {
        "ctypes": f"import ctypes; ctypes.CDLL({str(_library())!r}).palm_version()",
        "ctypes, which is imported already": f"ctypes.CDLL({str(_library())!r}).palm_version()",
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            before = "import ctypes; " if name.endswith("already") else ""
            line = [sys.executable, "-c", before + head + command + tail]
            done = subprocess.run(line, capture_output=True, text=True, check=True)
            times[name].append(float(done.stdout) * 1e3)
    for name, each in times.items():
        print(f"import: {name}: least {min(each):.2f} ms, median {statistics.median(each):.2f} ms")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4000, help="of each way in turn")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        tiny = Path(folder) / "tiny.palm"
        engine.save(network(), tiny)
        time_runs(tiny, options.rounds)
    time_runs(FACE_MESH, options.rounds)
    time_imports(max(1, options.rounds // 200))
    print(f"{_native.LIBRARY.name}: {_native.LIBRARY.stat().st_size} bytes")


if __name__ == "__main__":
    main()
