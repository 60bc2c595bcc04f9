"""The families of dtypes that type rules speak of."""

import numpy as np

FLOATS = ("float32", "float16", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
NUMBERS = FLOATS + SIGNED + UNSIGNED
ALL = (*NUMBERS, "bool")


def lowest(dtype: str) -> float | int | bool:
    """The value that no other of the dtype is less than; minus infinity where there is one."""
    if dtype == "bool":
        return False
    return -np.inf if dtype in FLOATS else int(np.iinfo(dtype).min)


def highest(dtype: str) -> float | int | bool:
    """The value that no other of the dtype is greater than; infinity where there is one."""
    if dtype == "bool":
        return True
    return np.inf if dtype in FLOATS else int(np.iinfo(dtype).max)
