"""What tests of recipes share."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def one_thread_of_torch() -> Iterator[None]:
    """Sums do not hang on how many cores there are.

    And torch's threads spin where they wait for one another: with other processes beside them, such
    as those of these tests, seconds become minutes.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
