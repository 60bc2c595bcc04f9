"""The op mel_weight_matrix."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type, numpy_dtype
from palmkit.engine.ops import Case, op
from palmkit.engine.ops.dtypes import NUMBERS
from palmkit.engine.ops.rules import known_number, need_dtype


def _infer(
    num_mel_bins: Type,
    dft_length: Type,
    sample_rate: Type,
    lower_edge_hertz: Type,
    upper_edge_hertz: Type,
    *,
    output_datatype: str,
) -> Type:
    need_dtype("mel_weight_matrix", Type(output_datatype, ()), among=NUMBERS)
    bins, length = (
        int(known_number(each, "mel_weight_matrix").reshape(()))
        for each in (num_mel_bins, dft_length)
    )
    if bins < 1 or length < 1:
        raise ShapeError(f"mel_weight_matrix: no {bins} bins of {length} points")
    return Type(output_datatype, (length // 2 + 1, bins))


def _case(bins: int, length: int, rate: int, low: float, high: float) -> Case:
    edges = np.array(low, np.float32), np.array(high, np.float32)
    return Case((np.array(bins), np.array(length), np.array(rate), *edges))


@op(_infer, _case(8, 16, 8192, 0, 4096), _case(20, 512, 16000, 80, 7600))
def mel_weight_matrix(
    num_mel_bins: Array,
    dft_length: Array,
    sample_rate: Array,
    lower_edge_hertz: Array,
    upper_edge_hertz: Array,
    *,
    output_datatype: str = "float32",
) -> Array:
    """Triangles on the mel scale, [dft_length // 2 + 1, num_mel_bins]: a spectrogram times it.

    The mel of a frequency f in hertz is 2595 log10(1 + f / 700).
    """
    bins, length = int(num_mel_bins.reshape(())), int(dft_length.reshape(()))
    edges = [float(each.reshape(())) for each in (lower_edge_hertz, upper_edge_hertz)]
    low, high = (2595 * np.log10(1 + edge / 700) for edge in edges)
    mels = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
    hertz = 700 * (10 ** (mels / 2595) - 1)
    points = ((length + 1) * hertz // int(sample_rate.reshape(()))).astype(np.int64)
    y = np.zeros((length // 2 + 1, bins))
    row = np.arange(len(y))
    for i, (left, centre, right) in enumerate(
        zip(points[:-2], points[1:-1], points[2:], strict=True)
    ):
        rising = (row >= left) & (row <= centre)
        y[rising, i] = (row[rising] - left) / (centre - left) if centre > left else 1
        falling = (row >= centre) & (row < right)
        y[falling, i] = (right - row[falling]) / (right - centre)
    return y.astype(numpy_dtype(output_datatype))
