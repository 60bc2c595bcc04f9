"""Shared fixtures of the tests of recipes."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def one_thread_of_torch() -> Iterator[None]:
    """Run torch on one thread, so that sums do not depend on the number of cores.

    Torch's threads also spin while they wait for one another: beside other processes, such as those
    of these tests, seconds become minutes.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
