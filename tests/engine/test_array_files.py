"""numpy's files, good ones and what only calls itself so."""

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.engine.array_files import read_array, read_arrays

ARRAY = np.arange(6.0).reshape(2, 3)


def test_one_array_and_several(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", ARRAY)
    np.savez(tmp_path / "some.npz", a=ARRAY, b=ARRAY[0])
    assert (read_array(tmp_path / "one.npy") == ARRAY).all()
    found = read_arrays(tmp_path / "some.npz")
    assert list(found) == ["a", "b"] and (found["b"] == ARRAY[0]).all()
    with pytest.raises(ValueError, match=r"expected one array, got an \.npz file"):
        read_array(tmp_path / "some.npz")
    with pytest.raises(ValueError, match=r"expected an \.npz file, got one array"):
        read_arrays(tmp_path / "one.npy")


def saved(array: NDArray[Any], **options: bool) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def compressed() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, a=ARRAY)
    return file.getvalue()


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", content)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"junk" * 99,
        b"PK\3\4" + bytes(99),
        b"\x93NUMPY\1\0\xff\xff{",
        saved(ARRAY)[:-9],
        # More than any memory holds.
        saved(ARRAY).replace(b"(2, 3), }" + b" " * 13, b"(2, 3" + b"0" * 13 + b"), }"),
        saved(np.array([{}], object), allow_pickle=True),
        compressed()[:60] + bytes(10) + compressed()[70:],
        compressed()[:-30],
        zipped(b"no array"),
        zipped(saved(ARRAY)[:-9]),
    ],
)
def test_what_is_none_is_a_value_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    for read in (read_array, read_arrays):
        with pytest.raises(ValueError, match="expected|damaged|pickle|reshape|read"):
            read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(OSError, match="not a regular file"):
        read_arrays(tmp_path / "pipe.npz")
