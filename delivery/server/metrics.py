"""Metrics for Prometheus: the reports of this replica, and the rollouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from palmkit.delivery.server.rollouts import Rollout

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one app; two apps in a process share none."""

    def __init__(self) -> None:
        """Start at zero."""
        self.registry = CollectorRegistry()
        self.reports = Counter(
            "palmkit_reports",
            "Reports by what became of them.",
            ["outcome"],
            registry=self.registry,
        )
        for outcome in ("new", "duplicate", "invalid", "too_large", "busy"):
            self.reports.labels(outcome)
        self.commits = Histogram(
            "palmkit_report_commit_seconds",
            "Transactions that store reports.",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5),
            registry=self.registry,
        )
        self.waiting = Gauge(
            "palmkit_reports_waiting", "Reports that wait to be stored.", registry=self.registry
        )
        self.connections = Gauge(
            "palmkit_connections", "Connections that are open.", registry=self.registry
        )
        self.closed = Counter(
            "palmkit_connections_closed",
            "Connections ended by a limit: of time, of speed, from one address, in all.",
            ["limit"],
            registry=self.registry,
        )
        for limit in ("idle", "head", "body", "reading", "address", "all", "shutdown"):
            self.closed.labels(limit)
        self.job_failures = Counter(
            "palmkit_job_failures",
            "Runs of a regular job that failed.",
            ["job"],
            registry=self.registry,
        )
        self._percent = self._of_rollouts("percent", "Share of the devices that it is offered to.")
        self._stopped = self._of_rollouts("stopped", "1 if it is halted or recalled.")
        self._loads = self._of_rollouts("loads", "Loads since it began, by arm.", "arm")
        self._failures = self._of_rollouts("failures", "Of these, those that failed.", "arm")
        self._expires = Gauge(
            "palmkit_metadata_expires_timestamp_seconds",
            "When a role of the repository ends to be believed.",
            ["role"],
            registry=self.registry,
        )

    def _of_rollouts(self, name: str, text: str, *labels: str) -> Gauge:
        labels = ("model", "release", "channel", *labels)
        return Gauge(f"palmkit_rollout_{name}", text, labels, registry=self.registry)

    def stored(self, reports: int, new: int, seconds: float) -> None:
        """Record a finished transaction."""
        self.reports.labels("new").inc(new)
        self.reports.labels("duplicate").inc(reports - new)
        self.commits.observe(seconds)

    def count_waiting(self, waiting: Callable[[], int]) -> None:
        """Set the function that returns how many reports wait."""
        self.waiting.set_function(waiting)

    def closed_by(self, limit: str) -> None:
        """Count a connection that was ended by this limit."""
        self.closed.labels(limit).inc()

    def count_connections(self, open_now: Callable[[], int]) -> None:
        """Set the function that returns how many connections are open."""
        self.connections.set_function(open_now)

    def show(self, rollouts: Iterable[Rollout], expires: Mapping[str, str]) -> None:
        """Show these rollouts, and no others.

        expires: ISO 8601 by role.
        """
        for gauge in (self._percent, self._stopped, self._loads, self._failures, self._expires):
            gauge.clear()
        for rollout in rollouts:
            candidate = rollout.candidate
            labels = (rollout.model, candidate.release, rollout.channel)
            self._percent.labels(*labels).set(candidate.percent)
            self._stopped.labels(*labels).set(candidate.halt or candidate.recall)
            for arm, sample in (("candidate", rollout.sample), ("control", rollout.control)):
                self._loads.labels(*labels, arm).set(sample.loads)
                self._failures.labels(*labels, arm).set(sample.failures)
        for role, end in expires.items():
            seconds = datetime.fromisoformat(end.replace("Z", "+00:00")).timestamp()
            self._expires.labels(role).set(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' format."""
        return generate_latest(self.registry)
