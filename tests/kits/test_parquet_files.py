"""Parquet that is none, is damaged or is a pipe."""

import os
from pathlib import Path
from typing import Any

import pytest

from palmkit.engine.errors import TableError
from palmkit.kits.parquet_files import batches, column_names


@pytest.fixture
def written(tmp_path: Path) -> Path:
    arrow: Any = pytest.importorskip("pyarrow", reason="pyarrow is not here (extra rerank)")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"path": ["a", "b", "c"]}), tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


def test_names_and_rows(written: Path) -> None:
    assert column_names(written) == ["path"]
    found = [row["path"] for batch in batches(written, 2) for row in batch.to_pylist()]
    assert found == ["a", "b", "c"]


@pytest.mark.parametrize("damage", ["empty", "junk", "cut", "rotten"])
def test_damaged_files_are_told_in_a_line(written: Path, damage: str) -> None:
    whole = written.read_bytes()
    damaged = {
        "empty": b"",
        "junk": b"junk" * 99,
        "cut": whole[: len(whole) // 2],
        "rotten": whole[:4] + bytes(60) + whole[64:],
    }
    written.write_bytes(damaged[damage])
    with pytest.raises(TableError, match=r"^Parquet cannot be read: .*a\.parquet: ") as told:
        list(batches(written, 2))
    assert "\n" not in str(told.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.parquet")
    with pytest.raises(OSError, match="not a regular file"):
        column_names(tmp_path / "pipe.parquet")
    with pytest.raises(OSError, match="not a regular file"):
        next(batches(tmp_path / "pipe.parquet", 2))
