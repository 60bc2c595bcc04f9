"""Checks a repository for newer models and looks, one after another, with the result of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from palmkit.delivery.client import Client
from palmkit.delivery.data_files import is_data_file
from palmkit.delivery.embedded import shipped
from palmkit.delivery.update import Absent, Progress
from palmkit.engine.errors import DeliveryError

Outcome: TypeAlias = Literal["new", "same", "absent", "failed"]


@dataclass(frozen=True)
class Standing:
    """The state of a model or look on this device.

    version: the one that runs, or will run from the next frame on; "": none. source: "shipped", or
    the channel. state: as in palmkit.delivery's README. refused: releases that failed here, and
    their codes.
    """

    model: str
    version: str
    source: str
    state: str
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Checked:
    """The result of a check of a model: "absent" if the repository has none of that name.

    error, code: of DeliveryError, where it failed.
    """

    standing: Standing
    outcome: Outcome
    error: str = ""
    code: str = ""


def standing(client: Client, model: str) -> Standing:
    """Return a model's state without asking a server."""
    said: dict[str, Any] = client.status(model)["models"][0]
    # A candidate on trial is what runs; one that has not arrived yet is not.
    on_trial = said["candidate"] if said["state"] == "TRIAL" else None
    delivered = on_trial or said["active"]
    if not said["embedded"] and said["state"] == "STAGED":
        # A look that nobody has worn yet is taken at its first use.
        delivered = said["candidate"]
    return Standing(
        model,
        delivered or said["embedded"] or "",
        said["channel"] if delivered else "shipped" if said["embedded"] else "",
        said["state"],
        tuple((each["release"], each["code"]) for each in said["quarantine"]),
    )


def delivered_looks(client: Client, channel: str) -> list[str]:
    """Return the names of files delivered for a channel that did not come with PalmKit."""
    found: list[dict[str, Any]] = client.status()["models"]
    models = shipped()
    return [
        each["model"]
        for each in found
        if each["channel"] == channel and each["model"] not in models
    ]


def offered_looks(client: Client, channel: str) -> list[str]:
    """Return the names of looks that a repository offers, or that are here.

    Raises DeliveryError if the repository cannot be asked.
    """
    offered = {name for name, each in client.offered().items() if is_data_file(each.main)}
    return sorted(offered.union(delivered_looks(client, channel)).difference(shipped()))


def check(
    client: Client,
    models: Iterable[str],
    on_progress: Progress | None = None,
    on_checked: Callable[[Checked], None] | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> list[Checked]:
    """Check each model and fetch updates; where that fails, the local version stays.

    A server that cannot be reached is not asked for the rest. on_progress: called with the file's
    name, the bytes received and its size. on_checked: called with each result. is_over: called
    between models, True ends the check.
    """
    found: list[Checked] = []
    for model in models:
        if is_over():
            break
        before = _newest(client, model)
        try:
            client.refresh(model, on_progress)
        except Absent as error:
            checked = Checked(standing(client, model), "absent", str(error))
        except DeliveryError as error:
            checked = Checked(standing(client, model), "failed", str(error), error.code)
        else:
            outcome: Outcome = "same" if _newest(client, model) == before else "new"
            checked = Checked(standing(client, model), outcome)
        found.append(checked)
        if on_checked is not None:
            on_checked(checked)
        if checked.code.startswith("check_fail"):
            break
    return found


def _newest(client: Client, model: str) -> object:
    """Return running, waiting and refused releases."""
    said: dict[str, Any] = client.status(model)["models"][0]
    return said["active"], said["candidate"], said["quarantine"]


def told(before: Sequence[Standing], after: Sequence[Standing]) -> list[tuple[str, bool]]:
    """Return the changes between two moments in words, and whether each is bad news."""
    known = {each.model: each for each in before}
    found: list[tuple[str, bool]] = []
    for now in after:
        then = known.get(now.model)
        if then is None:
            # Files that came with PalmKit are known; this one was delivered just now.
            then = Standing(now.model, "", "", "") if before else now
        new = [each for each in now.refused if each not in then.refused]
        for release, code in new:
            rest = f": going on with {now.version}" if now.version else ""
            found.append((f"{now.model} {release} failed here ({code}){rest}", True))
        if not new and (now.version, now.source) != (then.version, then.source):
            was = f"{then.version} → " if then.version else ""
            is_now = f"{now.version} ({now.source})" if now.version else "taken back"
            found.append((f"{now.model}: {was}{is_now}", False))
    return found
