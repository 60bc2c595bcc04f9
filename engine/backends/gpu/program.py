"""A graph on a GPU: values, and runs of its list of dispatches."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.backends import Given, Value, again_if_lost, host
from palmkit.engine.backends.gpu import levels
from palmkit.engine.backends.gpu.device import Device
from palmkit.engine.backends.gpu.device import device as opened
from palmkit.engine.backends.gpu.dispatches import (
    ELEMENT_BYTES,
    Border,
    Dispatch,
    DispatchList,
    from_device,
    to_device,
)
from palmkit.engine.backends.gpu.recording import Copy, Recording, Write
from palmkit.engine.errors import BackendError
from palmkit.engine.ir import Array
from palmkit.engine.levels import Levels
from palmkit.engine.steps.plan import Plan, StepTime

if TYPE_CHECKING:
    from palmkit.engine.backends.gpu.frames import GpuFrames


@dataclass(frozen=True)
class GpuArray:
    """An array in a buffer of its own."""

    device: Device
    buffer: Any
    border: Border
    backend: str

    @property
    def dtype(self) -> str:
        """The dtype that `host` gives it."""
        return self.border.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dims."""
        return self.border.dims

    def host(self) -> Array:
        """The same numbers in the memory of this process; DeviceLostError if they are gone."""
        size = self.border.elements * ELEMENT_BYTES
        if not size:
            return np.zeros(self.border.dims, self.border.dtype)
        staging = self.device.read_back(size)
        recording = self.device.recorded(())
        recording.submit((), (), [((self.buffer, 0), (staging, 0), size)])
        return from_device(recording.fetch(staging, size), self.border)


def _largest(plan: Plan) -> str:
    """What writes the most of an arena, for messages."""
    if not plan.buffers:
        return ""
    largest = max(plan.buffers, key=lambda buffer: buffer.size_bytes)
    step = plan.steps[largest.first]
    return f", for {largest.size_bytes} that {step.node} ({step.kernel}) writes,"


def _bytes_of(inputs: Mapping[str, Border]) -> int:
    """What inputs take as floats or integers."""
    return sum(each.elements for each in inputs.values()) * ELEMENT_BYTES


class _Made:
    """What a list of dispatches has on a device."""

    def __init__(self, device: Device, dispatches: DispatchList, plan: Plan) -> None:
        """Compile the shaders and upload the weights; BackendError names what fails."""
        self.device = device
        named: dict[int, Dispatch] = {}
        for each in dispatches.dispatches:
            named.setdefault(each.shader, each)
        pipelines = device.pipelines(
            [
                (source, len(named[i].windows), named[i].label)
                for i, source in enumerate(dispatches.shaders)
            ]
        )
        pages = [device.filled(page) for page in dispatches.pages]
        self._arena_bytes = dispatches.arena_elements * ELEMENT_BYTES
        self.arena = device.storage(self._arena_bytes, f"the arena{_largest(plan)}")
        groups = device.groups(self.arena, pages, dispatches.dispatches)
        self.calls = [
            (pipelines[each.shader], group, each.workgroups)
            for each, group in zip(dispatches.dispatches, groups, strict=True)
        ]
        self._labels = [each.label for each in dispatches.dispatches]
        self._input_bytes = _bytes_of(dispatches.inputs)
        self.recording = device.recorded(self.calls, self._labels, self._input_bytes)
        self._of_levels: dict[tuple[str, ...], _OfLevels] = {}
        outputs = dispatches.outputs.values()
        ends = [each.offset + each.elements for each in outputs]
        self.first = min((each.offset for each in outputs), default=0)
        self.size = (max(ends, default=0) - self.first) * ELEMENT_BYTES
        self.staging = device.read_back(self.size)
        source = self.arena, self.first * ELEMENT_BYTES
        copy = source, (self.staging, 0), self.size
        self.behind: tuple[Copy, ...] = (copy,) if self.size else ()

    def of_levels(self, inputs: Mapping[str, Border]) -> _OfLevels:
        """What runs it after floats have been made of these inputs' bytes; BackendError."""
        key = tuple(inputs)
        if key not in self._of_levels:
            limits = self.device.target
            made, begins = levels.dispatches(
                inputs, self._arena_bytes, limits.binding_bytes, limits.groups
            )
            size = sum(-(-each.elements // ELEMENT_BYTES) for each in inputs.values())
            source = self.device.storage(size * ELEMENT_BYTES, "bytes of inputs")
            pipelines = self.device.pipelines([(levels.SHADER, 1, levels.KERNEL)])
            groups = self.device.groups(self.arena, [source], made)
            calls = [
                (pipelines[0], group, each.workgroups)
                for each, group in zip(made, groups, strict=True)
            ]
            labels = [*(each.label for each in made), *self._labels]
            written = self._input_bytes - _bytes_of(inputs) + size * ELEMENT_BYTES
            recording = self.device.recorded([*calls, *self.calls], labels, written)
            self._of_levels[key] = _OfLevels(recording, source, begins)
        return self._of_levels[key]


@dataclass(frozen=True)
class _OfLevels:
    """Dispatches behind those that make floats of some inputs' bytes.

    begins: the word of `bytes` at which each input's begin.
    """

    recording: Recording
    bytes: Any
    begins: Mapping[str, int]


class GpuProgram:
    """A list of dispatches with its buffers; one run at a time, others wait.

    Where its device is lost, a run opens it again, makes all on it anew and begins once more.
    """

    def __init__(self, device: Device, dispatches: DispatchList, plan: Plan, backend: str) -> None:
        """Compile the shaders and upload the weights."""
        self.plan, self.dispatches, self.backend = plan, dispatches, backend
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._last = _Made(device, dispatches, plan)

    @property
    def devices(self) -> tuple[str, ...]:
        """What runs it."""
        return (f"gpu: {self._last.device.described}",)

    def _made(self) -> _Made:
        """What it has on its device; call it with the lock held."""
        if self._process != os.getpid():
            raise BackendError("backend gpu: its models do not survive a fork")
        if self._last.device.lost:
            self._last = _Made(opened(self._last.device.kind), self.dispatches, self.plan)
        return self._last

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, each an array of its own."""
        return self.run_in_slices(inputs, 0)

    def run_in_slices(self, inputs: Mapping[str, Array], slice_ms: float) -> dict[str, Array]:
        """The same; others have the device about every slice_ms milliseconds, 0: afterwards."""
        return self.run_levels(inputs, slice_ms)

    def run_levels(self, inputs: Mapping[str, Given], slice_ms: float) -> dict[str, Array]:
        """The same; floats of levels are made on the device, where that is faster.

        What the device has already stays there.
        """
        given = {
            name: np.asarray(each) if isinstance(each, Levels) and levels.are_few(each) else each
            for name, each in inputs.items()
        }
        words = again_if_lost(lambda: self._words(given, slice_ms))
        outputs: dict[str, Array] = {}
        for name, border in self.dispatches.outputs.items():
            begin = border.offset - self._last.first
            outputs[name] = from_device(words[begin : begin + border.elements], border)
        return outputs

    def _words(self, inputs: Mapping[str, Given], slice_ms: float) -> NDArray[np.uint32]:
        """Run, and return all outputs as they lie in the arena."""
        with self._lock:
            made = self._made()
            bytes_of = {
                name: border
                for name, border in self.dispatches.inputs.items()
                if isinstance(inputs[name], Levels)
            }
            of_levels = made.of_levels(bytes_of) if bytes_of else None
            recording = of_levels.recording if of_levels else made.recording
            writes, copies = self._uploads(made, inputs, of_levels)
            recording.submit(writes, copies, made.behind, slice_ms / 1e3)
            if not made.size:
                return np.zeros(0, np.uint32)
            return recording.fetch(made.staging, made.size)

    def frames(self, rows: int, columns: int) -> GpuFrames:
        """Something that keeps frames on the device, for inputs of one size."""
        from palmkit.engine.backends.gpu.frames import GpuFrames

        return GpuFrames(self._last.device.kind, self.backend, rows, columns)

    def run_on_device(self, inputs: Mapping[str, Value]) -> Mapping[str, GpuArray]:
        """Outputs by name, on the device; inputs are there or in the memory of this process.

        Raises DeviceLostError where it is lost, as are the outputs of all runs before.
        """
        outputs: dict[str, GpuArray] = {}
        behind: list[Copy] = []
        with self._lock:
            made = self._made()
            for name, border in self.dispatches.outputs.items():
                size = border.elements * ELEMENT_BYTES
                buffer = made.device.storage(size, f"output {name}")
                outputs[name] = GpuArray(made.device, buffer, border, self.backend)
                if size:
                    source = (made.arena, border.offset * ELEMENT_BYTES)
                    behind.append((source, (buffer, 0), size))
            made.recording.submit(*self._uploads(made, inputs), behind)
        return outputs

    def _uploads(
        self,
        made: _Made,
        inputs: Mapping[str, Given],
        of_levels: _OfLevels | None = None,
    ) -> tuple[list[Write], list[Copy]]:
        """The writes of the host's inputs, and the copies of those that are on the device."""
        writes: list[Write] = []
        copies: list[Copy] = []
        for name, border in self.dispatches.inputs.items():
            value, at = inputs[name], border.offset * ELEMENT_BYTES
            if isinstance(value, Levels):
                assert of_levels is not None
                begin = of_levels.begins[name] * ELEMENT_BYTES
                writes.append((of_levels.bytes, begin, levels.words_of(value.array)))
                continue
            if isinstance(value, GpuArray) and value.device is made.device:
                if border.elements:
                    size = border.elements * ELEMENT_BYTES
                    copies.append(((value.buffer, 0), (made.arena, at), size))
                continue
            try:
                writes.append((made.arena, at, to_device(np.asarray(host(value)))))
            except OverflowError as error:
                raise BackendError(f"backend gpu: input {name}: {error}") from None
        return writes, copies

    def profile(self, inputs: Mapping[str, Array]) -> Sequence[StepTime]:
        """Run once and time each dispatch by the device's clock, or, without one, all of them."""
        names = [(each.node, each.kernel) for each in self.dispatches.dispatches]
        start = time.perf_counter()
        self.run(inputs)
        seconds_of_all = time.perf_counter() - start
        if not self._last.device.has_clock or not names:
            return [StepTime("all", self.devices[0], seconds_of_all)]
        with self._lock:
            # The arena has the inputs still.
            made = self._made()
            seconds = made.device.timed(made.calls)
        return [StepTime(node, op, s) for (node, op), s in zip(names, seconds, strict=True)]
