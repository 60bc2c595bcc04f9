"""A fleet of devices gets a bad release: how many run it, and how long until it is stopped.

    python -m tests.delivery.server.fleet                    100,000 devices, some kinds of bad
    python -m tests.delivery.server.fleet --devices 1000000 --percent 0.5

Everything that decides is the real thing: devices ask `policy.choose` and `policy.arm`, their
reports go through `counting.store` into a database, the rule of `rollouts.watch` looks every minute
and halts in a signed repository. Simulated are the devices' days: when they start, ask and report,
and that they go back after two crashes, as the client does. Devices of neither arm report nothing
here: the rule does not look at them.
"""

from __future__ import annotations

import argparse
import secrets
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np

from palmkit.delivery.policy import Policy, arm, bucket, choose
from palmkit.delivery.reports.schema import Report, Row
from palmkit.delivery.repository import Repository, rollout
from palmkit.delivery.server.counting import Vocabulary, store
from palmkit.delivery.server.database import connect, migrate, writing
from palmkit.delivery.server.rollouts import Event, watch
from tests.delivery.releases import make_repository

MODEL, OLD, NEW = "doubler", "1.0.0", "1.1.0"
FACTS = {"sdk": "0.1.0", "os": "linux", "arch": "x86_64"}
START = 1_795_305_600.0
STARTS_A_DAY = 3
# Reports go out hourly; an app that crashed is started again soon.
REPORT_MIN, AGAIN_MIN = 60, 10
STRIKES = 2
ARMS = ("stable", "control", "candidate")


@dataclass
class Outcome:
    """The outcome of a rollout; hours since it began, None for what did not happen."""

    devices: int
    exposed: int = 0
    crashed: int = 0
    stopped: Event | None = None
    stopped_after_h: float | None = None
    exposed_at_stop: int = 0
    left_after_h: float | None = None
    still_on_it: int = 0

    def __str__(self) -> str:
        """Return the outcome in a line."""
        text = f"exposed {self.exposed} ({self.exposed / self.devices:.2%}), crashed {self.crashed}"
        if self.stopped is None:
            return f"{text}, not stopped"
        text += f", {self.stopped.action} after {self.stopped_after_h:.1f} h"
        text += f" ({self.exposed_at_stop} exposed by then)"
        if self.left_after_h is not None:
            return f"{text}, none left after {self.left_after_h:.1f} h"
        return f"{text}, {self.still_on_it} still run it at the end"


class Fleet:
    """Devices that run OLD, start a few times a day and ask as often as the policy says."""

    def __init__(self, devices: int, broken: float, usual: float, seed: int) -> None:
        """broken: share of the devices on which NEW crashes. usual: share of loads that fail."""
        self.random = np.random.default_rng(seed)
        draw = self.random
        self.seeds = [draw.bytes(16) for _ in range(devices)]
        self.usual = usual
        self.breaks = draw.random(devices) < broken
        self.arm = np.zeros(devices, np.int8)
        self.runs_new = np.zeros(devices, bool)
        self.staged = np.zeros(devices, bool)
        self.quarantined = np.zeros(devices, bool)
        self.strikes = np.zeros(devices, np.int8)
        self.exposed = np.zeros(devices, bool)
        self.next_check: np.ndarray[tuple[int], np.dtype[np.float64]] = draw.uniform(
            0, 1440, devices
        )
        self.next_start = draw.exponential(1440 / STARTS_A_DAY, devices)
        self.outbox: defaultdict[int, list[Report]] = defaultdict(list)

    def salt(self, size: int) -> str:
        """Return a salt of so many bytes."""
        return self.random.bytes(size).hex()

    def has_new(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which devices run NEW, or will when they start next."""
        return self.runs_new | self.staged

    def ask(self, minute: int, policy: Policy) -> None:
        """Let the devices whose time it is read the policy."""
        for device in np.flatnonzero(self.next_check <= minute):
            self._ask(device, policy)
            pause = policy.next_check_s / 60 * self.random.uniform(0.75, 1.25)
            self.next_check[device] = minute + pause

    def _ask(self, device: np.int64, policy: Policy) -> None:
        seed = self.seeds[device]
        found = choose(
            policy,
            "stable",
            FACTS,
            seed,
            NEW if self.runs_new[device] else OLD,
            lambda release: release == OLD or not self.quarantined[device],
        )
        wants_new = found is not None and found.release == NEW
        self.staged[device] = wants_new and not self.runs_new[device]
        if self.runs_new[device] and not wants_new:
            self.runs_new[device] = False
        if self.runs_new[device] or self.staged[device]:
            self.arm[device] = 2
            return
        self.arm[device] = 0
        for each in policy.channels["stable"]:
            if each.recall or each.release == OLD:
                continue
            if arm(each, bucket(seed, MODEL, each.release, each.salt)) == "control":
                self.arm[device] = 1

    def start(self, minute: int) -> None:
        """Let the devices whose time it is start the app."""
        due = self.next_start <= minute
        pauses = self.random.exponential(1440 / STARTS_A_DAY, int(due.sum()))
        self.next_start[due] = minute + pauses
        for device in np.flatnonzero(due & (self.arm > 0)):
            self._start(device, minute)

    def _start(self, device: np.int64, minute: int) -> None:
        if self.staged[device]:
            self.staged[device], self.runs_new[device] = False, True
            self.exposed[device] = True
        of = ARMS[int(self.arm[device])]
        if not self.runs_new[device]:
            code = "load_fail" if self.random.random() < self.usual else "load_ok"
            self._report(minute, OLD, of, {code: 1})
        elif not self.breaks[device]:
            code = "load_fail" if self.random.random() < self.usual else "load_ok"
            self._report(minute, NEW, of, {code: 1})
        else:
            # Told at the next start, which finds the mark of the trial.
            again = minute + self.random.uniform(1, AGAIN_MIN)
            self.next_start[device] = again
            self.strikes[device] += 1
            codes = {"crash_trial": 1}
            if self.strikes[device] >= STRIKES:
                codes |= {"quarantined": 1, "rollback": 1}
                self.quarantined[device], self.runs_new[device] = True, False
                self.arm[device] = 0
            self._report(int(again), NEW, of, codes)

    def _report(self, minute: int, release: str, of: str, codes: dict[str, int]) -> None:
        rows = tuple(Row(MODEL, release, "", of, code, n) for code, n in codes.items())
        kind = ("0.1.0", "linux", "x86_64", "4-8", "none", "1")
        report = Report(secrets.token_hex(16), "2026-11-22", *kind, rows=rows)
        self.outbox[minute + int(self.random.integers(1, REPORT_MIN))].append(report)


@dataclass
class Server:
    """The parts of the server that process reports."""

    folder: Path
    repository: Repository = field(init=False)

    def __post_init__(self) -> None:
        self.engine = connect(f"sqlite:///{self.folder / 'server.db'}")
        migrate(self.engine)
        self.repository = make_repository(self.folder, MODEL, OLD, NEW)
        self.repository.promote(MODEL, OLD)
        self.words = Vocabulary()

    def look(self, now: float, reports: Iterable[Report]) -> list[Event]:
        """Store reports, then apply the rule."""
        if sent := list(reports):
            with writing(self.engine) as connection:
                store(connection, sent, self.words, now)
        return watch(self.engine, self.repository, now)


def simulate(
    devices: int,
    broken: float,
    usual: float = 0.002,
    percent: float = 1.0,
    hours: float = 48.0,
    seed: int = 1,
    look_min: int = 1,
) -> Outcome:
    """Simulate a rollout of NEW to some percent; look_min: minutes between checks of the rule.

    The same seed gives the same outcome: it also draws the salt that chooses the devices.
    """
    fleet, outcome = Fleet(devices, broken, usual, seed), Outcome(devices)
    with tempfile.TemporaryDirectory() as temporary:
        server = Server(Path(temporary))
        server.look(START, ())
        with mock.patch.object(rollout, "secrets", SimpleNamespace(token_hex=fleet.salt)):
            server.repository.promote(MODEL, NEW, percent=percent)
        policy = server.repository.policy(MODEL)
        reports: list[Report] = []
        for minute in range(int(hours * 60)):
            fleet.ask(minute, policy)
            fleet.start(minute)
            reports += fleet.outbox.pop(minute, [])
            if minute % look_min:
                continue
            events = server.look(START + 60.0 * minute, reports)
            reports.clear()
            if events and outcome.stopped is None:
                outcome.stopped, outcome.stopped_after_h = events[0], minute / 60
                outcome.exposed_at_stop = int(fleet.exposed.sum())
            if events:
                policy = server.repository.policy(MODEL)
            if outcome.stopped and outcome.left_after_h is None and not fleet.has_new().any():
                outcome.left_after_h = minute / 60
        server.engine.dispose()
    outcome.exposed = int(fleet.exposed.sum())
    outcome.crashed = int(((fleet.strikes > 0) & fleet.exposed).sum())
    outcome.still_on_it = int(fleet.runs_new.sum())
    return outcome


def main() -> None:
    """Simulate some kinds of bad releases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=100_000)
    parser.add_argument("--percent", type=float, default=1.0)
    parser.add_argument("--hours", type=float, default=48.0)
    parser.add_argument("--broken", type=float, nargs="*", default=[1.0, 0.1, 0.02, 0.0])
    options = parser.parse_args()
    for broken in options.broken:
        outcome = simulate(options.devices, broken, percent=options.percent, hours=options.hours)
        print(f"crashes on {broken:6.1%} of the devices: {outcome}", flush=True)


if __name__ == "__main__":
    main()
