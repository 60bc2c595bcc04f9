"""Reports as devices send them, made for the tests."""

import gzip
import secrets
from collections.abc import Mapping
from datetime import datetime, timezone

from palmkit.delivery.reports.schema import Histogram, Report, Row


def today() -> str:
    return datetime.now(timezone.utc).date().isoformat()


def make_report(
    *groups: tuple[str, str, Mapping[str, int]], day: str = "", since_last: str = "1"
) -> Report:
    """Return a device's report: (release, arm, count by code) of the model "doubler"."""
    return Report(
        report_id=secrets.token_hex(16),
        day=day or today(),
        sdk="0.1.0",
        os="linux",
        arch="x86_64",
        memory_class="4-8",
        accelerator="none",
        since_last=since_last,
        rows=tuple(
            Row("doubler", release, "", arm, code, n)
            for release, arm, codes in groups
            for code, n in codes.items()
        ),
        histograms=(
            Histogram("doubler", "1.0.0", "stable", "infer_ms", (0,) * 12 + (900,) + (0,) * 19),
        ),
        dropped={},
    )


def packed(report: Report) -> bytes:
    return gzip.compress(report.dump(), 6, mtime=0)


GZIP = {"content-encoding": "gzip", "content-type": "application/json"}
