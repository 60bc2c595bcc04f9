"""Engines for tests: each adds 1, in its way, or fails to."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import ClassVar

import numpy as np

from palmkit.engine.bench.engines import Engine, Job, Refusal, Run
from palmkit.engine.ir import Array

PAUSE_S = 0.002


class Plain(Engine):
    """Logs each run to the file `log` beside it: its class, the process and the time."""

    name = "plain"
    title = "Plain"
    modules: ClassVar[tuple[str, ...]] = ()
    distributions = ()
    forms: ClassVar[tuple[str, ...]] = ("onnx",)

    def import_library(self) -> None:
        pass

    def log(self, job: Job, what: str) -> None:
        with (job.cache / "log").open("a") as file:
            file.write(f"{type(self).__name__} {os.getpid()} {what} {time.monotonic()}\n")

    def open(self, job: Job) -> Run:
        self.log(job, "open")

        def run() -> list[tuple[str, Array]]:
            time.sleep(PAUSE_S)
            self.log(job, "run")
            return [("y", self.answer(job.inputs["x"]))]

        return run

    def answer(self, x: Array) -> Array:
        return x + np.float32(1)


class Other(Plain):
    title = "Other"


class Spins(Plain):
    """Has a thread that never rests, like some engines' pools."""

    title = "Spins"

    def open(self, job: Job) -> Run:
        def spin() -> None:
            while True:
                self.log(job, "spin")
                time.sleep(PAUSE_S / 4)

        threading.Thread(target=spin, daemon=True).start()
        return super().open(job)


class Refuses(Plain):
    def open(self, job: Job) -> Run:
        raise Refusal("an operator it lacks")


class Raises(Plain):
    def open(self, job: Job) -> Run:
        raise KeyError("an operator\nit lacks")


class Dies(Plain):
    def open(self, job: Job) -> Run:
        os.write(2, b"first line\nlast words\n")
        os.kill(os.getpid(), signal.SIGABRT)
        raise AssertionError


class Hangs(Plain):
    def open(self, job: Job) -> Run:
        self.log(job, "open")
        time.sleep(600)
        raise AssertionError


class DiesLater(Plain):
    """Dies after it was opened."""

    runs = 0

    def answer(self, x: Array) -> Array:
        self.runs += 1
        if self.runs > 7:
            os._exit(3)
        return super().answer(x)


class IsWrong(Plain):
    def answer(self, x: Array) -> Array:
        return np.asarray(super().answer(x) + 0.1 * x)


class GivesTwo(Plain):
    def open(self, job: Job) -> Run:
        run = super().open(job)
        return lambda: [("y", np.zeros((1, 5), np.float32)), *run()][:1]


class ReadsTwo(Plain):
    """Refuses the first form."""

    forms: ClassVar[tuple[str, ...]] = ("tflite", "onnx")

    def open(self, job: Job) -> Run:
        if job.form == "tflite":
            raise Refusal("no such magic")
        return super().open(job)


class Missing(Plain):
    modules: ClassVar[tuple[str, ...]] = ("no_such_module_at_all",)


class Hoards(Plain):
    """Keeps 64 MB, and briefly needs as much again."""

    title = "Hoards"

    def open(self, job: Job) -> Run:
        self.kept = np.ones(64 << 20, np.uint8)
        np.ones(64 << 20, np.uint8).sum()
        return super().open(job)


class Converts(Plain):
    """Counts its conversions in its cache, and leaves a file in the current folder."""

    title = "Converts"
    converts = True

    def prepare(self, job: Job) -> Path:
        from palmkit.engine.bench.conversions import cached

        def convert(folder: Path) -> None:
            self.log(job, "convert")
            Path("left.bin").touch()
            (folder / "made").write_bytes(job.file.read_bytes())

        return cached(job, "converts-1", convert) / "made"

    def open(self, job: Job) -> Run:
        assert job.file.name == "made"
        return super().open(job)
