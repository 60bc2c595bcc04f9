"""The content of a report: counts of events and histograms of durations, nothing else.

delivery/REPORTS.md describes every field, and why it is there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any, Literal, TypeAlias, cast, get_args

from palmkit.delivery.codes import CODES
from palmkit.delivery.document import MODEL, RELEASE, Fields, dump
from palmkit.engine.errors import DeliveryError

GroupArm: TypeAlias = Literal["candidate", "control", "stable", "embedded"]
Measure: TypeAlias = Literal["download_kbps", "load_ms", "infer_ms"]

ARMS: frozenset[str] = frozenset(get_args(GroupArm))
MEASURES: frozenset[str] = frozenset(get_args(Measure))
# "0": a further report of a day that has had one. The sum of the others over a day counts the
# active devices without naming any.
SINCE_LAST = ("first", "0", "1", "2-6", "7-27", "28+")
MEMORY_CLASSES = ("unknown", "<1", "1-2", "2-4", "4-8", "8-16", "16-32", "32+")

BUCKETS = 32
MOST_BYTES = 1 << 16
# As many as always fit: a row takes at most 330 bytes and a histogram 550.
MOST_ROWS = 120
MOST_HISTOGRAMS = 40
MOST_COUNT = 1_000_000_000

REPORT_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
DAY = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}", re.ASCII)
WORD = re.compile(r"[0-9A-Za-z_.+!<-]{1,64}", re.ASCII)
ERROR = re.compile(r"[0-9a-f]{16}", re.ASCII)

# The exponent of the value at which bucket 1 begins: 2**-9 (two microseconds, in milliseconds).
_FIRST = -9


def bucket(value: float) -> int:
    """Return the bucket, 0..31, of a value: i holds those from 2**(i-10) to below 2**(i-9).

    Bucket 0 also holds everything below, including zero, and bucket 31 everything above.
    """
    if value <= 0:
        return 0
    return min(max(math.frexp(value)[1] - _FIRST, 0), BUCKETS - 1)


def bucket_edges() -> list[float]:
    """Return the 31 values at which buckets 1 to 31 begin."""
    return [math.ldexp(1.0, _FIRST + i) for i in range(BUCKETS - 1)]


@dataclass(frozen=True)
class Row:
    """How often an event happened to a release of a model.

    previous: the release that ran before it, "" if none. code: one of palmkit.delivery.codes.
    error: for an exception, 16 hex digits of a hash of our own frames; "" without one.
    """

    model: str
    release: str
    previous: str
    arm: str
    code: str
    n: int
    error: str = ""


@dataclass(frozen=True)
class Histogram:
    """The distribution of a measure: how many values fell in each of the 32 buckets."""

    model: str
    release: str
    arm: str
    name: str
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Report:
    """One report.

    report_id: 32 random hex digits, new in each report, by which a server drops duplicates. day:
    the day of the counts, UTC. since_last: days since the last report. dropped: counts that were
    not reported, by reason.
    """

    report_id: str
    day: str
    sdk: str
    os: str
    arch: str
    memory_class: str
    accelerator: str
    since_last: str
    rows: tuple[Row, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict[str, int])

    def dump(self) -> bytes:
        """Return the document as bytes."""
        content: dict[str, Any] = {"schema": 1, **asdict(self)}
        for row in content["rows"]:
            if not row["error"]:
                del row["error"]
        return dump(content)


def parse(content: bytes) -> Report:
    """Return the report in the bytes of a document.

    Raises DeliveryError (report_invalid) that says what is wrong where.
    """
    if len(content) > MOST_BYTES:
        message = f"report: expected at most {MOST_BYTES} bytes, got {len(content)}"
        raise DeliveryError("report_invalid", message)
    fields = Fields.parse(content, "report", "report_invalid")
    try:
        date.fromisoformat(day := fields.text("day", DAY))
    except ValueError:
        raise fields.refuse("day", "a day like 2026-01-31") from None
    return Report(
        report_id=fields.text("report_id", REPORT_ID),
        day=day,
        sdk=fields.text("sdk", RELEASE),
        os=fields.text("os", WORD),
        arch=fields.text("arch", WORD),
        memory_class=_one_of(fields, "memory_class", MEMORY_CLASSES),
        accelerator=fields.text("accelerator", WORD),
        since_last=_one_of(fields, "since_last", SINCE_LAST),
        rows=tuple(_row(entry) for entry in fields.objects("rows", MOST_ROWS)),
        histograms=tuple(
            _histogram(entry) for entry in fields.objects("histograms", MOST_HISTOGRAMS)
        ),
        dropped=_dropped(fields.object("dropped")),
    )


def _one_of(fields: Fields, name: str, known: frozenset[str] | tuple[str, ...]) -> str:
    if (value := fields.text(name)) not in known:
        raise fields.refuse(name, f"one of {', '.join(sorted(known))}")
    return value


def _row(fields: Fields) -> Row:
    return Row(
        model=fields.text("model", MODEL),
        release=fields.text("release", RELEASE),
        previous=fields.text("previous", RELEASE) if fields.value("previous") != "" else "",
        arm=_one_of(fields, "arm", ARMS),
        code=_one_of(fields, "code", CODES),
        n=fields.whole("n", 1, MOST_COUNT),
        error=fields.text("error", ERROR) if fields.has("error") else "",
    )


def _histogram(fields: Fields) -> Histogram:
    value = fields.value("counts")
    counts = cast("list[object]", value) if isinstance(value, list) else []
    whole = [n for n in counts if type(n) is int and 0 <= n <= MOST_COUNT]
    if not len(whole) == len(counts) == BUCKETS:
        raise fields.refuse("counts", f"{BUCKETS} whole numbers")
    return Histogram(
        model=fields.text("model", MODEL),
        release=fields.text("release", RELEASE),
        arm=_one_of(fields, "arm", ARMS),
        name=_one_of(fields, "name", MEASURES),
        counts=tuple(whole),
    )


def _dropped(fields: Fields) -> dict[str, int]:
    names = fields.names()
    if len(names) > 16 or not all(WORD.fullmatch(name) for name in names):
        raise DeliveryError("report_invalid", "report: dropped: expected at most 16 reasons")
    return {name: fields.whole(name, 1, MOST_COUNT) for name in names}
