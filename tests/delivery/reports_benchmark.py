"""What a call of palmkit.delivery.reports costs the thread that runs a model.

    python -m tests.delivery.reports_benchmark

Each call is timed by itself, while the reports' own thread writes to the spool ten times a second.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any

from palmkit.delivery import reports
from palmkit.delivery.reports import recorder

CALLS = 100_000
LIMIT_US = 20.0
GROUP = ("face_detector", "1.1.0", "candidate")


class Nothing:
    """A model that takes no time."""

    def run(self, inputs: Mapping[str, Any]) -> Any:
        return inputs


def calls() -> dict[str, Callable[[], object]]:
    watched = reports.watch(Nothing(), *GROUP)
    return {
        "count": lambda: reports.count(*GROUP, "load_ok"),
        "count, with an error": lambda: reports.count(*GROUP, "load_fail", error=ERROR),
        "observe": lambda: reports.observe(*GROUP, "infer_ms", 3.7),
        "run of a watched model": lambda: watched.run({}),
    }


def failed() -> BaseException:
    try:
        from palmkit.engine import load

        load("/nowhere.palm")
    except Exception as error:
        return error
    raise AssertionError


ERROR = failed()


def times_us(call: Callable[[], object]) -> list[float]:
    taken: list[float] = []
    for _ in range(CALLS):
        started = perf_counter_ns()
        call()
        taken.append((perf_counter_ns() - started) / 1e3)
    return sorted(taken)


def show(name: str, taken: list[float]) -> bool:
    mean, median = sum(taken) / len(taken), taken[len(taken) // 2]
    late = taken[int(len(taken) * 0.999)]
    line = f"mean {mean:6.2f}  median {median:6.2f}  99.9 % below {late:7.2f}  us"
    print(f"{name:36} {line}")
    return mean < LIMIT_US


def count_until(stop: threading.Event) -> None:
    while not stop.is_set():
        reports.count(*GROUP, "nan")


def main() -> int:
    """Print the table; 1 if a call takes 20 us or more on average."""
    fast = [show(f"off: {name}", times_us(call)) for name, call in calls().items()]
    recorder.WRITE_EVERY_S = 0.1
    with tempfile.TemporaryDirectory() as folder:
        assert reports.enable(None, folder=folder)
        fast += [show(f"on: {name}", times_us(call)) for name, call in calls().items()]
        stop = threading.Event()
        other = threading.Thread(target=count_until, args=(stop,))
        other.start()
        call = calls()["observe"]
        show("on: observe, another thread counting", times_us(call))
        stop.set()
        other.join()
        reports.disable()
    return 0 if all(fast) else 1


if __name__ == "__main__":
    sys.exit(main())
