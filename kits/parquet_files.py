"""Parquet files, read as if they were hostile (extra `rerank`)."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from palmkit.engine.errors import TableError
from palmkit.engine.reading import check_readable


def column_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the columns.

    Raises OSError if there is no such file, TableError if it is damaged or of another kind,
    ImportError without pyarrow.
    """
    with _opened(path) as file:
        names: list[str] = file.schema_arrow.names
        return names


def batches(path: str | os.PathLike[str], rows: int) -> Iterator[Any]:
    """Yield the rows as pyarrow.RecordBatch of at most `rows`; raises what column_names does."""
    with _opened(path) as file:
        yield from file.iter_batches(batch_size=rows)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Generator[Any]:
    # Arrow would wait for a pipe and ignore Ctrl-C.
    check_readable(path)
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError('Parquet needs pyarrow: pip install "palmkit[rerank]"') from None
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise TableError(f"Parquet cannot be read: {os.fspath(path)}: {error}") from None
    except OSError as error:
        # Arrow's own, of damaged files, has no number.
        if error.errno is not None:
            raise
        raise TableError(f"Parquet cannot be read: {os.fspath(path)}: {error}") from None
