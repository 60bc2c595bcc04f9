"""The families of dtypes that type rules name."""

import numpy as np

from palmkit.engine.ir import Array

FLOATS = ("float32", "float16", "float64", "bfloat16")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
NUMBERS = FLOATS + SIGNED + UNSIGNED
INTEGERS = SIGNED + UNSIGNED
FLOATS8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
ALL = (*NUMBERS, "bool")


def is_float(x: Array) -> bool:
    """Return whether x is of one of FLOATS; numpy itself does not count bfloat16."""
    return x.dtype.name in FLOATS


def wide(x: Array) -> Array:
    """Return smaller floats as float32, others as they are: formulas round once, at their end."""
    small = x.dtype.name.startswith(("float", "bfloat")) and x.dtype.itemsize < 4
    return x.astype(np.float32) if small else x


def lowest(dtype: str) -> float | int | bool:
    """Return the smallest value of the dtype; minus infinity where there is one."""
    if dtype == "bool":
        return False
    return -np.inf if dtype in FLOATS else int(np.iinfo(dtype).min)


def highest(dtype: str) -> float | int | bool:
    """Return the largest value of the dtype; infinity where there is one."""
    if dtype == "bool":
        return True
    return np.inf if dtype in FLOATS else int(np.iinfo(dtype).max)
