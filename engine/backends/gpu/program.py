"""A graph on a GPU: values, and runs of its list of dispatches."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from palmkit.engine.backends import DeviceArray, Value
from palmkit.engine.backends.gpu.device import Device, said_of
from palmkit.engine.backends.gpu.dispatches import (
    ELEMENT_BYTES,
    Border,
    DispatchList,
    from_device,
    to_device,
)
from palmkit.engine.errors import BackendError
from palmkit.engine.ir import Array
from palmkit.engine.steps.plan import Plan, StepTime


@dataclass(frozen=True)
class GpuArray:
    """An array in a buffer of its own."""

    device: Device
    buffer: Any
    border: Border
    backend: str

    def host(self) -> Array:
        """The same numbers in the memory of this process."""
        size = self.border.elements * ELEMENT_BYTES
        if not size:
            return np.zeros(self.border.dims, self.border.dtype)
        staging = self.device.read_back(size)
        recording = self.device.recorded(())
        recording.submit((), [((self.buffer, 0), (staging, 0), size)])
        return from_device(recording.fetch(staging, size), self.border)


class GpuProgram:
    """A list of dispatches with its buffers; one run at a time, others wait."""

    def __init__(self, device: Device, dispatches: DispatchList, plan: Plan, backend: str) -> None:
        """Compile the shaders and upload the weights."""
        self.plan, self.dispatches, self.backend = plan, dispatches, backend
        self.devices: tuple[str, ...] = (f"gpu: {device.name}",)
        self._device = device
        self._process = os.getpid()
        self._lock = threading.Lock()
        named: dict[int, str] = {}
        for each in dispatches.dispatches:
            named.setdefault(each.shader, f"{each.node} ({each.kernel})")
        pipelines = [
            device.pipeline(source, named[i]) for i, source in enumerate(dispatches.shaders)
        ]
        pages = [device.filled(page, "weights") for page in dispatches.pages]
        self._arena = device.storage(dispatches.arena_elements * ELEMENT_BYTES, "the arena")
        groups = device.groups(
            self._arena, pages, [(each.page, each.numbers) for each in dispatches.dispatches]
        )
        calls = [
            (pipelines[each.shader], group, each.workgroups)
            for each, group in zip(dispatches.dispatches, groups, strict=True)
        ]
        self._calls = calls
        self._recording = device.recorded(calls)
        outputs = dispatches.outputs.values()
        ends = [each.offset + each.elements for each in outputs]
        self._first = min((each.offset for each in outputs), default=0)
        self._size = (max(ends, default=0) - self._first) * ELEMENT_BYTES
        self._staging = device.read_back(self._size)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, each an array of its own."""
        with self._lock:
            before = self._uploaded(inputs)
            behind = [((self._arena, self._first * ELEMENT_BYTES), (self._staging, 0), self._size)]
            self._recording.submit(before, behind if self._size else ())
            words = np.zeros(0, np.uint32)
            if self._size:
                words = self._recording.fetch(self._staging, self._size)
        outputs: dict[str, Array] = {}
        for name, border in self.dispatches.outputs.items():
            begin = border.offset - self._first
            outputs[name] = from_device(words[begin : begin + border.elements], border)
        return outputs

    def run_on_device(self, inputs: Mapping[str, Value]) -> Mapping[str, GpuArray]:
        """Outputs by name, on the device; inputs are there or in the memory of this process."""
        outputs: dict[str, GpuArray] = {}
        behind: list[tuple[tuple[Any, int], tuple[Any, int], int]] = []
        for name, border in self.dispatches.outputs.items():
            size = border.elements * ELEMENT_BYTES
            buffer = self._device.storage(size, f"output {name}")
            outputs[name] = GpuArray(self._device, buffer, border, self.backend)
            if size:
                behind.append(((self._arena, border.offset * ELEMENT_BYTES), (buffer, 0), size))
        with self._lock:
            self._recording.submit(self._uploaded(inputs), behind)
        return outputs

    def _uploaded(
        self, inputs: Mapping[str, Value]
    ) -> list[tuple[tuple[Any, int], tuple[Any, int], int]]:
        """Write the host's inputs; the copies for those that are on the device."""
        if self._process != os.getpid():
            raise BackendError("backend gpu: its models do not survive a fork")
        copies: list[tuple[tuple[Any, int], tuple[Any, int], int]] = []
        for name, border in self.dispatches.inputs.items():
            value, at = inputs[name], border.offset * ELEMENT_BYTES
            if isinstance(value, GpuArray) and value.device is self._device:
                if border.elements:
                    size = border.elements * ELEMENT_BYTES
                    copies.append(((value.buffer, 0), (self._arena, at), size))
                continue
            array = value.host() if isinstance(value, DeviceArray) else value
            try:
                self._device.write(self._arena, at, to_device(array))
            except OverflowError as error:
                raise BackendError(f"backend gpu: input {name}: {error}") from None
        return copies

    def profile(self, inputs: Mapping[str, Array]) -> Sequence[StepTime]:
        """Run once and time each dispatch by the device's clock, or, without one, all of them."""
        names = [(each.node, each.kernel) for each in self.dispatches.dispatches]
        if not self._device.has_clock or not names:
            start = time.perf_counter()
            self.run(inputs)
            return [StepTime("all", self.devices[0], time.perf_counter() - start)]
        with self._lock, said_of("profile"):
            self._recording.submit(self._uploaded(inputs), ())
            seconds = self._device.timed(self._calls)
        return [StepTime(node, op, s) for (node, op), s in zip(names, seconds, strict=True)]
