"""The op stft."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dft import as_complex, as_pairs
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.rules import known_number, need_dtype, need_rank


def _plan(
    signal: Type, frame_step: Array, window: Type | None, frame_length: Array | None
) -> tuple[int, int, int]:
    """Return the step and length of the frames, and how many there are."""
    step, samples = int(frame_step.reshape(())), signal.dims[1]
    length = samples if window is None else window.dims[0]
    if frame_length is not None:
        length = int(frame_length.reshape(()))
    if step < 1 or not 0 < length <= samples or (window is not None and window.dims != (length,)):
        raise ShapeError(f"stft: no frames of {length} by {step} in {signal} with {window}")
    return step, length, 1 + (samples - length) // step


def _infer(
    signal: Type,
    frame_step: Type,
    window: Type | None = None,
    frame_length: Type | None = None,
    *,
    onesided: int,
) -> Type:
    need_dtype("stft", signal, *([] if window is None else [window]), among=FLOATS)
    parts = signal.dims[2] if need_rank("stft", signal, 2, 3) == 3 else 1
    if window is not None:
        need_rank("stft", window, 1, 1)
    if parts not in (1, 2) or (onesided and parts == 2):
        raise ShapeError(f"stft: expected real numbers, or both parts and onesided=0, got {signal}")
    _, length, frames = _plan(
        signal,
        known_number(frame_step, "stft: frame_step"),
        window,
        None if frame_length is None else known_number(frame_length, "stft: frame_length"),
    )
    return Type(signal.dtype, (signal.dims[0], frames, length // 2 + 1 if onesided else length, 2))


@op(
    _infer,
    case((1, 128, 1), np.array(8), (16,)),
    case((2, 50, 1), np.array(7), None, np.array(16)),
    case((2, 50, 1), np.array(5), np.hanning(16).astype(np.float32), np.array(16), onesided=0),
    case((2, 50), np.array(7), None, np.array(16)),
    case((2, 50, 2), np.array(5), None, np.array(16), onesided=0),
)
def stft(
    signal: Array,
    frame_step: Array,
    window: Array | None = None,
    frame_length: Array | None = None,
    *,
    onesided: int = 1,
) -> Array:
    """Fourier transforms of frames of signal[n, length, 1 or 2], each times the window.

    Without a last axis the signal is real, which ONNX Runtime accepts, too.
    Returns [n, frames, frequencies, 2]; onesided: the first half of the frequencies.
    """
    given = None if window is None else Type.of(window)
    step, length, frames = _plan(Type.of(signal), frame_step, given, frame_length)
    numbers = as_complex(signal if signal.ndim == 3 else signal[..., None])
    starts = np.arange(frames)[:, None] * step + np.arange(length)
    cut = numbers[:, starts] * (1 if window is None else window)
    spectrum = np.fft.fft(cut)
    return as_pairs(spectrum[..., : length // 2 + 1] if onesided else spectrum, signal.dtype)
