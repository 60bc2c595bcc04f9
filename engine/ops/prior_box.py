"""The op prior_box."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, known_value, op

_MOST_NUMBERS = 1 << 26
_MOST_SHAPES = 256


def _ratios(aspect_ratios: tuple[float, ...], flip: int) -> list[float]:
    """Return the ratios other than 1, each once, with their inverses if asked."""
    found = [1.0]
    for ratio in np.array(aspect_ratios, np.float32).tolist():
        if all(abs(ratio - other) >= 1e-6 for other in found):
            found += [ratio, float(np.float32(1 / ratio))] if flip else [ratio]
    return [ratio for ratio in found if abs(ratio - 1) >= 1e-6]


def _count(
    min_sizes: tuple[float, ...],
    max_sizes: tuple[float, ...],
    aspect_ratios: tuple[float, ...],
    flip: int,
    variances: tuple[float, ...],
) -> int:
    """Return how many boxes a cell has."""
    if not min_sizes or len(max_sizes) not in (0, len(min_sizes)) or len(variances) not in (1, 4):
        raise ValueError("expected min_sizes, as many max_sizes or none, and 1 or 4 variances")
    if max(len(min_sizes), len(aspect_ratios)) > _MOST_SHAPES:
        raise ValueError(f"expected at most {_MOST_SHAPES} min_sizes and aspect_ratios")
    if min(min_sizes) < 1 or min(variances) <= 0 or any(not ratio > 0 for ratio in aspect_ratios):
        raise ValueError("expected sizes of 1 or more, variances and ratios above 0")
    if any(high <= low for low, high in zip(min_sizes, max_sizes, strict=False)):
        raise ValueError(f"expected max_sizes above {min_sizes}, got {max_sizes}")
    return len(min_sizes) * (1 + len(_ratios(aspect_ratios, flip))) + len(max_sizes)


def _infer(
    cells: Type,
    picture: Type,
    *,
    min_sizes: tuple[float, ...],
    max_sizes: tuple[float, ...],
    aspect_ratios: tuple[float, ...],
    flip: int,
    clip: int,
    variances: tuple[float, ...],
    image_size: tuple[int, ...],
    steps: tuple[float, ...],
    offset: float,
) -> Type:
    for given in (cells, picture):
        if (given.dtype, given.dims) != ("int64", (2,)):
            raise ShapeError(f"prior_box: expected height and width as int64[2], got {given}")
    if len(image_size) not in (0, 2) or len(steps) not in (0, 2) or min(steps, default=1) <= 0:
        raise ValueError("expected height and width of image_size and of steps, or none")
    count = _count(min_sizes, max_sizes, aspect_ratios, flip, variances)
    height, width = known_value(cells, "prior_box: cells").tolist()
    numbers = 4 * count * height * width
    if height < 1 or width < 1 or not 0 < numbers <= _MOST_NUMBERS:
        raise ShapeError(f"prior_box: expected 1 to {_MOST_NUMBERS} numbers, got {numbers}")
    return Type("float32", (1, 2, numbers))


_CELLS, _PICTURE = np.array([3, 4]), np.array([60, 80])


@op(
    _infer,
    case(_CELLS, _PICTURE, min_sizes=(16.0,)),
    case(_CELLS, _PICTURE, min_sizes=(16.0, 30.5), max_sizes=(32.0, 60.0), aspect_ratios=(2.0,)),
    case(_CELLS, _PICTURE, min_sizes=(40.0,), aspect_ratios=(1.0, 2.0, 3.0), flip=0, clip=1),
    case(_CELLS, _PICTURE, min_sizes=(40.0,), aspect_ratios=(2.0, 2.0, 0.5), clip=1),
    case(
        _CELLS,
        _PICTURE,
        min_sizes=(16.0,),
        max_sizes=(21.0,),
        variances=(0.1, 0.1, 0.2, 0.2),
        image_size=(50, 100),
        steps=(16.0, 20.0),
        offset=0.0,
    ),
)
def prior_box(
    cells: Array,
    picture: Array,
    *,
    min_sizes: tuple[float, ...],
    max_sizes: tuple[float, ...] = (),
    aspect_ratios: tuple[float, ...] = (),
    flip: int = 1,
    clip: int = 0,
    variances: tuple[float, ...] = (0.1,),
    image_size: tuple[int, ...] = (),
    steps: tuple[float, ...] = (),
    offset: float = 0.5,
) -> Array:
    """The default boxes of SSD: the layer PriorBox of Caffe's SSD branch (weiliu89/caffe).

    cells, picture: height and width of the grid and of the picture.
    image_size, steps: height and width that take the place of the picture's, and of its cells'.
    Returns float32[1, 2, numbers]: the corners xmin, ymin, xmax, ymax of each box as parts of the
    picture, by row, column and size; then the four variances of each. A cell has for each of
    min_sizes a square, with max_sizes the square between the two, then one box a ratio. Sizes
    count as whole numbers, as there.
    """
    rows, columns = cells.tolist()
    height, width = image_size or picture.tolist()
    step_y, step_x = steps or (np.float32(height) / rows, np.float32(width) / columns)
    shapes: list[tuple[float, float]] = []
    for i, small in enumerate(map(int, min_sizes)):
        shapes.append((small, small))
        if max_sizes:
            shapes.append((np.sqrt(small * int(max_sizes[i])),) * 2)
        for ratio in _ratios(aspect_ratios, flip):
            shapes.append((small * np.sqrt(ratio), small / np.sqrt(ratio)))
    half = np.array(shapes, np.float32).astype(np.float64) / 2
    x = (np.arange(columns, dtype=np.float32) + np.float32(offset)) * np.float32(step_x)
    y = (np.arange(rows, dtype=np.float32) + np.float32(offset)) * np.float32(step_y)
    centres = np.stack(np.broadcast_arrays(x[None, :], y[:, None]), -1)[:, :, None, :]
    corners = np.concatenate([centres - half, centres + half], -1) / [width, height, width, height]
    boxes = corners.astype(np.float32)
    if clip:
        boxes = boxes.clip(0, 1)
    spread = np.broadcast_to(np.array(variances, np.float32), boxes.shape)
    return np.stack([boxes.reshape(-1), spread.reshape(-1)])[None]
