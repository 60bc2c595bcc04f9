"""Running any kit over folders or Parquet of many rows, in one process or by Ray Data.

from palmkit.kits import batch

failures = batch.run("face", "photos/", "faces.parquet", workers=8)

A row that fails is listed, with its error, and does not end the others. Ray is the extra `ray`;
`Worker` is a class as ray.data.Dataset.map_batches takes it, for pipelines of one's own.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from palmkit.engine.errors import BackendError, PalmError, TableError
from palmkit.engine.replacing import replacing
from palmkit.kits import table
from palmkit.kits.parquet_files import batches, column_names

# The names of all kits.
KITS = tuple(table.KITS)
# Rows that a worker gets at a time.
ROWS = 64
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Failure:
    """A row that failed: its number from 0, its name, and the reason."""

    row: int
    name: str
    error: str


class Worker:
    """A kit that takes batches of rows: a pyarrow.Table or a dict of columns in, the same out.

    Pictures: column "path" or "picture" (a file's bytes). Pages: column "items" (dicts, or their
    JSON), "history" and "context", if there are. Out come "name" (the path, or the value of a
    column "id"), "result", the JSON of the command line, for portrait and hair "mask" and for tryon
    "picture", a PNG, and "error"; of these either result or error is null.
    """

    def __init__(self, kit: str, options: Mapping[str, Any] | None = None) -> None:
        """Make the kit.

        kit: one of KITS. options: of its class, such as model or max_faces.

        Raises ValueError for another kit, and what the kit's class raises.
        """
        if kit not in table.KITS:
            raise ValueError(f"kit: expected one of {', '.join(table.KITS)}, got {kit!r}")
        entry = table.KITS[kit]
        made = entry.load_kit()(**(options or {}))
        self._call: Callable[..., Any] = getattr(made, entry.method)
        self._given, self._picture = _page, ""
        if entry.takes == "picture":
            self._given, self._picture = _picture, entry.load_result().picture_name

    def __call__(self, batch: Any) -> Any:
        """Return the results of a batch's rows, in its order."""
        is_dict = isinstance(batch, Mapping)
        given: dict[str, Any] = {**batch} if is_dict else batch.to_pydict()
        columns = {name: _listed(values) for name, values in given.items()}
        size = len(next(iter(columns.values()))) if columns else 0
        found = self.rows([{n: c[row] for n, c in columns.items()} for row in range(size)])
        outputs = {name: [row[name] for row in found] for name in self.columns}
        return outputs if is_dict else _extra("pyarrow").table(outputs, schema=self.schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the output columns."""
        return ("name", "result", "error", *((self._picture,) if self._picture else ()))

    @property
    def schema(self) -> Any:
        """The pyarrow.Schema of the output."""
        arrow = _extra("pyarrow")
        types = {self._picture: arrow.binary()}
        return arrow.schema([(name, types.get(name, arrow.string())) for name in self.columns])

    def rows(self, rows: Rows) -> Rows:
        """Return the results of rows given as dicts."""
        return [self._row(row) for row in rows]

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        from palmkit.kits.image import png

        name = row.get("path") or row.get("id")
        found: dict[str, Any] = {"name": None if name is None else str(name)}
        try:
            result = self._call(*self._given(row))
            told = result.to_json()
            shown = {self._picture: png(result.as_picture())} if self._picture else {}
        except (PalmError, OSError, ValueError, TypeError) as error:
            nothing = dict.fromkeys(self.columns)
            return {**nothing, **found, "error": _line(error)}
        return {**found, "result": told, "error": None, **shown}


def run(
    kit: str,
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    options: Mapping[str, Any] | None = None,
    workers: int = 1,
    rows: int = ROWS,
    report: Callable[[int], None] = lambda done: None,
) -> list[Failure]:
    """Run a kit on every row of a source and write a Parquet file, whole or not at all.

    kit, options: as for Worker. source: a folder of pictures, or a Parquet file or a folder of
    them with the columns that Worker takes. workers: 1: this process; more: so many processes of
    Ray, which is started here unless it runs; what it then has to tell goes into its log files, and
    only errors to standard error. rows: that a worker gets at a time. report: is told
    how many rows are done. The rows of the output are those of the source, in its order.
    Returns the rows that failed.
    Raises BackendError if a worker ends; ImportError without pyarrow or, for workers, ray;
    TableError for a source without rows or without the columns; what Worker raises; OSError, at
    once if the folder of `out` does not exist.
    """
    for name, value in (("workers", workers), ("rows", rows)):
        if value < 1:
            raise ValueError(f"{name}: expected at least 1, got {value}")
    arrow, parquet = (_extra(name) for name in ("pyarrow", "pyarrow.parquet"))
    if not os.fspath(source):
        raise TableError("expected a folder or Parquet, got an empty name")
    if not Path(out).resolve().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist", os.fspath(out))
    given = Path(source)
    files = _parquet_files(given)
    # Made here, too, so that wrong options raise their errors at once.
    worker = Worker(kit, options)
    takes_pages = table.KITS[kit].takes == "page"
    needed = ("items",) if takes_pages else ("path", "picture")
    if files:
        names = column_names(files[0])
        if not set(needed) & set(names):
            raise TableError(f"{given}: expected a column {' or '.join(needed)}: {names}")
    elif takes_pages:
        raise TableError(f"{given}: expected Parquet")
    found: Iterator[Any]
    if workers == 1:
        found = (worker(batch) for batch in _batches(given, files, rows))
    else:
        found = _by_ray(kit, options, given, files, workers, rows, worker.schema)
    schema = worker.schema.insert(0, arrow.field("row", arrow.int64()))
    failures: list[Failure] = []
    done = 0
    with replacing(out) as part:
        # Opened here, since Arrow's errors name a file in their text alone.
        with part.open("wb") as file, parquet.ParquetWriter(file, schema) as writer:
            for page in found:
                size = page.num_rows
                numbers = arrow.array(range(done, done + size), arrow.int64())
                writer.write_table(page.add_column(0, schema.field("row"), numbers))
                for at, error in enumerate(page["error"].to_pylist()):
                    if error is not None:
                        name = page["name"][at].as_py()
                        failures.append(Failure(done + at, str(name), error))
                done += size
                report(done)
        if not done:
            raise TableError(f"{given}: expected rows, got none")
    return failures


def _by_ray(
    kit: str,
    options: Mapping[str, Any] | None,
    source: Path,
    files: list[Path],
    workers: int,
    rows: int,
    schema: Any,
) -> Iterator[Any]:
    ray, data = _extra("ray"), _extra("ray.data")
    started = not ray.is_initialized()
    with _quiet() if started else nullcontext():
        if started:
            # One more reads: workers that hold all there are would wait for it for ever.
            ray.init(num_cpus=workers + 1, include_dashboard=False, log_to_driver=False)
        try:
            context = data.DataContext.get_current()
            kept, shown = context.execution_options.preserve_order, context.enable_progress_bars
            context.execution_options.preserve_order = True
            context.enable_progress_bars = False
            try:
                if files:
                    dataset = data.read_parquet([str(file.resolve()) for file in files])
                else:
                    dataset = data.from_items([{"path": path} for path in _pictures(source)])
                mapped = _mapped(
                    dataset,
                    own=started,
                    fn_constructor_args=(kit, dict(options or {})),
                    batch_size=rows,
                    batch_format="pyarrow",
                    compute=data.ActorPoolStrategy(size=workers),
                    num_cpus=1,
                )
                for batch in mapped.iter_batches(batch_size=rows, batch_format="pyarrow"):
                    yield batch.cast(schema)
            except ray.exceptions.RayError as error:
                told = str(getattr(error, "cause", None) or error).strip().splitlines()
                raise BackendError(f"a worker of Ray ended: {told[0]}") from error
            finally:
                context.execution_options.preserve_order = kept
                context.enable_progress_bars = shown
        finally:
            if started:
                ray.shutdown()


def _mapped(dataset: Any, own: bool, **options: Any) -> Any:
    """Return a dataset mapped by workers.

    own: of a Ray that was started here; a row that ends its worker then ends the batch, where Ray
    by itself would try it again and again, without end.
    """
    if own:
        with warnings.catch_warnings():
            # Ray 2.60 says that the option will go, and has no other one.
            warnings.simplefilter("ignore")
            with suppress(TypeError):
                return dataset.map_batches(Worker, **options, max_restarts=0)
    return dataset.map_batches(Worker, **options)


# By itself Ray reports to its makers how it is used; this is off unless the environment has it.
_USAGE = "RAY_USAGE_STATS_ENABLED"


@contextmanager
def _quiet() -> Generator[None]:
    """Keep Ray's news out of the terminal, where there may be a progress bar; errors still come."""
    handlers: list[logging.Handler] = []
    for name in [*logging.root.manager.loggerDict]:
        if name == "ray" or name.startswith("ray."):
            handlers += logging.getLogger(name).handlers
    # Those of files go on telling all.
    handlers = [each for each in handlers if isinstance(each, logging.StreamHandler)]
    handlers = [each for each in handlers if not isinstance(each, logging.FileHandler)]
    levels = [handler.level for handler in handlers]
    usage = os.environ.get(_USAGE)
    os.environ.setdefault(_USAGE, "0")
    for handler in handlers:
        handler.setLevel(max(handler.level, logging.ERROR))
    try:
        yield
    finally:
        for handler, level in zip(handlers, levels, strict=True):
            handler.setLevel(level)
        if usage is None:
            os.environ.pop(_USAGE, None)


def _batches(source: Path, files: list[Path], rows: int) -> Iterator[Any]:
    """Yield tables of `rows` rows."""
    if not files:
        paths = _pictures(source)
        for start in range(0, len(paths), rows):
            yield _extra("pyarrow").table({"path": paths[start : start + rows]})
    for file in files:
        yield from batches(file, rows)


def _parquet_files(source: Path) -> list[Path]:
    if source.is_dir():
        return sorted(source.glob("*.parquet"))
    if source.suffix == ".parquet":
        # The error for a missing file names it.
        source.stat()
        return [source]
    raise TableError(f"{source}: expected a folder or a name that ends with .parquet")


def _pictures(folder: Path) -> list[str]:
    from palmkit.kits.image import SUFFIXES

    found = [path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES]
    return [str(path.resolve()) for path in sorted(found) if path.is_file()]


def _extra(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        extra = "ray" if name.startswith("ray") else "rerank"
        module = name.partition(".")[0]
        raise ImportError(f'batches need {module}: pip install "palmkit[{extra}]"') from None


def _page(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the items, history and context of a row."""
    items, history = (_table(row.get(name), name) for name in ("items", "history"))
    return items, history, _value(row.get("context"), "context")


def _picture(row: dict[str, Any]) -> tuple[Any, ...]:
    picture = row.get("picture")
    if picture is not None:
        return (bytes(picture),)
    if row.get("path") is None:
        raise TableError("expected a path or a picture, got nothing")
    return (str(row["path"]),)


def _value(value: Any, name: str) -> Any:
    """Return a cell, which may be JSON."""
    if isinstance(value, str | bytes):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise TableError(f"{name}: expected JSON: {value[:60]!r}") from None
    if hasattr(value, "tolist"):
        value = value.tolist()
    return value


def _table(value: Any, name: str) -> Any:
    found = _value(value, name)
    return [] if found is None else [_value(row, name) for row in _listed(found)]


def _listed(values: Any) -> list[Any]:
    if isinstance(values, Mapping):
        raise TableError("expected rows, got a dict")
    return list(values)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
