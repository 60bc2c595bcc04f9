"""Adding up events in this process, and the thread that stores and sends them."""

from __future__ import annotations

import atexit
import gzip
import hashlib
import json
import logging
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from palmkit.delivery import facts
from palmkit.delivery.codes import CODES
from palmkit.delivery.document import MODEL, RELEASE
from palmkit.delivery.reports.schema import ARMS, BUCKETS, MEASURES, Report, bucket
from palmkit.delivery.reports.sender import Sender
from palmkit.delivery.reports.spool import CountKey, HistogramKey, Spool
from palmkit.engine.forks import renewed_in_children

WRITE_EVERY_S = 10.0
EXIT_S = 2.0
FIRST_WITHIN_S = 60.0
# The most keys that one process holds between two writes; a kit has a handful.
MOST_KEYS = 1000

_log = logging.getLogger(__name__)
_HERE = Path(__file__).resolve().parents[2]
_OURS = ("assets", "delivery", "engine", "kits", "models")


class Exporter(Protocol):
    """Takes the counts since the last call; never called in a thread that runs a model."""

    def export(
        self, counts: Mapping[CountKey, int], histograms: Mapping[HistogramKey, Sequence[int]]
    ) -> None:
        """Take counts and histograms with the keys of palmkit.delivery.reports.spool."""
        ...


@dataclass(frozen=True)
class Post:
    """A request that carries one report.

    body: gzip bytes; url: None if nothing is to be sent.
    """

    url: str | None
    headers: Mapping[str, str]
    body: bytes

    @property
    def report(self) -> dict[str, Any]:
        """Return the report in the body."""
        return dict(json.loads(gzip.decompress(self.body)))


def forbidden() -> bool:
    """Return whether the environment forbids reports."""
    off = {"off", "0", "no", "false"}
    return os.environ.get("PALMKIT_REPORTS", "").strip().lower() in off or os.environ.get(
        "DO_NOT_TRACK", "0"
    ).strip() not in ("", "0")


@cache
def _our_module(filename: str) -> str | None:
    """Return the module of one of our files; None for those of the app, Python and libraries."""
    file = Path(os.path.realpath(filename))
    if not file.is_relative_to(_HERE):
        return None
    parts = file.relative_to(_HERE).with_suffix("").parts
    return ".".join(parts) if parts[0] in _OURS else None


def fingerprint(error: BaseException) -> str:
    """Return 16 hex digits that identify an exception's path through our own functions.

    They are a hash of modules, functions and lines only: no text, value or path, and no function of
    the app.
    """
    frames: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if module := _our_module(code.co_filename):
            frames.append(f"{module}:{code.co_name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return hashlib.sha256("\n".join(frames).encode()).hexdigest()[:16]


def _facts() -> Report:
    """Return a report of this device without counts."""
    memory_mb = facts.memory_mb()
    isas = facts.cpu()
    return Report(
        report_id="",
        day="",
        sdk=facts.sdk(),
        os=facts.os_name(),
        arch=facts.arch(),
        memory_class="unknown" if memory_mb is None else memory_class(memory_mb),
        accelerator=next((isa for isa in ("avx512", "avx2", "neon") if isa in isas), "none"),
        since_last="",
    )


def memory_class(memory_mb: int) -> str:
    """Return a device's memory in GiB, as coarse as reports state it."""
    # A machine sold with 4 GiB reports a little less.
    for most in (1, 2, 4, 8, 16, 32):
        if memory_mb < most * 1024 * 0.9:
            return "<1" if most == 1 else f"{most // 2}-{most}"
    return "32+"


class Recorder:
    """The counts of one process. No method but the constructor raises."""

    def __init__(
        self,
        url: str | None,
        folder: str | os.PathLike[str] | None,
        interval_s: float,
        exporter: Exporter | None,
    ) -> None:
        """Check the arguments, which are those of palmkit.delivery.reports.enable."""
        if folder is None:
            from platformdirs import user_data_path

            folder = user_data_path("palmkit") / "delivery"
        self._exporter = exporter
        self._spool = Spool(Path(folder) / "spool.db")
        self._sender = Sender(self._spool, url, _facts(), interval_s)
        self._first_within_s = min(FIRST_WITHIN_S, interval_s)
        self._closed = False
        renewed_in_children(self, Recorder._renew)

    def _renew(self) -> None:
        """Start empty and without a thread.

        The counts from before a fork are the parent's to write.
        """
        # A signal handler or a finaliser may count while this very thread is counting.
        self._lock = threading.RLock()
        self._write_lock = threading.Lock()
        self._wake = threading.Condition()
        self._counts: dict[CountKey, int] = {}
        self._histograms: dict[HistogramKey, list[int]] = {}
        self._dropped: dict[str, int] = {}
        self._closed = self._closed or self._spool.is_lost
        self._erased = self._all_sent = False
        self._flushes = self._flushed = 0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; at exit it gets two seconds to finish."""
        atexit.register(self.close)
        self._start_thread()

    def _start_thread(self) -> None:
        """Start the thread unless there is one; a forked child starts its own when it counts."""
        with self._lock:
            if self._thread is not None or self._closed:
                return
            self._thread = threading.Thread(target=self._work, name="palmkit-reports", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:
                _log.debug("reports: no thread: %s", error)

    def count(
        self,
        model: str,
        release: str,
        arm: str,
        code: str,
        n: int,
        previous: str,
        error: BaseException | None,
    ) -> None:
        """Do what palmkit.delivery.reports.count says."""
        try:
            key = (model, release, previous, arm, code, "" if error is None else fingerprint(error))
            valid = type(n) is int and 0 < n < 1 << 31
            with self._lock:
                if valid and key in self._counts:
                    self._counts[key] += n
                elif valid and code in CODES and self._is_group(model, release, arm, previous):
                    if self._has_room():
                        self._counts[key] = n
                else:
                    self._drop("invalid")
        except Exception as unexpected:
            self._never_mind(unexpected)

    def observe(self, model: str, release: str, arm: str, name: str, value: float) -> None:
        """Do what palmkit.delivery.reports.observe says."""
        try:
            key = (model, release, arm, name)
            valid = math.isfinite(value) and value >= 0
            with self._lock:
                counts = self._histograms.get(key)
                if valid and counts is not None:
                    counts[bucket(value)] += 1
                elif valid and name in MEASURES and self._is_group(model, release, arm, ""):
                    if self._has_room():
                        self._histograms[key] = counts = [0] * BUCKETS
                        counts[bucket(value)] += 1
                else:
                    self._drop("invalid")
        except Exception as unexpected:
            self._never_mind(unexpected)

    def _is_group(self, model: str, release: str, arm: str, previous: str) -> bool:
        return bool(
            MODEL.fullmatch(model)
            and RELEASE.fullmatch(release)
            and arm in ARMS
            and (previous == "" or RELEASE.fullmatch(previous))
        )

    def _has_room(self) -> bool:
        if self._thread is None:
            self._start_thread()
        if len(self._counts) + len(self._histograms) < MOST_KEYS:
            return True
        self._drop("space")
        return False

    def _drop(self, reason: str, n: int = 1) -> None:
        self._dropped[reason] = self._dropped.get(reason, 0) + n

    def _never_mind(self, error: Exception) -> None:
        with self._lock:
            self._drop("invalid")
        _log.debug("reports: %r", error)

    def sampling(self, model: str, share: float) -> None:
        """Do what palmkit.delivery.reports.sampling says."""
        try:
            self._spool.set_share(model, float(share))
        except (sqlite3.Error, OSError, TypeError, ValueError) as error:
            _log.debug("reports: %r", error)

    def preview(self) -> list[Post]:
        """Do what palmkit.delivery.reports.preview says."""
        try:
            self._write()
            self._sender.seal()
            url, headers = self._sender.url, self._sender.headers()
            return [Post(url, headers, sealed.body) for sealed in self._spool.waiting()]
        except (sqlite3.Error, OSError) as error:
            _log.debug("reports: %r", error)
            return []

    def flush(self, timeout_s: float) -> bool:
        """Do what palmkit.delivery.reports.flush says."""
        self._start_thread()
        with self._wake:
            self._flushes += 1
            wanted = self._flushes
            self._wake.notify_all()
            self._wake.wait_for(lambda: self._flushed >= wanted or self._closed, timeout_s)
            return self._flushed >= wanted and self._all_sent

    def close(self, erase: bool = False) -> None:
        """Write the counts, or erase all, and end the thread; within two seconds."""
        if self._closed:
            return
        atexit.unregister(self.close)
        ends = time.monotonic() + EXIT_S
        self._spool.wait_s = EXIT_S / 2
        if not erase:
            self._write()
        with self._wake:
            self._closed, self._erased = True, erase
            self._wake.notify_all()
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join(ends - time.monotonic())
        if erase:
            with self._write_lock:
                self._drain()
                try:
                    self._spool.erase()
                except OSError as error:
                    _log.debug("reports: %r", error)

    def _drain(
        self,
    ) -> tuple[dict[CountKey, int], dict[HistogramKey, list[int]], dict[str, int]]:
        with self._lock:
            taken = self._counts, self._histograms, self._dropped
            self._counts, self._histograms, self._dropped = {}, {}, {}
        return taken

    def _write(self) -> None:
        """Move the counts from memory to the spool; counts that cannot be written stay."""
        with self._write_lock:
            counts, histograms, dropped = self._drain()
            if not (counts or histograms or dropped):
                return
            try:
                self._spool.add(counts, histograms, dropped)
            except (sqlite3.Error, OSError) as error:
                _log.debug("reports: not written: %r", error)
                self._put_back(counts, histograms, dropped)
                return
        if self._exporter is not None:
            try:
                self._exporter.export(counts, histograms)
            except Exception as error:
                _log.debug("reports: not exported: %r", error)
            except BaseException as error:
                # What ends a program is raised in the app's threads; here it is logged.
                if threading.current_thread() is not self._thread:
                    raise
                _log.error("reports: the exporter raised %r", error)

    def _put_back(
        self,
        counts: Mapping[CountKey, int],
        histograms: Mapping[HistogramKey, list[int]],
        dropped: Mapping[str, int],
    ) -> None:
        with self._lock:
            for key, n in counts.items():
                self._counts[key] = self._counts.get(key, 0) + n
            for group, added in histograms.items():
                there = self._histograms.get(group, [0] * BUCKETS)
                self._histograms[group] = [a + b for a, b in zip(there, added, strict=True)]
            for reason, n in dropped.items():
                self._drop(reason, n)

    def _work(self) -> None:
        self._try(lambda: self._spool.first_send(self._first_within_s))
        closed = False
        while not closed:
            with self._wake:
                self._wake.wait_for(
                    lambda: self._closed or self._flushes > self._flushed, WRITE_EVERY_S
                )
                closed, wanted = self._closed, self._flushes
            if not (closed and self._erased):
                self._write()
                anyhow = wanted > self._flushed
                self._all_sent = self._try(partial(self._sender.send_all, anyhow))
            with self._wake:
                self._flushed = wanted
                self._wake.notify_all()

    def _try(self, work: Callable[[], object]) -> bool:
        try:
            return bool(work())
        except Exception as error:
            _log.debug("reports: %r", error)
            return False
