"""Work handed to a GPU by PalmKit's runtime, in one call a submit, without Python's lock.

native/palm_engine.h has the calls and what they take.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, byref, c_double, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import _native
from palmkit.engine.backends.gpu.recording import (
    Call,
    Copy,
    Opened,
    Place,
    Recording,
    Write,
    failed,
    one_line,
)
from palmkit.engine.errors import BackendError

# The first number of the versions of wgpu-native whose functions palm_gpu.cc knows.
KNOWN = 29
_FUNCTIONS = (
    *("DevicePushErrorScope", "DevicePopErrorScope", "DeviceCreateCommandEncoder", "DevicePoll"),
    *("QueueWriteBuffer", "QueueSubmitForIndex"),
    *("CommandEncoderCopyBufferToBuffer", "CommandEncoderBeginComputePass"),
    *("CommandEncoderFinish", "CommandEncoderRelease"),
    *("ComputePassEncoderSetPipeline", "ComputePassEncoderSetBindGroup"),
    *("ComputePassEncoderDispatchWorkgroups", "ComputePassEncoderEnd"),
    *("ComputePassEncoderRelease", "CommandBufferRelease"),
    *("BufferMapAsync", "BufferGetMappedRange", "BufferGetConstMappedRange", "BufferUnmap"),
)


class _Gpu(Structure):
    """palm_engine_gpu."""

    _fields_: ClassVar = [
        *((name, c_void_p) for name in (*_FUNCTIONS, "device", "queue")),
        ("awake_s", c_double),
    ]


class _Upload(Structure):
    """palm_engine_gpu_upload."""

    _fields_: ClassVar = [("buffer", c_void_p), ("mapped", c_void_p), ("size", c_size_t)]


class _Write(Structure):
    """palm_engine_gpu_write."""

    _fields_: ClassVar = [
        *(("buffer", c_void_p), ("offset", c_uint64)),
        *(("data", c_void_p), ("size", c_size_t)),
    ]


class _Copy(Structure):
    """palm_engine_gpu_copy."""

    _fields_: ClassVar = [
        *(("from", c_void_p), ("from_offset", c_uint64)),
        *(("to", c_void_p), ("to_offset", c_uint64), ("size", c_uint64)),
    ]


class _Dispatch(Structure):
    """palm_engine_gpu_dispatch."""

    _fields_: ClassVar = [
        *(("pipeline", c_void_p), ("group", c_void_p)),
        *(("x", c_uint32), ("y", c_uint32)),
    ]


class _Work(Structure):
    """palm_engine_gpu_work."""

    _fields_: ClassVar = [
        *(("writes", POINTER(_Write)), ("write_count", c_size_t)),
        *(("before", POINTER(_Copy)), ("before_count", c_size_t)),
        *(("dispatches", c_void_p), ("dispatch_count", c_size_t)),
        *(("behind", POINTER(_Copy)), ("behind_count", c_size_t)),
    ]


_DISPATCH_BYTES = ctypes.sizeof(_Dispatch)
_GPU, _UPLOAD = POINTER(_Gpu), POINTER(_Upload)
_submit = _native.function(
    "palm_engine_gpu_submit", (_GPU, POINTER(_Work), _UPLOAD, POINTER(c_uint64))
)
_wait = _native.function("palm_engine_gpu_wait", (_GPU, c_uint64))
_fetch = _native.function(
    "palm_engine_gpu_fetch", (_GPU, c_uint64, c_void_p, c_void_p, c_size_t, _UPLOAD)
)


@cache
def _addresses(lib: Any, ffi: Any) -> tuple[int, ...]:
    """Where the library's functions are."""
    found = (ffi.addressof(lib, f"wgpu{name}") for name in _FUNCTIONS)
    return tuple(int(ffi.cast("uintptr_t", each)) for each in found)


def unknown(version: Sequence[int]) -> str:
    """Why the runtime does not hand over work to a library of a version; "" if it does."""
    if version and version[0] == KNOWN:
        return ""
    said = ".".join(map(str, version))
    return (
        f"PalmKit's runtime knows wgpu-native {KNOWN}, not {said}: Python hands over each dispatch"
    )


class RuntimeRecording(Recording):
    """The same, handed over by PalmKit's runtime."""

    def __init__(
        self,
        device: Opened,
        lib: Any,
        ffi: Any,
        calls: Sequence[Call],
        labels: Sequence[str],
        upload: Callable[[], Any] | None = None,
        awake_s: float = 0,
    ) -> None:
        """Keep what each call takes, as the runtime takes it; labels are for messages.

        upload: makes a buffer that the host can write, as large as all that it writes in a run;
        None: it writes by the queue. awake_s: how long a fetch waits awake, at most.
        """
        super().__init__(device, lib, ffi, calls, labels)
        handles = self._number(device.gpu), self._number(device.gpu.queue)
        self._gpu = _Gpu(*_addresses(lib, ffi), *handles, awake_s)
        self._dispatches = (_Dispatch * len(calls))()
        for to, (pipeline, group, (x, y)) in zip(self._dispatches, calls, strict=True):
            to.pipeline, to.group = self._number(pipeline), self._number(group)
            to.x, to.y = x, y
        self._make_upload = upload
        self._upload_buffer: Any = None
        self._upload = _Upload()
        self._submitted = c_uint64()
        self._address = ctypes.addressof(self._dispatches)
        self._behind: tuple[Sequence[Copy], Any] = ((), None)
        self._at_gpu, self._at_upload = byref(self._gpu), byref(self._upload)
        self._at_submitted = byref(self._submitted)

    def _number(self, thing: Any) -> int:
        """The library's handle of one of the package's objects."""
        return int(self._ffi.cast("uintptr_t", thing._internal))

    def hand_over(
        self, writes: Sequence[Write], before: Sequence[Copy], part: slice, behind: Sequence[Copy]
    ) -> None:
        """Submit some of the dispatches; BackendError if something is refused, and nothing is."""
        begin, end, _ = part.indices(len(self._dispatches))
        work = _Work(dispatches=self._address + begin * _DISPATCH_BYTES, dispatch_count=end - begin)
        if writes:
            work.write_count = len(writes)
            work.writes = (_Write * len(writes))(*(self._write(*each) for each in writes))
        if before:
            work.before_count, work.before = len(before), self._copies_of(before)
        if behind:
            work.behind_count, work.behind = len(behind), self._kept_behind(behind)
        with self._device.calls:
            self._call(_submit, byref(work), self._at_upload, self._at_submitted)

    def _write(self, buffer: Any, at: int, words: NDArray[np.uint32]) -> _Write:
        return _Write(self._number(buffer), at, words.ctypes.data, words.nbytes)

    def _kept_behind(self, copies: Sequence[Copy]) -> Any:
        """Return copies as the runtime takes them; a tuple, which comes run after run, is kept."""
        if not isinstance(copies, tuple):
            return self._copies_of(copies)
        if copies is not self._behind[0]:
            self._behind = copies, self._copies_of(copies)
        return self._behind[1]

    def _copies_of(self, copies: Sequence[Copy]) -> Any:
        return (_Copy * len(copies))(*(self._copy(*each) for each in copies))

    def _copy(self, source: Place, target: Place, size: int) -> _Copy:
        (begin, first), (end, at) = source, target
        return _Copy(self._number(begin), first, self._number(end), at, size)

    def _wait(self) -> None:
        self._call(_wait, self._submitted)

    def _fetch(self, buffer: Any, to: NDArray[np.uint32]) -> None:
        if self._make_upload and self._upload_buffer is None:
            self._upload_buffer = self._make_upload()
            self._upload.buffer = self._number(self._upload_buffer)
            self._upload.size = self._upload_buffer.size
        upload = self._at_upload if self._upload.buffer else None
        found = self._number(buffer), to.ctypes.data, to.nbytes
        self._call(_fetch, self._submitted, *found, upload)

    def _call(self, call: Any, *given: Any) -> None:
        try:
            call(self._at_gpu, *given)
        except BackendError as error:
            raise failed(self._device, self._device.name, one_line(error)) from None
