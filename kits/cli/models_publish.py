"""palmkit models create, publish, releases: the contents of a repository."""

from __future__ import annotations

import argparse
import json
import os
import sys
from getpass import getpass
from pathlib import Path
from typing import Any

from palmkit.engine.reading import read_bytes
from palmkit.kits.cli.command import Commands, UsageError
from palmkit.kits.cli.repositories import add_part, add_release, answer, in_words, open_repository


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


def _add_publish(commands: Commands) -> None:
    publish = add_part(
        commands,
        "publish",
        _publish,
        "sign a release of a model or a look; it runs nowhere before it is promoted",
        "  palmkit models publish face_detector 1.1.0 face_detector.palm\n"
        "  palmkit models publish face_detector 1.1.0 face_detector.palm --golden inputs.npz \\\n"
        "      --sdk '>=0.1,<2' --metric map=0.71 --notes 'more night pictures'\n"
        "  palmkit models publish hair 2.0 hair.palm labels.txt --key key.bin --key-id app-2026\n"
        "  palmkit models publish summer 1.0.0 summer.json        a look for try-on\n",
        "The model is run here first, on inputs that are given or drawn; devices must get the\n"
        "same outputs before the release may go live. Deltas from the last releases are made\n"
        "where they save 40 % or more. A look is read, not run. Publishing the same files again\n"
        "is no error.",
    )
    add_release(publish)
    publish.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="the .palm or look, and more"
    )
    publish.add_argument("--main", metavar="NAME", help="which FILE is the model (the only .palm)")
    publish.add_argument(
        "--golden",
        metavar="FILE|N|none",
        default="1",
        help="inputs to run: an .npz with arrays <case>/<input>, or how many to draw (1)",
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

    wanted = Options(
        main=options.main,
        golden=_golden(options.golden),
        rtol=options.rtol,
        atol=options.atol,
        max_latency_ratio=options.slower,
        sdk=options.sdk,
        metrics=dict(_metric(text) for text in options.metric),
        notes=options.notes,
        key=None if options.key is None else read_bytes(options.key),
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


def _golden(text: str) -> int | Path | None:
    if text == "none":
        return None
    try:
        return int(text)
    except ValueError:
        return Path(text)


def _metric(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise UsageError(f"--metric: expected NAME=NUMBER, got {text!r}") from None


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
        lines += [in_words(policy), f"  releases {names}"]
    return answer(options, {"models": facts}, "\n".join(lines) or "no release yet")
