"""Tables in any usual form as columns: lists of dicts, dicts of arrays, pandas, Arrow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import TableError

# A list of dicts, a dict of columns, a pandas.DataFrame or a pyarrow.Table.
Table: TypeAlias = Any
Floats: TypeAlias = NDArray[np.float32]
Keys: TypeAlias = NDArray[np.int64]

# Numbers beyond this would leave float32 where features square and add them up.
LARGEST = 1e15


class Columns:
    """A table's columns, checked as they are read.

    what: names the table in errors. None and NaN are missing values; so is a key that some dicts
    of a list lack. Rows are counted from 0.
    """

    def __init__(self, what: str, table: Table) -> None:
        """Read a table; raise TableError if it is none, or if its columns differ in length."""
        self.what = what
        self._rows: Sequence[Mapping[str, Any]] | None = None
        self._read: Callable[[str], Sequence[Any]]
        if isinstance(table, Mapping):
            columns = cast("Mapping[str, Any]", table)
            self.names = list(columns)
            self._read = lambda name: _sequence(columns[name])
        elif hasattr(table, "column_names"):
            self.names = list(table.column_names)
            self._read = lambda name: table.column(name).to_pylist()
        elif hasattr(table, "iloc"):
            self.names = [str(name) for name in table.columns]
            frame = table.set_axis(self.names, axis=1)
            self._read = lambda name: _without_gaps(frame[name])
        elif isinstance(table, Sequence) and not isinstance(table, str | bytes):
            some: list[Any] = [*table]
            for row, values in enumerate(some):
                if not isinstance(values, Mapping):
                    raise TableError(
                        f"{what}: row {row}: expected a dict, got {type(values).__name__}"
                    )
            rows: list[Mapping[str, Any]] = some
            self._rows = rows
            self.names = list(dict.fromkeys(name for values in rows for name in values))
            self.count = len(rows)
            return
        else:
            raise TableError(
                f"{what}: expected a list of dicts, a dict of columns, a pandas.DataFrame or a "
                f"pyarrow.Table, got {type(table).__name__}"
            )
        counts = {name: len(self._read(name)) for name in self.names}
        self.count = next(iter(counts.values()), 0)
        for name, count in counts.items():
            if count != self.count:
                raise TableError(f"{what}: column {name}: expected {self.count} rows, got {count}")

    def __contains__(self, name: object) -> bool:
        """Return whether any row has the column."""
        return name in self.names

    def require(self, name: str) -> None:
        """Raise TableError if no row has the column; a table without rows has them all."""
        if self.count and name not in self.names:
            raise TableError(
                f"{self.what}: row 0: no column {name!r}; there are: {', '.join(self.names)}"
            )

    def values(self, name: str) -> Sequence[Any]:
        """Return a column's values, None where missing; a missing column is missing in each row."""
        if name not in self.names:
            return [None] * self.count
        if self._rows is not None:
            return [row.get(name) for row in self._rows]
        return self._read(name)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return numbers, float64[n], NaN where missing.

        Raises TableError for text and for infinity.
        """
        values = self.values(name)
        try:
            found = np.asarray(values, np.float64)
            wrong = found.ndim != 1
        except (TypeError, ValueError, OverflowError):
            found, wrong = np.zeros(0), True
        if wrong:
            found = np.array([self._number(name, *each) for each in enumerate(values)], np.float64)
        if np.isinf(found).any():
            self.refuse(name, int(np.isinf(found).argmax()), "a finite number")
        return found

    def measures(self, name: str) -> Floats:
        """Return numbers, float32[n]; raise TableError also beyond LARGEST in magnitude."""
        found = self.numbers(name)
        wrong = np.abs(found) > LARGEST
        if wrong.any():
            self.refuse(name, int(wrong.argmax()), f"a number from -{LARGEST:g} to {LARGEST:g}")
        return found.astype(np.float32)

    def _number(self, name: str, row: int, value: Any) -> float:
        try:
            return math.nan if value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            raise TableError(f"{self._place(name, row)}: expected a number: {value!r}") from None

    def texts(self, name: str) -> list[str | None]:
        """Return categories or ids as text: 7, 7.0 and "7" are equal.

        Raises TableError for lists.
        """
        values = self.values(name)
        return [v if type(v) is str else self._text(name, i, v) for i, v in enumerate(values)]

    def _text(self, name: str, row: int, value: Any) -> str | None:
        try:
            return text_of(value)
        except TypeError:
            raise TableError(
                f"{self._place(name, row)}: expected text or a number: {value!r}"
            ) from None

    def ids(self, name: str) -> list[str]:
        """Return ids as text. Raises TableError where one is missing."""
        self.require(name)
        texts = self.texts(name)
        if None in texts:
            raise TableError(f"{self._place(name, texts.index(None))}: expected an id, got nothing")
        return cast("list[str]", texts)

    def vectors(self, name: str, length: int) -> Floats:
        """Return vectors, float32[n, length], zeros where missing.

        Raises TableError for another length.
        """
        found = np.zeros((self.count, length), np.float32)
        for row, value in enumerate(self.values(name)):
            if value is None or (isinstance(value, float) and math.isnan(value)):
                continue
            try:
                vector = np.asarray(value, np.float64)
            except (TypeError, ValueError, OverflowError):
                vector = np.zeros(0)
            # NaN is not within the limits, either.
            if vector.shape != (length,) or not (np.abs(vector) <= LARGEST).all():
                raise TableError(
                    f"{self._place(name, row)}: expected {length} finite numbers: {value!r:.60}"
                )
            found[row] = vector
        return found

    def _place(self, name: str, row: int) -> str:
        return f"{self.what}: row {row}, column {name}"

    def refuse(self, name: str, row: int, expected: str) -> NoReturn:
        """Raise TableError for a value."""
        value = self.values(name)[row]
        raise TableError(f"{self._place(name, row)}: expected {expected}: {value!r}")


def text_of(value: Any) -> str | None:
    """Return a category or id as text, None where it is missing: 7, 7.0 and "7" are equal.

    Raises TypeError for what is neither text nor a number.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, np.generic):
        return text_of(cast("Any", value.item()))
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, int):
        return str(value)
    raise TypeError(f"expected text or a number, got {type(value).__name__}")


def has_rows(table: Table) -> bool:
    """Return whether a table has rows; Columns rejects what is no table."""
    if table is None:
        return False
    if isinstance(table, Mapping):
        columns: list[Any] = [*table.values()]
        return any(len(column) for column in columns if hasattr(column, "__len__"))
    return not hasattr(table, "__len__") or len(table) > 0


def keys(texts: Sequence[str | None]) -> Keys:
    """Return int64[n] that are equal where the texts are, in this process; 0 for None."""
    return np.fromiter(
        (0 if text is None else hash(text) or 1 for text in texts), np.int64, len(texts)
    )


def _sequence(values: Any) -> Sequence[Any]:
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise TableError(f"expected a column of values, got {type(values).__name__}")
    if hasattr(values, "to_pylist"):
        return cast("Sequence[Any]", values.to_pylist())
    if hasattr(values, "tolist"):
        return cast("Sequence[Any]", values.tolist())
    return cast("Sequence[Any]", values)


def _without_gaps(column: Any) -> list[Any]:
    """Return a pandas column as Python values, with None for its missing values."""
    return cast("list[Any]", column.astype(object).where(column.notna(), None).tolist())
