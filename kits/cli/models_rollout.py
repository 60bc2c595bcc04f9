"""palmkit models promote, halt, recall, revoke ...: the rollout of releases."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from palmkit.kits.cli.command import Commands, UsageError, finite
from palmkit.kits.cli.repositories import add_part, add_release, open_repository, tell

if TYPE_CHECKING:
    from palmkit.delivery.policy import Condition

_WHEN = re.compile(r"([a-z_]+)(>=|<=|=|:)(.*)", re.ASCII)
_WHEN_HELP = (
    "only for devices of which this holds; again for more: os=linux,macos (one of these), "
    "memory_mb>=2000, cpu:avx2 (all of these), sdk:>=0.2,<1; facts: sdk os arch cpu memory_mb tag; "
    "none removes the conditions that it has"
)


def add(commands: Commands) -> None:
    """Describe the commands."""
    promote = add_part(
        commands,
        "promote",
        _promote,
        "offer a release on a channel, to some or all of its devices",
        "  palmkit models promote face_detector 1.1.0 --percent 1\n"
        "  palmkit models promote face_detector 1.1.0 --percent 20    those 1 % among them\n"
        "  palmkit models promote face_detector 1.1.0\n"
        "  palmkit models promote face_detector 1.1.0 --channel beta --when 'memory_mb>=2000'\n",
        "Each device decides by itself whether it is one of the percent. A new release comes\n"
        "before those that are there; devices that may not run it take the next. Ends a halt or a\n"
        "recall of it.",
    )
    add_release(promote)
    promote.add_argument("--channel", default="stable", help="stable, beta, canary or another")
    promote.add_argument("--percent", type=float, default=100.0, help="of the devices (100)")
    promote.add_argument("--when", metavar="CONDITION", action="append", help=_WHEN_HELP)
    for name, run, help, more in (
        ("halt", _halt, "let no more devices take a release", "Devices that have it keep it."),
        (
            "recall",
            _recall,
            "take a release back from devices that have it",
            "They go back to the one behind it on the channel, or to what they had before.\n"
            "Without RELEASE: the one that the channel offers first: the channel is rolled back,\n"
            "if there is one behind it. The first release of a model is recalled by its name.",
        ),
    ):
        parser = add_part(
            commands,
            name,
            run,
            help,
            f"  palmkit models {name} face_detector 1.1.0\n"
            f"  palmkit models {name} face_detector 1.1.0 --channel beta\n"
            + (
                "  palmkit models recall face_detector                roll stable back\n"
                "  palmkit models recall face_detector --to 1.0.0     as far as this one\n"
                if name == "recall"
                else ""
            ),
            more,
        )
        add_release(parser, optional=name == "recall")
        parser.add_argument("--channel", metavar="CHANNEL", help="only there (everywhere)")
        if name == "recall":
            parser.add_argument("--to", metavar="RELEASE", help="roll back as far as this release")
    revoke = add_part(
        commands,
        "revoke",
        _revoke,
        "forbid a release for good, by its name and its bytes",
        "  palmkit models revoke face_detector 1.1.0\n",
        "For a release that must not run, such as one that a thief of a key has signed.",
    )
    add_release(revoke)
    floor = add_part(
        commands,
        "floor",
        _floor,
        "forbid all releases below one",
        "  palmkit models floor face_detector 1.0.0\n  palmkit models floor face_detector none\n",
    )
    add_release(floor)
    retry = add_part(
        commands,
        "retry",
        _retry,
        "let devices try again what failed on them",
        "  palmkit models retry face_detector\n",
        "A release that failed on a device is in quarantine there until this, or for good.",
    )
    retry.add_argument("model", metavar="MODEL")


def conditions(texts: list[str] | None) -> tuple[Condition, ...] | None:
    """Parse --when; return None if it is not given. Raises UsageError."""
    from palmkit.delivery.policy import Condition

    if texts is None:
        return None
    found: list[Condition] = []
    for text in texts if texts != ["none"] else []:
        match = _WHEN.fullmatch(text)
        if match is None:
            raise UsageError(f"--when: expected something like os=linux, got {text!r}")
        fact, test, value = match.groups()
        if fact == "sdk":
            value = value if test in (":", "=") and value[:1] in "<>=!~" else f"{test}{value}"
            found.append(Condition("sdk", "in", value))
        elif test in (">=", "<="):
            try:
                number = finite(value)
            except argparse.ArgumentTypeError:
                raise UsageError(f"--when: expected a number, got {text!r}") from None
            found.append(Condition(fact, "at_least" if test == ">=" else "at_most", number))
        else:
            found.append(Condition(fact, "in" if test == "=" else "has", value.split(",")))
    return tuple(found)


def _promote(options: argparse.Namespace) -> int:
    repository = open_repository(options)
    when = conditions(options.when)
    return tell(
        options,
        repository,
        repository.promote(options.model, options.release, options.channel, options.percent, when),
    )


def _halt(options: argparse.Namespace) -> int:
    repository = open_repository(options)
    policy = repository.halt(options.model, options.release, options.channel)
    return tell(options, repository, policy)


def _recall(options: argparse.Namespace) -> int:
    if options.release is not None and options.to is not None:
        raise UsageError("RELEASE and --to: expected one of them")
    repository = open_repository(options)
    if options.release is None:
        policy = repository.rollback(options.model, options.channel or "stable", options.to)
    else:
        policy = repository.recall(options.model, options.release, options.channel)
    return tell(options, repository, policy)


def _revoke(options: argparse.Namespace) -> int:
    repository = open_repository(options)
    return tell(options, repository, repository.revoke(options.model, options.release))


def _floor(options: argparse.Namespace) -> int:
    repository = open_repository(options)
    release = None if options.release == "none" else options.release
    return tell(options, repository, repository.set_floor(options.model, release))


def _retry(options: argparse.Namespace) -> int:
    repository = open_repository(options)
    return tell(options, repository, repository.retry(options.model))
