"""palmkit models resign, rotate-key, ceremony, verify ...: the upkeep of a repository."""

from __future__ import annotations

import argparse
import os
import sys
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmkit.engine.reading import read_bytes
from palmkit.kits.cli.command import Commands, UsageError, write_whole
from palmkit.kits.cli.repositories import add_part, answer, open_repository, passphrase

if TYPE_CHECKING:
    from securesystemslib.signer import Key, Signer

    from palmkit.delivery.repository import Repository

_CEREMONY = """\
Several people hold keys of root, and a new root needs enough of them. It travels as a file:

  each new holder    palmkit models ceremony key ada.pem            sends ada.pub, keeps ada.pem
  one of them        palmkit models ceremony start next.json --add root=ada.pub \\
                         --add root=ben.pub --remove root=1a2b3c4d --threshold root=2
  enough holders     palmkit models ceremony show next.json         look before you sign
                     palmkit models ceremony sign next.json --key ada.pem
  one of them        palmkit models ceremony finish next.json       publishes it

start without options only makes root live for another year. Steps in full: delivery/DRILLS.md."""


def add(commands: Commands) -> None:
    """Describe the commands."""
    resign = add_part(
        commands,
        "resign",
        _resign,
        "sign anew what expires, and show devices what others signed",
        "  palmkit models resign\n  palmkit models resign --force\n",
        "Every few hours where no server does it: devices believe a timestamp for a day.",
    )
    resign.add_argument("--force", action="store_true", help="even if nothing expires yet")
    rotate = add_part(
        commands,
        "rotate-key",
        _rotate,
        "put a new key in the place of one",
        "  palmkit models rotate-key timestamp\n"
        "  palmkit models rotate-key models --uri awskms:alias/models --public-key models.pub\n",
        "Devices that were away follow. The old key file stays: delete it.",
    )
    rotate.add_argument(
        "name", choices=("root", "targets", "models", "rollout", "snapshot", "timestamp")
    )
    rotate.add_argument(
        "--uri", help="the new key is there: awskms:, gcpkms:, azurekms:, hv:, hsm: or file2:"
    )
    rotate.add_argument("--public-key", metavar="FILE", type=Path, help="its public part, PEM")
    rotate.add_argument("--instead-of", metavar="ID", help="which one goes, if there are several")
    ceremony = add_part(
        commands,
        "ceremony",
        _ceremony,
        "change root with the signatures of several people",
        "  palmkit models ceremony start next.json\n",
        _CEREMONY,
    )
    ceremony.add_argument("step", choices=("key", "start", "show", "sign", "finish"))
    ceremony.add_argument("file", metavar="FILE", type=Path, help="the key file, or the next root")
    for name, text in (
        ("add", "start: let a public key (PEM file) sign a role: root=ada.pub"),
        ("remove", "start: let a key (start of its id) sign no more: root=1a2b3c4d"),
        ("threshold", "start: how many must sign: root=2"),
    ):
        ceremony.add_argument(
            f"--{name}", metavar="ROLE=VALUE", action="append", default=[], help=text
        )
    ceremony.add_argument("--key", metavar="FILE", type=Path, help="sign: with this key file")
    ceremony.add_argument("--uri", help="sign: with the key there, its public part in --key")
    verify = add_part(
        commands,
        "verify",
        _verify,
        "check all of it, as devices see it; code 1 if something is wrong",
        "  palmkit models verify\n  palmkit models verify --quick --json\n",
    )
    verify.add_argument("--quick", action="store_true", help="sizes of files, not their digests")
    prune = add_part(
        commands,
        "prune",
        _prune,
        "take away old metadata, and files that none refers to",
        "  palmkit models prune\n",
    )
    prune.add_argument("--keep-days", type=float, default=7.0, help="for devices under way (7)")
    mirror = add_part(
        commands,
        "mirror",
        _mirror,
        "copy the static part to a bucket or a folder",
        "  palmkit models mirror 's3://models/v1?endpoint_url=https://minio.example.com'\n"
        "  palmkit models mirror /var/www/models\n",
        "Only what is new there, in an order in which devices see all of a change or nothing.",
    )
    mirror.add_argument("place", metavar="PLACE", help="s3://bucket/prefix, or a folder")


def _resign(options: argparse.Namespace) -> int:
    roles = open_repository(options).resign(options.force)
    text = f"signed anew: {', '.join(roles)}" if roles else "nothing to sign yet"
    return answer(options, {"signed": roles}, text)


def _rotate(options: argparse.Namespace) -> int:
    from palmkit.delivery.repository.keys import public_key

    if (options.uri is None) != (options.public_key is None):
        raise UsageError("--uri and --public-key: expected both or none")
    repository = open_repository(options)
    key: Key | None = None
    if options.uri is not None:
        key = public_key(read_bytes(options.public_key))
        repository.ring.add(key, options.uri)
    new = repository.rotate_key(options.name, key, options.instead_of)
    text = f"{options.name} is signed by {new[:8]} now; delete the old key"
    return answer(options, {"role": options.name, "key": new}, text)


def _ceremony(options: argparse.Namespace) -> int:
    steps = {"key": _key, "start": _start, "show": _show, "sign": _sign, "finish": _finish}
    return steps[options.step](options)


def _key(options: argparse.Namespace) -> int:
    from palmkit.delivery.repository.keys import PASSPHRASE, write_key

    secret = os.environ.get(PASSPHRASE) or None
    if secret is None and sys.stdin.isatty():
        secret = getpass("passphrase for the new key: ")
        if secret != getpass("once more: "):
            raise UsageError("the passphrases differ")
    if secret is None:
        raise UsageError(f"expected a passphrase in ${PASSPHRASE}")
    key = write_key(options.file, secret)
    if options.file.parent.resolve() == (options.repository / "keys").resolve():
        open_repository(options).ring.add(key, f"encrypted:{options.file.name}")
    public = options.file.with_suffix(".pub")
    text = f"key {key.keyid[:8]}: keep {options.file}, send {public}"
    return answer(options, {"key": key.keyid, "public": str(public)}, text)


def _pairs(option: str, texts: list[str]) -> list[tuple[str, str]]:
    found = [tuple(text.partition("=")[::2]) for text in texts]
    if not all(role and value for role, value in found):
        raise UsageError(f"--{option}: expected ROLE=VALUE, got {' '.join(texts)}")
    return [(role, value) for role, value in found]


def _start(options: argparse.Namespace) -> int:
    from palmkit.delivery.repository import rotation
    from palmkit.delivery.repository.keys import public_key

    repository = open_repository(options)
    add: dict[str, list[Any]] = {}
    for role, file in _pairs("add", options.add):
        add.setdefault(role, []).append(public_key(read_bytes(file)))
    remove: dict[str, list[str]] = {}
    for role, start in _pairs("remove", options.remove):
        key = rotation.find_key(repository.roles.keys_of(role), start)
        remove.setdefault(role, []).append(key.keyid)
    thresholds: dict[str, int] = {}
    for role, number in _pairs("threshold", options.threshold):
        try:
            thresholds[role] = int(number)
        except ValueError:
            raise UsageError(f"--threshold: expected a number, got {number!r}") from None
    content = rotation.next_root(repository, add, remove, thresholds)
    write_whole(options.file, content.decode())
    return _describe(options, repository, content, f"wrote {options.file}")


def _describe(options: argparse.Namespace, repository: Repository, content: bytes, did: str) -> int:
    from palmkit.delivery.repository import rotation

    changes = rotation.differences(repository.roles.root(), rotation.read_root(content).signed)
    missing = rotation.missing_signatures(repository, content)
    state = [f"still missing: {line}" for line in missing] or ["signed enough: finish it"]
    facts = {"file": str(options.file), "changes": changes, "missing": missing}
    return answer(options, facts, "\n".join([did, *(f"  {line}" for line in changes), *state]))


def _show(options: argparse.Namespace) -> int:
    repository = open_repository(options)
    return _describe(options, repository, read_bytes(options.file), f"{options.file} would change")


def _sign(options: argparse.Namespace) -> int:
    from palmkit.delivery.repository import rotation

    if options.key is None:
        raise UsageError("sign: expected --key FILE")
    signer = _signer(options)
    content = rotation.add_signature(read_bytes(options.file), signer)
    write_whole(options.file, content.decode())
    key = signer.public_key.keyid
    return answer(options, {"file": str(options.file), "key": key}, f"signed by {key[:8]}")


def _signer(options: argparse.Namespace) -> Signer:
    from palmkit.delivery.repository.keys import is_encrypted, key_signer, public_key, signer_at

    if options.uri is not None:
        return signer_at(options.uri, public_key(read_bytes(options.key)), passphrase)
    secret = passphrase(options.key.name) if is_encrypted(options.key) else None
    return key_signer(options.key, secret)


def _finish(options: argparse.Namespace) -> int:
    from palmkit.delivery.repository import rotation

    repository = open_repository(options)
    changes = rotation.install(repository, read_bytes(options.file))
    text = "\n".join(["published the new root", *(f"  {line}" for line in changes)])
    return answer(options, {"changes": changes}, text)


def _verify(options: argparse.Namespace) -> int:
    problems = open_repository(options).verify(deep=not options.quick)
    text = "\n".join(problems) or "all is as it should be"
    answer(options, {"problems": problems}, text)
    return 1 if problems else 0


def _prune(options: argparse.Namespace) -> int:
    if not options.keep_days >= 0:
        raise UsageError(f"--keep-days: expected 0 or more, got {options.keep_days}")
    found = open_repository(options).gc(options.keep_days)
    facts = {"files": found.files, "size_bytes": found.size_bytes}
    return answer(options, facts, f"removed {found.files} files, {found.size_bytes:,} bytes")


def _mirror(options: argparse.Namespace) -> int:
    if not options.place:
        raise UsageError("expected a bucket or a folder, got an empty name")
    copied = open_repository(options).mirror(options.place)
    return answer(options, {"copied": copied}, f"copied {copied} files to {options.place}")
