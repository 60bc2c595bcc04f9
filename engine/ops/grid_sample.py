"""The op grid_sample."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import ALL, FLOATS, wide
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.sampling import MODES, PADDING_MODES, sample
from palmkit.engine.ops.traits import Family, Traits


def _infer(
    x: Type,
    grid: Type,
    *,
    align_corners: int,
    mode: str,
    padding_mode: str,
) -> Type:
    need_dtype("grid_sample", x, among=ALL if mode == "nearest" else FLOATS)
    need_dtype("grid_sample", grid, among=FLOATS)
    rank = need_rank("grid_sample", x, 3)
    if mode not in MODES or padding_mode not in PADDING_MODES:
        raise ValueError(f"unknown mode: {mode}, {padding_mode}")
    if len(grid.dims) != rank or grid.dims[0] != x.dims[0] or grid.dims[-1] != rank - 2:
        raise ShapeError(f"grid_sample: expected a grid of {rank - 2} axes for {x}, got {grid}")
    if 0 in x.dims[2:]:
        raise ShapeError(f"grid_sample: nothing to sample in {x}")
    return Type(x.dtype, (*x.dims[:2], *grid.dims[1:-1]))


_GRID = np.random.default_rng(5).uniform(-1.4, 1.4, (2, 6, 5, 2)).astype(np.float32)


@op(
    _infer,
    *(
        case((2, 3, 5, 4), _GRID, mode=mode, padding_mode=padding_mode, align_corners=align)
        for mode in MODES
        for padding_mode in PADDING_MODES
        for align in (0, 1)
    ),
    case((1, 2, 4, 5, 3), (1, 3, 2, 4, 3)),
    case((1, 2, 4, 5, 3), (1, 3, 2, 4, 3), mode="nearest", padding_mode="border"),
    case((1, 2, 4, 5, 3), (1, 3, 2, 4, 3), padding_mode="reflection", align_corners=1),
    case((1, 1, 1, 1), (1, 3, 2, 2), padding_mode="reflection", align_corners=1),
    traits=Traits(family=Family.SAMPLING),
)
def grid_sample(
    x: Array,
    grid: Array,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Array:
    """x[n, c, *spatial] sampled at the positions grid[n, *out, axes], the last axis first.

    In the grid -1 and 1 are the centres of the outermost elements if align_corners, else their
    outer edges.
    Jaderberg et al.: Spatial Transformer Networks, 2015.
    """
    grid = wide(grid)
    sizes = np.array(x.shape[:1:-1], grid.dtype)
    places = (grid + 1) / 2 * (sizes - 1) if align_corners else ((grid + 1) * sizes - 1) / 2
    return sample(x, places[..., ::-1].astype(grid.dtype), mode, padding_mode, align_corners)
