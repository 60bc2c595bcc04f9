"""Kits that run for long on backend gpu: what is on the device stays the same.

A short form with one kit by default; `make soak-gpu` has 10,000 frames of every kit, on an adapter
in software, whose device memory is that of the process, or with GPU=hardware on the machine's own.
"""

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

from palmkit.engine.backends.gpu import Gpu
from palmkit.kits.table import of_pictures
from tests.demos.driving import NEEDS_MODELS
from tests.engine.backends.gpu_objects import objects
from tests.kits.test_soak import MOST_GROWTH_BYTES, TURN, WARM_UP_OF, used, watch

KIND = os.environ.get("GPU", "software")
MISSING = Gpu(KIND).missing()
FRAMES = int(os.environ.get("SOAK_FRAMES", "60"))


def measured() -> tuple[int, dict[str, int]]:
    """Bytes of the process, and the objects that the device's library holds."""
    return used(), objects()


@pytest.mark.skipif(bool(MISSING), reason=f"gpu:{KIND}: {MISSING}")
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@NEEDS_MODELS
@pytest.mark.parametrize("name", of_pictures() if "SOAK_FRAMES" in os.environ else ["face"])
def test_the_device_holds_the_same(name: str) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        # What is seen for the first time is compiled late in the clip; its memory comes with use.
        further = TURN if name in WARM_UP_OF else 0
        done = process.submit(watch, name, FRAMES, f"gpu:{KIND}", measured, further)
        (bytes_before, before), (bytes_after, after), seen = done.result()
    assert seen == {True, False}
    assert before["computePipelines"] and after == before
    assert bytes_before and bytes_after - bytes_before < MOST_GROWTH_BYTES
