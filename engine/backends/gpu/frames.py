"""Frames of a video on a GPU; palmkit.engine.frames says what of each."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.backends.gpu import judging, levels, resizing
from palmkit.engine.backends.gpu.device import SOFTWARE, Device
from palmkit.engine.backends.gpu.device import device as opened
from palmkit.engine.backends.gpu.dispatches import ELEMENT_BYTES, Border, Dispatch, workgroups
from palmkit.engine.backends.gpu.program import GpuArray
from palmkit.engine.backends.gpu.recording import Copy, Write
from palmkit.engine.backends.gpu.wgsl import THREADS
from palmkit.engine.errors import BackendError, ShapeError, UnsupportedError
from palmkit.engine.frames import Box, Resizing

_CHANNELS = 3
# The dispatches of the recording: what makes an input, and its bytes; what judges a part.
_SEE, _JUDGE = slice(0, 2), slice(2, 3)


class _Made:
    """What frames of one size have on a device.

    In its arena lie, from the words of these names on, what describes a part, an input, the bytes
    of it, and the bytes of a result.
    """

    def __init__(self, device: Device, frame: tuple[int, int], size: tuple[int, int]) -> None:
        """Compile the shaders and make the buffers; BackendError names what fails.

        frame, size: rows and columns of frames, and of the input.
        Raises UnsupportedError for frames that are too large.
        """
        self.device, self.frame = device, frame
        pixels, places = frame[0] * frame[1], size[0] * size[1]
        self.input_bytes = places * _CHANNELS * ELEMENT_BYTES
        described = max(resizing.words_of_part(*size), judging.HEAD + 2 * places)
        seen, judged = _words(places * _CHANNELS), _words(pixels)
        sizes = (described, places * _CHANNELS, seen, judged)
        self.described, self.input, self.bytes, self.result, end = np.cumsum((0, *sizes)).tolist()
        # A pixel is taken out of two words.
        frame_bytes = (_words(pixels * _CHANNELS) + 1) * ELEMENT_BYTES
        most = device.target.binding_bytes
        if max(end * ELEMENT_BYTES, frame_bytes) > most:
            raise UnsupportedError(
                f"frames of {frame[1]}x{frame[0]} pixels, over the device's limit of {most} bytes "
                "for one binding"
            )
        self.arena = device.storage(end * ELEMENT_BYTES, "results of frames")
        self.source = device.storage(frame_bytes, "a frame")
        self.array = device.storage(self.input_bytes, "a part of a frame")
        self.seen = device.read_back(seen * ELEMENT_BYTES)
        self.judged = device.read_back(judged * ELEMENT_BYTES)
        shaders = {
            resizing.KERNEL: (resizing.SHADER, places, (self.described, self.input, size[1])),
            levels.TO_BYTES: (levels.BYTES_SHADER, seen, (self.input, self.bytes, 0)),
            judging.KERNEL: (judging.SHADER, judged, (self.described, self.result, 0)),
        }
        made: list[Dispatch] = []
        for i, (kernel, (_, count, begins)) in enumerate(shaders.items()):
            groups = workgroups(-(-count // THREADS), device.target.groups)
            numbers = (*begins, groups[0], count, 0, 0, 0)
            windows = ((0, end * ELEMENT_BYTES),)
            made.append(Dispatch("frames", kernel, i, 0, numbers, windows, groups))
        pipelines = device.pipelines(
            [(text, 1, each.label) for (text, *_), each in zip(shaders.values(), made, strict=True)]
        )
        bound = device.groups(self.arena, [self.source], made)
        calls = [
            (pipeline, group, each.workgroups)
            for pipeline, group, each in zip(pipelines, bound, made, strict=True)
        ]
        upload_bytes = frame_bytes + described * ELEMENT_BYTES
        self.recording = device.recorded(calls, [each.label for each in made], upload_bytes)


class GpuFrames:
    """Frames on the device of a kind, for inputs of one size; palmkit.engine.frames.Frames.

    Where the device was lost, `send` opens it again.
    """

    def __init__(self, kind: str, backend: str, rows: int, columns: int) -> None:
        """Begin without a frame. backend: as its arrays name it."""
        self._kind, self._backend, self._size = kind, backend, (rows, columns)
        self._process = os.getpid()
        self._device = opened(kind)
        self._made: _Made | None = None
        # What of the frame is still to be written.
        self._writes: list[Write] = []
        self._has_frame = self._was_seen = False

    @property
    def name(self) -> str:
        """The device."""
        return self._device.name

    @property
    def is_software(self) -> bool:
        """Whether it is the CPU in the end."""
        return self._kind == SOFTWARE

    def send(self, image: NDArray[np.uint8]) -> None:
        """Take the next frame."""
        if self._process != os.getpid():
            raise BackendError("backend gpu: its frames do not survive a fork")
        if image.dtype != np.uint8:
            raise TypeError(f"frame: expected uint8, got {image.dtype}")
        if image.ndim != 3 or image.shape[2] != _CHANNELS or not image.size:
            raise ShapeError(f"frame: expected [h, w, 3], got {list(image.shape)}")
        self._has_frame = self._was_seen = False
        if self._device.lost:
            self._device = opened(self._kind)
        frame = (image.shape[0], image.shape[1])
        if self._made is None or (self._made.device, self._made.frame) != (self._device, frame):
            self._made = None
            self._made = _Made(self._device, frame, self._size)
        self._writes, self._has_frame = _writes(self._made.source, image), True

    def see(self, box: Box, steps: Sequence[Resizing], rows: slice, columns: slice) -> GpuArray:
        """Make a part of the frame the input of a network."""
        made = self._sent()
        size = (columns.stop - columns.start, rows.stop - rows.start)
        last = (steps[-1].width, steps[-1].height) if steps else _size(box)
        inside = rows.start >= 0 and rows.stop <= self._size[0]
        inside = inside and columns.start >= 0 and columns.stop <= self._size[1]
        if not inside or last != size:
            raise ValueError(
                f"expected a place in {self._size[1]}x{self._size[0]} for {last[0]}x{last[1]} "
                f"pixels, got rows {rows.start}:{rows.stop}, columns {columns.start}:{columns.stop}"
            )
        begin, stride = _begin(box, made.frame)
        part = resizing.part(begin, stride, _size(box), steps, (rows.start, columns.start))
        behind = [
            ((made.arena, made.input * ELEMENT_BYTES), (made.array, 0), made.input_bytes),
            ((made.arena, made.bytes * ELEMENT_BYTES), (made.seen, 0), made.seen.size),
        ]
        self._hand_over(made, part, _SEE, behind)
        self._was_seen = True
        border = Border(0, "float32", (1, *self._size, _CHANNELS))
        return GpuArray(made.device, made.array, border, self._backend)

    def seen(self) -> NDArray[np.uint8]:
        """The input that was made last."""
        made = self._sent()
        if not self._was_seen:
            raise RuntimeError("nothing of the frame was seen: see a part first")
        size = self._size[0] * self._size[1] * _CHANNELS
        found = made.recording.fetch(made.seen, _words(size) * ELEMENT_BYTES)
        return found.view(np.uint8)[:size].reshape(*self._size, _CHANNELS)

    def upsample(
        self, offset: NDArray[np.float32], slopes: NDArray[np.float32], box: Box
    ) -> NDArray[np.uint8]:
        """Do as guided_upsample for a part of the frame, by its brightness."""
        made = self._sent()
        most = self._size[0] * self._size[1]
        for name, grid in (("offset", offset), ("slopes", slopes)):
            if grid.dtype != np.float32:
                raise TypeError(f"{name}: expected float32, got {grid.dtype}")
            if grid.ndim != 2 or not 0 < grid.size <= most:
                raise ShapeError(
                    f"{name}: expected [n, m] of {most} numbers at most, got {list(grid.shape)}"
                )
        width, height = size = _size(box)
        part = judging.part(*_begin(box, made.frame), size, offset, slopes)
        size_bytes = _words(width * height) * ELEMENT_BYTES
        behind = [((made.arena, made.result * ELEMENT_BYTES), (made.judged, 0), size_bytes)]
        self._hand_over(made, part, _JUDGE, behind)
        found = made.recording.fetch(made.judged, size_bytes)
        return found.view(np.uint8)[: width * height].reshape(height, width)

    def _sent(self) -> _Made:
        if self._made is None or not self._has_frame:
            raise RuntimeError("there is no frame on the device: send one first")
        return self._made

    def _hand_over(
        self, made: _Made, part: NDArray[np.uint32], what: slice, behind: list[Copy]
    ) -> None:
        """Run dispatches for a part that is described, and copy."""
        write: Write = (made.arena, made.described * ELEMENT_BYTES, part)
        made.recording.hand_over([*self._writes, write], (), what, behind)
        self._writes = []


def _words(size_bytes: int) -> int:
    return -(-size_bytes // ELEMENT_BYTES)


def _size(box: Box) -> tuple[int, int]:
    left, top, right, bottom = box
    return right - left, bottom - top


def _begin(box: Box, frame: tuple[int, int]) -> tuple[int, int]:
    """The byte of a frame where a box begins, and the bytes of the frame's row; ValueError."""
    height, width = frame
    left, top, right, bottom = box
    if not (0 <= left < right <= width and 0 <= top < bottom <= height):
        raise ValueError(f"expected a box in {width}x{height} pixels, got {box}")
    return (top * width + left) * _CHANNELS, width * _CHANNELS


def _writes(buffer: object, image: NDArray[np.uint8]) -> list[Write]:
    """What puts a frame into its buffer."""
    flat = np.ascontiguousarray(image).reshape(-1)
    whole = flat.size // ELEMENT_BYTES * ELEMENT_BYTES
    writes: list[Write] = [(buffer, 0, flat[:whole].view(np.uint32))]
    if whole < flat.size:
        writes.append((buffer, whole, levels.words_of(flat[whole:])))
    return writes
