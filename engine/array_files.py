"""Arrays in numpy's files, .npy and .npz, read as if they were hostile."""

import os
import zipfile
import zlib
from typing import Any, cast

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.reading import check_readable


def read_array(path: str | os.PathLike[str]) -> Array:
    """Return the array of an .npy file.

    Raises OSError as check_readable does, and ValueError if the file is damaged or of another kind.
    """
    loaded = _loaded(path)
    if not isinstance(loaded, np.ndarray):
        raise ValueError("expected one array, got an .npz file")
    return loaded


def read_arrays(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays of an .npz file by name.

    Raises OSError as check_readable does, and ValueError if the file is damaged or of another kind.
    """
    loaded = _loaded(path)
    if isinstance(loaded, np.ndarray):
        raise ValueError("expected an .npz file, got one array")
    return loaded


def _loaded(path: str | os.PathLike[str]) -> Array | dict[str, Array]:
    check_readable(path)
    try:
        # numpy takes every unknown file for a pickle, and its error message speaks of pickles.
        with open(path, "rb") as file:
            start = file.read(6)
            if not start.startswith((b"PK\3\4", b"PK\5\6", b"\x93NUMPY")):
                raise ValueError("expected numpy's .npy or .npz")
            file.seek(0)
            loaded: Any = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return cast(Array, loaded)
            with loaded:
                found = {name: loaded[name] for name in loaded.files}
    except (EOFError, KeyError, RuntimeError, MemoryError) as error:
        raise ValueError(f"damaged: {error}") from error
    except (OverflowError, SyntaxError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"damaged: {error}") from error
    # numpy returns the raw bytes of members that are not arrays.
    for name, array in found.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(f"expected arrays alone, got something else: {name}")
    return found
