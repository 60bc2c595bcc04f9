"""Fetching a release's file into the store: resumable, from any mirror, by a delta if possible."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from palmkit.delivery import deadline, delta, durable
from palmkit.delivery.http import Http, HttpError, Response
from palmkit.delivery.manifest import Delta, File
from palmkit.delivery.store import BlobStore
from palmkit.engine.errors import DeliveryError

Progress: TypeAlias = Callable[[int, int], None]
# After so many wrong answers a digest is not fetched until something is published.
MOST_STRIKES = 3
# An attempt that brought less than this counts as one that brought nothing.
LEAST_PROGRESS_BYTES = 1 << 16
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", re.ASCII)


def fetch(
    store: BlobStore,
    model: str,
    file: File,
    urls: Sequence[str],
    http: Http,
    *,
    base: Path | None = None,
    key: bytes | None = None,
    metadata: str = "",
    on_progress: Progress | None = None,
    on_event: Callable[[str], None] | None = None,
    wait_s: float = 3600.0,
) -> Path:
    """Have a file of a release in the store; return its path, decrypted if it was encrypted.

    model, file: as in the manifest. urls: the repository's mirrors, the best first. base: a file
    outside the store that a delta may start from, such as one of the wheel. key: 32 bytes for an
    encrypted file. metadata: Remote.version; a new version ends the refusal of a digest whose bytes
    were wrong three times. on_progress: called with (received, total) in bytes; an exception of it
    ends the fetch, which the next one resumes. on_event: called with what happens on the way:
    download_ok, download_resume, delta_ok, delta_fail, hash_mismatch. wait_s: how long to wait for
    another process that fetches; what it fetches is then not fetched again.

    Raises DeliveryError: download_fail (an HttpError, if a server asked for a pause, has
    retry_after_s), hash_mismatch, disk_full.
    """
    wanted = (
        (file.encryption.plain_sha256, file.encryption.plain_size)
        if file.encryption
        else (file.sha256, file.size)
    )
    if (path := store.path(*wanted)) is not None:
        return path
    with store.lock(wait_s):
        if (path := store.path(*wanted)) is not None:
            return path
        places = [f"{url.rstrip('/')}/targets/models/{model}/" for url in urls]
        job = _Job(store, places, http, metadata, _told(on_progress), on_event or _ignore)
        try:
            path = job.by_delta(file, base) or job.whole(file)
            return job.decrypt(file, path, key) if file.encryption else path
        except _Raised as raised:
            raise raised.error from None
        except OSError as error:
            store.discard(file.sha256)
            raise durable.explain(error, f"cannot keep {file.name}") from error


def _ignore(*_: object) -> None:
    pass


class _Raised(BaseException):
    """Wraps an exception of on_progress, which is neither the disk's nor the server's fault."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _told(on_progress: Progress | None) -> Progress:
    if on_progress is None:
        return _ignore

    def tell(received: int, size: int) -> None:
        try:
            on_progress(received, size)
        except Exception as error:
            raise _Raised(error) from error

    return tell


class _Job:
    """One fetch, under the store's lock."""

    def __init__(
        self,
        store: BlobStore,
        places: Sequence[str],
        http: Http,
        metadata: str,
        on_progress: Progress,
        on_event: Callable[[str], None],
    ) -> None:
        self._store, self._places, self._http, self._metadata = store, places, http, metadata
        self._on_progress, self._on_event = on_progress, on_event

    def by_delta(self, file: File, base: Path | None) -> Path | None:
        """Make the file from one that is here; None if no delta serves, or one failed."""
        base_sha256 = _sha256_of(base) if file.deltas else None
        for entry in sorted(file.deltas, key=lambda entry: entry.size):
            start = self._store.path(entry.base)
            if start is None and entry.base == base_sha256:
                start = base
            if start is None or not delta.can_apply(entry.codec):
                continue
            if self._store.strikes(entry.sha256, ""):
                continue
            try:
                path = self._apply(file, entry, start)
            except DeliveryError:
                self._on_event("delta_fail")
                return None
            self._on_event("delta_ok")
            return path
        return None

    def _apply(self, file: File, entry: Delta, start: Path) -> Path:
        store = self._store
        store.reserve(entry.size + file.size)
        patch = store.path(entry.sha256, entry.size)
        patch = patch or self._get(entry.name, entry.size, entry.sha256)
        try:
            made = delta.apply(entry.codec, start.read_bytes(), durable.read(patch), file.size)
            with store.open_part(file.sha256) as part:
                part.write(made)
            return store.commit(file.sha256)
        except (DeliveryError, ValueError) as error:
            # The delta is what was signed, so it gives a wrong file whatever is published.
            store.strike(entry.sha256, "")
            raise DeliveryError("delta_fail", f"{entry.name}: {error}") from error
        finally:
            patch.unlink(missing_ok=True)

    def whole(self, file: File) -> Path:
        """Return the file as published."""
        path = self._store.path(file.sha256, file.size)
        return path or self._get(file.name, file.size, file.sha256)

    def decrypt(self, file: File, path: Path, key: bytes | None) -> Path:
        """Decrypt the file for this user alone, and drop the encrypted one."""
        from palmkit.delivery import encryption

        entry = file.encryption
        assert entry is not None
        if key is None:
            message = f"{file.name}: encrypted with key {entry.key_id}, got no key"
            raise DeliveryError("download_fail", message)
        store = self._store
        store.reserve(entry.plain_size)
        try:
            with (
                durable.open_to_read(path) as encrypted,
                store.open_part(entry.plain_sha256) as plain,
            ):
                encryption.unseal(encrypted, plain, key, path.name)
        except (DeliveryError, ValueError):
            store.discard(entry.plain_sha256)
            raise
        done = store.commit(entry.plain_sha256)
        path.unlink(missing_ok=True)
        return done

    def _get(self, name: str, size: int, sha256: str) -> Path:
        store = self._store
        if store.strikes(sha256, self._metadata) >= MOST_STRIKES:
            message = f"{name}: wrong bytes {MOST_STRIKES} times, until something is published"
            raise DeliveryError("hash_mismatch", message)
        store.reserve(max(0, size - store.part_bytes(sha256)))
        failure: DeliveryError | None = None
        for place, folder in enumerate(self._places):
            url = f"{folder}{sha256}.{name}"
            try:
                with deadline.share(len(self._places) - place):
                    path = self._get_from(url, size, sha256)
            except HttpError as error:
                failure = failure or _download_fail(error)
                continue
            except DeliveryError as error:
                if error.code != "hash_mismatch":
                    raise
                failure = DeliveryError(error.code, f"{url}: {error}")
                self._on_event("hash_mismatch")
                if store.strike(sha256, self._metadata) >= MOST_STRIKES:
                    break
                continue
            self._on_event("download_ok")
            return path
        raise failure or DeliveryError("download_fail", f"{name}: no place to fetch it from")

    def _get_from(self, url: str, size: int, sha256: str) -> Path:
        resumed = self._receive(url, size, sha256)
        try:
            return self._store.commit(sha256)
        except DeliveryError as error:
            if error.code != "hash_mismatch" or not resumed:
                raise
        # The wrong bytes may be earlier ones: of another mirror, or damaged by a power failure.
        self._receive(url, size, sha256)
        return self._store.commit(sha256)

    def _receive(self, url: str, size: int, sha256: str) -> bool:
        """Complete the part; return whether some of it was here before."""
        store, part = self._store, self._store.part(sha256)
        had = store.part_bytes(sha256)
        resumed, failures = had > 0, 0
        if had:
            self._on_event("download_resume")
        while True:
            before = store.part_bytes(sha256)
            if before == size and part.exists():
                return resumed
            if before > size:
                self._store.discard(sha256)
                continue
            try:
                self._receive_some(url, size, sha256, before)
                continue
            except HttpError as error:
                progress = store.part_bytes(sha256) - before
                failures = 0 if progress >= LEAST_PROGRESS_BYTES else failures + 1
                late = error.code == "check_fail_timeout" and progress > 0
                if failures >= self._http.limits.attempts:
                    raise
                if not late and not self._http.wait(error, failures):
                    raise

    def _receive_some(self, url: str, size: int, sha256: str, have: int) -> None:
        """Request what is missing; raise HttpError unless all of it comes."""
        store = self._store
        notes = store.notes(sha256)
        headers: dict[str, str] = {}
        if have:
            headers["Range"] = f"bytes={have}-"
            # Another mirror has another ETag for the same bytes, so only the digest can tell.
            if notes.get("url") == url and notes.get("etag"):
                headers["If-Range"] = notes["etag"]
        with self._http.open(url, headers) as response:
            if response.status == 416 or (
                response.status == 206 and not _fits(response, have, size)
            ):
                store.discard(sha256)
                raise HttpError("check_fail_connect", f"{url}: cannot go on from byte {have}")
            if response.status not in (200, 206):
                response.refuse()
            if response.status == 200:
                have = 0
            etag = response.headers.get("ETag", "")
            store.note(sha256, url=url, etag="" if etag.startswith("W/") else etag)
            with store.open_part(sha256, goes_on=have > 0) as file:
                for chunk in response.chunks(is_large=True):
                    file.write(chunk[: size - have])
                    have = min(size, have + len(chunk))
                    self._on_progress(have, size)
                    if have == size:
                        return
        if have < size:
            raise HttpError("check_fail_connect", f"{url}: expected {size} bytes, got {have}")


def _fits(response: Response, have: int, size: int) -> bool:
    """Return whether a partial answer continues the part, of a file of the right size."""
    found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    return found is not None and int(found[1]) == have and found[2] in ("*", str(size))


def _download_fail(error: HttpError) -> HttpError:
    return HttpError("download_fail", str(error), error.status, error.retry_after_s)


def _sha256_of(base: Path | None) -> str | None:
    """Return the SHA-256 of a delta's base; None if there is none or it cannot be read."""
    try:
        return None if base is None else hashlib.sha256(base.read_bytes()).hexdigest()
    except OSError:
        return None
