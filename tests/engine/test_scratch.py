"""Where a step's scratch lies: in the arena, but never over what a later step reads."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.engine.errors import ModelError

native = pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")

Array = NDArray[Any]
DIMS = [1, 24, 24, 40]
COUNT = int(np.prod(DIMS))


@pytest.mark.parametrize("read_as", [DIMS, [COUNT]], ids=["as written", "as another tensor"])
@pytest.mark.parametrize("threads", [1, 2])
def test_scratch_leaves_alone_what_is_read_later(read_as: list[int], threads: int) -> None:
    rng = np.random.default_rng(0)
    x, kept = (rng.normal(size=DIMS).astype(np.float32) for _ in range(2))
    weights = rng.normal(size=(40, 3, 3, 40)).astype(np.float32)
    size = x.nbytes
    tensors: list[Any] = [
        ("input", 0, "float32", DIMS),
        ("input", 1, "float32", DIMS),
        ("constant", 0, "float32", list(weights.shape)),
        ("arena", size, "float32", DIMS),
        ("output", 0, "float32", DIMS),
        ("output", 1, "float32", DIMS),
    ]
    if read_as == DIMS:
        later = 3
    else:
        later = len(tensors)
        tensors.append(("arena", size, "float32", read_as))
        tensors.append(("output", 1, "float32", read_as))
    attrs = {"pads": [1, 1, 1, 1], "activation": "", "algorithm": "winograd_4"}
    steps: list[Any] = [
        ("copy", [1], [3], {}),
        ("conv", [0, 2], [4], attrs),
        ("copy", [later], [later + 1 if later > 3 else 5], {}),
    ]
    outputs = [np.zeros_like(x), np.zeros_like(x)]
    # On either side of it the arena has as much room as it takes, or more.
    native.Program(tensors, steps, [weights], 4 * size).session(threads).run([x, kept], outputs)
    assert np.array_equal(outputs[1], kept)
    alone = np.zeros_like(x)
    tensors[3] = ("output", 0, "float32", DIMS)
    native.Program(tensors[:4], [("conv", [0, 2], [3], attrs)], [weights], 0).session(threads).run(
        [x, kept], [alone]
    )
    assert np.array_equal(outputs[0], alone)


def test_arenas_beyond_memory_are_refused() -> None:
    last = (1 << 63) - 64
    with pytest.raises(ModelError, match="an arena of"):
        native.Program([("arena", last, "float32", [15])], [], [], last + 60)
