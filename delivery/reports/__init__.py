"""Statistics of how models fare on devices: off until an app turns them on.

    palmkit.delivery.reports.enable("https://models.example.com/v1/reports")

What is sent are counts and histograms of a day, no events, no name of a device, no pictures, paths
or texts of errors; `preview()` gives the very bytes. delivery/REPORTS.md lists every field. Setting
PALMKIT_REPORTS=off or DO_NOT_TRACK=1 in the environment keeps them off whatever the app says.

Nothing here but `enable` raises, and none makes a kit wait: what happened is added up in memory and
a thread of its own writes it to a small file and sends it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from palmkit.delivery.reports.recorder import Exporter, Post, Recorder

__all__ = [
    "count",
    "disable",
    "enable",
    "flush",
    "is_on",
    "observe",
    "preview",
    "sampling",
    "watch",
]

_recorder: Recorder | None = None
# What policies said before reports were turned on.
_shares: dict[str, float] = {}


class Runnable(Protocol):
    """A model as far as `watch` is concerned."""

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Run once."""
        ...


AnyRunnable = TypeVar("AnyRunnable", bound=Runnable)


def enable(
    url: str | None,
    *,
    folder: str | os.PathLike[str] | None = None,
    interval_s: float = 3600.0,
    exporter: Exporter | None = None,
) -> bool:
    """Count from now on, and send what was counted to a server; returns whether reports are on.

    They are not if the environment says PALMKIT_REPORTS=off (0, no, false) or DO_NOT_TRACK=1.
    url: where a report is posted; None: nothing is sent, `preview` shows what would be.
    folder: where what waits is kept, at most 1 MB and 7 days; by default the user's data folder.
    interval_s: how often reports are sent, give or take a quarter.
    exporter: gets all that is counted too, as palmkit.delivery.reports.otel's.
    Raises ValueError if the url is not one of http or https, or interval_s is below 1.
    """
    global _recorder
    from palmkit.delivery.reports.recorder import Recorder, forbidden

    recorder = Recorder(url, folder, interval_s, exporter)
    if forbidden():
        return False
    if _recorder is not None:
        _recorder.close()
    for model, share in _shares.items():
        recorder.sampling(model, share)
    _recorder = recorder
    recorder.start()
    return True


def disable() -> None:
    """Stop counting, and throw away what was not sent yet."""
    global _recorder
    recorder, _recorder = _recorder, None
    if recorder is not None:
        recorder.close(erase=True)


def is_on() -> bool:
    """Whether anything is counted."""
    return _recorder is not None


def count(
    model: str,
    release: str,
    arm: str,
    code: str,
    n: int = 1,
    *,
    previous: str = "",
    error: BaseException | None = None,
) -> None:
    """Count something that happened to a release of a model.

    arm: "candidate", "control", "stable" or "embedded". code: one of palmkit.delivery.codes.
    previous: the release that ran before. error: why it happened; only a hash of which of our
    functions it went through is kept.
    """
    if _recorder is not None:
        _recorder.count(model, release, arm, code, n, previous, error)


def observe(model: str, release: str, arm: str, name: str, value: float) -> None:
    """Add a value to a histogram: "infer_ms", "load_ms" or "download_kbps" (kilobits a second)."""
    if _recorder is not None:
        _recorder.observe(model, release, arm, name, value)


def watch(runnable: AnyRunnable, model: str, release: str, arm: str) -> AnyRunnable:
    """A model whose runs are timed as infer_ms; the very same object while reports are off."""
    if _recorder is None:
        return runnable
    watched: Any = _Watched(runnable, model, release, arm)
    return watched  # type: ignore[no-any-return]


class _Watched:
    def __init__(self, runnable: Runnable, model: str, release: str, arm: str) -> None:
        self._runnable = runnable
        self._group = (model, release, arm)

    def run(self, inputs: Mapping[str, Any], *options: Any) -> Any:
        started = perf_counter()
        outputs = self._runnable.run(inputs, *options)
        observe(*self._group, "infer_ms", (perf_counter() - started) * 1e3)
        return outputs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runnable, name)


def sampling(model: str, share: float) -> None:
    """Keep to the share of the devices, 0..1, that a policy lets report on a model; 0: none."""
    _shares[model] = share
    if _recorder is not None:
        _recorder.sampling(model, share)


def preview() -> list[Post]:
    """The requests that would be made if all that was counted so far were sent now.

    They stay as they are and will be sent just so. Empty while reports are off.
    """
    return [] if _recorder is None else _recorder.preview()


def flush(timeout_s: float = 2.0) -> bool:
    """Send what was counted so far, unless the server asked to wait.

    Returns whether everything was sent within the time.
    """
    return _recorder is not None and _recorder.flush(timeout_s)
