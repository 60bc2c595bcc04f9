"""palmkit models create, publish, promote ...: releases and what runs where, in a repository."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from functools import cache
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmkit.kits.cli.command import Commands, Run, UsageError, add_command, complain

if TYPE_CHECKING:
    from palmkit.delivery.policy import Condition, Policy
    from palmkit.delivery.repository import Repository

# As EX_TEMPFAIL of sysexits.h: trying again may help.
TRY_AGAIN = 75
_CODES = """
Exit codes: 0 done, 1 failed, 2 usage, 75 somebody else wrote at the same time: try again.
The passphrase of the keys is read from $PALMKIT_PASSPHRASE, or asked for on a terminal.
"""
_WHEN = re.compile(r"([a-z_]+)(>=|<=|=|:)(.*)", re.ASCII)
_WHEN_HELP = (
    "only for devices of which this holds; again for more: os=linux,macos (one of these), "
    "memory_mb>=2000, cpu:avx2 (all of these), sdk:>=0.2,<1; facts: sdk os arch cpu memory_mb tag; "
    "none removes the conditions that it has"
)


def add(commands: Commands) -> None:
    """Describe the commands."""
    create = add_part(
        commands,
        "create",
        _create,
        "make a repository, with new keys",
        "  palmkit models create\n"
        "  palmkit models create --repository /srv/repository\n"
        "  palmkit models create --public 's3://models/v1?region_name=eu-central-1'\n",
        "DIR/public is the static part: serve it with any web server, or with palmkit serve.\n"
        "DIR/keys are the keys: keep root, targets and models away from servers (delivery/DRILLS.md"
        ").\nGive devices DIR/public/metadata/1.root.json with the app: all trust begins with it.",
    )
    create.add_argument(
        "--public", metavar="PLACE", default="public", help="s3://bucket/prefix, or a folder in DIR"
    )
    create.add_argument(
        "--no-passphrase", action="store_true", help="leave the key files in the clear (to try)"
    )
    _add_publish(commands)
    releases = add_part(
        commands,
        "releases",
        _releases,
        "list what is published, and what runs where",
        "  palmkit models releases\n  palmkit models releases face_detector --json\n",
    )
    releases.add_argument("model", nargs="?", metavar="MODEL", help="one model (all)")
    _add_rollout(commands)


def _add_publish(commands: Commands) -> None:
    publish = add_part(
        commands,
        "publish",
        _publish,
        "sign a release of a model; it runs nowhere before it is promoted",
        "  palmkit models publish face_detector 1.1.0 face_detector.palm\n"
        "  palmkit models publish face_detector 1.1.0 face_detector.palm --golden inputs.npz \\\n"
        "      --sdk '>=0.1,<2' --metric map=0.71 --notes 'more night pictures'\n"
        "  palmkit models publish hair 2.0 hair.palm labels.txt --key key.bin --key-id app-2026\n",
        "The model is run here first, on inputs that are given or drawn; devices must get the\n"
        "same outputs before the release may go live. Deltas from the last releases are made\n"
        "where they save 40 % or more. Publishing the same files again is no error.",
    )
    publish.add_argument("model", metavar="MODEL", help="its name: face_detector")
    publish.add_argument("release", metavar="RELEASE", help="its version: 1.1.0")
    publish.add_argument("files", metavar="FILE", nargs="+", type=Path, help="the .palm, and more")
    publish.add_argument("--main", metavar="NAME", help="which FILE is the model (the only .palm)")
    publish.add_argument(
        "--golden",
        metavar="FILE|N|none",
        default="2",
        help="inputs to run: an .npz with arrays <case>/<input>, or how many to draw (2)",
    )
    publish.add_argument("--rtol", type=float, default=0.01, help="as numpy.allclose has it (0.01)")
    publish.add_argument("--atol", type=float, default=0.001, help="likewise (0.001)")
    publish.add_argument(
        "--slower",
        metavar="TIMES",
        type=float,
        default=4.0,
        help="how much slower than the last release it may be on a device (4)",
    )
    publish.add_argument(
        "--sdk", metavar="VERSIONS", help="palmkit versions that may run it (this one and later)"
    )
    publish.add_argument(
        "--metric", metavar="NAME=NUMBER", action="append", default=[], help="to be shown with it"
    )
    publish.add_argument("--notes", metavar="TEXT", default="", help="to be shown with it")
    publish.add_argument("--key", metavar="FILE", type=Path, help="32 bytes that encrypt the files")
    publish.add_argument("--key-id", metavar="NAME", default="", help="what the app knows them by")
    publish.add_argument("--no-deltas", action="store_true", help="make none")
    publish.add_argument(
        "--shipped",
        metavar="FILE",
        action="append",
        default=[],
        type=Path,
        help="a model that came with the app, to make a delta from; again for more",
    )


def _add_rollout(commands: Commands) -> None:
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
    _model_and_release(promote)
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
            "Without RELEASE: the one that the channel offers first: the channel is rolled back.",
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
        _model_and_release(parser, optional=name == "recall")
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
    _model_and_release(revoke)
    floor = add_part(
        commands,
        "floor",
        _floor,
        "forbid all releases below one",
        "  palmkit models floor face_detector 1.0.0\n  palmkit models floor face_detector none\n",
    )
    _model_and_release(floor)
    retry = add_part(
        commands,
        "retry",
        _retry,
        "let devices try again what failed on them",
        "  palmkit models retry face_detector\n",
        "A release that failed on a device is in quarantine there until this, or for good.",
    )
    retry.add_argument("model", metavar="MODEL")


def add_part(
    commands: Commands, name: str, run: Run, help: str, examples: str, description: str = ""
) -> argparse.ArgumentParser:
    """A sub-command that works on a repository, and may answer in JSON."""
    text = f"{help[0].upper()}{help[1:]}.\n{description}\n{_CODES}"
    parser = add_command(commands, name, _with_codes(run), help, text, examples)
    parser.add_argument(
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


@cache
def passphrase(name: str) -> str:
    """Of a key file: $PALMKIT_PASSPHRASE, else asked for once. Raises RepositoryError."""
    from palmkit.delivery.repository.keys import PASSPHRASE, from_environment

    if os.environ.get(PASSPHRASE) or not sys.stdin.isatty():
        return from_environment(name)
    return getpass(f"passphrase of {name}: ")


def open_repository(options: argparse.Namespace) -> Repository:
    """The repository of --repository. Raises RepositoryError."""
    from palmkit.delivery.repository import Repository

    return Repository.open(options.repository, passphrase)


def answer(options: argparse.Namespace, facts: dict[str, Any], text: str) -> int:
    """Print what was done, as one JSON object or in words."""
    print(json.dumps(facts) if options.json else text)
    return 0


def _model_and_release(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    parser.add_argument("model", metavar="MODEL", help="face_detector")
    parser.add_argument("release", metavar="RELEASE", nargs="?" if optional else None, help="1.1.0")


def _create(options: argparse.Namespace) -> int:
    from palmkit.delivery.repository import Repository
    from palmkit.delivery.repository.keys import PASSPHRASE

    secret: str | None = os.environ.get(PASSPHRASE)
    if options.no_passphrase:
        secret = None
    elif not secret and sys.stdin.isatty():
        secret = getpass("passphrase for the new keys: ")
        if secret != getpass("once more: "):
            raise UsageError("the passphrases differ")
    if not secret and not options.no_passphrase:
        raise UsageError(f"expected ${PASSPHRASE}, or --no-passphrase")
    repository = Repository.create(options.repository, secret, options.public)
    root = f"{repository.storage}/metadata/1.root.json"
    facts = {"repository": str(options.repository), "root": root}
    return answer(options, facts, f"made {options.repository}; devices begin with {root}")


def _publish(options: argparse.Namespace) -> int:
    from palmkit.delivery.repository import Options
    from palmkit.delivery.repository.upkeep import files_of

    golden: int | Path | None
    if options.golden == "none":
        golden = None
    else:
        golden = int(options.golden) if options.golden.isdigit() else Path(options.golden)
    wanted = Options(
        main=options.main,
        golden=golden,
        rtol=options.rtol,
        atol=options.atol,
        max_latency_ratio=options.slower,
        sdk=options.sdk,
        metrics=dict(_metric(text) for text in options.metric),
        notes=options.notes,
        key=None if options.key is None else options.key.read_bytes(),
        key_id=options.key_id,
    )
    repository = open_repository(options)
    made = repository.publish(
        options.model,
        options.release,
        options.files,
        wanted,
        deltas=not options.no_deltas,
        shipped=options.shipped,
    )
    pending = repository.pending()
    files = [
        {"name": name, "size": size, "sha256": digest} for name, size, digest in files_of(made)
    ]
    facts = {
        "model": made.model,
        "release": made.release,
        "main": made.main,
        "files": files,
        "pending": pending,
    }
    lines = [f"published {made.model} {made.release}"]
    lines += [f"  {file['name']}  {file['size']:,} bytes" for file in files]
    if pending:
        lines.append("devices see it once the server has signed: palmkit models resign, there")
    return answer(options, facts, "\n".join(lines))


def _metric(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise UsageError(f"--metric: expected NAME=NUMBER, got {text!r}") from None


def conditions(texts: list[str] | None) -> tuple[Condition, ...] | None:
    """What --when says; None if it is not given. Raises UsageError."""
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
                number = float(value)
            except ValueError:
                raise UsageError(f"--when: expected a number, got {text!r}") from None
            found.append(Condition(fact, "at_least" if test == ">=" else "at_most", number))
        else:
            found.append(Condition(fact, "in" if test == "=" else "has", value.split(",")))
    return tuple(found)


def _promote(options: argparse.Namespace) -> int:
    repository = open_repository(options)
    when = conditions(options.when)
    return _tell(
        options,
        repository,
        repository.promote(options.model, options.release, options.channel, options.percent, when),
    )


def _halt(options: argparse.Namespace) -> int:
    repository = open_repository(options)
    policy = repository.halt(options.model, options.release, options.channel)
    return _tell(options, repository, policy)


def _recall(options: argparse.Namespace) -> int:
    if options.release is not None and options.to is not None:
        raise UsageError("RELEASE and --to: expected one of them")
    repository = open_repository(options)
    if options.release is None:
        policy = repository.rollback(options.model, options.channel or "stable", options.to)
    else:
        policy = repository.recall(options.model, options.release, options.channel)
    return _tell(options, repository, policy)


def _revoke(options: argparse.Namespace) -> int:
    repository = open_repository(options)
    return _tell(options, repository, repository.revoke(options.model, options.release))


def _floor(options: argparse.Namespace) -> int:
    repository = open_repository(options)
    release = None if options.release == "none" else options.release
    return _tell(options, repository, repository.set_floor(options.model, release))


def _retry(options: argparse.Namespace) -> int:
    repository = open_repository(options)
    return _tell(options, repository, repository.retry(options.model))


def _tell(options: argparse.Namespace, repository: Repository, policy: Policy) -> int:
    facts = {**json.loads(policy.dump()), "pending": repository.pending()}
    return answer(options, facts, _rollout(policy))


def _rollout(policy: Policy) -> str:
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


def _releases(options: argparse.Namespace) -> int:
    repository = open_repository(options)
    facts: list[dict[str, Any]] = []
    lines: list[str] = []
    for model in repository.models() if options.model is None else (options.model,):
        manifests = [repository.manifest(model, name) for name in repository.releases(model)]
        policy = repository.policy(model)
        facts.append(
            {
                "model": model,
                "releases": [json.loads(manifest.dump()) for manifest in manifests],
                "policy": json.loads(policy.dump()),
            }
        )
        names = ", ".join(manifest.release for manifest in manifests)
        lines += [_rollout(policy), f"  releases {names}"]
    return answer(options, {"models": facts}, "\n".join(lines) or "no release yet")
