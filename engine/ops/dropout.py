"""The op dropout."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Results, case, op
from palmkit.engine.ops.dtypes import FLOATS, FLOATS8, wide
from palmkit.engine.ops.randomness import generator
from palmkit.engine.ops.rules import need_dtype, need_one


def _infer(
    x: Type,
    ratio: Type | None = None,
    training_mode: Type | None = None,
    *,
    seed: int | None,
) -> tuple[Type, ...]:
    need_dtype("dropout", x, among=FLOATS + FLOATS8)
    for each, dtypes in ((ratio, FLOATS + FLOATS8), (training_mode, ("bool",))):
        if each is not None:
            need_dtype("dropout", each, among=dtypes)
            need_one("dropout: ratio, training_mode", each)
    return Type(x.dtype, x.shape), Type("bool", x.shape)


@op(
    _infer,
    case((3, 4), outputs=2),
    case((3, 4), np.array(0.25, np.float32), np.array(False), outputs=2),
    case((3, 4), np.array(0, np.float32), np.array(True), outputs=2),
    case((3, 4), np.array(0.5, np.float32), np.array(True), outputs=2, seed=3),
    pure=False,
)
def dropout(
    x: Array,
    ratio: Array | None = None,
    training_mode: Array | None = None,
    *,
    seed: int | None = None,
) -> Results:
    """x, and a mask that is true everywhere.

    With training_mode a share `ratio` (0.5 if left out) of x is 0 and its mask false, the rest is
    scaled so that the mean stays.
    """
    share = 0.5 if ratio is None else float(ratio.item())
    if training_mode is None or not training_mode.item() or not share:
        return x, np.ones(x.shape, bool)
    mask = np.asarray(generator(seed).uniform(0, 1, x.shape) >= share)
    scale = 1 / (1 - share) if share < 1 else 0
    return np.asarray(mask * wide(x) * scale).astype(x.dtype), mask
