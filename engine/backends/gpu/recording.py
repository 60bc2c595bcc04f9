"""Work handed to a GPU again and again, by the functions of the library that the package wgpu has.

The package's own objects take longer than small kernels do, so each run goes without them. Here
each of the functions is called from Python, which serves any library; runtime.py has them called by
PalmKit's runtime.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import BackendError, DeviceLostError

# Dispatches of the first submit, and how many times as many each further one has. The device begins
# with the first few while the host writes the next.
FIRST_SUBMIT = 12
_GROWTH = 3


class Opened(Protocol):
    """What is known of a device here.

    gpu: the package's object. lost: whether it is. calls: held while its errors are collected,
    which the library does for all threads at once.
    """

    gpu: Any
    lost: bool
    calls: threading.RLock

    @property
    def name(self) -> str:
        """The adapter's name."""
        ...


def one_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return " ".join(f"{error}".split()) or error.__class__.__name__


def failed(device: Opened, what: str, said: str) -> BackendError:
    """The error for what the library said of something done; notes if the device is lost."""
    device.lost = device.lost or "lost" in said.lower()
    return (DeviceLostError if device.lost else BackendError)(f"backend gpu: {what}: {said}")


class Scope:
    """Collects what the library says is wrong in some calls."""

    def __init__(self, device: Opened, lib: Any, ffi: Any) -> None:
        """Begin with no errors."""
        # Callbacks refer to lists alone: what refers to itself is freed late, with all it holds.
        self.errors = errors = list[str]()
        self._device, self._lib = device, lib

        def on_error(_status: int, kind: int, message: Any, _one: Any, _two: Any) -> None:
            if kind != lib.WGPUErrorType_NoError:
                errors.append(_said(ffi, message))

        kind = "void(WGPUPopErrorScopeStatus, WGPUErrorType, WGPUStringView, void *, void *)"
        self._callback = ffi.callback(kind)(on_error)
        self._on_error = ffi.new("WGPUPopErrorScopeCallbackInfo *")
        self._on_error.mode = lib.WGPUCallbackMode_AllowProcessEvents
        self._on_error.callback = self._callback

    @contextmanager
    def of(self, what: str) -> Generator[None, None, None]:
        """Raise BackendError, which names what is done, if anything in the block is wrong."""
        with self._device.calls:
            self._begin()
            try:
                yield
            except BackendError:
                self._end()
                raise
            except Exception as error:
                self._end()
                raise failed(self._device, what, one_line(error)) from None
            self._end()
            self.check(what)

    def _begin(self) -> None:
        self.errors.clear()
        lib, gpu = self._lib, self._device.gpu._internal
        lib.wgpuDevicePushErrorScope(gpu, lib.WGPUErrorFilter_Validation)
        lib.wgpuDevicePushErrorScope(gpu, lib.WGPUErrorFilter_OutOfMemory)

    def _end(self) -> None:
        for _ in range(2):
            self._lib.wgpuDevicePopErrorScope(self._device.gpu._internal, self._on_error[0])

    def check(self, what: str) -> None:
        """Raise BackendError if an error was collected."""
        if self.errors:
            raise failed(self._device, what, " ".join(" ".join(self.errors).split()))


def _said(ffi: Any, message: Any) -> str:
    text: bytes = ffi.unpack(message.data, message.length) if message.data else b""
    return text.decode(errors="replace")


# A pipeline, a bind group, and workgroups in x and y.
Call = tuple[Any, Any, tuple[int, int]]
# A source or target of a copy: a buffer and the byte in it.
Place = tuple[Any, int]
Copy = tuple[Place, Place, int]
# What the host puts into buffers: a buffer, the byte in it, and the words.
Write = tuple[Any, int, NDArray[np.uint32]]


def write(device: Opened, lib: Any, ffi: Any, what: Write) -> None:
    """Have the host's words in a buffer before what is submitted next."""
    buffer, offset_bytes, words = what
    if words.size:
        pointer = ffi.cast("void *", words.ctypes.data)
        queue = device.gpu.queue._internal
        lib.wgpuQueueWriteBuffer(queue, buffer._internal, offset_bytes, pointer, words.nbytes)


class Recording:
    """Dispatches of one compute pass, and copies before and behind them."""

    def __init__(
        self,
        device: Opened,
        lib: Any,
        ffi: Any,
        calls: Sequence[Call],
        labels: Sequence[str],
    ) -> None:
        """Keep what each call takes, as the library takes it; labels are for messages."""
        self._device, self._lib, self._ffi = device, lib, ffi
        self._labels = labels
        self._kept = list(calls)
        self._steps: list[tuple[Any, Any, int, int]] = []
        for pipeline, group, (x, y) in calls:
            self._steps.append((pipeline._internal, group._internal, x, y))
        self._scope = Scope(device, lib, ffi)
        self._mapped = mapped = list[int]()
        errors = self._scope.errors

        def on_map(status: int, message: Any, _one: Any, _two: Any) -> None:
            mapped.append(status)
            if status != lib.WGPUMapAsyncStatus_Success:
                errors.append(_said(ffi, message) or f"map status {status}")

        kind = "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)"
        self._callback = ffi.callback(kind)(on_map)
        self._on_map = ffi.new("WGPUBufferMapCallbackInfo *")
        self._on_map.mode = lib.WGPUCallbackMode_AllowProcessEvents
        self._on_map.callback = self._callback
        self._command = ffi.new("WGPUCommandBuffer[1]")

    def submit(
        self,
        writes: Sequence[Write],
        before: Sequence[Copy],
        behind: Sequence[Copy],
        slice_s: float = 0,
    ) -> None:
        """Write, copy, run all dispatches, copy: (from, to, bytes) each.

        slice_s: let others have the device after about so many seconds, again and again; 0: hand
        all of it over at once. BackendError if it is refused, DeviceLostError if there is no
        device any more; the former names the dispatch, if it is one.
        """
        try:
            self._submit(writes, before, behind, slice_s)
        except DeviceLostError:
            raise
        except BackendError:
            self._find_refused()
            raise

    def _find_refused(self) -> None:
        """BackendError for the first dispatch that the library refuses by itself."""
        for step, label in zip(self._steps, self._labels, strict=True):
            with self._scope.of(label):
                self._lib.wgpuCommandBufferRelease(self._encoded([step], (), ()))

    def _submit(
        self,
        writes: Sequence[Write],
        before: Sequence[Copy],
        behind: Sequence[Copy],
        slice_s: float,
    ) -> None:
        begin, size, count = 0, FIRST_SUBMIT, len(self._steps)
        # What would be a last submit of less than the first goes with the one before it.
        while count - begin > (size if slice_s else size + FIRST_SUBMIT - 1):
            started_s = time.perf_counter()
            self.hand_over(writes, before, slice(begin, begin + size), ())
            writes, before, begin = (), (), begin + size
            size = self._next_size(size, started_s, slice_s) if slice_s else _GROWTH * size
        self.hand_over(writes, before, slice(begin, count), behind)

    def _next_size(self, size: int, started_s: float, slice_s: float) -> int:
        """Wait until what was handed over is done, and tell how many dispatches a slice takes."""
        self._wait()
        time.sleep(0)
        return max(1, int(size * min(2.0, slice_s / (time.perf_counter() - started_s))))

    def hand_over(
        self, writes: Sequence[Write], before: Sequence[Copy], part: slice, behind: Sequence[Copy]
    ) -> None:
        """Submit some of the dispatches; BackendError if something is refused, and nothing is."""
        with self._device.calls:
            # The library ends the process where a submit finds no device: it is looked for before.
            with self._scope.of(self._device.name):
                for each in writes:
                    write(self._device, self._lib, self._ffi, each)
                command = self._encoded(self._steps[part], before, behind)
            self._command[0] = command
            self._lib.wgpuQueueSubmit(self._device.gpu.queue._internal, 1, self._command)
            self._lib.wgpuCommandBufferRelease(command)

    def _encoded(
        self,
        steps: Sequence[tuple[Any, Any, int, int]],
        before: Sequence[Copy],
        behind: Sequence[Copy],
    ) -> Any:
        """Return the commands that copy, run some of the dispatches, and copy."""
        lib, null = self._lib, self._ffi.NULL
        gpu = self._device.gpu._internal
        encoder = lib.wgpuDeviceCreateCommandEncoder(gpu, null)
        self._copies(encoder, before)
        if steps:
            compute = lib.wgpuCommandEncoderBeginComputePass(encoder, null)
            pipe = lib.wgpuComputePassEncoderSetPipeline
            bind = lib.wgpuComputePassEncoderSetBindGroup
            launch = lib.wgpuComputePassEncoderDispatchWorkgroups
            for pipeline, group, x, y in steps:
                pipe(compute, pipeline)
                bind(compute, 0, group, 0, null)
                launch(compute, x, y, 1)
            lib.wgpuComputePassEncoderEnd(compute)
            lib.wgpuComputePassEncoderRelease(compute)
        self._copies(encoder, behind)
        command = lib.wgpuCommandEncoderFinish(encoder, null)
        lib.wgpuCommandEncoderRelease(encoder)
        return command

    def _copies(self, encoder: Any, copies: Sequence[Copy]) -> None:
        for (source, begin), (target, at), size in copies:
            self._lib.wgpuCommandEncoderCopyBufferToBuffer(
                encoder, source._internal, begin, target._internal, at, size
            )

    def _wait(self) -> None:
        self._lib.wgpuDevicePoll(self._device.gpu._internal, 1, self._ffi.NULL)

    def fetch(self, buffer: Any, size_bytes: int) -> NDArray[np.uint32]:
        """Wait until all is done, and return a copy of what a buffer of `read_back` has then."""
        found = np.empty(size_bytes // 4, np.uint32)
        self._fetch(buffer, found)
        return found

    def _fetch(self, buffer: Any, to: NDArray[np.uint32]) -> None:
        lib = self._lib
        self._mapped.clear()
        lib.wgpuBufferMapAsync(
            buffer._internal, lib.WGPUMapMode_Read, 0, to.nbytes, self._on_map[0]
        )
        while not self._mapped:
            self._wait()
        self._scope.check(self._device.name)
        pointer = lib.wgpuBufferGetConstMappedRange(buffer._internal, 0, to.nbytes)
        to[:] = np.frombuffer(self._ffi.buffer(pointer, to.nbytes), np.uint32)
        lib.wgpuBufferUnmap(buffer._internal)
