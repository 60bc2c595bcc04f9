"""The signed metadata of a repository: fetched, verified and kept by python-tuf's client.

Method: The Update Framework, specification 1.0; signatures and versions are left to the client.
Added is what it leaves open: several mirrors, our HTTP, a clock that cannot be set back, files that
survive a loss of power, and errors with a code.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from tuf.api import exceptions
from tuf.api.metadata import TargetFile, Targets, Timestamp
from tuf.ngclient.fetcher import FetcherInterface
from tuf.ngclient.updater import Updater

from palmkit.delivery import deadline, durable
from palmkit.delivery.clock import Clock
from palmkit.delivery.http import Http, HttpError
from palmkit.engine.errors import DeliveryError

T = TypeVar("T")
MOST_TARGET_BYTES = 1 << 20
# Manifests and policies are about 1 KB each; older ones than this many are fetched again.
MOST_KEPT_TARGETS = 512
# The field of timestamp.json with the time of signing, as 2026-01-31T12:00:00Z.
SIGNED_AT = "x-palmkit-signed"


class Missing(DeliveryError):
    """Raised when the repository signs no such target."""


class Mirror(NamedTuple):
    """The place of one copy of a repository: the base URLs of its metadata and targets."""

    metadata: str
    targets: str

    @classmethod
    def below(cls, url: str) -> Mirror:
        """Return a copy with its folders metadata/ and targets/ below one URL."""
        return cls(f"{url.rstrip('/')}/metadata/", f"{url.rstrip('/')}/targets/")


class Remote:
    """One repository as one device sees it; not for several threads or processes at once."""

    def __init__(
        self,
        folder: Path,
        urls: Sequence[str | Mirror],
        root: bytes,
        http: Http | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Set up the repository.

        folder: where metadata is kept, made if missing. urls: mirrors, the best first. root: the
        first trusted root metadata. clock: the default keeps its mark in the folder.
        """
        self._folder, self._root = folder, root
        self._mirrors = [url if isinstance(url, Mirror) else Mirror.below(url) for url in urls]
        if not self._mirrors:
            raise ValueError("urls: expected at least one, got none")
        self._fetcher = _Fetcher(http or Http())
        self._clock = clock
        self._updater: _Updater | None = None
        self._at = 0

    def refresh(self) -> None:
        """Bring the top-level metadata up to date.

        Raises DeliveryError: of the network (check_fail_...), or why the metadata is not believed
        (sig_fail, expired, rollback_attack, hash_mismatch). What was believed before is kept.
        """
        self._updater = None
        self._ask(lambda updater: None)

    @property
    def first(self) -> int:
        """The index of the mirror that answered last."""
        return self._at

    @property
    def version(self) -> str:
        """The version of the snapshot, which changes when anything is published."""
        return str(self._ask(lambda updater: updater.snapshot_version))

    def info(self, path: str) -> tuple[int, str]:
        """Return the size in bytes and the sha256 of a target.

        Raises DeliveryError as refresh does, Missing if nobody signs such a target.
        """
        target = self._ask(lambda updater: updater.find(path))
        try:
            return target.length, target.hashes["sha256"]
        except KeyError:
            raise DeliveryError("sig_fail", f"{path}: expected a sha256, got none") from None

    def keys_of(self, path: str) -> str:
        """Return a digest of the keys that may sign a target; it changes when a key is replaced.

        Raises DeliveryError as info does.
        """
        return self._ask(lambda updater: updater.keys_of(path))

    def below(self, folder: str) -> list[str]:
        """Return the targets in a folder that the role of the folder signs, in order.

        Raises DeliveryError as refresh does.
        """
        return self._ask(lambda updater: updater.below(folder))

    def target(self, path: str) -> bytes:
        """Return the verified content of a small target, 1 MiB at most; it is cached.

        Raises DeliveryError as info does.
        """
        return self._ask(lambda updater: self._target(updater, path))

    def _target(self, updater: _Updater, path: str) -> bytes:
        target = updater.find(path)
        if target.length > MOST_TARGET_BYTES:
            expected = f"expected at most {MOST_TARGET_BYTES} bytes"
            raise DeliveryError("download_fail", f"{path}: {expected}, got {target.length}")
        kept = self._folder / "kept"
        durable.make_folder(kept, self._folder)
        name = hashlib.sha256("".join(sorted(target.hashes.values())).encode()).hexdigest()
        with contextlib.suppress(OSError, exceptions.LengthOrHashMismatchError):
            content = durable.read(kept / name)
            target.verify_length_and_hashes(content)
            return content
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            fetched = Path(updater.download_target(target, str(Path(scratch) / "target")))
            content = fetched.read_bytes()
        durable.write(kept / name, content)
        _prune(kept)
        return content

    def _ask(self, question: Callable[[_Updater], T]) -> T:
        """Return the answer of the first mirror that can give one, starting with the last used.

        If none can, the error is that of the first mirror that was reached, which says more.
        """
        errors: list[DeliveryError] = []
        for place in range(len(self._mirrors)):
            try:
                with deadline.share(len(self._mirrors) - place):
                    return question(self._current())
            except (exceptions.DownloadError, exceptions.RepositoryError, OSError) as error:
                errors.append(explain(error))
            self._updater = None
            self._at = (self._at + 1) % len(self._mirrors)
        reached = [error for error in errors if not error.code.startswith("check_fail")]
        raise (reached or errors)[0]

    def _current(self) -> _Updater:
        """Return the updater of the mirror in use, its top-level metadata up to date."""
        if self._updater is None:
            # Missing folders are made here, so that a Remote can be constructed where none can be
            # made.
            _tidy(self._folder)
            if self._clock is None:
                self._clock = Clock(self._folder / "clock")
            durable.sweep(self._folder)
            mirror = self._mirrors[self._at]
            updater = _Updater(self._folder, mirror, self._fetcher, self._root, self._clock)
            updater.refresh()
            if (signed := updater.signed_at) is not None:
                self._clock.learn(signed)
            self._updater = updater
        return self._updater


def _tidy(folder: Path) -> None:
    """Make the folders, and remove what python-tuf's client must not open in them."""
    for place in (folder, folder / "root_history"):
        durable.make_folder(place, folder)
        for path in place.glob("*.json"):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                path.unlink(missing_ok=True)


def _prune(kept: Path) -> None:
    """Remove the oldest of the kept targets, and what killed writes left."""
    durable.sweep(kept)
    ages: list[tuple[float, Path]] = []
    for path in kept.glob("[!.]*"):
        # Another process may prune too.
        with contextlib.suppress(OSError):
            ages.append((path.lstat().st_mtime, path))
    for _, path in sorted(ages)[:-MOST_KEPT_TARGETS]:
        path.unlink(missing_ok=True)


def _digest_of(keyids: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(sorted(keyids)).encode()).hexdigest()


class _Updater(Updater):
    """python-tuf's client, with our clock and our way to write files."""

    def __init__(
        self, folder: Path, mirror: Mirror, fetcher: FetcherInterface, root: bytes, clock: Clock
    ) -> None:
        super().__init__(
            str(folder), mirror.metadata, None, mirror.targets, fetcher, bootstrap=root
        )
        self._clock = clock

    def _load_root(self) -> None:
        super()._load_root()
        self._clock.trust(_digest_of(self._trusted_set.root.roles[Timestamp.type].keyids))
        self._trusted_set.reference_time = self._clock.now()

    def find(self, path: str) -> TargetFile:
        target = self.get_targetinfo(path)
        if target is None:
            raise Missing("download_fail", f"{path}: expected a signed target, got none")
        return target

    def below(self, folder: str) -> list[str]:
        delegations = self._trusted_set.targets.delegations
        start = f"{folder}/"
        for role, _ in delegations.get_roles_for_target(f"{start}any.json") if delegations else ():
            signed = self._load_targets(role, Targets.type).targets
            return sorted(path for path in signed if path.startswith(start))
        return []

    def keys_of(self, path: str) -> str:
        delegations = self._trusted_set.targets.delegations
        for role, _ in delegations.get_roles_for_target(path) if delegations else ():
            return _digest_of(self._trusted_set.targets.get_delegated_role(role).keyids)
        raise Missing("download_fail", f"{path}: expected a signed target, got none")

    @property
    def snapshot_version(self) -> int:
        return self._trusted_set.snapshot.version

    @property
    def signed_at(self) -> datetime | None:
        timestamp = self._trusted_set.timestamp
        text = timestamp.unrecognized_fields.get(SIGNED_AT)
        with contextlib.suppress(ValueError):
            if isinstance(text, str):
                time = datetime.fromisoformat(text.replace("Z", "+00:00"))
                time = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
                return min(time, timestamp.expires)
        return None

    def _persist_file(self, filename: str, data: bytes) -> None:
        # The client writes its root each time it starts; an unchanged file needs no sync.
        path = Path(filename)
        with contextlib.suppress(OSError):
            if durable.read(path) == data:
                return
        durable.write(path, data)

    def _update_root_symlink(self) -> None:
        # A copy, not a link: a link is removed and made again, with no root in between.
        version = self._trusted_set.root.version
        history = Path(self._dir, "root_history", f"{version}.root.json")
        self._persist_file(str(Path(self._dir, "root.json")), history.read_bytes())


class _Fetcher(FetcherInterface):
    """Our HTTP for python-tuf's client: everything it fetches is small and comes whole."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def _fetch(self, url: str) -> Iterator[bytes]:
        raise NotImplementedError("files are fetched by download_file")

    @contextlib.contextmanager
    def download_file(self, url: str, max_length: int) -> Generator[IO[bytes]]:
        yield io.BytesIO(self.download_bytes(url, max_length))

    def download_bytes(self, url: str, max_length: int) -> bytes:
        try:
            return self._http.get_bytes(url, max_length)
        except HttpError as error:
            if error.status is not None:
                raise exceptions.DownloadHTTPError(str(error), error.status) from error
            if error.code == "hash_mismatch":
                raise exceptions.DownloadLengthMismatchError(str(error)) from error
            raise exceptions.DownloadError(str(error)) from error


def explain(error: Exception) -> DeliveryError:
    """Return the DeliveryError for an error of python-tuf or of the file system."""
    if isinstance(error.__cause__, HttpError):
        return error.__cause__
    if isinstance(error, OSError):
        return durable.explain(error, "metadata cannot be kept")
    for kind, code in (
        (exceptions.ExpiredMetadataError, "expired"),
        (exceptions.BadVersionNumberError, "rollback_attack"),
        (exceptions.LengthOrHashMismatchError, "hash_mismatch"),
        (exceptions.DownloadError, "check_fail_connect"),
    ):
        if isinstance(error, kind):
            return DeliveryError(code, f"metadata: {error}")
    return DeliveryError("sig_fail", f"metadata: {error}")
