"""Statistics of how models fare on devices: off until an app turns them on.

    palmkit.delivery.reports.enable("https://models.example.com/v1/reports")

What is sent are counts and histograms of a day, no events, no name of a device, no pictures, paths
or texts of errors; `preview()` gives the very bytes. delivery/REPORTS.md lists every field. Setting
PALMKIT_REPORTS=off or DO_NOT_TRACK=1 in the environment keeps them off whatever the app says.

Only `enable` raises, and nothing here makes a kit wait: events are added up in memory, and a thread
of its own writes them to a small file and sends them.
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
# The shares that policies set before reports were turned on.
_shares: dict[str, float] = {}


class Runnable(Protocol):
    """A model as `watch` sees it."""

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Run the model once."""
        ...


AnyRunnable = TypeVar("AnyRunnable", bound=Runnable)


def enable(
    url: str | None,
    *,
    folder: str | os.PathLike[str] | None = None,
    interval_s: float = 3600.0,
    exporter: Exporter | None = None,
) -> bool:
    """Count from now on, and send the counts to a server; return whether reports are on.

    They are off if the environment says PALMKIT_REPORTS=off (0, no, false) or DO_NOT_TRACK=1.
    url: where reports are posted; None: nothing is sent, `preview` shows what would be. folder:
    where waiting reports are kept, at most 1 MB and 7 days; by default the user's data folder.
    interval_s: how often reports are sent, give or take a quarter. exporter: gets all counts too,
    as palmkit.delivery.reports.otel's.
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
    """Stop counting, and discard what was not sent yet."""
    global _recorder
    recorder, _recorder = _recorder, None
    if recorder is not None:
        recorder.close(erase=True)


def is_on() -> bool:
    """Return whether anything is counted."""
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
    """Count an event of a release of a model.

    arm: "candidate", "control", "stable" or "embedded". code: one of palmkit.delivery.codes.
    previous: the release that ran before. error: its cause; only a hash of the path through our own
    functions is kept.
    """
    if _recorder is not None:
        _recorder.count(model, release, arm, code, n, previous, error)


def observe(model: str, release: str, arm: str, name: str, value: float) -> None:
    """Add a value to a histogram: "infer_ms", "load_ms" or "download_kbps" (kilobits a second)."""
    if _recorder is not None:
        _recorder.observe(model, release, arm, name, value)


def watch(runnable: AnyRunnable, model: str, release: str, arm: str) -> AnyRunnable:
    """Return a model whose runs are timed as infer_ms; the same object while reports are off."""
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
    """Set the share of the devices, 0..1, that a policy lets report on a model; 0: none."""
    _shares[model] = share
    if _recorder is not None:
        _recorder.sampling(model, share)


def preview() -> list[Post]:
    """Return the requests that would be made if all counts so far were sent now.

    The counts stay and will be sent just so. Empty while reports are off.
    """
    return [] if _recorder is None else _recorder.preview()


def flush(timeout_s: float = 2.0) -> bool:
    """Send all counts so far, unless the server asked to wait.

    Returns whether everything was sent within the time.
    """
    return _recorder is not None and _recorder.flush(timeout_s)
