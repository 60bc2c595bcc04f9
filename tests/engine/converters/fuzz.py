"""Damages foreign models and converts them, until time is up: `make fuzz-converters FUZZ_S=3600`.

A case is made of the seed and its number alone. It must be converted, or refused by a PalmError of
one short line, soon and in little memory; what is converted is then planned and run once on zeros,
where it may be refused as well. Everything else is a failure: its files are kept, and the line
that repeats it is printed. Cases run in a child process, which is started anew after a crash.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np

from palmkit import engine
from palmkit.engine.errors import PalmError
from palmkit.engine.ir import Graph, Type
from palmkit.engine.macs import macs
from palmkit.engine.ops import infer_types
from tests.engine.converters.fuzz_changes import damaged
from tests.engine.converters.fuzz_seeds import SEEDS, Seed, seeds

MOST_ADDRESSES = 1 << 34
MOST_GROWTH = 1 << 29
MOST_LETTERS = 16_000
MOST_TO_RUN_BYTES = 1 << 26
MOST_TO_RUN_MACS = 1 << 28
CONVERT_S, RUN_S, IDLE_S = 30, 10, 600
OPEN_DIM = 2


class Failure(Exception):
    """Raised for anything that must not happen."""


def case(format: str, seed: int, number: int) -> tuple[Seed, dict[str, bytes]]:
    """Return the model that is damaged, and its damaged files."""
    chance = random.Random(f"{format} {seed} {number}")
    whole = seeds(format)
    weights = [1 / (1 + each.size / 20_000) for each in whole]
    chosen = chance.choices(whole, weights)[0]
    return chosen, damaged(chosen, chance)


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Put the files into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def attempt(path: Path, size: int, stages: Iterator[None] | None = None) -> str:
    """Convert, plan and run one model; what came of it. Raises Failure, or what went wrong.

    stages: told when it is converted, and when it is planned.
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        graph = engine.convert(path)
    except PalmError as error:
        checked(error)
        check_memory(error)
        return f"refused: {type(error).__name__}"
    finally:
        grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak)
        if grown > MOST_GROWTH + 32 * size:
            raise Failure(f"converting {size} bytes took {grown >> 20} MiB")
    if stages is not None:
        next(stages)
    try:
        return run(graph, stages)
    except PalmError as error:
        checked(error)
        return f"converted, then refused: {type(error).__name__}"


def checked(error: PalmError) -> None:
    """Raise Failure unless the error is one short line."""
    text = str(error)
    if not text.strip() or len(text) > MOST_LETTERS or len(text.splitlines()) != 1:
        raise Failure(f"expected one short line, got {text[:MOST_LETTERS]!r}") from error


def check_memory(error: PalmError) -> None:
    """Raise Failure if memory ran out, as conversion takes little."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            raise Failure(f"asked for more memory than there is: {error}") from error
        cause = cause.__cause__ or cause.__context__


def run(graph: Graph, stages: Iterator[None] | None = None) -> str:
    """Plan and run on zeros, if that is little work."""
    inputs: dict[str, Type] = {}
    for name, type in graph.inputs.items():
        if not type.has_rank or type.dtype == "undefined":
            return "converted, with inputs of any rank"
        dims = tuple(dim if isinstance(dim, int) else OPEN_DIM for dim in type.shape)
        inputs[name] = Type(type.dtype, dims)
    fixed = replace(graph, inputs=inputs)
    types = infer_types(fixed)
    size = sum(type.size_bytes for type in types.values() if type.is_static)
    # An array of numpy's has no such dims, be it empty.
    size += sum(prod(max(dim, 1) for dim in type.dims) for type in inputs.values())
    work = sum(macs(node, types) or 0 for node in fixed.nodes)
    model = engine.Model(graph)
    if size > MOST_TO_RUN_BYTES or work > MOST_TO_RUN_MACS:
        return "converted, too large to run"
    if stages is not None:
        next(stages)
    model.run({name: np.zeros(type.dims, type.dtype) for name, type in inputs.items()})
    return "runs"


def serve(format: str, seed: int, first: int, pipe: int) -> None:
    """Run cases one after the other, writing a line for each stage to the pipe."""

    def say(*words: object) -> None:
        # Of the CPU's time, so that a busy machine fails nothing; SIGPROF ends the process.
        signal.setitimer(signal.ITIMER_PROF, RUN_S if words[0] == "planned" else CONVERT_S)
        os.write(pipe, (" ".join(map(str, words)) + "\n").encode())

    def told(number: int) -> Iterator[None]:
        for stage in ("converted", "planned"):
            say(stage, number)
            yield

    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = Path(tempfile.mkdtemp(prefix="fuzz"))
    number = first
    while True:
        say("begun", number)
        chosen, files = case(format, seed, number)
        write(folder, files)
        say("written", number)
        try:
            size = sum(map(len, files.values()))
            say("done", number, attempt(folder / chosen.main, size, told(number)))
        except BaseException as error:  # noqa: BLE001
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}:{place.lineno}"
            said = " ".join(str(error).split())[:300]
            say("failed", number, f"{type(error).__name__} at {where}: {said}")
        number += 1


def follow(format: str, seed: int, first: int, end: float, counts: Counter[str]) -> tuple[int, str]:
    """Run cases in a child until `end` or a failure; return the next number and the failure."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        faulthandler.enable()
        os.close(reading)
        try:
            serve(format, seed, first, writing)
        finally:
            os._exit(1)
    os.close(writing)
    number, stage, kept = first, "begun", b""
    try:
        while True:
            if not select.select([reading], [], [], IDLE_S)[0]:
                return number + 1, f"{IDLE_S} s later it was still only {stage}"
            data = os.read(reading, 1 << 16)
            if not data:
                ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                child = 0
                if ended == -signal.SIGPROF and stage == "planned":
                    counts["converted, runs long"] += 1
                    print(f"runs over {RUN_S} s: {repeating(format, seed, number)}", flush=True)
                    return number + 1, ""
                if ended == -signal.SIGPROF:
                    return number + 1, f"over {CONVERT_S} s later it was still only {stage}"
                return number + 1, f"the process ended with {ended} while {stage}"
            *lines, kept = (kept + data).split(b"\n")
            for line in lines:
                stage, _, rest = line.decode().partition(" ")
                text, _, said = rest.partition(" ")
                number = int(text)
                if stage == "failed":
                    return number + 1, said
                if stage == "done":
                    counts[said] += 1
            if stage == "done" and time.monotonic() > end:
                return number + 1, ""
    finally:
        os.close(reading)
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def fuzz(format: str, seed: int, first: int, seconds: float, keep: Path) -> int:
    """Fuzz one format; return how many cases failed."""
    end = time.monotonic() + seconds
    counts, failures, number = Counter[str](), Counter[str](), first
    seeds(format)
    try:
        while time.monotonic() < end:
            number, wrong = follow(format, seed, number, end, counts)
            if wrong:
                failures[wrong] += 1
            if failures[wrong] == 1:
                chosen, files = case(format, seed, number - 1)
                folder = keep / f"{format}-{seed}-{number - 1}"
                write(folder, files)
                print(f"{folder / chosen.main} of {chosen.name}: {wrong}", flush=True)
                print(f"  again: {repeating(format, seed, number - 1)}", flush=True)
    finally:
        results = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        ran = f"{counts.total()} cases ran, {failures.total()} failed"
        print(f"{format}: from {first} on {ran}; {results}", flush=True)
    return failures.total()


def repeating(format: str, seed: int, number: int) -> str:
    """Return the command that runs one case again."""
    return f"python -m tests.engine.converters.fuzz {format} --seed {seed} --case {number}"


def again(format: str, seed: int, number: int, keep: Path) -> None:
    """Run one case in this process, with its traceback if it fails."""
    chosen, files = case(format, seed, number)
    folder = keep / f"{format}-{seed}-{number}"
    write(folder, files)
    print(f"{folder / chosen.main} of {chosen.name}")
    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    faulthandler.dump_traceback_later(CONVERT_S, exit=True)
    print(attempt(folder / chosen.main, sum(map(len, files.values()))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", choices=[*SEEDS, []], help="which; all if left out")
    parser.add_argument("--seconds", type=float, default=60, help="how long, for each format")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="run this one alone")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="where files go")
    options = parser.parse_args()
    logging.disable()
    failed = 0
    for format in options.formats or SEEDS:
        if options.case is not None:
            again(format, options.seed, options.case, options.keep)
        else:
            failed += fuzz(format, options.seed, options.first, options.seconds, options.keep)
    return 1 if failed else 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
