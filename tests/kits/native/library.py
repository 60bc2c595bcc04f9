"""palm_kits.h by ctypes: its structs, and calls with NumPy arrays that raise what it says."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_void_p,
)
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RGB, BGR, RGBA, BGRA, GREY = range(5)
NHWC, NCHW = range(2)
ERROR_SHAPE, ERROR_BACKEND, ERROR_ARGUMENT, ERROR_NETWORK = 2, 4, 5, 7
FORMATS = {RGB: (0, 1, 2), BGR: (2, 1, 0), RGBA: (0, 1, 2, 3), BGRA: (2, 1, 0, 3)}


class Image(Structure):
    _fields_ = [
        ("pixels", c_void_p),
        ("width", c_int32),
        ("height", c_int32),
        ("stride", c_size_t),
        ("format", c_int32),
        ("rotation", c_int32),
        ("is_mirrored", c_int32),
    ]


class Part(Structure):
    _fields_ = [(name, c_double) for name in ("x", "y", "width", "height")]


class Input(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("size", c_size_t),
        ("width", c_int32),
        ("height", c_int32),
        ("layout", c_int32),
        ("mean", c_float * 3),
        ("scale", c_float * 3),
    ]


class Placement(Structure):
    _fields_ = [(name, c_double) for name in ("scale_x", "scale_y", "shift_x", "shift_y")]


class Crop(Structure):
    _fields_ = [(name, c_double) for name in ("x", "y", "side", "angle")]


class List(Structure):
    _fields_ = [("count", c_size_t), ("room", c_size_t)]


class Detections(Structure):
    _fields_ = [
        ("list", List),
        ("boxes", c_void_p),
        ("scores", c_void_p),
        ("points", c_void_p),
        ("keypoints", c_int32),
    ]


class Head(Structure):
    _fields_ = [
        ("stride", c_int32),
        ("width", c_int32),
        ("height", c_int32),
        ("scores", c_void_p),
        ("boxes", c_void_p),
        ("points", c_void_p),
    ]


class Motion(Structure):
    _fields_ = [(name, c_double) for name in ("turn_x", "turn_y", "shift_x", "shift_y")]


class Mask(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("stride", c_size_t),
        ("width", c_int32),
        ("height", c_int32),
    ]


class Tensor(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dims", POINTER(c_int64)),
        ("rank", c_size_t),
        ("data", POINTER(c_float)),
    ]


RUN = ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(Tensor), c_size_t, POINTER(Tensor), c_size_t)


class Size(Structure):
    _fields_ = [("width", c_int32), ("height", c_int32)]


class Network(Structure):
    _fields_ = [
        ("run", RUN),
        ("user", c_void_p),
        ("sizes", POINTER(Size)),
        ("size_count", c_size_t),
    ]


class Options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("is_video", c_int32),
        ("max_count", c_int32),
        ("min_score", c_double),
        ("min_presence", c_double),
        ("min_face", c_double),
        ("detector_size", c_int32),
        ("tile", c_int32),
        ("detect_every", c_int32),
        ("is_smooth", c_int32),
        ("second_pass", c_int32),
        ("is_refined", c_int32),
        ("hold_ms", c_double),
    ]


class Frame(Structure):
    _fields_ = [("timestamp_ms", c_double), ("motion", POINTER(Motion))]


class Face(Structure):
    _fields_ = [
        ("box", c_float * 4),
        ("score", c_float),
        ("keypoints", c_float * 2 * 5),
        ("id", c_int64),
    ]


class Mesh(Structure):
    _fields_ = [
        ("face", Face),
        ("points", c_float * 3 * 478),
        ("visibility", c_float * 478),
    ]


class Hand(Structure):
    _fields_ = [
        ("box", c_float * 4),
        ("score", c_float),
        ("landmarks", c_float * 3 * 21),
        ("right", c_float),
        ("gesture_score", c_float),
        ("gesture", c_int32),
        ("id", c_int64),
    ]


class Effect(Structure):
    _fields_ = [
        ("red", c_uint8),
        ("green", c_uint8),
        ("blue", c_uint8),
        ("finish", c_int32),
        ("opacity", c_double),
    ]


class Look(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("lipstick", Effect),
        ("hair", Effect),
        ("face", c_int32),
        ("behind_hair", c_int32),
        ("behind_hands", c_int32),
        ("behind_things", c_int32),
    ]


class Canvas(Structure):
    _fields_ = [
        ("pixels", c_void_p),
        ("width", c_int32),
        ("height", c_int32),
        ("stride", c_size_t),
        ("format", c_int32),
    ]


class TryOnNetworks(Structure):
    _fields_ = [
        (name, POINTER(Network))
        for name in ("detector", "mesh", "hair", "hand_detector", "hand_landmarks")
    ]


class KitsError(Exception):
    """What a call said, and its status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def address(array: NDArray[Any] | None) -> int | None:
    return None if array is None else array.ctypes.data


class Library:
    """The library; calls are its functions without palm_kits_, and raise KitsError."""

    def __init__(self, folder: Path) -> None:
        self.c = ctypes.CDLL(str(folder / "libpalm_kits.so"))
        self.c.palm_kits_error.restype = c_char_p
        self.c.palm_kits_gesture_name.restype = c_char_p
        self.c.palm_kits_version.restype = ctypes.c_uint32

    def error(self) -> str:
        text: bytes = self.c.palm_kits_error()
        return text.decode()

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns a status; arrays are given by address."""
        given = [
            c_void_p(each.ctypes.data)
            if isinstance(each, np.ndarray)
            else c_double(each)
            if isinstance(each, float)
            else c_size_t(each)
            if isinstance(each, int)
            else each
            for each in arguments
        ]
        status = self.c[f"palm_kits_{name}"](*given)
        if status:
            raise KitsError(status, self.error())

    def made(self, name: str, *arguments: Any) -> "Handle":
        """Create something; it is freed with what is returned."""
        made = c_void_p()
        self.call(f"{name}_create", *arguments, byref(made))
        return Handle(self, name, made)


class Handle:
    """Something of the library's, which is freed in the end."""

    def __init__(self, library: Library, name: str, pointer: c_void_p) -> None:
        self._library, self._name, self.pointer = library, name, pointer

    def __call__(self, verb: str, *arguments: Any) -> None:
        self._library.call(f"{self._name}_{verb}", self.pointer, *arguments)

    def __del__(self) -> None:
        self._library.c[f"palm_kits_{self._name}_free"](self.pointer)


def image(
    picture: NDArray[np.uint8], format: int = RGB, room: int = 0
) -> tuple[Image, NDArray[np.uint8]]:
    """Return RGB in another format, with so many bytes behind each row; and the bytes to keep."""
    height, width = picture.shape[:2]
    if format == GREY:
        pixels = picture[:, :, :1]
    else:
        opaque = np.full((height, width, 1), 77, np.uint8)
        pixels = np.concatenate([picture, opaque], axis=2)[:, :, FORMATS[format]]
    rows = pixels.reshape(height, -1)
    kept = np.full((height, rows.shape[1] + room), 99, np.uint8)
    kept[:, : rows.shape[1]] = rows
    stride = kept.shape[1] if room else 0
    return Image(kept.ctypes.data, width, height, stride, format), kept


def input_of(array: NDArray[np.float32], layout: int = NHWC) -> Input:
    """Return float32[h, w, 3] or float32[3, h, w] as an input without normalisation."""
    height, width = array.shape[:2] if layout == NHWC else array.shape[1:]
    ones = (c_float * 3)(1, 1, 1)
    return Input(array.ctypes.data, array.nbytes, width, height, layout, (c_float * 3)(), ones)


Run = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]


def network(run: Run, sizes: Sequence[tuple[int, int]] = ()) -> Network:
    """Return a network that Python runs; what it raises is its error 9."""

    def called(_: Any, inputs: Any, input_count: int, outputs: Any, output_count: int) -> int:
        try:
            given = {inputs[i].name.decode(): _array(inputs[i]).copy() for i in range(input_count)}
            found = run(given)
            for i in range(output_count):
                _array(outputs[i])[:] = found[outputs[i].name.decode()]
        except Exception:
            return 9
        return 0

    kept = (Size * len(sizes))(*(Size(*each) for each in sizes))
    return Network(RUN(called), None, kept, len(sizes))


def _array(tensor: Any) -> NDArray[np.float32]:
    dims = tuple(tensor.dims[i] for i in range(tensor.rank))
    return np.ctypeslib.as_array(tensor.data, dims)
