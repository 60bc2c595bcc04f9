"""The client that an app asks for models: answers at once, updates in the background."""

from __future__ import annotations

import atexit
import random
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args
from weakref import WeakSet

from palmkit.delivery import golden
from palmkit.delivery.background import Background, Watcher
from palmkit.delivery.codes import CODES, Code
from palmkit.delivery.device import Device, Release
from palmkit.delivery.effects import log
from palmkit.delivery.overview import overview
from palmkit.delivery.update import Progress, Prove, Updates
from palmkit.engine.errors import DeliveryError
from palmkit.engine.forks import finished, renewed_in_children

if TYPE_CHECKING:
    from palmkit.delivery.clock import Clock
    from palmkit.delivery.http import Http
    from palmkit.delivery.manifest import Manifest
    from palmkit.delivery.trust import Remote

Mode: TypeAlias = Literal["local", "local_update_in_background", "latest"]
NAME = re.compile(r"(?P<model>[a-z][a-z0-9_]*)(@(?P<channel>[a-z][a-z0-9_-]*))?", re.ASCII)
# How long "latest", `refresh` and `offered` wait for the server, unless the app says otherwise.
LIMIT_S = 10.0
# The same for work in the background.
BACKGROUND_LIMIT_S = 120.0
# How long the process, when it ends, waits for background work to stop.
EXIT_S = 5.0
# How often `get` looks whether it is time to ask the server.
LOOK_EVERY_S = 10.0
HINT_WITHIN_S = 30.0
HINT_EVERY_S = 60.0
_open_clients: WeakSet[Client] = WeakSet()
_ending = threading.Event()


class Client:
    """The models of one device, from one repository. Any thread may use it.

    client = Client("models", ["https://models.example.com"], root=Path("root.json").read_bytes())
    release = client.get("face_detector")
    """

    def __init__(
        self,
        folder: str | Path,
        urls: Sequence[str] = (),
        root: bytes = b"",
        *,
        channel: str = "stable",
        tags: Iterable[str] = (),
        keys: Mapping[str, bytes] | None = None,
        quota_bytes: int | None = None,
        baselines: Mapping[str, Path] | None = None,
        http: Http | None = None,
        clock: Clock | None = None,
        remote: Remote | None = None,
        prove: Prove = golden.check,
    ) -> None:
        """Set up the client, without writing or asking anything yet.

        folder: a folder for one repository only. urls: its mirrors, the best first; none: no server
        is asked. root: its first trusted root metadata, which comes with the app. channel: the
        channel of models asked for without one. tags: facts of this device, for conditions of a
        rollout. keys: keys of encrypted models, by key_id. quota_bytes: the most bytes that the
        models may take. baselines: files to run while nothing else is there, for models that do not
        come with PalmKit. http, clock, remote: None: new ones of its own. prove: the check that a
        release must pass before it is tried.
        Raises ValueError if there are urls but no root.
        """
        from palmkit.delivery.clock import BUILT, Clock
        from palmkit.delivery.store import BlobStore

        if urls and not root:
            raise ValueError("root: expected the trusted root metadata of the repository")
        self._folder = Path(folder).absolute()
        self._urls, self._root, self._http = tuple(urls), root, http
        self._channel = self._split(f"model@{channel}")[1]
        self._tags, self._keys, self._prove = tuple(tags), keys, prove
        self._clock = clock or Clock(self._folder / "clock", BUILT)
        self._remote = remote
        store = BlobStore(self._folder / "blobs", quota_bytes)
        self.device = Device(self._folder, store, self._clock, _count, baselines or {})
        self._known: dict[tuple[str, str], Release] = {}
        self._background = Background(self._work, _ending)
        renewed_in_children(self, Client._renew)
        self._looked: dict[tuple[str, str], float] = {}
        self._hinted = -HINT_EVERY_S
        _open_clients.add(self)

    def _renew(self) -> None:
        """Give a forked child its own connections and locks."""
        self._lock = threading.Lock()
        self._made: Updates | None = None

    @property
    def _updates(self) -> Updates:
        return self._made or self._make()

    @finished
    def _make(self) -> Updates:
        from palmkit.delivery.http import Http
        from palmkit.delivery.trust import Remote

        if not self._urls:
            raise DeliveryError("check_fail_connect", "no server is configured")
        http = self._http or Http()
        folder = self._folder / "tuf"
        remote = self._remote or Remote(folder, self._urls, self._root, http, self._clock)
        given = self._tags, self._keys, self._prove
        made = Updates(self.device, remote, self._urls, http, *given)
        with self._lock:
            self._made = self._made or made
        return self._made

    def get(self, name: str, mode: Mode = "local_update_in_background") -> Release:
        """Return the release of a model to run now; a local one always works without the server.

        name: "face_detector", or with a channel "face_detector@beta". mode: "local": no server is
        asked; "local_update_in_background": a newer release is fetched for a later call; "latest":
        a newer release is waited for, as long as `refresh` would.
        Raises DeliveryError if nothing of the model is here, ValueError for an invalid name or
        mode.
        """
        model, channel = self._split(name)
        if mode not in get_args(Mode):
            raise ValueError(f"mode: expected one of {get_args(Mode)}, got {mode!r}")
        if mode == "latest":
            with suppress(DeliveryError):
                self._updates.refresh([(model, channel)], LIMIT_S)
        elif mode == "local_update_in_background":
            self._look(model, channel)
        release = self.device.take(model, channel)
        self._known[model, channel] = release
        return release

    def embedded(self, name: str) -> Release:
        """Return the model that came with the app or PalmKit, whatever else is here.

        Raises DeliveryError if there is none.
        """
        return self.device.fallback(*self._split(name))

    @contextmanager
    def using(self, name: str, mode: Mode = "local_update_in_background") -> Generator[Release]:
        """Get a release for a with block: a normal end counts for it, an error against it."""
        release = self.get(name, mode)
        try:
            yield release
        except Exception as error:
            self.report_failure(release, error=error)
            raise
        self.mark_ok(release)

    def mark_ok(self, release: Release | str) -> None:
        """Mark a release on trial as working; kits do so by themselves after 20 good calls."""
        if (found := self._release(release)) is not None:
            self._quietly(lambda: self.device.mark_ok(found))

    def report_failure(
        self, release: Release | str, code: Code = "rollback", error: BaseException | None = None
    ) -> None:
        """Report that a release failed at work; get returns the one before it from now on.

        code: "rollback" is a doubt, of which it takes three; any other is certain.
        Raises ValueError for an unknown code.
        """
        if code not in CODES:
            raise ValueError(f"code: expected one of {', '.join(sorted(CODES))}, got {code!r}")
        if (found := self._release(release)) is not None:
            self._quietly(lambda: self.device.fail(found, code, error))
            self._background.tell()

    def refresh(
        self,
        name: str | None = None,
        on_progress: Progress | None = None,
        *,
        limit_s: float = LIMIT_S,
    ) -> None:
        """Ask the server now, and fetch updates of one model, or of all that were asked for.

        on_progress: called with the file's name, the bytes received and its size in bytes; an
        exception of it ends the refresh. limit_s: seconds to wait in all, for names, connections,
        answers and other processes, over all mirrors and attempts; the download of a model's file
        at 8 KiB/s or faster does not count. What has arrived by then is kept for the next time.
        Raises DeliveryError that says what went wrong; what runs stays as it is.
        """
        slots = self._slots() if name is None else [self._split(name)]
        try:
            self._updates.refresh(slots, limit_s, on_progress)
        finally:
            self._background.tell()

    def offered(
        self, channel: str | None = None, *, limit_s: float = LIMIT_S
    ) -> dict[str, Manifest]:
        """Ask what the repository offers: the release this device would take, by name.

        It includes models and data files that nobody has asked for here; `refresh` fetches one of
        them. channel: None: the client's own. limit_s: as for refresh.
        Raises DeliveryError that says what went wrong.
        """
        return self._updates.offered(channel or self._channel, limit_s)

    def hint(self, number: int) -> None:
        """Ask the server soon, in the background, as something may be new.

        number: any number that the app got with an answer of its own server; the same one twice has
        no effect. As hints are not signed, all they can do is to bring the next check forward, to
        some moment within half a minute, and not more than once a minute.
        """
        with self._lock:
            now = time.monotonic()
            if now - self._hinted < HINT_EVERY_S or not self._urls:
                return
            self._hinted = now
        with suppress(DeliveryError):
            if self.device.is_news(number):
                self._background.ask(self._slots(), random.uniform(0, HINT_WITHIN_S))

    def pin(self, name: str, release: str) -> None:
        """Stay with a release, whatever the channel says: the next refresh fetches it.

        Another release that the channel has recalled, and that a pin has kept, ends at once.

        release: its name in the repository, or "embedded" for the one that came with PalmKit.
        """
        self.device.pin(*self._split(name), release)
        self._background.tell()

    def unpin(self, name: str) -> None:
        """Follow the channel again from the next refresh on; a recalled release ends at once."""
        self.device.pin(*self._split(name), None)
        self._background.tell()

    def rollback(self, name: str) -> Release:
        """Go back to the release before this one, which is not taken again."""
        self.device.roll_back(*self._split(name))
        self._background.tell()
        return self.get(name, "local")

    def watch(self, watcher: Watcher, every_s: float) -> None:
        """Call watcher.poll() every so many seconds, and whenever something changed here.

        It is called in the client's one thread, by turns with updates, until `unwatch` or until
        nobody else holds the watcher; other processes change what `get` returns, too.
        """
        self._background.watch(watcher, every_s)

    def unwatch(self, watcher: Watcher) -> None:
        """Call it no more; one that is called just now may still be."""
        self._background.unwatch(watcher)

    def collect(self) -> int:
        """Remove the files of releases that nothing needs any more; return the bytes freed."""
        return self.device.collect()

    def status(self, name: str | None = None) -> dict[str, Any]:
        """Return what runs, pending and refused releases and the last check, ready for JSON.

        name: one model; None: all that were ever asked for here.
        """
        slots = self._slots() if name is None else [self._split(name)]
        return overview(self.device, slots, self._urls)

    def close(self) -> None:
        """End in good order, with its thread and its watchers; called automatically at exit."""
        self._background.forget()
        self.device.close()

    def _split(self, name: str) -> tuple[str, str]:
        found = NAME.fullmatch(name)
        if found is None:
            raise ValueError(f"name: expected one like face_detector@stable, got {name!r}")
        return found["model"], found["channel"] or self._channel

    def _slots(self) -> list[tuple[str, str]]:
        return sorted({*self._known, *self.device.slots()})

    def _release(self, release: Release | str) -> Release | None:
        return release if isinstance(release, Release) else self._known.get(self._split(release))

    def _quietly(self, action: Callable[[], None]) -> None:
        """Ignore errors of an action that must not stop the caller that runs the model."""
        try:
            action()
        except (DeliveryError, OSError) as error:
            log.warning("%s", error)

    def _look(self, model: str, channel: str) -> None:
        """Ask the server in the background, if it is time."""
        if not self._urls:
            return
        now = time.monotonic()
        with self._lock:
            if now - self._looked.get((model, channel), -LOOK_EVERY_S) < LOOK_EVERY_S:
                return
            self._looked[model, channel] = now
        with suppress(DeliveryError):
            if self.device.is_due(model):
                self._background.ask([(model, channel)])

    def _work(self, slots: list[tuple[str, str]]) -> None:
        try:
            self._updates.refresh(slots, BACKGROUND_LIMIT_S, self._look_on, _ending)
        except DeliveryError as error:
            log.info("%s", error)
        except BaseException:
            # A thread has no other way to say so; failures as the process ends do not matter.
            if not _ending.is_set():
                log.exception("updating models failed")

    def _look_on(self, file: str, received: int, size: int) -> None:
        """Let watchers look while a file comes: a recall must not wait for another model."""
        self._background.look()

    def stop(self, until_s: float) -> None:
        """Wait for background work, which was told to end.

        until_s: a time of time.monotonic.
        """
        self._background.stop(until_s)


def _count(
    model: str,
    release: str,
    arm: str,
    code: Code,
    *,
    previous: str = "",
    error: BaseException | None = None,
) -> None:
    from palmkit.delivery import reports

    reports.count(model, release, arm, code, previous=previous, error=error)


@atexit.register
def _close_all() -> None:
    _ending.set()
    until_s = time.monotonic() + EXIT_S
    clients = list(_open_clients)
    for client in clients:
        client.stop(until_s)
    for client in clients:
        client.close()
