"""A repository in memory, made by python-tuf's metadata API, that may be published wrongly."""

from collections.abc import MutableMapping
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any

from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import (
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)

TOP = ("root", "timestamp", "snapshot", "targets")


@cache
def signer(name: str) -> CryptoSigner:
    """Return a key by name, the same for all tests of a run, as making keys takes time."""
    return CryptoSigner.generate_ed25519()


class TufRepository:
    """Change `roles` and `files`, then publish() into a mapping of URL paths to contents."""

    def __init__(self, files: MutableMapping[str, bytes], at: str = "") -> None:
        self.out, self.at = files, at
        self.expires = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=30)
        self.keys: dict[str, list[str]] = {name: [f"{name}0"] for name in TOP}
        self.roles: dict[str, Any] = {
            "root": Root(expires=self.expires, consistent_snapshot=True),
            "timestamp": Timestamp(expires=self.expires),
            "snapshot": Snapshot(expires=self.expires),
            "targets": Targets(expires=self.expires),
        }
        for name in TOP:
            self.roles["root"].add_key(signer(f"{name}0").public_key, name)
        self.publish(*TOP)

    def delegate(self, name: str, *paths: str, terminating: bool = True) -> Targets:
        top: Targets = self.roles["targets"]
        if top.delegations is None:
            top.delegations = Delegations({}, {})
        assert top.delegations.roles is not None
        top.delegations.roles[name] = DelegatedRole(name, [], 1, terminating, list(paths))
        self.keys[name] = [f"{name}0"]
        top.add_key(signer(f"{name}0").public_key, name)
        role = self.roles[name] = Targets(expires=self.expires)
        return role

    def add(self, role: str, path: str, content: bytes) -> str:
        """Add a target to a role, and return its sha256."""
        target = TargetFile.from_data(path, content, ["sha256"])
        self.roles[role].targets[path] = target
        sha256: str = target.hashes["sha256"]
        folder, slash, name = path.rpartition("/")
        self.out[f"{self.at}/targets/{folder}{slash}{sha256}.{name}"] = content
        return sha256

    def publish(self, *names: str) -> None:
        """Sign these roles and publish them unchanged, in the order given."""
        for name in names:
            role = self.roles[name]
            metadata = Metadata(role)
            for key in self.keys[name]:
                metadata.sign(signer(key), append=True)
            content = metadata.to_bytes()
            if name == "timestamp":
                self.out[f"{self.at}/metadata/timestamp.json"] = content
                continue
            self.out[f"{self.at}/metadata/{role.version}.{name}.json"] = content
            if name == "snapshot":
                self.roles["timestamp"].snapshot_meta = MetaFile(role.version)
            elif name != "root":
                self.roles["snapshot"].meta[f"{name}.json"] = MetaFile(role.version)

    def bump(self, *names: str) -> None:
        """Publish a new version of these roles, and of snapshot and timestamp, in order."""
        for name in (*names, "snapshot", "timestamp"):
            self.roles[name].version += 1
            self.publish(name)

    def rotate(self, name: str) -> None:
        """Replace the key of a top-level role, in a new root."""
        root: Root = self.roles["root"]
        old = self.keys[name]
        for key in old:
            root.revoke_key(signer(key).public_key.keyid, name)
        self.keys[name] = [f"{old[0]}+"]
        root.add_key(signer(self.keys[name][0]).public_key, name)
        root.version += 1
        new = self.keys["root"]
        self.keys["root"] = [*new, *old] if name == "root" else new
        self.publish("root")
        self.keys["root"] = new

    def root(self, version: int = 1) -> bytes:
        return self.out[f"{self.at}/metadata/{version}.root.json"]
