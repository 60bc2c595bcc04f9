"""Replacing keys by others.

Root names the keys of root, targets, snapshot and timestamp; a new root is signed by enough keys of
the old one and of itself, by one machine or, in a ceremony, by several people one after another:
`next_root` makes it, each holder adds a signature (`add_signature`), `install` publishes it.
Targets names the keys of the models and the rollout.

What both the old and the new key can sign is signed by both, and published, before the delegation
changes: at no moment do devices see something that is not signed correctly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from securesystemslib.signer import Key, Signer
from tuf.api.metadata import Metadata, Root
from tuf.api.serialization import DeserializationError

from palmkit.delivery.repository.contents import TEMPLATE, Contents
from palmkit.delivery.repository.roles import KEY_NAMES, TOP_ROLES, lifetime, role_of
from palmkit.engine.errors import RepositoryError

Keys: TypeAlias = Mapping[str, Sequence[Key]]


def rotate(
    repository: Contents, name: str, key: Key | None = None, instead_of: str | None = None
) -> Key:
    """Replace a key by a new one, and return that.

    name: root, targets, snapshot, timestamp, rollout, or models for the roles of all models. key:
    with its URI in the key ring; None generates one, in a file like the existing ones. instead_of:
    the first letters of the old key's id; only needed if there are several keys.
    Raises RepositoryError if the keys for it are not here, or not enough of them.
    """
    if name not in KEY_NAMES:
        raise RepositoryError(f"key: expected one of {', '.join(KEY_NAMES)}, got {name!r}")
    with repository.changing():
        roles, ring = repository.roles, repository.ring
        delegator = roles.root() if name in TOP_ROLES else roles.targets()
        above = "root" if name in TOP_ROLES else "targets"
        if not roles.can_sign(above):
            raise RepositoryError(
                f"not enough keys of {above} here: {ring.folder}; keys of several people sign in a "
                "ceremony: palmkit models ceremony --help"
            )
        old = find_key(roles.keys_of(name, delegator), instead_of)
        if key is None:
            secret = ring.secrets(f"{name}.pem") if ring.encrypts else None
            key = ring.generate(name, secret)
        if name in TOP_ROLES:
            content = next_root(repository, add={name: [key]}, remove={name: [old.keyid]})
            metadata: Metadata[Any] = Metadata[Any].from_bytes(content)
            roles.sign("root", metadata)
            _install(repository, metadata)
        else:
            _rotate_below_targets(repository, name, old, key)
        ring.forget(old.keyid)
    return key


def find_key(keys: Sequence[Key], start: str | None) -> Key:
    """Return the key whose id begins so, or the only one. Raises RepositoryError."""
    found = [key for key in keys if key.keyid.startswith(start or "")]
    if len(found) != 1:
        ids = ", ".join(key.keyid[:8] for key in keys)
        raise RepositoryError(f"which key: expected the start of one of {ids}, got {start!r}")
    return found[0]


def _rotate_below_targets(repository: Contents, name: str, old: Key, new: Key) -> None:
    roles = repository.roles
    chosen = roles.delegated() if name == TEMPLATE else [name]
    chosen = [role for role in chosen if role in (name, TEMPLATE) or role.startswith(role_of(""))]
    signed = {role: roles.open_shown(role) for role in chosen if roles.newest(role)}
    ahead = [role for role in signed if roles.can_sign(role)]
    roles.joining = {role: [new] for role in chosen}
    try:
        for role in ahead:
            roles.close(role, signed[role])
        with roles.edit_targets() as targets:
            for role in chosen:
                targets.add_key(new, role)
                targets.revoke_key(old.keyid, role)
    finally:
        roles.joining = {}
    for role in signed.keys() - set(ahead):
        roles.close(role, signed[role])
    repository.show()


def next_root(
    repository: Contents,
    add: Keys | None = None,
    remove: Mapping[str, Sequence[str]] | None = None,
    thresholds: Mapping[str, int] | None = None,
) -> bytes:
    """Return the next root, not signed.

    add, remove (by key id), thresholds: of root, targets, snapshot and timestamp; without any of
    them root only lives longer.
    Raises RepositoryError if a role would have fewer keys than it needs.
    """
    roles = repository.roles
    root = roles.root()
    root.version += 1
    root.expires = roles.now().replace(microsecond=0) + lifetime("root")
    try:
        for role, keys in (add or {}).items():
            for key in keys:
                root.add_key(key, role)
        for role, keyids in (remove or {}).items():
            for keyid in keyids:
                root.revoke_key(keyid, role)
        for role, threshold in (thresholds or {}).items():
            root.roles[role].threshold = threshold
    except (ValueError, KeyError) as error:
        raise RepositoryError(f"the next root cannot be made: {error}") from error
    for role, entry in root.roles.items():
        if not 1 <= entry.threshold <= len(entry.keyids):
            raise RepositoryError(
                f"{role}: expected a threshold from 1 to its {len(entry.keyids)} keys, "
                f"got {entry.threshold}"
            )
    return Metadata(root).to_bytes()


def read_root(content: bytes) -> Metadata[Any]:
    """Parse a root in the making. Raises RepositoryError for anything else."""
    try:
        metadata: Metadata[Any] = Metadata[Any].from_bytes(content)
    except DeserializationError as error:
        raise RepositoryError("not the metadata of a root") from error
    if not isinstance(metadata.signed, Root):
        raise RepositoryError(f"not the metadata of a root but of {metadata.signed.type}")
    return metadata


def add_signature(content: bytes, signer: Signer) -> bytes:
    """Return a root in the making with one more signature."""
    metadata = read_root(content)
    metadata.sign(signer, append=True)
    return metadata.to_bytes()


def missing_signatures(repository: Contents, content: bytes) -> list[str]:
    """Return what a root in the making lacks before it can be installed; empty if nothing."""
    metadata = read_root(content)
    old, new = repository.roles.root(), metadata.signed
    if new.version != old.version + 1:
        return [f"it is version {new.version}, the repository's next one is {old.version + 1}"]
    missing: list[str] = []
    for what, root in (("the root there is", old), ("the new root", new)):
        result = root.get_verification_result("root", metadata.signed_bytes, metadata.signatures)
        if result.missing:
            who = ", ".join(keyid[:8] for keyid in result.unsigned)
            missing.append(f"{what} wants {result.missing} more, of {who}")
    return missing


def install(repository: Contents, content: bytes) -> list[str]:
    """Publish a root that enough holders have signed; return the changes in words.

    Raises RepositoryError if it is not signed enough, or if what its new keys must sign cannot be
    signed here.
    """
    with repository.changing():
        if missing := missing_signatures(repository, content):
            raise RepositoryError(f"not signed enough: {'; '.join(missing)}")
        metadata = read_root(content)
        changes = differences(repository.roles.root(), metadata.signed)
        _install(repository, metadata)
    return changes


def _install(repository: Contents, metadata: Metadata[Any]) -> None:
    roles, root = repository.roles, metadata.signed
    below = [role for role in TOP_ROLES if role != "root"]
    new = {role: roles.keys_of(role, root) for role in below}
    for role in below:
        here = sum(key.keyid in repository.ring for key in new[role])
        if roles.root().roles[role] != root.roles[role] and here < root.roles[role].threshold:
            raise RepositoryError(
                f"not enough of the new keys of {role} here: {repository.ring.folder}"
            )
    targets = roles.open_shown("targets")
    roles.joining = {
        role: keys for role, keys in new.items() if roles.root().roles[role] != root.roles[role]
    }
    try:
        ahead = "targets" in roles.joining and roles.can_sign("targets")
        if ahead:
            roles.close("targets", targets)
        repository.show(force=bool(roles.joining))
    finally:
        joined, roles.joining = set(roles.joining), {}
    known = set(root.roles["root"].keyids) | set(roles.root().roles["root"].keyids)
    metadata.signatures = {
        keyid: found for keyid, found in metadata.signatures.items() if keyid in known
    }
    roles.add_root(metadata)
    if "targets" in joined and not ahead:
        roles.close("targets", targets)
    repository.show()


def differences(old: Root, new: Root) -> list[str]:
    """Return what a new root changes, a line each."""
    lines: list[str] = []
    for role in TOP_ROLES:
        before, after = old.roles[role], new.roles[role]
        for keyid in after.keyids:
            if keyid not in before.keyids:
                lines.append(f"{role}: + key {keyid[:8]} ({new.keys[keyid].keytype})")
        for keyid in before.keyids:
            if keyid not in after.keyids:
                lines.append(f"{role}: - key {keyid[:8]}")
        if before.threshold != after.threshold:
            lines.append(f"{role}: threshold {before.threshold} -> {after.threshold}")
    lines.append(f"expires {old.expires:%Y-%m-%d} -> {new.expires:%Y-%m-%d}")
    return lines
