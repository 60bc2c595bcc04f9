"""Shared parts of the kits: models loaded once, options that are checked, three modes."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
)
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import Model, load
from palmkit.engine.errors import ModelError
from palmkit.engine.forks import finished, renewed_in_children
from palmkit.engine.levels import Levels
from palmkit.kits.calls import Frame
from palmkit.kits.image import (
    Flip,
    Format,
    Image,
    Part,
    Rotation,
    Source,
    clip_part,
    read_image,
)
from palmkit.kits.options import Mode as Mode
from palmkit.kits.options import Modes, between, one_of, whole
from palmkit.kits.options import Precision as Precision
from palmkit.kits.options import Priority as Priority
from palmkit.kits.original import Original
from palmkit.kits.pace import Allowance, Budget, Pace, noting
from palmkit.kits.threads import Threads
from palmkit.kits.tracks import Clock

if TYPE_CHECKING:
    from palmkit.kits.delivered import Delivered, Turns
    from palmkit.kits.results.result import PictureResult
    from palmkit.kits.stream import Stream

Result = TypeVar("Result", bound="PictureResult")
AnyOpen = TypeVar("AnyOpen", bound="Open")
Backends: TypeAlias = "str | tuple[str, ...]"


class Runnable(Protocol):
    """The interface of a kit's model; palmkit.engine.Model is one. `run` must be thread-safe."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the model file."""
        ...

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Run the model once."""
        ...


def pixels(model: Runnable, view: Image) -> NDArray[Any]:
    """Return a view as an input of a network: float32[1, h, w, 3], 0..255, of uint8[h, w, 3].

    A model that says that it takes Levels has them, in place of an array.
    """
    batch = view[None]
    if getattr(model, "takes_levels", False):
        return cast("NDArray[Any]", Levels(batch))
    return batch.astype(np.float32)


ModelSource: TypeAlias = "str | os.PathLike[str] | Runnable"

# The C library gives memory back to the system beyond twice the largest block that was ever freed,
# and of new memory every page costs: a frame's arrays took twice as long as the work on them.
# Freeing one large block, never touched, lets the process keep what the next frame needs.
KEPT_BYTES = 16 << 20
np.empty(KEPT_BYTES, np.uint8)


class _Models:
    """The models that are open, by path and options."""

    def __init__(self) -> None:
        self._open: WeakValueDictionary[tuple[Any, ...], Model] = WeakValueDictionary()
        renewed_in_children(self, _Models._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    @finished
    def open(self, path: str | os.PathLike[str], **running: Any) -> Model:
        key = (os.path.abspath(path), *running.values())
        with self._lock:
            model = self._open.get(key)
            if model is None:
                model = load(path, **running)
                self._open[key] = model
            return model


_models = _Models()


def shipped_model(name: str) -> Path:
    """Return the path of the model that came with PalmKit."""
    # importlib.resources would import tempfile and zipfile, and those much else.
    package = import_module("palmkit.models")
    return Path(str(package.__file__)).with_name(name) / f"{name}.palm"


def open_model(
    source: ModelSource,
    threads: int,
    precision: Precision,
    backend: Backends = "cpu",
    priority: Priority = "normal",
    cores: tuple[int, ...] | None = None,
) -> Runnable:
    """Return the model at a path, one copy for all kits that use it in the same way.

    The options are those of palmkit.engine.load.
    Raises ValueError for an invalid option; ModelError, UnsupportedError or BackendError as
    palmkit.engine.load does.
    """
    one_of("precision", precision, get_args(Precision))
    whole("threads", threads, 1)
    if not isinstance(source, str | os.PathLike):
        return source
    return _models.open(
        source,
        backend=backend,
        threads=threads,
        precision=precision,
        priority=priority,
        cores=cores,
    )


def threshold(model: Runnable) -> float:
    """Return the score, 0..1, from which a model's finds count, by its file; 0.5 without one.

    Raises ModelError if the file has an invalid number.
    """
    text = model.metadata.get("threshold", "0.5")
    try:
        between("threshold", value := float(text), 0, 1)
    except ValueError:
        raise ModelError(f"metadata threshold: expected a number from 0 to 1: {text!r}") from None
    return value


def input_side(model: Runnable, name: str = "image") -> int:
    """Return the side S of an input float32[1, S, S, 3].

    Raises ModelError if the model has no such input.
    """
    type = getattr(model, "inputs", {}).get(name)
    shape = () if type is None else tuple(type.shape)
    side = shape[1] if len(shape) == 4 else None
    if not isinstance(side, int) or shape != (1, side, side, 3):
        got = "nothing" if type is None else f"{type.dtype}{list(shape)}"
        raise ModelError(f"input {name}: expected float32[1, s, s, 3], got {got}")
    return side


def output(
    outputs: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...]
) -> NDArray[np.float32]:
    """Return the output of this name and shape.

    Raises ModelError if it is missing or has another shape.
    """
    found = outputs.get(name)
    if found is None or found.shape != shape:
        got = "nothing" if found is None else f"{found.dtype}{list(found.shape)}"
        raise ModelError(f"output {name}: expected float32{list(shape)}, got {got}")
    return np.asarray(found, np.float32)


class Open:
    """Something that is open until it is closed: a context manager."""

    name: ClassVar[str]
    _closed = False

    @classmethod
    def first_dims(cls) -> Mapping[str, Sequence[Mapping[str, int]]]:
        """Return the plans that its shipped models should have in their files, by model.

        Each is a size for every open dim of the inputs, as the kit uses it most; a model whose dims
        are all known needs none.
        """
        return {}

    def close(self) -> None:
        """Close it; it may be called twice."""
        self._closed = True

    def __enter__(self: AnyOpen) -> AnyOpen:
        """Return the object itself."""
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; an error under way is not hidden by one that closing raises."""
        try:
            self.close()
        except Exception:
            if error is None:
                raise

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"{self.name} is closed")


class Kit(Open, ABC, Generic[Result]):
    """A kit that takes pictures: a context manager with three modes.

    "image": each picture stands for itself; one kit may be used by many threads at a time. A list
    of pictures gives the list of their results; an error of one of them names its index.
    "video": pictures are the frames of one video, in order; things found keep their ids.
    "stream": as video, but frames are left with submit and results come to a callback. A kit that
    is dropped without close finishes the frames submitted.

    With budget_ms, frames of a video take no longer than that on average: while one that took
    longer is paid for, the result before is moved along with the camera, and says so by left_out.

    What finds things has a twin for asyncio, such as detect_async, in threads of the kit.

    A forked child may use the kits of its parent; a video goes on there where no other thread was
    within a frame of it. When Python ends, it waits up to 2 s for what kits do in other threads.
    """

    # Whether whole frames may be left out; a kit of kits may share its budget among them.
    is_paced: ClassVar[bool] = True

    def __init__(self, options: Modes[Result]) -> None:
        """Set up what all kits have; the subclass continues, and ends with `_start`."""
        self._mode: Mode = options.mode
        self._on_result, self._on_error = options.on_result, options.on_error
        self._clock = Clock()
        self._budget_ms = options.budget_ms if self.is_paced else None
        self._allowance: Allowance | None = None
        self._pace = self._new_pace()
        self._is_midway = False
        at_once = (os.cpu_count() or 1) // options.threads if options.mode == "image" else 1
        self._threads = Threads(max(at_once, 1))
        renewed_in_children(self, Kit[Any]._renew)
        self._models: tuple[Delivered[Any], ...] = ()
        self._turns: Turns | None = None
        self._stream: Stream[tuple[Kit[Result], Image, float | None, Part | None]] | None = None

    def _new_pace(self) -> Pace[Result] | None:
        if self._budget_ms is None or self._mode == "image":
            return None
        return Pace(self._allowance or Budget(self._budget_ms))

    def _pace_by(self, allowance: Allowance) -> None:
        """Have a kit that this one is a part of say which frames there is time to look at."""
        self._allowance = allowance
        self._pace = self._new_pace()

    @finished
    def _start(self, *models: Delivered[Any]) -> None:
        """Prepare for the first picture: the last line of a kit's `__init__`.

        models: those that the kit uses, or other parts of it that may be delivered.
        Raises ModelError if they do not fit this kit.
        """
        self._models = models
        self._forget()
        if any(model.is_delivered for model in models):
            from palmkit.kits.delivered import Turns

            self._turns = Turns(models)
            self._turns.settle(self._adopt)
        else:
            self._adopt()
        if self._mode == "stream":
            from palmkit.kits.stream import Stream

            # It holds the kit only by its frames: a kit that is dropped ends it.
            self._stream = Stream(Kit[Any]._deliver, self._on_error)

    def _renew(self) -> None:
        """Reset the frames under way in a forked child, where no other thread can end one."""
        self._lock = threading.Lock()

    def _adopt(self) -> None:  # noqa: B027
        """Take from the models what the kit needs; some may have changed.

        Raises ModelError if they do not fit this kit.
        """

    @property
    def mode(self) -> Mode:
        """How the kit is driven: "image", "video" or "stream"."""
        return self._mode

    @property
    def releases(self) -> Mapping[str, str]:
        """The version of each delivered model that the kit uses now, by model and channel."""
        return {each.name: each.version for each in self._models if each.is_delivered}

    @abstractmethod
    def _run(self, image: Image, roi: Part | None, time_s: float | None) -> Result:
        """Return what is found in a picture.

        time_s: None in image mode, where it may be called by many threads at a time; else strictly
        increasing, one call at a time.
        """

    @abstractmethod
    def _forget(self) -> None:
        """Forget earlier frames."""

    @finished
    def _call(self, frame: Frame[Source]) -> Result:
        """Do the work of a kit's public method in image and video mode."""
        self._check_may_call()
        source, format, rotation, flip = frame.image, frame.format, frame.rotation, frame.flip
        original = None
        # Results of videos keep nothing of their frames: there may be many.
        if self._mode == "image":
            original = Original.of(source, format, rotation, flip)
            if not isinstance(source, str | os.PathLike):
                source = original.source
        picture = read_image(source, format=format, rotation=rotation, flip=flip)
        result = self._step(picture, frame.roi, frame.timestamp_ms)
        return result if original is None else result.keeping(original)

    async def _call_async(self, frame: Frame[Source]) -> Result:
        """Do the work of a kit's coroutine: that of _call, in a thread of the kit."""
        self._check_may_call()
        return await self._threads.run(lambda: self._call(frame))

    def _check_may_call(self) -> None:
        if self._stream is not None:
            raise RuntimeError(f"{self.name}: mode is 'stream', use submit")
        self._check_open()

    def _step(self, picture: Image, roi: Part | None, timestamp_ms: float | None) -> Result:
        # Also where what is known of earlier frames leaves nothing to look for in it.
        clip_part(picture, roi)
        if self._mode == "image":
            return self._looked(picture, roi, None)
        with self._lock:
            if self._is_midway:
                # A fork or an interrupt came within a frame: what is known of the video may be
                # half of this one and half of that.
                self._begin_anew()
            self._is_midway = True
            try:
                result = self._next(picture, roi, self._clock.tick(timestamp_ms))
            except Exception:
                self._is_midway = False
                raise
            self._is_midway = False
            return result

    def _next(self, picture: Image, roi: Part | None, time_s: float) -> Result:
        """Return the result of the next frame, if need be without a look at it."""
        if self._pace is None:
            return self._looked(picture, roi, time_s)
        result = self._pace.begin(picture, roi)
        if result is None:
            result = self._looked(picture, roi, time_s)
            self._pace.looked(picture, roi, result)
        return result

    def _looked(self, picture: Image, roi: Part | None, time_s: float | None) -> Result:
        with noting() as left_out:
            result = self._take_turn(picture, roi, time_s)
        return result.leaving_out(", ".join(left_out)) if left_out else result

    def _take_turn(self, picture: Image, roi: Part | None, time_s: float | None) -> Result:
        if self._turns is None:
            return self._run(picture, roi, time_s)
        return self._turns.run(lambda: self._run(picture, roi, time_s), self._adopt)

    def submit(
        self,
        image: Source,
        timestamp_ms: float | None = None,
        *,
        roi: Part | None = None,
        format: Format | None = None,
        rotation: Rotation = 0,
        flip: Flip | None = None,
    ) -> None:
        """Submit a frame and return at once; its result goes to on_result.

        While a frame is worked on one more may wait, and is replaced by a newer one: see dropped.
        The frame is copied. The arguments are those of read_image and of the kit's own method.
        Raises ImageError if it is not a picture, RuntimeError outside stream mode or if the kit is
        closed, and, without on_error, the error of an earlier frame.
        """
        if self._stream is None:
            raise RuntimeError(f"{self.name}: submit needs mode 'stream', mode is {self._mode!r}")
        self._check_open()
        picture = read_image(image, format=format, rotation=rotation, flip=flip)
        if isinstance(image, np.ndarray) and np.may_share_memory(picture, image):
            picture = picture.copy()
        self._stream.put((self, picture, timestamp_ms, roi))

    @staticmethod
    def _deliver(frame: tuple[Kit[Result], Image, float | None, Part | None]) -> None:
        self, picture, timestamp_ms, roi = frame
        result = self._step(picture, roi, timestamp_ms)
        if self._on_result is not None:
            self._on_result(result, picture, timestamp_ms)

    @property
    def dropped(self) -> int:
        """How many submitted frames were replaced by a newer one."""
        return 0 if self._stream is None else self._stream.dropped

    def reset(self) -> None:
        """Forget the video so far: the next frame is the first of another."""
        with self._lock:
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._clock = Clock()
        self._pace = self._new_pace()
        self._forget()

    def close(self) -> None:
        """Finish the frames submitted and end the worker thread; it may be called twice.

        Raises what went wrong with an earlier frame in stream mode without on_error.
        """
        super().close()
        self._threads.close()
        try:
            if self._stream is not None:
                self._stream.close()
        finally:
            self._unfollow()

    def _unfollow(self) -> None:
        """Take no newer releases any more."""
        for model in self._models:
            model.close()
