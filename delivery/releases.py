"""The files of releases, each under its own name: links to the blobs of the store."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from palmkit.delivery import durable
from palmkit.delivery.manifest import File, Manifest, parse
from palmkit.delivery.policy import Policy, allowed
from palmkit.engine.errors import DeliveryError
from palmkit.engine.replacing import move, sync_folder

if TYPE_CHECKING:
    from palmkit.delivery.store import BlobStore

MANIFEST = "manifest.json"
# A file beside the releases of a model: a copy of its last policy.
POLICY = "policy.json"
# A file beside a release's files: it was active on this channel, should the state be lost.
PROVEN = ".proven"


def blob(file: File) -> tuple[str, int]:
    """Return sha256 and size (bytes) of a file as it is stored, decrypted."""
    if file.encryption is not None:
        return file.encryption.plain_sha256, file.encryption.plain_size
    return file.sha256, file.size


def forbidden(policy: Policy, digest: str, manifest: Manifest) -> bool:
    """Return whether a policy revokes a release or one of its files, or it is below the floor."""
    names = {digest, *(file.sha256 for file in manifest.files)}
    names |= {blob(file)[0] for file in manifest.files}
    return bool(names & policy.revoked) or not allowed(policy, manifest.release)


class Releases:
    """A folder with one folder for each release: <model>/<digest>/."""

    def __init__(self, folder: Path, store: BlobStore) -> None:
        """Use a folder.

        store: the store that holds the blobs.
        """
        self._folder = folder
        self._store = store

    def place(self, digest: str, document: bytes) -> None:
        """Make the folder of a release whose blobs are all in the store.

        document: the manifest as it was signed.
        Raises DeliveryError if a blob is missing or the folder cannot be written.
        """
        manifest = parse(document)
        name, folder = f"{manifest.model} {manifest.release}", self._of(manifest.model, digest)
        try:
            if self._linked(digest, manifest) is None:
                message = f"{name}: its files are not all in the store"
                raise DeliveryError("hash_mismatch", message)
            durable.write(folder / MANIFEST, document)
            sync_folder(folder.parent)
        except OSError as error:
            raise durable.explain(error, f"{name} cannot be kept") from error

    def files(self, digest: str, manifest: Manifest) -> Mapping[str, Path] | None:
        """Return the paths of a release's files by name; None unless all are there and whole.

        Raises OSError where that cannot be determined, see BlobStore.path.
        """
        from palmkit.delivery.store import PASSING

        try:
            return self._linked(digest, manifest)
        except OSError as error:
            if error.errno in PASSING:
                raise
            return None

    def is_damaged(self, digest: str, manifest: Manifest) -> bool:
        """Return whether a file of a release is missing or altered, hashing anew."""
        folder = self._of(manifest.model, digest)
        try:
            return not all(
                self._store.is_whole(folder / file.name, *blob(file), anew=True)
                for file in manifest.files
            )
        except OSError:
            return False

    def _linked(self, digest: str, manifest: Manifest) -> Mapping[str, Path] | None:
        found: dict[str, Path] = {}
        folder = self._of(manifest.model, digest)
        durable.make_folder(folder, self._folder)
        for file in manifest.files:
            whole = self._store.path(*blob(file))
            if whole is None:
                return None
            found[file.name] = self._link(whole, folder / file.name, *blob(file))
        return found

    def _link(self, whole: Path, place: Path, sha256: str, size_bytes: int) -> Path:
        """Return the blob under a name; a copy where the file system has no links."""
        with suppress(FileNotFoundError):
            if os.path.samestat(place.lstat(), whole.lstat()):
                return place
            if self._store.is_whole(place, sha256, size_bytes):
                return place
        part = place.with_name(f".{secrets.token_hex(8)}.part")
        try:
            try:
                os.link(whole, part)
            except OSError:
                with durable.open_to_read(whole) as source, durable.create(part) as target:
                    shutil.copyfileobj(source, target)
            move(part, place)
        finally:
            part.unlink(missing_ok=True)
        if not self._store.is_whole(place, sha256, size_bytes):
            raise OSError(errno.EIO, "damaged while it was copied", str(place))
        return place

    def mark(self, manifest: Manifest, digest: str, channel: str, at: float) -> None:
        """Note beside a release that it proved itself; a failure loses only the note."""
        with suppress(OSError, DeliveryError):
            mark = self._of(manifest.model, digest) / f"{channel}{PROVEN}"
            durable.write(mark, repr(at).encode())

    def unmark(self, manifest: Manifest, digest: str) -> None:
        """Remove the notes of a release that must not run any more."""
        folder = self._of(manifest.model, digest)
        marks = list(folder.glob(f"*{PROVEN}")) if folder.is_dir() else []
        for mark in marks:
            mark.unlink(missing_ok=True)
        if marks:
            sync_folder(folder)

    def found(self) -> Iterator[tuple[str, bytes, Manifest, dict[str, float]]]:
        """Yield digest, document and manifest of every release, and its channels with times.

        The times say when it was active on a channel. Folders whose manifest does not have the
        digest they are named after are left out.
        """
        for file in sorted(self._folder.glob(f"*/*/{MANIFEST}")):
            try:
                document = durable.read(file)
            except OSError:
                continue
            digest = sha256(document).hexdigest()
            if digest != file.parent.name:
                continue
            proven: dict[str, float] = {}
            for mark in file.parent.glob(f"*{PROVEN}"):
                with suppress(ValueError, OSError):
                    proven[mark.name.removesuffix(PROVEN)] = float(durable.read(mark))
            with suppress(DeliveryError):
                yield digest, document, parse(document), proven

    def keep_only(self, digests: set[str]) -> None:
        """Remove the folders of all other releases, and anything that is no release."""
        for place in self._folder.glob("*/*"):
            if place.name not in digests and place.name != POLICY:
                durable.remove(place)

    def policy_file(self, model: str) -> Path:
        """Return the path of the copy of a model's last policy."""
        return self._folder / model / POLICY

    def _of(self, model: str, digest: str) -> Path:
        return self._folder / model / digest
