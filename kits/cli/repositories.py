"""Shared parts of the commands that work on a repository."""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import cache
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmkit.kits.cli.command import Commands, Run, add_command
from palmkit.kits.cli.process import complain

if TYPE_CHECKING:
    from palmkit.delivery.policy import Policy
    from palmkit.delivery.repository import Repository

# As EX_TEMPFAIL of sysexits.h: trying again may help.
TRY_AGAIN = 75
_CODES = """
Exit codes: 0 done, 1 failed, 2 usage, 75 somebody else wrote at the same time: try again.
The passphrase of the keys is read from $PALMKIT_PASSPHRASE, or asked for on a terminal.
"""


def add_part(
    commands: Commands, name: str, run: Run, help: str, examples: str, description: str = ""
) -> argparse.ArgumentParser:
    """Add a sub-command that works on a repository, and may answer in JSON."""
    text = f"{help[0].upper()}{help[1:]}.\n{description}\n{_CODES}"
    parser = add_command(commands, name, _with_codes(run), help, text, examples)
    parser.add_argument(
        "-r",
        "--repository",
        metavar="DIR",
        type=Path,
        default=Path(os.environ.get("PALMKIT_REPOSITORY") or "repository"),
        help="the repository ($PALMKIT_REPOSITORY, else ./repository)",
    )
    parser.add_argument("--json", action="store_true", help="answer as one JSON object")
    return parser


def _with_codes(run: Run) -> Run:
    def run_with_codes(options: argparse.Namespace) -> int:
        from palmkit.delivery.repository import Conflict

        try:
            return run(options)
        except Conflict as error:
            complain(error)
            return TRY_AGAIN

    return run_with_codes


def passphrase(name: str) -> str:
    """Return a key file's passphrase: $PALMKIT_PASSPHRASE, else asked for once for all.

    Raises RepositoryError.
    """
    from palmkit.delivery.repository.keys import PASSPHRASE, from_environment

    if os.environ.get(PASSPHRASE) or not sys.stdin.isatty():
        return from_environment(name)
    return _typed()


@cache
def _typed() -> str:
    return getpass("passphrase of the keys: ")


def open_repository(options: argparse.Namespace) -> Repository:
    """Return the repository of --repository. Raises RepositoryError."""
    from palmkit.delivery.repository import Repository

    return Repository.open(options.repository, passphrase)


def answer(options: argparse.Namespace, facts: dict[str, Any], text: str) -> int:
    """Print what was done, as one JSON object or in words."""
    print(json.dumps(facts) if options.json else text)
    return 0


def add_release(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """Add MODEL and RELEASE."""
    parser.add_argument("model", metavar="MODEL", help="face_detector")
    parser.add_argument("release", metavar="RELEASE", nargs="?" if optional else None, help="1.1.0")


def tell(options: argparse.Namespace, repository: Repository, policy: Policy) -> int:
    """Print which releases now run where."""
    facts = {**json.loads(policy.dump()), "pending": repository.pending()}
    return answer(options, facts, in_words(policy))


def in_words(policy: Policy) -> str:
    """Return which releases run where, a line each."""
    lines = [f"{policy.model}: epoch {policy.epoch}"]
    for channel, candidates in policy.channels.items():
        for each in candidates:
            state = "recalled" if each.recall else "halted" if each.halt else ""
            when = " ".join(f"{one.fact} {one.test} {one.value}" for one in each.when)
            line = f"  {channel:8} {each.release:12} {each.percent:g} %  {state} {when}"
            lines.append(line.rstrip())
    if policy.floor:
        lines.append(f"  floor    {policy.floor}")
    # Digests of files are among them; the releases say it all.
    names = sorted(name for name in policy.revoked if len(name) != 64)
    return "\n".join([*lines, *([f"  revoked  {', '.join(names)}"] if names else [])])
