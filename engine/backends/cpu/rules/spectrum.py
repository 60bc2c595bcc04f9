"""Short Fourier transforms as matrix products."""

import numpy as np

from palmkit.engine.backends.cpu.registry import rule
from palmkit.engine.backends.cpu.rules.reduction import multiply
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array, Node
from palmkit.engine.steps.lowering import Lowering, plain
from palmkit.engine.steps.step import View, strides_of

# Above, a fast transform does less work than a fast product.
LONGEST_FRAME = 1024


def _transform(length: int, frequencies: int, window: Array) -> Array:
    """The windowed transform as a matrix, float32[length, 2 * frequencies]: both parts in turn."""
    turns = np.outer(np.arange(length), np.arange(frequencies)) % length / length
    parts = np.stack([np.cos(2 * np.pi * turns), -np.sin(2 * np.pi * turns)], -1)
    weighted = parts * window.astype(np.float64)[:, None, None]
    return weighted.reshape(length, -1).astype(np.float32)


@rule("stft")
def lower_stft(lowering: Lowering, node: Node) -> None:
    """Overlapping frames of a real signal side by side, times one matrix."""
    signal, frame_step, window, _ = (*node.inputs, "", "")[:4]
    lowering.need_dtype(signal)
    dims = lowering.dims(signal)
    n, frames, frequencies, _ = lowering.dims(node.outputs[0])
    step = int(lowering.constant_of(frame_step, "frame_step").item())
    length = dims[1]
    if node.inputs[3:] and node.inputs[3]:
        length = int(lowering.constant_of(node.inputs[3], "frame_length").item())
    elif window:
        length = lowering.dims(window)[0]
    if dims[2:] == (2,) or length > LONGEST_FRAME or not n * frames:
        raise UnsupportedError(f"frames of {length}, or of complex numbers")
    weights = lowering.constant_of(window, "window") if window else np.ones(length, np.float32)
    view = lowering.get(signal, plain(len(dims)))
    cut = lowering.scratch(view.dtype, (n, frames, length))
    lowering.copy(view, cut, cut.dims, [dims[1], step, 1], strides_of(cut.dims))
    matrix = lowering.constant(_transform(length, frequencies, weights))
    y = lowering.put(node.outputs[0])
    product = View(y.buffer, y.dtype, (n, frames, 2 * frequencies))
    multiply(lowering, cut, matrix, None, product)
