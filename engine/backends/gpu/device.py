"""A GPU by the package wgpu: WebGPU over Vulkan, Metal or Direct3D 12."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.backends.gpu.dispatches import ELEMENT_BYTES, Dispatch, window_bindings
from palmkit.engine.backends.gpu.emission import Target
from palmkit.engine.backends.gpu.pages import Page
from palmkit.engine.backends.gpu.recording import Call, Recording, Scope, one_line, write
from palmkit.engine.backends.gpu.runtime import RuntimeRecording, unknown
from palmkit.engine.backends.gpu.wgsl import THREADS
from palmkit.engine.errors import BackendError, DeviceLostError

HARDWARE, SOFTWARE = "hardware", "software"
# By WebGPU's names for kinds of adapters, the first preferred.
_KINDS = {
    HARDWARE: ("DiscreteGPU", "IntegratedGPU", "VirtualGPU", "Unknown"),
    SOFTWARE: ("CPU",),
}
# Interfaces that have all of compute shaders; OpenGL is none of them.
_INTERFACES = ("Vulkan", "Metal", "D3D12")
_UNIFORM_STEP = 256
# How long who fetches a result waits awake: to be woken takes as long as a few small kernels. What
# computes on the CPU would wait for it.
AWAKE_S = {HARDWARE: 2e-3, SOFTWARE: 0.0}
# Shaders that are compiled at a time.
_MOST_AT_ONCE = 16
# Compiled shaders that stay when nothing has them any more: the next model with them loads at once.
PIPELINES_KEPT = 512
# The limits that a device is opened with, those of its adapter, and the least that will do.
_LEAST = {
    "max-storage-buffer-binding-size": 1 << 16,
    "max-buffer-size": 1 << 16,
    "max-storage-buffers-per-shader-stage": 2,
    "max-compute-invocations-per-workgroup": THREADS,
    "max-compute-workgroup-size-x": THREADS,
    "max-compute-workgroup-storage-size": 1 << 12,
    "max-compute-workgroups-per-dimension": 1 << 8,
}
_lock = threading.Lock()
_devices: dict[tuple[int, str], Device] = {}
_started: list[int] = []


def _library() -> Any:
    """The package, its instance limited to the interfaces that are looked at."""
    package: Any = import_module("wgpu")
    if not _started:
        extras: Any = import_module("wgpu.backends.wgpu_native.extras")
        # It fails where somebody else has used the package before.
        with suppress(RuntimeError):
            extras.set_instance_extras(backends=["Vulkan", "Metal", "DX12"])
        _started.append(os.getpid())
    return package


@cache
def _adapters() -> tuple[Any, ...]:
    found = _library().gpu.enumerate_adapters_sync()
    return tuple(each for each in found if each.info["backend_type"] in _INTERFACES)


def adapters(kind: str) -> list[Any]:
    """The adapters of a kind, HARDWARE or SOFTWARE, the best first; looked for once."""
    wanted = _KINDS[kind]
    there = [each for each in _adapters() if each.info["adapter_type"] in wanted]
    return sorted(there, key=lambda adapter: wanted.index(adapter.info["adapter_type"]))


def missing(kind: str) -> str:
    """Why there is no device of a kind; "" if there is one."""
    if find_spec("wgpu") is None:
        return 'it needs wgpu: pip install "palmkit[gpu]"'
    if _started and _started[0] != os.getpid():
        return "WebGPU does not survive a fork"
    try:
        if adapters(kind):
            return ""
        others = [each for other in _KINDS if other != kind for each in adapters(other)]
    except Exception as error:  # of whatever type the package has for it
        return one_line(error)
    found = ", ".join(each.info["device"] for each in others)
    return f"no {kind} adapter of {', '.join(_INTERFACES)}" + (f", only {found}" if found else "")


def device(kind: str) -> Device:
    """The device of a kind, of which a process has one; BackendError if there is none.

    A lost one is opened again, on the best adapter that there is then.
    """
    with _lock:
        key = (os.getpid(), kind)
        if key in _devices and _devices[key].lost:
            del _devices[key]
            _adapters.cache_clear()
        if key not in _devices:
            reason = missing(kind)
            if reason:
                raise BackendError(f"backend gpu is not available on this machine: {reason}")
            try:
                _devices[key] = Device(adapters(kind)[0], kind)
            except Exception as error:
                raise BackendError(f"backend gpu: {kind}: {one_line(error)}") from None
        return _devices[key]


class Device:
    """One device, its queue, and what all programs on it share."""

    def __init__(self, adapter: Any, kind: str) -> None:
        """Open an adapter with all that it can do."""
        native: Any = import_module("wgpu.backends.wgpu_native")
        self._lib, self._ffi = native.lib, native.ffi
        self._package = _library()
        self.info: Mapping[str, str] = dict(adapter.info)
        wanted = {"timestamp-query"} & set(adapter.features)
        limits = {name: adapter.limits[name] for name in _LEAST}
        for name, least in _LEAST.items():
            if limits[name] < least:
                raise BackendError(f"its driver says {name} {limits[name]}, less than {least}")
        self.gpu: Any = adapter.request_device_sync(
            required_features=sorted(wanted), required_limits=limits
        )
        self.has_clock = bool(wanted)
        self.kind, self.lost = kind, False
        # Why runs take longer than they need to; "" if they do not.
        self.slow = unknown(native.lib_version_info)
        self.calls = threading.RLock()
        software = kind == SOFTWARE
        most_threads = min(
            256,
            limits["max-compute-invocations-per-workgroup"],
            limits["max-compute-workgroup-size-x"],
        )
        # Whole vectors, and what a 32-bit index of elements reaches.
        binding_bytes = min(limits["max-storage-buffer-binding-size"], limits["max-buffer-size"])
        binding_bytes = min(binding_bytes, 1 << 32) // 256 * 256
        self.buffer_bytes = int(limits["max-buffer-size"])
        self.target = Target(
            invocations=8 if software else 1 << 16,
            threads=64 if software else most_threads,
            groups=limits["max-compute-workgroups-per-dimension"],
            binding_bytes=binding_bytes,
            shared_bytes=limits["max-compute-workgroup-storage-size"],
            bindings=limits["max-storage-buffers-per-shader-stage"],
        )
        self._scope = Scope(self, self._lib, self._ffi)
        self._pipelines: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._latest: OrderedDict[str, Any] = OrderedDict()
        usage = self._package.BufferUsage
        self._storage = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
        self._uniform = usage.UNIFORM | usage.COPY_DST
        self._read_back = usage.MAP_READ | usage.COPY_DST
        self._write_usage = usage.MAP_WRITE | usage.COPY_SRC
        self._layouts: dict[int, tuple[Any, Any]] = {}

    def _layout(self, windows: int) -> tuple[Any, Any]:
        """The layouts of a bind group, with so many parts of the arena, and of its pipelines."""
        if windows not in self._layouts:
            visible = self._package.ShaderStage.COMPUTE
            kinds = dict.fromkeys(window_bindings(windows), "storage")
            kinds |= {1: "read-only-storage", 2: "uniform"}
            entries = [
                {"binding": i, "visibility": visible, "buffer": {"type": each}}
                for i, each in kinds.items()
            ]
            group = self.gpu.create_bind_group_layout(entries=entries)
            both = group, self.gpu.create_pipeline_layout(bind_group_layouts=[group])
            self._layouts[windows] = both
        return self._layouts[windows]

    @property
    def described(self) -> str:
        """Its name, and what people should know of it."""
        return f"{self.name}; {self.slow}" if self.slow else self.name

    @property
    def name(self) -> str:
        """The adapter as people know it, by which interface, and whether it is software."""
        software = ", software" if self.info["adapter_type"] == "CPU" else ""
        return f"{self.info['device']} ({self.info['backend_type']}{software})"

    def said_of(self, what: str) -> AbstractContextManager[None]:
        """Turn errors in the block into BackendError that names what is done."""
        return self._scope.of(what)

    def storage(self, size_bytes: int, what: str) -> Any:
        """A buffer for shaders; BackendError if it cannot be had."""
        with self.said_of(f"{what} of {size_bytes} bytes"):
            if size_bytes > self.buffer_bytes:
                raise BackendError(
                    f"backend gpu: {what} of {size_bytes} bytes, the device's buffers have at most "
                    f"{self.buffer_bytes}"
                )
            return self.gpu.create_buffer(size=max(16, size_bytes), usage=self._storage)

    def filled(self, page: Page) -> Any:
        """A buffer of weights for shaders."""
        buffer = self.storage(page.nbytes, "weights")
        for begin, words in page.parts():
            self.write(buffer, begin * ELEMENT_BYTES, words)
        return buffer

    def read_back(self, size_bytes: int) -> Any:
        """A buffer that can be copied to, and read by the host."""
        with self.said_of(f"a buffer of {size_bytes} bytes to read back"):
            return self.gpu.create_buffer(size=max(16, size_bytes), usage=self._read_back)

    def pipelines(self, wanted: Sequence[tuple[str, int, str]]) -> list[Any]:
        """The pipelines of shaders: (text, parts of the arena that it binds, what it is for) each.

        They are compiled once, a few at a time; the last PIPELINES_KEPT stay compiled, others as
        long as something has them. BackendError names what a shader is for.
        """
        found = {source: self._pipelines.get(source) for source, _, _ in wanted}
        left = [each for each in wanted if found[each[0]] is None]
        # What takes long begins first, beside others that do.
        left.sort(key=lambda each: len(each[0]), reverse=True)
        at_once = min(_MOST_AT_ONCE, os.cpu_count() or 1)
        # Between these, runs of other models get their turn.
        for begin in range(0, len(left), at_once):
            found |= self._compiled(left[begin : begin + at_once])
        with _lock:
            for source, each in found.items():
                self._latest[source] = each
                self._latest.move_to_end(source)
            while len(self._latest) > PIPELINES_KEPT:
                self._latest.popitem(last=False)
        return [found[source] for source, _, _ in wanted]

    def _compiled(self, shaders: Sequence[tuple[str, int, str]]) -> dict[str, Any]:
        try:
            with self.said_of("shaders"), ThreadPoolExecutor(len(shaders)) as threads:
                layouts = [self._layout(windows)[1] for _, windows, _ in shaders]
                made = list(threads.map(self._pipeline, shaders, layouts))
        except DeviceLostError:
            raise
        except BackendError:
            # Which one it is.
            for each in shaders:
                with self.said_of(each[2]):
                    self._pipeline(each, self._layout(each[1])[1])
            raise
        found = {source: each for (source, _, _), each in zip(shaders, made, strict=True)}
        self._pipelines.update(found)
        return found

    def _pipeline(self, shader: tuple[str, int, str], layout: Any) -> Any:
        module = self._module(shader[0])
        return self.gpu.create_compute_pipeline(
            layout=layout, compute={"module": module, "entry_point": "main"}
        )

    def _module(self, source: str) -> Any:
        """The compiled text, without checks of each index and a count for each loop.

        They would take as long as the sums of small loops; indices are within their arrays for
        every invocation, since the text is written for the very shapes.
        """
        text = source.encode()
        held = self._ffi.new("char[]", text)
        wgsl = self._ffi.new("WGPUShaderSourceWGSL *")
        wgsl.chain.sType = self._lib.WGPUSType_ShaderSourceWGSL
        wgsl.code.data, wgsl.code.length = held, len(text)
        described = self._ffi.new("WGPUShaderModuleDescriptor *")
        described.nextInChain = self._ffi.addressof(wgsl.chain)
        made = self._lib.wgpuDeviceCreateShaderModuleTrusted(
            self.gpu._internal, described, self._lib.WGPUShaderRuntimeChecks_None
        )
        return self._package.backends.wgpu_native.GPUShaderModule("", made, self.gpu)

    def groups(self, arena: Any, pages: Sequence[Any], dispatches: Sequence[Dispatch]) -> list[Any]:
        """A bind group for each dispatch; those that bind the same are one."""
        keys = [(each.windows, each.page, each.numbers) for each in dispatches]
        named = {key: each.label for key, each in zip(keys, dispatches, strict=True)}
        size = max((len(numbers) for _, _, numbers in named), default=4)
        step = -(-size * ELEMENT_BYTES // _UNIFORM_STEP) * _UNIFORM_STEP
        table = np.zeros((max(1, len(named)), step // ELEMENT_BYTES), np.uint32)
        for row, (_, _, numbers) in zip(table, named, strict=False):
            row[: len(numbers)] = numbers
        with self.said_of(f"the dispatches' numbers of {table.nbytes} bytes"):
            uniform = self.gpu.create_buffer(size=table.nbytes, usage=self._uniform)
            self.write(uniform, 0, table.reshape(-1))
        made: dict[Any, Any] = {}
        for i, (key, label) in enumerate(named.items()):
            windows, page, numbers = key
            parts = zip(window_bindings(len(windows)), windows, strict=True)
            bound = {binding: (arena, *window) for binding, window in parts}
            bound[1] = pages[page], 0, pages[page].size
            bound[2] = uniform, i * step, len(numbers) * ELEMENT_BYTES
            entries = [
                {"binding": binding, "resource": {"buffer": buffer, "offset": begin, "size": size}}
                for binding, (buffer, begin, size) in bound.items()
            ]
            with self.said_of(label):
                layout, _ = self._layout(len(windows))
                made[key] = self.gpu.create_bind_group(layout=layout, entries=entries)
        return [made[key] for key in keys]

    def write(self, buffer: Any, offset_bytes: int, words: NDArray[np.uint32]) -> None:
        """Have the host's words in a buffer before what is submitted next."""
        write(self, self._lib, self._ffi, (buffer, offset_bytes, words))

    def timed(self, calls: Sequence[Call]) -> list[float]:
        """Run dispatches, each in a pass of its own, and return how many seconds each one took."""
        with self.said_of("profile"):
            return self._timed(calls)

    def _timed(self, calls: Sequence[Call]) -> list[float]:
        count = 2 * len(calls)
        queries = self.gpu.create_query_set(type="timestamp", count=count)
        usage = self._package.BufferUsage
        found = self.gpu.create_buffer(size=8 * count, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
        encoder = self.gpu.create_command_encoder()
        for i, (pipeline, group, (x, y)) in enumerate(calls):
            writes = {
                "query_set": queries,
                "beginning_of_pass_write_index": 2 * i,
                "end_of_pass_write_index": 2 * i + 1,
            }
            compute = encoder.begin_compute_pass(timestamp_writes=writes)
            compute.set_pipeline(pipeline)
            compute.set_bind_group(0, group)
            compute.dispatch_workgroups(x, y, 1)
            compute.end()
        encoder.resolve_query_set(queries, 0, count, found, 0)
        self.gpu.queue.submit([encoder.finish()])
        ticks = np.frombuffer(self.gpu.queue.read_buffer(found), np.uint64).astype(np.int64)
        return [float(end - begin) * 1e-9 for begin, end in ticks.reshape(-1, 2)]

    def recorded(
        self, calls: Sequence[Call], labels: Sequence[str] = (), upload_bytes: int = 0
    ) -> Recording:
        """Dispatches to submit again and again: pipelines, bind groups and workgroups.

        labels: what messages call each. upload_bytes: what the host writes in each run that it
        fetches something of.
        """
        own = self, self._lib, self._ffi, calls, labels
        if self.slow:
            return Recording(*own)
        # A buffer of its own takes two thirds of the time that the queue takes to write.
        upload = (lambda: self._upload(upload_bytes)) if upload_bytes else None
        return RuntimeRecording(*own, upload, AWAKE_S[self.kind])

    def _upload(self, size_bytes: int) -> Any:
        with self.said_of(f"a buffer of {size_bytes} bytes to write"):
            return self.gpu.create_buffer(size=size_bytes, usage=self._write_usage)
