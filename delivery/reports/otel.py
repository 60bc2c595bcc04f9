"""The counts of reports as OpenTelemetry metrics too; needs palmkit[otel].

    from palmkit.delivery import reports
    from palmkit.delivery.reports.otel import OpenTelemetryExporter

    reports.enable(None, exporter=OpenTelemetryExporter())

gives them to the app's own meter provider; None instead of a server's address sends them nowhere
else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry.metrics import Histogram, MeterProvider, get_meter

from palmkit.delivery.facts import sdk
from palmkit.delivery.reports.schema import bucket_edges
from palmkit.delivery.reports.spool import CountKey, HistogramKey

UNITS = {"infer_ms": "ms", "load_ms": "ms", "download_kbps": "kbit/s"}


class OpenTelemetryExporter:
    """A counter palmkit.events and the histograms palmkit.infer_ms, .load_ms, .download_kbps.

    Attributes: palmkit.model, .release, .arm and, for events, .code, .previous and .error. The
    histograms' buckets are those of a report and exact; their sums are estimated from the buckets'
    midpoints.
    """

    def __init__(self, provider: MeterProvider | None = None) -> None:
        """Make the instruments.

        provider: the meter provider; by default the global one.
        """
        meter = get_meter("palmkit", sdk(), provider)
        self._events = meter.create_counter(
            "palmkit.events", unit="{event}", description="What happened to the models"
        )
        edges = bucket_edges()
        self._histograms: dict[str, Histogram] = {
            name: meter.create_histogram(
                f"palmkit.{name}", unit=unit, explicit_bucket_boundaries_advisory=edges
            )
            for name, unit in UNITS.items()
        }
        # OpenTelemetry's buckets include their upper bound, ours their lower one.
        self._middles = [edges[0] / 2, *(edge * 1.5 for edge in edges)]

    def export(
        self, counts: Mapping[CountKey, int], histograms: Mapping[HistogramKey, Sequence[int]]
    ) -> None:
        """Add the counts since the last call."""
        for (model, release, previous, arm, code, error), n in counts.items():
            attributes = {**_group(model, release, arm), "palmkit.code": code}
            if previous:
                attributes["palmkit.previous"] = previous
            if error:
                attributes["palmkit.error"] = error
            self._events.add(n, attributes)
        for (model, release, arm, name), buckets in histograms.items():
            group = _group(model, release, arm)
            for middle, n in zip(self._middles, buckets, strict=True):
                for _ in range(n):
                    self._histograms[name].record(middle, group)


def _group(model: str, release: str, arm: str) -> dict[str, str]:
    return {"palmkit.model": model, "palmkit.release": release, "palmkit.arm": arm}
