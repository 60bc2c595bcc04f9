"""The models of kits: from a file, or delivered and replaced by newer releases between frames."""

from __future__ import annotations

import os
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import ref

from palmkit.engine.errors import BackendError, ModelError, PalmError, TryOnError, UnsupportedError
from palmkit.engine.forks import finished, renewed_in_children
from palmkit.kits.kit import ModelSource, Runnable, open_model, shipped_model
from palmkit.kits.options import Options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from palmkit.delivery import Client, Release
    from palmkit.delivery.client import Mode
    from palmkit.delivery.codes import Code

Content = TypeVar("Content")
Result = TypeVar("Result")
NAME = re.compile(r"[a-z][a-z0-9_]*@[a-z][a-z0-9_-]*", re.ASCII)
# The number of good runs that prove a release on trial.
PROVING_RUNS = 20
# How often newer releases on this device are looked for.
POLL_EVERY_S = 1.0
_counted: set[tuple[str, str, str]] = set()


class Unfit(Exception):
    """Raised when a release on trial fails in a frame, which is then run anew."""

    def __init__(self, current: ref[Delivered[Any]], release: Release, code: Code) -> None:
        """Make the error.

        code: why, one of palmkit.delivery.codes.
        """
        super().__init__(f"{release.model} {release.version}: {code}")
        self.current, self.release = current, release
        self.code: Code = code


class Turns:
    """The frames of a kit, and the changes of its models between them."""

    def __init__(self, models: Sequence[Delivered[Any]]) -> None:
        """Start with unsettled models."""
        self._models = models
        # The thread of each frame that is looked at.
        self._inside: list[int] = []
        renewed_in_children(self, Turns._renew)

    def _renew(self) -> None:
        """Start without frames under way; frames of other threads never end in a forked child."""
        self._changed = threading.Condition()
        me = threading.get_ident()
        self._inside = [me] * self._inside.count(me)

    def run(self, at_frame: Callable[[], Result], adopt: Callable[[], None]) -> Result:
        """Return the result of a frame, all of it by the same models.

        If a model on trial fails, the one before replaces it, for this frame too. adopt: as for
        settle.
        """
        while True:
            self._enter(adopt)
            try:
                result = at_frame()
            except (Unfit, ModelError) as error:
                self._leave()
                if not self._reject(error):
                    raise
            except BaseException:
                self._leave()
                raise
            else:
                self._leave()
                return result

    def _enter(self, adopt: Callable[[], None]) -> None:
        with self._changed:
            while any(model.is_waiting for model in self._models):
                if not self._inside:
                    for model in self._models:
                        model.take()
                    self.settle(adopt)
                    break
                self._changed.wait()
            self._inside.append(threading.get_ident())

    def _leave(self) -> None:
        with self._changed:
            self._inside.remove(threading.get_ident())
            self._changed.notify_all()

    def settle(self, adopt: Callable[[], None]) -> None:
        """Have the kit adopt its models; those that do not fit it are rejected.

        adopt: does so; called while no frame is under way.
        Raises ModelError if the model that came with PalmKit does not fit the kit either.
        """
        while True:
            try:
                return adopt()
            except ModelError as error:
                if not self._reject(error, also_proved=True):
                    raise
                for model in self._models:
                    model.take()

    def _reject(self, error: Unfit | ModelError, also_proved: bool = False) -> bool:
        """Replace the models at fault; return False if none are."""
        if isinstance(error, Unfit):
            current = error.current()
            reason = error.__cause__ or error
            return current is not None and current.reject(error.release, error.code, reason)
        delivered = [(model, model.release) for model in self._models if model.release is not None]
        suspects = [(model, release) for model, release in delivered if release.on_trial]
        if not suspects and also_proved:
            suspects = delivered
        rejected = [model.reject(release, "load_fail", error) for model, release in suspects]
        return any(rejected)


def is_delivered_name(source: object) -> bool:
    """Return whether it names a delivered model, such as "face_detector@stable", and no file."""
    return isinstance(source, str) and bool(NAME.fullmatch(source)) and not os.path.exists(source)


class Delivered(ABC, Generic[Content]):
    """Something that a kit runs and that may be delivered: the current one.

    `content` changes in `take` alone, which its kit calls between two frames.
    """

    content: Content
    name: str
    _client: Client

    def __init__(self) -> None:
        """Start without content."""
        renewed_in_children(self, Delivered[Any]._renew)
        self._next: tuple[Content, Release] | None = None
        self._before: tuple[Content, Release] | None = None
        self.release: Release | None = None

    def _renew(self) -> None:
        """Make new locks in a forked child."""
        self._lock = threading.Lock()

    @abstractmethod
    def _read(self, release: Release) -> Content:
        """Return the content of a release's file, ready for a trial if it is on one."""

    def follow(self, name: str, watched: bool = True) -> None:
        """Open the local release of a name and channel, and follow newer ones.

        watched: False: only the local one.
        Raises DeliveryError if nothing of such a name is here.
        """
        from palmkit.delivery.app import client

        self.name, self._client = name, client()
        self.content, self.release = self._open(self._ask())
        if watched:
            self._client.watch(self, POLL_EVERY_S)

    def close(self) -> None:
        """Follow nothing any more."""
        if self.is_delivered:
            self._client.unwatch(self)

    @property
    def is_delivered(self) -> bool:
        """Whether it may change."""
        return self.release is not None

    @property
    def version(self) -> str:
        """The version of the release in use; unknown for other models."""
        return "" if self.release is None else self.release.version

    @property
    def is_waiting(self) -> bool:
        """Whether another one waits to be taken."""
        return self._next is not None

    def take(self) -> None:
        """Use the waiting one from now on, if there is one."""
        with self._lock:
            if self._next is None:
                return
            if self.release is not None and not self.release.on_trial:
                # Kept until the one on trial has proved itself.
                self._before = self.content, self.release
            (self.content, self.release), self._next = self._next, None

    @finished
    def poll(self) -> None:
        """Load a newer release if there is one; called in the thread that watches."""
        release = self._ask()
        mine = self.release
        if mine is None or self._next is not None:
            return
        if _same(release, mine):
            return self._note(release)
        opened = self._open(release)
        if not _same(opened[1], mine):
            with self._lock:
                self._next = opened

    def reject(self, release: Release, code: Code, error: BaseException) -> bool:
        """Report that a release failed; return whether another one waits to be taken."""
        if release.digest is None:
            return False
        if self.release is None or not _same(self.release, release):
            return True
        self._client.report_failure(release, code, error)
        before = self._before
        if before is not None and not _same(before[1], release):
            self._next = before
        else:
            self._next = self._open(self._ask("local"), refused=release)
        return True

    def _ask(self, mode: Mode = "local_update_in_background") -> Release:
        """Return the release to run."""
        return self._client.get(self.name, mode)

    def _shipped(self) -> Release:
        """Return the release that came with PalmKit."""
        return self._client.embedded(self.name)

    def _open(self, release: Release, refused: Release | None = None) -> tuple[Content, Release]:
        """Return the content of a release, or of the one before if it cannot be loaded."""
        while True:
            if refused is not None and _same(release, refused):
                # Not even the failure could be recorded.
                release = self._shipped()
            try:
                return self._read(release), release
            except (ModelError, TryOnError, UnsupportedError, BackendError) as error:
                if release.digest is None:
                    raise
                self._client.report_failure(release, "load_fail", error)
                refused, release = release, self._ask("local")

    def _note(self, release: Release) -> None:
        """Note changes of the release in use, such as the end of its trial."""
        with self._lock:
            if self.release is not None and _same(self.release, release):
                self.release = release
                if not release.on_trial:
                    self._before = None

    def proved(self, release: Release) -> None:
        """Mark a release on trial as proved, after enough good runs."""
        self._note(replace(release, on_trial=False))
        # Recorded in a thread of its own, so that no frame waits for a disk.
        threading.Thread(target=self._client.mark_ok, args=(release,)).start()


class Current(Delivered[Runnable]):
    """A model of a kit."""

    @finished
    def __init__(self, source: ModelSource | None, shipped: str, options: Options) -> None:
        """Open the model.

        source: a path, "face_detector@stable" (a model and its channel, see palmkit.delivery), an
        open model; None: the one shipped. options: how it runs.
        Raises as open_model; DeliveryError if nothing is here of a model of such a name.
        """
        super().__init__()
        self._options = options.running()
        if isinstance(source, str) and is_delivered_name(source):
            self.follow(source)
        elif source is None:
            self.name = shipped
            started = time.perf_counter()
            model = open_model(shipped_model(shipped), **self._options)
            self.content = _reported(model, shipped, None, "embedded", started)
        else:
            self.content = open_model(source, **self._options)

    @property
    def model(self) -> Runnable:
        """The model to use now."""
        return self.content

    def _read(self, release: Release) -> Runnable:
        started = time.perf_counter()
        model = open_model(release.path, **self._options)
        model = _reported(model, release.model, release.version, release.arm, started)
        return Guarded(model, self, release) if release.on_trial else model


def _reported(
    model: Runnable, name: str, version: str | None, arm: str, started: float
) -> Runnable:
    """Return the model with timed runs and its opening counted, where reports are on.

    version: None for the one shipped. started: when opening it began.
    """
    from palmkit.delivery import reports

    if not reports.is_on():
        return model
    if version is None:
        from palmkit.delivery.embedded import shipped

        version = shipped()[name].version
    about = name, version, arm
    if about not in _counted:
        _counted.add(about)
        reports.count(*about, "load_ok")
        reports.observe(*about, "load_ms", (time.perf_counter() - started) * 1e3)
    return reports.watch(model, *about)


class Guarded:
    """A model on trial: its first runs are checked."""

    def __init__(self, model: Runnable, current: Delivered[Any], release: Release) -> None:
        """Wrap a model.

        release: the release of the model.
        """
        # A reference cycle would keep the models of a dropped kit alive.
        self._model, self._current, self._release = model, ref(current), release
        self._left = PROVING_RUNS
        renewed_in_children(self, Guarded._renew)

    def _renew(self) -> None:
        """Make new locks in a forked child."""
        self._lock = threading.Lock()

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the model file."""
        return self._model.metadata

    @property
    def takes_levels(self) -> bool:
        """Whether the model takes Levels."""
        return bool(getattr(self._model, "takes_levels", False))

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Run once; raise Unfit if it fails, or gives NaN or infinities."""
        if self._left <= 0:
            return self._model.run(inputs)
        from palmkit.delivery.golden import all_finite

        try:
            outputs = self._model.run(inputs)
        except PalmError as error:
            raise Unfit(self._current, self._release, "load_fail") from error
        if not all_finite(outputs):
            raise Unfit(self._current, self._release, "nan")
        with self._lock:
            self._left -= 1
            is_proved = self._left == 0
        if is_proved and (current := self._current()) is not None:
            current.proved(self._release)
        return outputs

    def __getattr__(self, name: str) -> Any:
        """Return other attributes of the model."""
        return getattr(self._model, name)


def _same(one: Release, other: Release) -> bool:
    return (one.digest, one.path) == (other.digest, other.path)
