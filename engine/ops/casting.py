"""Conversion of values between dtypes, with the rules that ONNX has for 8-bit floats."""

import numpy as np

from palmkit.engine.ir import Array, numpy_dtype
from palmkit.engine.ops.dtypes import FLOATS8

ROUND_MODES = ("up", "down", "nearest")
_LARGEST = {
    "float8_e4m3fn": 448,
    "float8_e4m3fnuz": 240,
    "float8_e5m2": 57344,
    "float8_e5m2fnuz": 57344,
}
_POWER = "float8_e8m0fnu"


def converted(x: Array, to: str, saturate: int = 1, round_mode: str = "up") -> Array:
    """Return x in the dtype called `to`; floats become integers by rounding towards zero.

    saturate: to 8-bit floats, numbers that are too large become the largest instead of NaN or
    infinity.
    round_mode: how powers of two (float8_e8m0fnu) are rounded: up, down or nearest.
    """
    if round_mode not in ROUND_MODES:
        raise ValueError(f"unknown round_mode: {round_mode}")
    if to == x.dtype.name:
        return x
    if to == _POWER:
        return _to_powers_of_two(x.astype(np.float32), saturate, round_mode)
    if to in FLOATS8 and saturate:
        floats = x if x.dtype.name == "float64" else x.astype(np.float32)
        return np.asarray(np.clip(floats, -_LARGEST[to], _LARGEST[to])).astype(numpy_dtype(to))
    return x.astype(numpy_dtype(to))


def _to_powers_of_two(x: Array, saturate: int, round_mode: str) -> Array:
    bits = x.view(np.uint32)
    exponent = (bits >> 23 & 0xFF).astype(np.int32)
    fraction = bits & 0x7FFFFF
    if round_mode == "up":
        exponent += fraction > 0
    elif round_mode == "nearest":
        half = 0x400000
        exponent += (fraction > half) | ((fraction == half) & (exponent > 0))
    finite = np.minimum(exponent, 254 if saturate else 255)
    infinite = 254 if saturate else 255
    found = np.where(np.isnan(x), 255, np.where(np.isinf(x), infinite, finite))
    return found.astype(np.uint8).view(numpy_dtype(_POWER))
