"""The engine on whatever machine this is: the numbers of x86-64, and from many threads at once.

It needs NumPy, flatbuffers and pytest, nothing else.
"""

import json
import sys
import sysconfig
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.engine import Model, _native, load
from palmkit.engine.ir import Graph, Node, Type
from tests.platforms.recorded import FILE, MODELS, of_model

RECORDED: dict[str, dict[str, list[float]]] = json.loads(FILE.read_text())["models"]
# Sums in another order, as of palmkit doctor: palmkit.kits.doctor.TOLERANCE.
TOLERANCE = 1e-4
THREADS, ROUNDS = 8, 12


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_models_give_what_they_give_elsewhere(path: Path) -> None:
    found, wanted = of_model(path), RECORDED[path.stem]
    assert found.keys() == wanted.keys()
    for name, numbers in found.items():
        np.testing.assert_allclose(numbers, wanted[name], TOLERANCE, TOLERANCE, err_msg=name)


def test_a_machine_has_an_instruction_set() -> None:
    assert _native.isas()[-1] in ("scalar", "neon")


def small(width: int) -> Graph:
    random = np.random.default_rng(width)
    return Graph(
        inputs={"x": Type("float32", (1, 24, 24, 8))},
        outputs={"y": Type("float32", (1, 24, 24, width))},
        nodes=(
            Node("transpose", ("x",), ("t",), {"perm": (0, 3, 1, 2)}),
            Node("conv", ("t", "w"), ("c",), {"pads": (1, 1, 1, 1)}),
            Node("relu", ("c",), ("r",)),
            Node("transpose", ("r",), ("y",), {"perm": (0, 2, 3, 1)}),
        ),
        constants={"w": random.normal(0, 0.2, (width, 8, 3, 3)).astype(np.float32)},
    )


def at_once(work: Callable[[int], None]) -> None:
    """Let each thread do its rounds, all beginning together, and raise what the first raised."""
    ready = threading.Barrier(THREADS)

    def rounds(number: int) -> None:
        ready.wait()
        for round in range(ROUNDS):
            work(number * ROUNDS + round)

    before = sys.getswitchinterval()
    # Threads take turns as often as they can where there is a global lock.
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(rounds, number) for number in range(THREADS)]:
                done.result()
    finally:
        sys.setswitchinterval(before)


def given(number: int) -> dict[str, NDArray[Any]]:
    return {"x": np.random.default_rng(number).random((1, 24, 24, 8), np.float32)}


@pytest.mark.parametrize("threads", [1, 2])
def test_one_model_serves_many_threads(threads: int) -> None:
    model = Model(small(12), threads=threads)
    wanted = [model.run(given(number))["y"].copy() for number in range(THREADS * ROUNDS)]

    def work(number: int) -> None:
        np.testing.assert_array_equal(model.run(given(number))["y"], wanted[number])

    at_once(work)


def test_models_are_made_run_and_dropped_by_many_threads() -> None:
    widths = (4, 5, 8, 16)
    wanted = {width: Model(small(width)).run(given(0))["y"].copy() for width in widths}

    def work(number: int) -> None:
        width = widths[number % len(widths)]
        np.testing.assert_array_equal(Model(small(width)).run(given(0))["y"], wanted[width])

    at_once(work)


def test_a_file_is_loaded_and_run_by_many_threads_at_new_sizes() -> None:
    path = next(path for path in MODELS if path.stem == "face_detector")
    sizes = [(32 * (1 + number % 3), 32 * (1 + number // 3 % 4)) for number in range(12)]

    def image(number: int) -> dict[str, NDArray[Any]]:
        height, width = sizes[number % 12]
        return {"image": np.full((1, height, width, 3), 0.1 * (number % 12), np.float32)}

    alone = load(path)
    wanted = [{k: v.copy() for k, v in alone.run(image(n)).items()} for n in range(12)]
    shared = load(path)

    def work(number: int) -> None:
        model = load(path) if number % 4 == 0 else shared
        for name, value in model.run(image(number)).items():
            np.testing.assert_array_equal(value, wanted[number % 12][name])

    at_once(work)


def test_an_error_of_one_thread_is_its_own() -> None:
    model = Model(small(8))
    wanted = model.run(given(0))["y"].copy()

    def work(number: int) -> None:
        if number % 2:
            np.testing.assert_array_equal(model.run(given(0))["y"], wanted)
        else:
            dims = (1, 24, 24, 9 + number)
            with pytest.raises(ValueError, match=f"{9 + number}"):
                model.run({"x": np.zeros(dims, np.float32)})

    at_once(work)


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a global lock"
)
def test_the_global_lock_stays_off() -> None:
    assert not getattr(sys, "_is_gil_enabled")()  # noqa: B009
