"""How many reports a second one server takes, and how long a device waits for its answer.

    python -m tests.delivery.server.load                     SQLite, then PostgreSQL if it is there
    python -m tests.delivery.server.load --connections 64 --seconds 20

The server is a process of its own, as `palmkit serve` starts it, and every answer means that the
report is durable. The load comes from this process, on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palmkit.delivery.reports.schema import Histogram, Report, Row
from tests.delivery.server.conftest import Cluster, postgres_programs
from tests.delivery.server.fleet_reports import packed, today
from tests.delivery.server.test_serve import serving

CODES = ("check_ok", "download_ok", "load_ok", "load_fail", "nan")


@dataclass(frozen=True)
class Load:
    """The measurements, in seconds."""

    reports: int
    seconds: float
    p50: float
    p99: float
    body_bytes: float

    def __str__(self) -> str:
        """Return the measurements in a line."""
        return (
            f"{self.reports / self.seconds:7,.0f} reports/s   p50 {self.p50 * 1e3:5.1f} ms   "
            f"p99 {self.p99 * 1e3:5.1f} ms   ({self.reports} of {self.body_bytes:.0f} B)"
        )


def make_reports(count: int, seed: int = 0) -> list[Report]:
    """Return reports of a mixed fleet: four models of five codes each, and two histograms."""
    draw = random.Random(seed)
    day = today()

    def one() -> Report:
        arm = draw.choice(("candidate", "control", "stable", "stable", "stable"))
        release = "1.1.0" if arm == "candidate" else "1.0.0"
        rows = [
            Row(f"model_{model}", release, "", arm, code, draw.randrange(1, 9))
            for model in range(4)
            for code in CODES
        ]
        counts = [0] * 32
        for bucket in range(10, 16):
            counts[bucket] = draw.randrange(1000)
        histograms = [
            Histogram("model_0", release, arm, name, tuple(counts))
            for name in ("load_ms", "infer_ms")
        ]
        return Report(
            report_id=f"{draw.getrandbits(128):032x}",
            day=day,
            sdk=draw.choice(("0.1.0", "0.1.1", "0.2.0")),
            os=draw.choice(("linux", "windows", "darwin")),
            arch=draw.choice(("x86_64", "aarch64")),
            memory_class=draw.choice(("2-4", "4-8", "8-16")),
            accelerator="none",
            since_last=draw.choice(("1", "2-6", "0")),
            rows=tuple(rows),
            histograms=tuple(histograms),
        )

    return [one() for _ in range(count)]


async def _connection(
    port: int, requests: list[bytes], until: float, times: list[float], statuses: set[bytes]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while requests and time.perf_counter() < until:
        request = requests.pop()
        began = time.perf_counter()
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        times.append(time.perf_counter() - began)
        statuses.add(answer[9:12])
    writer.close()


async def _load(port: int, requests: list[bytes], connections: int, seconds: float) -> list[float]:
    times: list[float] = []
    statuses: set[bytes] = set()
    until = time.perf_counter() + seconds
    await asyncio.gather(
        *(_connection(port, requests, until, times, statuses) for _ in range(connections))
    )
    assert statuses == {b"202"}, statuses
    return times


def measure(
    database: str | None, reports: Sequence[bytes], connections: int, seconds: float
) -> Load:
    """Send reports to a new server for so long, or until none is left."""
    requests = [
        b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        for body in reports
    ]
    with tempfile.TemporaryDirectory() as temporary:
        options = ("--database", database) if database else ()
        with serving(Path(temporary) / "server", *options) as (url, _):
            port = int(url.rpartition(":")[2])
            began = time.perf_counter()
            times = sorted(asyncio.run(_load(port, requests, connections, seconds)))
            took = time.perf_counter() - began
    middle, late = times[len(times) // 2], times[int(len(times) * 0.99)]
    return Load(len(times), took, middle, late, sum(map(len, reports)) / len(reports))


def main() -> None:
    """Measure both databases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--reports", type=int, default=20_000, help="made beforehand")
    options = parser.parse_args()
    bodies = [packed(report) for report in make_reports(options.reports)]
    arguments = (bodies, options.connections, options.seconds)
    print("SQLite     ", measure(None, *arguments), flush=True)
    if (programs := postgres_programs()) is None:
        print("PostgreSQL  skipped: its server programs are not here")
        return
    cluster = Cluster(programs, durable=True)
    try:
        print("PostgreSQL ", measure(cluster.new_database(), *arguments))
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
