"""Prices for the cost model: time every way of convolving on this machine, then fit.

python calibrate.py time OUT.json [--isa avx2] [--bf16]  times some 300 shapes, alone on the machine
python calibrate.py fit OUT.json                         prints prices for cost.cc and their errors

Shapes are drawn as vision networks have them, with the same seed every time. The file of the
machine in cost.cc is kept in tests/engine/backends, where a test ranks by it.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from palmkit.engine import _native
from palmkit.engine.backends.cpu.costs import ranked_steps
from palmkit.engine.backends.cpu.passes.tune import time_step
from palmkit.engine.backends.cpu.registry import kernels
from palmkit.engine.machine import cpu_name
from palmkit.engine.steps.rewriting import Lowered
from palmkit.engine.steps.step import Buffer, View, view_bytes

CHANNELS = (3, 4, 8, 12, 16, 16, 20, 24, 24, 32, 32, 40, 48, 64, 64, 80, 96, 128, 160, 256, 512)
SIDES = (4, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 224)
LEAST_MACS, MOST_MACS = 2e5, 1.5e8


def shapes(count: int) -> list[dict[str, Any]]:
    """Images, kernels and strides of `count` convolutions."""
    draw = random.Random(1)
    found: list[dict[str, Any]] = []
    while len(found) < count:
        kind = draw.choice(("3x3", "3x3", "3x3", "3x3s2", "kxk", "1x1", "1x1s2", "line", "group"))
        kind = draw.choice((kind, kind, kind, kind, "depthwise", "first"))
        side, c, m = draw.choice(SIDES), draw.choice(CHANNELS), draw.choice(CHANNELS)
        kernel = {"kxk": draw.choice((2, 5, 7)), "1x1": 1, "1x1s2": 1}.get(kind, 3)
        if kind == "depthwise":
            kernel = draw.choice((3, 5))
        if kind == "first":
            kernel, c = draw.choice((3, 5, 5, 7, 7)), draw.choice((3, 3, 3, 4))
        window, group = [kernel, kernel], 1
        if kind == "line":
            window = draw.choice(([1, 3], [3, 1], [1, 7], [7, 1]))
        halves = kind == "first" or kind == "depthwise" and draw.random() < 0.3
        stride = 2 if halves or kind.endswith("s2") else 1
        if kind == "group":
            group = draw.choice((2, 4, 8))
            c, m = -(-c // group) * group, -(-m // group) * group
        if kind == "depthwise":
            group, m = c, c * draw.choice((1, 1, 2))
        pads = [(k - 1) // 2 for k in window]
        out = [(side + 2 * p - k) // stride + 1 for p, k in zip(pads, window, strict=True)]
        macs = prod(out) * m * prod(window) * c // group
        if min(out) > 0 and LEAST_MACS <= macs <= MOST_MACS:
            found.append(
                {
                    "x": [1, side, side, c],
                    "w": [m, *window, c // group],
                    "y": [1, *out, m],
                    "attrs": {"strides": [stride] * 2, "pads": [*pads, *pads], "group": group},
                }
            )
    return found


def lowered(shape: dict[str, Any]) -> Lowered:
    """One step: a convolution with bias and ReLU.

    In bfloat16 all but pictures lie so.
    """

    def view(place: str, dims: Sequence[int], dtype: str, index: int = 0) -> View:
        return View(Buffer(place, view_bytes(dtype, dims), index), dtype, tuple(dims))

    # All tiles of Winograd's are candidates then.
    attrs = {"precision": "normal", **shape["attrs"]}
    stored = "bfloat16" if attrs["precision"] == "bfloat16" else "float32"
    weights = np.full(shape["w"], 0.01, np.float32)
    bias = np.zeros(shape["w"][0], np.float32)
    x = view("input", shape["x"], stored if shape["x"][-1] > 4 else "float32")
    y = view("output", shape["y"], stored)
    attrs |= {"activation": "clip", "activation_params": [0.0, 6.0]}
    inputs = {
        "image": x,
        "weights": view("constant", weights.shape, "float32"),
        "bias": view("constant", bias.shape, "float32", 1),
    }
    step = kernels().step("conv", "conv", inputs, {"y": y}, attrs)
    return Lowered([step], [weights, bias], [x, y], kernels())


def measure(isa: str, count: int, bf16: bool) -> dict[str, Any]:
    """The shapes and their times."""
    measured: list[dict[str, Any]] = []
    for shape in shapes(count):
        if bf16:
            shape["attrs"]["precision"] = "bfloat16"
        one = lowered(shape)
        (candidates,) = ranked_steps(one.steps, (), isa)
        names = [each.algorithm for each in candidates]
        seconds = time_step(one, one.steps[0], names, 1, isa)
        microseconds = {name: round(each * 1e6, 2) for name, each in seconds.items()}
        measured.append({**shape, "microseconds": microseconds})
    return {"cpu": cpu_name(), "isa": isa, "shapes": measured}


def fit(measured: dict[str, Any]) -> None:
    """Print each algorithm's prices, non-negative with the least squares of relative errors."""
    nnls: Any = import_module("scipy.optimize").nnls
    rows: dict[str, list[list[float]]] = {}
    for shape in measured["shapes"]:
        (candidates,) = ranked_steps(lowered(shape).steps, (), measured["isa"])
        best = min(shape["microseconds"].values())
        for each in candidates:
            time = shape["microseconds"].get(each.algorithm, float("inf"))
            # What nobody would choose need not be foretold well.
            if time < 4 * best:
                row = [term / (time * 1e3) for term in each.terms]
                rows.setdefault(each.algorithm, []).append(row)
    for name, terms in rows.items():
        prices, _ = nnls(np.array(terms), np.ones(len(terms)))
        errors = np.abs(np.array(terms) @ prices - 1)
        text = ", ".join(f"{price:.3g}" for price in prices)
        print(f"{{{text}}},  // {name}: {np.median(errors):.0%} off in {len(terms)} shapes")


def main() -> None:
    """Time or fit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("time", "fit"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--isa", default=_native.isas()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    if options.what == "fit":
        fit(json.loads(options.file.read_text()))
        return
    measured = measure(options.isa, options.count, options.bf16)
    lines = ",\n".join(json.dumps(each) for each in measured.pop("shapes"))
    options.file.write_text(f'{json.dumps(measured)[:-1]}, "shapes": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
