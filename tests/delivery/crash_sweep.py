"""Ends the process at every change to the disk, then sees that a release runs and an update works.

Run by test_crashes.py under deadly.c; its one argument is a JSON object: url, root, template,
scenario, numbers (of the changes; none: all), baseline, and is_full: instead of the end the disk is
full from there on. One JSON line for each change.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from palmkit import engine
from palmkit.delivery import download, golden, http, reports, store, trust
from palmkit.delivery.client import Client
from palmkit.engine.errors import DeliveryError

MODEL = "doubler"
# What a full disk may be called where it is noticed.
FULL = ("disk_full", "download_fail", "hash_mismatch")
IMPORTED = (download, http, store, trust, reports)


def client(job: dict[str, Any], folder: Path) -> Client:
    return Client(
        folder,
        [job["url"]],
        Path(job["root"]).read_bytes(),
        baselines={MODEL: Path(job["baseline"])},
        prove=lambda question: golden.Answer(None),
    )


def update(device: Client) -> None:
    """Do everything that happens to a good release."""
    device.refresh(MODEL)
    device.mark_ok(device.get(MODEL, "local"))
    device.collect()
    device.close()


def fail(device: Client) -> None:
    """Do everything that happens to a bad release."""
    device.refresh(MODEL)
    release = device.get(MODEL, "local")
    if release.version == "2.0.0":
        device.report_failure(release, "nan")
    device.collect()
    device.close()


SCENARIOS: dict[str, Callable[[Client], None]] = {"update": update, "fail": fail}


def runs(device: Client) -> str:
    """Return the version of the running release, and check that it runs."""
    release = device.get(MODEL, "local")
    model = engine.load(release.path)
    outputs = model.run(
        {name: np.ones(type.dims, np.float32) for name, type in model.inputs.items()}
    )
    assert all(np.isfinite(each).all() for each in outputs.values())
    return release.version


def afterwards(job: dict[str, Any], folder: Path) -> None:
    """Check what the next process finds, and that the update goes on."""
    device = client(job, folder)
    found = runs(device)
    assert found in ("1.0.0", "2.0.0"), f"runs {found}"
    SCENARIOS[job["scenario"]](device)
    wanted = "2.0.0" if job["scenario"] == "update" else "1.0.0"
    found = runs(client(job, folder))
    assert found == wanted, f"runs {found} at last"
    state = client(job, folder).status(MODEL)["models"][0]
    assert not (state["state"] == "ACTIVE" and state["active"] != wanted), state


def in_a_child(action: Callable[[], None]) -> int:
    """Return the exit code of a process that did the action, negative for a signal."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    job = json.loads(sys.argv[1])
    shim = ctypes.CDLL(None)
    shim.deadly_arm.argtypes = [ctypes.c_long, ctypes.c_int]
    shim.deadly_count.restype = ctypes.c_long
    act = SCENARIOS[job["scenario"]]
    with tempfile.TemporaryDirectory(dir=Path(job["template"]).parent) as scratch:
        total_file = Path(scratch, "total")

        def act_until(number: int, folder: Path) -> None:
            device = client(job, folder)
            shim.deadly_arm(number, job["is_full"])
            try:
                act(device)
            except DeliveryError as error:
                assert job["is_full"] and error.code in FULL, error
                assert runs(device) in ("1.0.0", "2.0.0")
            count = shim.deadly_count()
            shim.deadly_arm(-1, False)
            total_file.write_text(str(count))

        def copy(name: str) -> Path:
            return Path(shutil.copytree(job["template"], Path(scratch, name), symlinks=True))

        assert in_a_child(lambda: act_until(1 << 40, copy("whole"))) == 0
        total = int(total_file.read_text())
        print(json.dumps({"total": total}))
        for number in job["numbers"] or range(1, total + 1):
            folder = copy(str(number))
            ended = in_a_child(partial(act_until, number, folder))
            after = in_a_child(partial(afterwards, job, folder))
            print(json.dumps({"number": number, "ended": ended, "after": after}))
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
