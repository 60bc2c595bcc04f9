"""Runs damaged steps, kernel by kernel, in the native module built with sanitizers.

`python -m tests.engine.fuzz_plans --help`. The seeds are the steps of every op's cases, of the same
cases with other dims, of the shipped models and of quantized and low-precision networks. Each is
tried alone or as one of two branches, with arrays that end at pages that nobody may touch and that
the address sanitizer guards to the byte. Anything but a PalmError ends the process that tries, and
so does what a sanitizer finds, a run that writes to its inputs or whose result depends on the
threads, and one of more than two minutes. What did it is printed and can be repeated by its
number.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import pickle
import random
import subprocess
import sys
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import PalmError
from tests.engine.fuzz_plan_cases import ARRAY_LIMIT_BYTES, Case, Operand, bytes_of
from tests.engine.fuzz_plan_mutants import filling, mutant
from tests.engine.fuzz_plan_seeds import seeds

ROOT = Path(__file__).parents[2]
# With sanitizers the largest steps take 15 seconds, on a machine that does nothing else.
HANG_S = 120
PAGE = mmap.PAGESIZE


class Guarded:
    """Memory whose arrays lie at its very end, before a page that nobody may touch."""

    def __init__(self, size: int) -> None:
        """Reserve room for arrays of `size` bytes."""
        self.room = (size + PAGE - 1) // PAGE * PAGE
        libc = ctypes.CDLL(None, use_errno=True)
        self.memory = mmap.mmap(-1, self.room + PAGE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        if libc.mprotect(ctypes.c_void_p(self.address + self.room), PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
        self.poison = getattr(libc, "__asan_poison_memory_region", None)
        self.unpoison = getattr(libc, "__asan_unpoison_memory_region", None)

    def array(self, size: int, dtype: str, slack: int) -> NDArray[Any]:
        """Return the last `size` bytes minus `slack` items, with poison on both sides."""
        item = np.dtype(dtype).itemsize
        begin = self.room - size - slack * item
        if self.poison and self.unpoison:
            self.unpoison(ctypes.c_void_p(self.address), ctypes.c_size_t(self.room))
        array = np.frombuffer(self.memory, dtype, size // item, begin)
        if self.poison:
            before = max(0, begin // 8 * 8 - PAGE)
            self.poison(ctypes.c_void_p(self.address + before), ctypes.c_size_t(begin - before))
            end = begin + size
            self.poison(ctypes.c_void_p(self.address + end), ctypes.c_size_t(self.room - end))
        return array


def attempt(native: Any, cases: list[Case], rooms: list[Guarded], rng: random.Random) -> str:
    """Make and run a plan of these steps; two are separate branches."""
    tensors: list[Any] = []
    steps: list[Any] = []
    constants: list[Any] = []
    slots: Counter[str] = Counter()
    given: list[tuple[Operand, NDArray[Any]]] = []
    wanted: list[Operand] = []
    arena = 0
    for branch, case in enumerate(cases, 1):
        indices: list[int] = []
        for x in [*case.inputs, *case.outputs]:
            if x is None:
                indices.append(-1)
                continue
            is_output = len(indices) >= len(case.inputs)
            value = None
            if bytes_of(x) > ARRAY_LIMIT_BYTES:
                # Only what refuses it before it runs can be tried.
                place, slot = "arena", 0
            elif x.dtype == "bfloat16":
                # Nobody outside has it.
                place, slot = "arena", arena
                arena += (bytes_of(x) + 63) // 64 * 64
            elif is_output:
                place, slot = "output", slots["output"]
                wanted.append(x)
            else:
                place = "constant" if x.value is not None else "input"
                slot, value = slots[place], filling(x, rng)
                assert value is not None
                if place == "constant":
                    constants.append((x.dtype, value))
                else:
                    given.append((x, value))
            slots[place] += 1
            if x.whole:
                # The first tensor of a slot is all of it.
                tensors.append((place, slot, x.dtype, [x.whole]))
            indices.append(len(tensors))
            tensors.append((place, slot, x.dtype, list(x.dims), x.offset, list(x.strides)))
        attrs = {**case.attrs, "branch": branch} if len(cases) > 1 else case.attrs
        n = len(case.inputs)
        steps.append((case.kernel, indices[:n], indices[n:], attrs))

    free = iter(rooms)

    def room(size: int, dtype: str) -> NDArray[Any]:
        return next(free).array(size, dtype, rng.choice((0, 0, 0, 1, 3)))

    if len(constants) + len(given) + 2 * len(wanted) > len(rooms):
        return "too many"

    def placed(value: NDArray[Any], dtype: str) -> NDArray[Any]:
        array = room(value.nbytes, dtype)
        array[...] = np.ascontiguousarray(value).reshape(-1).view(dtype)
        return array

    try:
        known = [placed(value, dtype) for dtype, value in constants]
        program = native.Program(tensors, steps, known, arena)
        del known
        inputs = [placed(value, x.dtype) for x, value in given]
        results: list[str | list[NDArray[Any]]] = []
        sessions = [program.session(1), program.session(3, True)]
        for session in sessions:
            outputs = [room(bytes_of(x), x.dtype) for x in wanted]
            for y in outputs:
                y.view(np.uint8)[:] = 0xA5
            try:
                session.run(inputs, outputs)
            except PalmError as error:
                results.append(str(error))
            else:
                results.append([y.copy() for y in outputs])
    except PalmError as error:
        return type(error).__name__
    for (_, value), array in zip(given, inputs, strict=True):
        assert array.tobytes() == value.tobytes(), "an input was written to"
    one, many = results
    if isinstance(one, str) or isinstance(many, str):
        assert one == many, f"one thread: {one}; three: {many}"
        return "refused when run"
    # What is in the arena before a run is anybody's, and what is copied to one place comes in any
    # order.
    is_open = any(case.kernel == "copy" for case in cases)
    is_open |= any(x and x.dtype == "bfloat16" for case in cases for x in case.inputs)
    for x, y, z in zip(wanted, one, many, strict=True):
        same = np.array_equal(y, z, equal_nan=np.dtype(x.dtype).kind == "f")
        assert same or is_open, f"the result depends on the threads: {y} and {z}"
    return "runs"


def tried(native: Any, seeds: list[Case], rooms: list[Guarded], number: int, seed: int) -> str:
    """Try mutant `number` of these seeds."""
    rng = random.Random(f"{seed} {number}")  # noqa: S311
    kernels = sorted({case.kernel for case in seeds})
    kernel = kernels[number % len(kernels)]
    own = [case for case in seeds if case.kernel == kernel]
    cases = [mutant(rng.choice(own), seeds, rng)]
    if rng.random() < 0.1:
        cases.append(mutant(rng.choice(seeds), seeds, rng))
    try:
        return attempt(native, cases, rooms, rng)
    except Exception:
        print(*cases, sep="\n", file=sys.stderr)
        raise


def child(options: argparse.Namespace) -> None:
    """Try mutants from number `first` on; the current number stands in the file `at`."""
    from palmkit.engine import _native

    assert options.library.resolve() == _native.LIBRARY, _native.LIBRARY
    seeds = pickle.loads((options.keep / "plans.pickle").read_bytes())  # noqa: S301  just written
    if options.kernels:
        seeds = [case for case in seeds if case.kernel in options.kernels]
    rooms = [Guarded(ARRAY_LIMIT_BYTES + 8 * PAGE) for _ in range(24)]
    end = time.monotonic() + options.seconds
    counts: Counter[str] = Counter()
    number = options.first
    with (options.keep / "at").open("r+b") as at:
        while time.monotonic() < end and number - options.first < options.count:
            at.seek(0)
            at.write(str(number).encode().ljust(20))
            at.flush()
            counts[tried(_native, seeds, rooms, number, options.seed)] += 1
            number += 1
    print(pickle.dumps(counts).hex())


# ---- the process that starts and watches the others ----


def watch(options: argparse.Namespace, first: int, seconds: float) -> tuple[int, Counter[str], str]:
    """Run a child from number `first`; return the next number, counts, and the failure."""
    library = options.library.resolve()
    environment = {**os.environ, "PALMKIT_LIBRARY": str(library)}
    if "sanitize" in str(options.library):
        asan = subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()
        ubsan = subprocess.check_output(["gcc", "-print-file-name=libubsan.so"], text=True).strip()
        environment |= {
            "LD_PRELOAD": f"{asan} {ubsan}",
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_segv=1"
            ":max_allocation_size_mb=8192",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
    at = options.keep / "at"
    at.write_bytes(str(first).encode().ljust(20))
    command = [sys.executable, "-m", "tests.engine.fuzz_plans", "--child", f"--first={first}"]
    command += [f"--seconds={seconds}", f"--seed={options.seed}", f"--count={options.count}"]
    command += [f"--library={library}", f"--keep={options.keep}", *options.kernels]
    log = options.keep / "log"
    with log.open("w+") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        last, since = "", time.monotonic()
        while True:
            try:
                out, _ = process.communicate(timeout=1)
                break
            except subprocess.TimeoutExpired:
                now = at.read_text()
                if now != last:
                    last, since = now, time.monotonic()
                elif time.monotonic() > since + HANG_S:
                    process.kill()
                    process.communicate()
                    return int(now) + 1, Counter(), f"number {now.strip()}: hangs"
    number = int(at.read_text())
    if process.returncode:
        return number + 1, Counter(), f"number {number}: {log.read_text()[-options.tail :]}"
    return number + 1, pickle.loads(bytes.fromhex(out.strip())), ""  # noqa: S301  from the child


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", help="only these")
    parser.add_argument("--seconds", type=float, default=60, help="how long, in all")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same mutants")
    parser.add_argument("--first", type=int, default=0, help="begin with the mutant of this number")
    parser.add_argument("--count", type=int, default=1 << 62, help="try so many")
    parser.add_argument("--variants", type=int, default=3, help="of each case with other dims")
    parser.add_argument("--keep-on", action="store_true", help="go on after a failure")
    parser.add_argument("--tail", type=int, default=3000, help="characters of a report to print")
    parser.add_argument("--keep", type=Path, default=ROOT / "build/fuzz", help="where files go")
    parser.add_argument(
        "--library",
        type=Path,
        default=ROOT / "build/sanitize/libpalm.so",
        help="the native library, built by `make fuzz-plans`",
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    if not options.library.exists():
        parser.error(f"{options.library} is missing: `make fuzz-plans` builds it")
    options.keep.mkdir(parents=True, exist_ok=True)
    found = seeds(options.seed, options.variants)
    (options.keep / "plans.pickle").write_bytes(pickle.dumps(found))
    kernels = Counter(case.kernel for case in found)
    print(f"{len(found)} steps of {len(kernels)} kernels")
    end = time.monotonic() + options.seconds
    first, counts, failures = options.first, Counter[str](), 0
    stop = options.first + options.count
    while (left := end - time.monotonic()) > 0 and first < stop:
        options.count = stop - first
        first, some, failure = watch(options, first, left)
        counts += some
        if failure:
            failures += 1
            print(failure, flush=True)
            if not options.keep_on:
                break
    print(f"{first - options.first} tried;", *(f"{k} {n}," for k, n in counts.most_common()))
    print(f"{failures} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    # The children know the cases by the module's name.
    import_module("tests.engine.fuzz_plans").main()
