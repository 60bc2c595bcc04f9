"""Models that several threads run at the same time."""

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from palmkit import engine
from palmkit.engine.ir import Array


def check_threads_share(model: engine.Model, inputs: Mapping[str, Array]) -> None:
    """Have four threads run a model, and assert that each gets what one alone gets, as "y"."""
    truth, found = model.run(inputs)["y"], list[Any]()

    def work() -> None:
        found.extend(np.array_equal(model.run(inputs)["y"], truth) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 80
