"""ncnn, and pnnx, which converts ONNX for it: https://github.com/Tencent/ncnn.

ncnn has no batch: pnnx takes the first dim away where it is 1.
"""

from __future__ import annotations

import subprocess
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from palmkit.engine.bench.conversions import cached
from palmkit.engine.bench.engines.engine import Engine, Job, Refusal, Run
from palmkit.engine.ir import Array

CONVERSION_LIMIT_S = 300
_HALVES = ("fp16_packed", "fp16_storage", "fp16_arithmetic")
_NARROW = (*_HALVES, "bf16_storage", "int8_inference")


class Ncnn(Engine):
    """ncnn, on a GPU by Vulkan; by default it would store in fp16 or bf16."""

    name = "ncnn"
    title = "ncnn"
    modules = ("ncnn", "pnnx")
    distributions = ("ncnn",)
    forms = ("onnx",)
    converts = True
    places = ("cpu", "gpu")

    def prepare(self, job: Job) -> Path:
        """Convert by pnnx, with float32 weights; return the folder of the two files."""
        shapes = [",".join(map(str, value.shape)) for value in job.inputs.values()]
        sizes = ",".join(f"[{shape}]" for shape in shapes)

        def convert(folder: Path) -> None:
            files = {"ncnnparam": "model.param", "ncnnbin": "model.bin"}
            names = ["pnnxparam", "pnnxbin", "pnnxpy", "pnnxonnx", "ncnnpy"]
            with tempfile.TemporaryDirectory() as other:
                targets = [f"{key}={folder / name}" for key, name in files.items()]
                targets += [f"{name}={Path(other) / name}" for name in names]
                # Beside its input it writes further files whose names cannot be chosen.
                source = Path(other) / "model.onnx"
                source.symlink_to(job.file.resolve())
                command = [_pnnx(), str(source), f"inputshape={sizes}", "fp16=0", *targets]
                done = subprocess.run(
                    command,
                    cwd=other,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=CONVERSION_LIMIT_S,
                )
            if done.returncode or not all((folder / name).is_file() for name in files.values()):
                lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
                ended = f"pnnx ended with {done.returncode}"
                raise Refusal(f"{ended}: {lines[-1]}" if lines else ended)

        return cached(job, f"ncnn-{self.version()}-{sizes}", convert)

    def import_library(self) -> None:
        """Import the package."""
        self._library: Any = import_module("ncnn")

    def open(self, job: Job) -> Run:
        """Read the network; a new extractor each run, as ncnn is meant to be used."""
        ncnn = self._library
        net = ncnn.Net()
        net.opt.num_threads = job.threads
        if job.is_on_gpu and not ncnn.get_gpu_count():
            raise Refusal("it finds no GPU")
        net.opt.use_vulkan_compute = job.is_on_gpu
        for option in _NARROW:
            setattr(net.opt, f"use_{option}", False)
        for option in _HALVES if job.is_on_gpu else ("bf16_storage",):
            setattr(net.opt, f"use_{option}", job.precision == "low")
        if net.load_param(str(job.file / "model.param")):
            raise Refusal(_lacking(ncnn, job.file / "model.param"))
        if net.load_model(str(job.file / "model.bin")):
            raise Refusal("it cannot load the weights that pnnx made")
        arrays = [_without_batch(value) for value in job.inputs.values()]
        inputs = list(zip(net.input_names(), arrays, strict=True))
        names = net.output_names()

        def run() -> list[tuple[str, Array]]:
            extractor = net.create_extractor()
            for name, array in inputs:
                extractor.input(name, ncnn.Mat(array))
            found: list[tuple[str, Array]] = []
            for name in names:
                code, value = extractor.extract(name)
                if code:
                    raise Refusal(f"ncnn fails with code {code} at output {name}")
                found.append(("", np.array(value)))
            return found

        return run


def _lacking(ncnn: Any, file: Path) -> str:
    """Return which layers of the file, from its third line on, ncnn does not have."""
    lines = file.read_text(encoding="utf-8").splitlines()[2:]
    layers = [line.split()[0] for line in lines if line.strip()]
    unknown = [name for name in dict.fromkeys(layers) if ncnn.layer_to_index(name) < 0]
    return f"no such layers: {', '.join(unknown)}" if unknown else "it cannot load what pnnx made"


def _without_batch(value: Array) -> Array:
    if value.dtype != np.float32:
        raise Refusal(f"inputs: expected float32, got {value.dtype}")
    return value[0] if value.ndim > 1 and value.shape[0] == 1 else value


def _pnnx() -> str:
    """Return the program in the wheel; importing the package would import torch."""
    spec = find_spec("pnnx")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        program = Path(folder) / "pnnx"
        if program.is_file():
            return str(program)
    raise Refusal("the package pnnx has no program for this system")
