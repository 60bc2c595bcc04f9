"""PyTorch on a CUDA GPU, in a graph of CUDA's: https://pytorch.org."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

import numpy as np

from palmkit.engine.bench.engines.engine import Engine, Job, Refusal, Run
from palmkit.engine.ir import Array

_WARM_UPS = 5
_TRIALS = 50


class PyTorch(Engine):
    """PyTorch with cuDNN's fastest algorithms, without TF32, in the better of two layouts."""

    name = "pytorch"
    title = "PyTorch"
    modules = ("torch",)
    distributions = ("torch",)
    forms = ("pt2",)
    places = ("gpu",)
    installed_by = "pip install torch"

    def import_library(self) -> None:
        """Import the package."""
        self._torch: Any = import_module("torch")

    def open(self, job: Job) -> Run:
        """Read what torch.export wrote, and record a run from pinned arrays to pinned arrays."""
        torch = self._torch
        if not torch.cuda.is_available():
            raise Refusal("it finds no GPU of CUDA's")
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        best: tuple[float, Run] | None = None
        for layout in (torch.contiguous_format, torch.channels_last):
            try:
                run = self._recorded(job, layout)
            except (RuntimeError, AssertionError) as error:
                # Some networks see their values in ways that the other layout does not have.
                if best is None:
                    raise Refusal(f"it cannot run it: {error}") from None
                continue
            seconds = _median_seconds(run)
            if best is None or seconds < best[0]:
                best = seconds, run
        assert best is not None
        return best[1]

    def _recorded(self, job: Job, layout: Any) -> Run:
        torch = self._torch
        dtype = torch.float16 if job.precision == "low" else torch.float32
        module = torch.export.load(job.file).module().cuda().to(dtype, memory_format=layout)
        inputs: list[Any] = [torch.from_numpy(value).pin_memory() for value in job.inputs.values()]
        given: list[Any] = []
        for value in inputs:
            kind = dtype if value.is_floating_point() else value.dtype
            order = layout if value.ndim == 4 else torch.contiguous_format
            given.append(value.cuda().to(kind, memory_format=order))
        views: list[Array] = [value.numpy() for value in inputs]
        arrays = list(zip(views, job.inputs.values(), strict=True))
        with torch.no_grad():
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UPS):
                    module(*given)
            stream.synchronize()
            outputs: list[Any] = []
            for each in _listed(module(*given)):
                kind = torch.float32 if each.is_floating_point() else each.dtype
                outputs.append(torch.empty(each.shape, dtype=kind, pin_memory=True))
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for to, value in zip(given, inputs, strict=True):
                    to.copy_(value, non_blocking=True)
                found = _listed(module(*given))
                for to, value in zip(outputs, found, strict=True):
                    to.copy_(value, non_blocking=True)
        results: list[Array] = [each.numpy() for each in outputs]
        kept = (module, graph, given, found, inputs, outputs)

        def run() -> list[tuple[str, Array]]:
            for to, array in arrays:
                np.copyto(to, array)
            kept[1].replay()
            torch.cuda.current_stream().synchronize()
            return [
                (name, result.copy()) for name, result in zip(job.outputs, results, strict=True)
            ]

        return run


def _listed(found: Any) -> list[Any]:
    return [found] if hasattr(found, "shape") else [*found]


def _median_seconds(run: Run) -> float:
    taken: list[float] = []
    for _ in range(_TRIALS):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[_TRIALS // 2]
