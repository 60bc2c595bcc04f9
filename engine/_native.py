"""The runtime in C++: runs a flat plan over arrays, all shapes fixed.

It is a library with a C interface (native/palm.h, native/palm_engine.h) that ctypes calls: one file
serves every Python, with and without a global lock, and a compiler for another machine needs no
Python of it. A run costs 2 to 7 us more than through an extension module.

Every error is one of palmkit.engine.errors: ModelError for a plan that could not be run safely,
UnsupportedError for what no kernel does, ShapeError for an array that is not what the plan says,
BackendError for what the machine lacks.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import sys
import threading
from array import array
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
    sizeof,
)
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import (
    BackendError,
    ModelError,
    PalmError,
    ShapeError,
    UnsupportedError,
)

_Array: TypeAlias = NDArray[Any]
_Attr: TypeAlias = int | float | str | Sequence[int] | Sequence[float]
_Tensor: TypeAlias = (
    tuple[str, int, str, Sequence[int]] | tuple[str, int, str, Sequence[int], int, Sequence[int]]
)
_Step: TypeAlias = tuple[str, Sequence[int], Sequence[int], Mapping[str, _Attr]]

# palm_status and palm_dtype of palm.h, the values of Place in native/tensor_spec.h and of Coding in
# native/entropy/entropy.h.
_ERRORS: dict[int, type[PalmError]] = {1: ModelError, 2: ShapeError, 3: UnsupportedError}
_ARGUMENT, _INTERRUPTED = 5, 6
# PALM_ENGINE_VERSION.
_VERSION = 3
_NAMES = (
    *("float32", "float64", "float16", "int8", "uint8", "int16", "uint16"),
    *("int32", "uint32", "int64", "uint64", "bool"),
)
_DTYPES = {np.dtype(name): number for number, name in enumerate(_NAMES)}
_PLACES = {"arena": 0, "constant": 1, "input": 2, "output": 3}
_CODINGS = {"plain": 0, "huffman": 1, "rans": 2, "planes": 3}
# The library's names where it is not libpalm.so, and other names of processors.
_LIBRARIES = {"win32": "palm.dll", "darwin": "libpalm.dylib"}
_PROCESSORS = {"amd64": "x86_64", "aarch64": "arm64"}


class _Rows(Structure):
    """palm_engine_rows."""

    _fields_: ClassVar = [
        *(("data", c_void_p), ("height", c_size_t)),
        *(("width", c_size_t), ("stride", c_size_t)),
    ]


class _Steps(Structure):
    """palm_engine_steps."""

    _fields_: ClassVar = [
        *(("words", c_void_p), ("word_count", c_size_t)),
        *(("numbers", c_void_p), ("number_count", c_size_t)),
        *(("texts", c_char_p), ("text_bytes", c_size_t)),
    ]


class _Numpy(Structure):
    """palm_engine_numpy."""

    _fields_: ClassVar = [
        *(("type", c_int64), ("head", c_int64)),
        *(("dtypes", POINTER(c_int32)), ("dtype_count", c_int64)),
    ]


_ASK = CFUNCTYPE(c_int, c_void_p)


class _Call(Structure):
    """palm_engine_call."""

    _fields_: ClassVar = [
        *(("session", c_void_p), ("numpy", POINTER(_Numpy))),
        *(("objects", c_void_p), ("arrays", c_void_p)),
        *(("input_count", c_size_t), ("output_count", c_size_t)),
        *(("seconds", c_void_p), ("ask", _ASK), ("slice_ms", c_double)),
    ]


class _SessionOptions(Structure):
    """palm_session_options."""

    _fields_: ClassVar = [
        *(("size", c_size_t), ("threads", c_int32), ("priority", c_int32)),
        *(("cores", POINTER(c_int32)), ("core_count", c_size_t), ("slice_ms", c_double)),
    ]


_ROWS, _SIZE, _HANDLE, _MADE = POINTER(_Rows), c_size_t, c_void_p, POINTER(c_void_p)
_CALLS: dict[str, tuple[Any, ...]] = {
    "palm_engine_kernels": (_MADE,),
    "palm_engine_functions": (_MADE,),
    "palm_engine_candidates": (POINTER(_Steps), c_char_p, _HANDLE, _SIZE, _MADE),
    "palm_engine_encode": (c_int, _HANDLE, _SIZE, _SIZE, _MADE, POINTER(_SIZE)),
    "palm_engine_decode": (c_char_p, _SIZE, _HANDLE, _SIZE, _HANDLE),
    "palm_engine_guided_upsample": (_ROWS, _ROWS, _SIZE, _ROWS, _ROWS),
    "palm_engine_guided_fit": (_ROWS, _ROWS, _SIZE, c_float, c_float, _ROWS),
    "palm_engine_plans_create": (_HANDLE, _SIZE, _HANDLE, _SIZE, _MADE, _MADE),
    "palm_engine_plans_steps": (_HANDLE, _SIZE, _MADE),
    "palm_engine_plans_program": (_HANDLE, _SIZE, c_char_p, c_int32, _MADE, _MADE),
    "palm_engine_program_create": (
        *(POINTER(_Steps), _HANDLE, _SIZE, c_int64, c_char_p, c_int32, _MADE),
    ),
    "palm_engine_session_create": (_HANDLE, POINTER(_SessionOptions), c_int, _MADE),
    "palm_engine_run": (_HANDLE,),
}
_OTHERS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "palm_engine_version": (c_uint32, ()),
    "palm_error": (c_char_p, ()),
    "palm_isa_name": (c_char_p, (_SIZE,)),
    "palm_engine_free": (None, (_HANDLE,)),
    "palm_engine_crc32": (c_int, (_HANDLE, _SIZE, POINTER(c_uint32))),
    "palm_engine_peak_flops": (c_double, (c_double,)),
    "palm_engine_touching_seconds": (c_double, (_SIZE,)),
    "palm_engine_sharing_seconds": (c_double, ()),
    "palm_engine_most_bytes_in_place": (_SIZE, ()),
    "palm_engine_plans_free": (None, (_HANDLE,)),
    "palm_engine_program_free": (None, (_HANDLE,)),
    "palm_engine_session_free": (None, (_HANDLE,)),
    "palm_engine_session_steps": (_SIZE, (_HANDLE,)),
}


def _found() -> Path:
    """Return the library's file: PALMKIT_LIBRARY in the environment, else that of the package."""
    if given := os.environ.get("PALMKIT_LIBRARY"):
        return Path(given)
    name = _LIBRARIES.get(sys.platform, "libpalm.so")
    # The package is still being imported; where it was installed to be edited it has two folders.
    folders = [*map(Path, sys.modules[__name__.rpartition(".")[0]].__path__)]
    for folder in folders:
        if (path := folder / name).is_file():
            return path
    for folder in folders:
        for other in ("libpalm.so", *_LIBRARIES.values()):
            if said := _of_another_machine(folder / other):
                raise ImportError(said)
    raise ImportError(f"the native runtime is not built: no {name} in {folders[0]}")


def _of_another_machine(path: Path) -> str:
    """Return what to say of a library that is for another machine, "" for another fault."""
    made, here = _built_for(path), _machine(platform.system(), platform.machine())
    if made in ("", here):
        return ""
    return f"{path}: a library for {made}, this is {here}: install palmkit anew on this machine"


def _machine(system: str, processor: str) -> str:
    return f"{system} on {_PROCESSORS.get(processor.lower(), processor)}"


def _built_for(path: Path) -> str:
    """Return the system and processor of a library, "" for what is none."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return ""
    if head[:5] == b"\x7fELF\2":
        return _machine("Linux", {62: "x86_64", 183: "arm64"}.get(head[18], "another processor"))
    if head[:4] == b"\xcf\xfa\xed\xfe":
        return _machine("Darwin", {7: "x86_64", 12: "arm64"}.get(head[4], "another processor"))
    at = int.from_bytes(head[60:64], "little")
    if head[:2] == b"MZ" and head[at : at + 4] == b"PE\0\0":
        number = int.from_bytes(head[at + 4 : at + 6], "little")
        return _machine("Windows", {0x8664: "x86_64", 0xAA64: "arm64"}.get(number, "another"))
    return ""


def _opened(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
        version = library.palm_engine_version()
        if version != _VERSION:
            raise OSError(f"expected interface {_VERSION}, got {version}")
        for name, arguments in _CALLS.items():
            call = getattr(library, name)
            call.restype, call.argtypes = c_int32, arguments
        for name, (result, arguments) in _OTHERS.items():
            call = getattr(library, name)
            call.restype, call.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise ImportError(
            _of_another_machine(path)
            or f"{path}: no library of this palmkit for this machine: {error}"
        ) from error
    return library


LIBRARY = _found()
_palm = _opened(LIBRARY)
_run = _palm.palm_engine_run


def _fail(status: int) -> NoReturn:
    text = _palm.palm_error().decode(errors="replace")
    raise _ERRORS.get(status, BackendError)(text)


def _check(status: int) -> None:
    if status:
        _fail(status)


def function(name: str, arguments: Sequence[Any]) -> Callable[..., None]:
    """Return a call of the library that returns a palm_status, by its name and ctypes' types.

    What it says is wrong is raised.
    """
    call = getattr(_palm, name)
    call.restype, call.argtypes = c_int32, arguments

    def checked(*given: Any) -> None:
        if status := call(*given):
            _fail(status)

    return checked


def _told(call: Any, *arguments: Any) -> Any:
    """Return what a call answers, whose last argument is where the JSON text goes."""
    text = c_void_p()
    _check(call(*arguments, byref(text)))
    assert text.value is not None
    content = ctypes.string_at(text.value)
    _palm.palm_engine_free(text)
    return json.loads(content)


def _address(data: _Array) -> int:
    address: int = data.__array_interface__["data"][0]
    return address


def _described(arrays: Sequence[Any], what: str, writable: bool = False) -> array[int]:
    """Return the palm_engine_array of each, three numbers.

    Raises ShapeError for one that is not C-contiguous, or not writable.
    """
    words: list[int] = []
    for number, data in enumerate(arrays):
        try:
            flags = data.flags
            fits = flags.c_contiguous and (not writable or flags.writeable)
            words += (_address(data), _DTYPES[data.dtype], data.size)
        except AttributeError:
            fits = False
        except KeyError:
            raise UnsupportedError(f"{what} {number}: no dtype {data.dtype}") from None
        if not fits:
            kind = ", writable" if writable else ""
            raise ShapeError(f"{what} {number}: expected a C-contiguous{kind} array")
    return array("q", words)


class _Written:
    """Tensors and steps as native/palm_engine.h has them, with what they point at."""

    def __init__(self, tensors: Iterable[_Tensor], steps: Iterable[_Step]) -> None:
        self._places: dict[str, int] = {}
        self._numbers = array("d")
        words: list[int] = []
        try:
            self._write_tensors(words, [*tensors])
            self._write_steps(words, [*steps])
            self._words = array("q", words)
        except (TypeError, ValueError, OverflowError, KeyError, AttributeError) as error:
            raise ModelError(f"a plan of the wrong types: {error}") from None
        self._texts = b"".join(text.encode() + b"\0" for text in self._places)
        self.steps = _Steps(
            *(self._words.buffer_info()[0], len(self._words)),
            *(self._numbers.buffer_info()[0], len(self._numbers)),
            *(self._texts, len(self._texts)),
        )

    def _text(self, text: str) -> int:
        if "\0" in text:
            raise ValueError(f"a text with a zero: {text!r}")
        return self._places.setdefault(text, len(self._places))

    def _write_tensors(self, words: list[int], tensors: list[_Tensor]) -> None:
        words.append(len(tensors))
        for tensor in tensors:
            place, slot, dtype, dims = tensor[:4]
            words += (_PLACES[place], slot, self._text(dtype), len(dims), *dims)
            if len(tensor) == 4:
                words.append(0)
            else:
                _, _, _, _, offset, strides = tensor
                words += (1, offset, len(strides), *strides)

    def _write_steps(self, words: list[int], steps: list[_Step]) -> None:
        words.append(len(steps))
        for kernel, inputs, outputs, attrs in steps:
            words += (self._text(kernel), len(inputs), *inputs, len(outputs), *outputs)
            words.append(len(attrs))
            for name, value in attrs.items():
                words.append(self._text(name))
                self._write_attr(words, value)

    def _write_attr(self, words: list[int], value: Any) -> None:
        numbers = self._numbers
        if isinstance(value, int):
            words += (0, value)
        elif isinstance(value, float):
            words += (1, len(numbers))
            numbers.append(value)
        elif isinstance(value, str):
            words += (2, self._text(value))
        elif all(isinstance(each, int) for each in value):
            words += (3, len(value), *value)
        else:
            words += (4, len(value), len(numbers))
            numbers.extend(value)


def isas() -> list[str]:
    """Return the instruction sets that kernels can use on this host, best first."""
    names: list[str] = []
    while (name := _palm.palm_isa_name(len(names))) is not None:
        names.append(name.decode())
    return names


def peak_flops(seconds: float) -> float:
    """Return the float32 operations a second that the calling thread reaches, measured so long."""
    return float(_palm.palm_engine_peak_flops(seconds))


def kernels() -> list[tuple[str, str, str]]:
    """Return the kernels that a step may name: (name, its inputs, its outputs).

    Names of inputs and outputs come in the order in which steps have them, separated by spaces; one
    that ends in an asterisk stands for any number of inputs. Behind a slash stands what it may be
    besides a C-contiguous array: "/pixels" an array whose last dim is contiguous and whose runs of
    it, the pixels, are as far from one another each, "/strides" any, another operand's name one
    with pixels as far from one another as that one's.
    """
    found = _told(_palm.palm_engine_kernels)
    return [(name, inputs, outputs) for name, inputs, outputs in found]


def functions() -> list[str]:
    """Return the functions of one float that a step of the kernel "unary" may name."""
    return [str(name) for name in _told(_palm.palm_engine_functions)]


def crc32(data: _Array | memoryview) -> int | None:
    """Return the CRC-32 of the bytes, as zlib has it; None where this host has no fast way."""
    content = np.frombuffer(data, np.uint8)
    crc = c_uint32()
    if not _palm.palm_engine_crc32(_address(content), content.size, byref(crc)):
        return None
    return crc.value


def encode(coding: str, data: _Array, planes: int = 1) -> bytes:
    """Return bytes coded by how often each comes; native/entropy/entropy.h has the layout.

    coding: plain, huffman, rans or planes; planes: bytes of an element, for planes alone.
    Returns b"" where the coding cannot: rans of one kind of byte.
    """
    if coding not in _CODINGS:
        raise UnsupportedError(f"no coding {coding[:40]}")
    content = _described([data], "data")
    run, size = c_void_p(), c_size_t()
    _check(
        _palm.palm_engine_encode(
            _CODINGS[coding], content[0], data.nbytes, planes, byref(run), byref(size)
        )
    )
    assert run.value is not None
    coded = ctypes.string_at(run.value, size.value)
    _palm.palm_engine_free(run)
    return coded


def decode(recipe: bytes, data: _Array, to: _Array) -> None:
    """Decode a constant of a file into `to`; ModelError if it is damaged.

    recipe: native/entropy/stored.h has the layout; data: uint8[size], the data section.
    """
    content, room = _described([data], "data"), _described([to], "to", writable=True)
    at = room.buffer_info()[0]
    _check(_palm.palm_engine_decode(recipe, len(recipe), content[0], data.nbytes, at))


def _rows(data: _Array, dtype: Any, pixel: int, what: str) -> _Rows:
    """Describe rows whose pixels lie one behind the other."""
    ndim = 2 if pixel == 1 else 3
    if data.dtype != dtype or data.ndim != ndim:
        raise TypeError(f"{what}: expected {np.dtype(dtype)} of {ndim} dims")
    height, width = data.shape[:2]
    steps = [stride // data.itemsize for stride in data.strides]
    if ndim == 3 and data.shape[2] != pixel:
        raise TypeError(f"{what}: expected {pixel} channels, got {data.shape[2]}")
    # How far one is from the next says nothing where there is one alone.
    is_dense = (width == 1 or steps[1] == pixel) and (pixel == 1 or steps[2] == 1)
    if not height or not width or not is_dense or (height > 1 and steps[0] < 0):
        raise ShapeError(f"{what}: expected rows of at least one pixel without gaps")
    return _Rows(_address(data), height, width, steps[0] if height > 1 else 0)


def _many_rows(data: Sequence[_Array], what: str) -> Any:
    return (_Rows * len(data))(*(_rows(each, np.float32, 1, what) for each in data))


def _written_rows(data: _Array) -> _Rows:
    rows = _rows(data, np.float32, 1, "to")
    if not data.flags.writeable:
        raise TypeError("to: expected an array that can be written")
    return rows


def guided_fit(
    prior: _Array, colours: Sequence[_Array], reach: float, weight: float, to: _Array
) -> None:
    """Fit a mask as a linear function of colour; palmkit.engine.guided has more."""
    planes = _many_rows(colours, "colours")
    _check(
        _palm.palm_engine_guided_fit(
            *(byref(_rows(prior, np.float32, 1, "prior")), planes, len(planes)),
            *(reach, weight, byref(_written_rows(to))),
        )
    )


def guided_upsample(offset: _Array, slopes: Sequence[_Array], image: _Array, to: _Array) -> None:
    """Enlarge a linear function of colour; palmkit.engine.guided says what of each.

    Raises TypeError for arrays of other dtypes or numbers of dims, ShapeError for other shapes.
    """
    planes = _many_rows(slopes, "slopes")
    _check(
        _palm.palm_engine_guided_upsample(
            *(byref(_rows(offset, np.float32, 1, "offset")), planes, len(planes)),
            *(byref(_rows(image, np.uint8, 3, "image")), byref(_written_rows(to))),
        )
    )


def candidates(
    tensors: Sequence[_Tensor],
    steps: Sequence[_Step],
    isa: str = "",
    constants: Sequence[_Array] = (),
) -> list[list[tuple[str, float, list[float]]]]:
    """Return for each step that is a convolution (algorithm, seconds, terms) of all that suit it.

    constants: the plan's; left out, no weight counts as zero.
    algorithm: a value of the attribute of that name; the first is what the kernel takes where the
    attribute is "". seconds: what the cost model expects, with 1 thread, on the machine that it was
    measured on. terms: what is done how often (see native/kernels/conv/cost.cc). A step that copies
    has one, "" without terms, other steps have none.
    """
    plan, arrays = _Written(tensors, steps), _described(constants, "constant")
    at = arrays.buffer_info()[0]
    ask = _palm.palm_engine_candidates
    found = _told(ask, byref(plan.steps), isa.encode(), at, len(constants))
    return [[(name, float(s), terms) for name, s, terms in each] for each in found]


def touching_seconds(bytes: int) -> float:
    """Return what the cost model expects of a step that writes so much once, with 1 thread."""
    return float(_palm.palm_engine_touching_seconds(bytes))


def sharing_seconds() -> float:
    """Return what the cost model expects beside half a step's time where 2 threads share it."""
    return float(_palm.palm_engine_sharing_seconds())


def most_bytes_in_place() -> int:
    """Return the bytes of a model's constants up to which runs had better read them in place."""
    return int(_palm.palm_engine_most_bytes_in_place())


class _Handle:
    """What the library made, freed with this."""

    def __init__(self, value: int | None, free: Callable[[int], object], *kept: object) -> None:
        """Take a handle.

        kept: what has to live as long.
        """
        assert value is not None
        self.value = value
        self._free = free
        self._kept = kept

    def __del__(self) -> None:
        """Free it."""
        self._free(self.value)


class Packed:
    """A plan with its weights packed; immutable and shared by its sessions."""

    def __init__(self, made: c_void_p, *kept: object) -> None:
        """Take what the library made; kept: what it reads."""
        self._handle = _Handle(made.value, _palm.palm_engine_program_free, *kept)

    def session(
        self,
        threads: int,
        eager: bool = False,
        priority: int = 0,
        cores: Sequence[int] = (),
    ) -> Session:
        """Return what one caller at a time needs to run this; with 1 thread none is started.

        eager: share out whatever can be split, worth it or not; for tests.
        priority: one of palm.h; cores: by the system's numbers, none for any. With one of them
        runs are done by threads of the session, all of them placed so, and their caller waits.
        Raises BackendError if the system does not let threads be placed so.
        """
        made = c_void_p()
        options = _SessionOptions(
            *(sizeof(_SessionOptions), threads, priority),
            *((c_int32 * len(cores))(*cores), len(cores), 0),
        )
        _check(
            _palm.palm_engine_session_create(self._handle.value, byref(options), eager, byref(made))
        )
        return Session(made, self)


class Program(Packed):
    """A plan of the caller's, checked and packed."""

    def __init__(
        self,
        tensors: Sequence[_Tensor],
        steps: Sequence[_Step],
        constants: Sequence[_Array],
        arena_bytes: int,
        isa: str = "",
        threads: int = 1,
    ) -> None:
        """Check and pack.

        tensors: (place, slot, dtype, shape) each; place "arena" (slot: byte offset, a multiple of
        64), "constant" (slot: index into constants), "input" or "output" (slot: index into what
        run gets). Behind them may stand (offset, strides), in elements, of a part; strides are
        empty if it is C-contiguous. The first tensor of an input or output is all of it.
        steps: (kernel, inputs, outputs, attributes) each; indices of tensors, -1 for an optional
        input left out.
        constants: C-contiguous; kept alive, and read in place unless the kernel packs them.
        isa: use no instructions beyond this set, one of isas().
        threads: how many pack weights.
        """
        plan, arrays = _Written(tensors, steps), _described(constants, "constant")
        made, at = c_void_p(), arrays.buffer_info()[0]
        _check(
            _palm.palm_engine_program_create(
                *(byref(plan.steps), at, len(constants), arena_bytes),
                *(isa.encode(), threads, byref(made)),
            )
        )
        super().__init__(made, [*constants])


class Plans:
    """The plans of a model file, checked; its graph is not looked at.

    inputs, outputs: name, dtype and dims of each of the graph's. metadata: what the file says of
    the model. shapes: for each plan the shape of each input. backends: for each plan the name of
    the backend that runs it.
    """

    def __init__(self, section: _Array, data: _Array) -> None:
        """Read the section of plans in a file; format/plans.py has the layout.

        section: uint8[size], without its footer; data: uint8[size], the data section; both are
        kept alive.
        """
        tables, constants = _described([section], "section"), _described([data], "data")
        made, create = c_void_p(), _palm.palm_engine_plans_create
        parts = tables[0], section.nbytes, constants[0], data.nbytes
        found = _told(create, *parts, byref(made))
        self._handle = _Handle(made.value, _palm.palm_engine_plans_free, section, data)
        self.inputs: list[tuple[str, str, list[int | str]]] = [*map(tuple, found["inputs"])]
        self.outputs: list[tuple[str, str, list[int | str]]] = [*map(tuple, found["outputs"])]
        self.metadata: list[tuple[str, str]] = [*map(tuple, found["metadata"])]
        self.shapes: list[list[list[int]]] = found["shapes"]
        self.backends: list[str] = found["backends"]

    def steps(self, index: int) -> list[tuple[str, str]]:
        """Return for each step of a plan the name of its node, and its kernel."""
        found = _told(_palm.palm_engine_plans_steps, self._handle.value, index)
        return [(node, kernel) for node, kernel in found]

    def program(
        self, index: int, isa: str = "", threads: int = 1
    ) -> tuple[Packed, list[tuple[str, list[int]]], list[tuple[int, int]]]:
        """Return a plan of backend cpu, packed, its outputs, and what of `data` it reads.

        Outputs are the dtype and dims of each; what is read are begins and ends in bytes, growing.
        """
        made, create = c_void_p(), _palm.palm_engine_plans_program
        found = _told(create, self._handle.value, index, isa.encode(), threads, byref(made))
        program = Packed(made, self)
        outputs = [(dtype, dims) for dtype, dims in found["outputs"]]
        return program, outputs, [(begin, end) for begin, end in found["read"]]


def _numpy_of() -> Any:
    """Return how NumPy's arrays lie in memory; None where that is not as it is known."""
    head, sample = object.__basicsize__, np.zeros(3)
    if sys.implementation.name != "cpython":
        return None
    if c_size_t.from_address(id(sample) + head).value != _address(sample):
        return None
    numbers: dict[int, int] = {dtype.num: number for dtype, number in _DTYPES.items()}
    # Several of C's types are one of NumPy's: long and long long, say.
    for letter in np.typecodes["AllInteger"]:
        dtype = np.dtype(letter)
        numbers[dtype.num] = _DTYPES[np.dtype(dtype.name)]
    count = 1 + max(numbers)
    dtypes = (c_int32 * count)(*(numbers.get(i, -1) for i in range(count)))
    return ctypes.pointer(_Numpy(id(np.ndarray), head, dtypes, count))


_NUMPY = _numpy_of()


class Session:
    """Arena, scratch memory and threads of one caller."""

    def __init__(self, made: c_void_p, program: Packed) -> None:
        """Take what the library made of a program."""
        self._handle = _Handle(made.value, _palm.palm_engine_session_free, program)
        self._watch = _Watch()
        self._calls = [_Call(self._handle.value, _NUMPY, ask=self._watch.ask)]

    def run(self, inputs: Sequence[_Array], outputs: Sequence[_Array], slice_ms: float = 0) -> None:
        """Run every step: from C-contiguous arrays into C-contiguous writable ones.

        slice_ms: after how many milliseconds each thread lets others have its core; 0: never.
        """
        self._run(inputs, outputs, slice_ms=slice_ms)

    def profile(self, inputs: Sequence[_Array], outputs: Sequence[_Array]) -> list[float]:
        """Run, and return the seconds of each step."""
        seconds = (c_double * _palm.palm_engine_session_steps(self._handle.value))()
        self._run(inputs, outputs, seconds)
        return [*seconds]

    def _run(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        seconds: Any = None,
        slice_ms: float = 0,
    ) -> None:
        # Only the main thread sees to signals, and may find its call in use, by a run that a
        # signal's handler has interrupted.
        if threading.get_ident() == threading.main_thread().ident and self._calls:
            call = self._calls.pop()
        else:
            call = _Call(self._handle.value, _NUMPY)
        call.slice_ms = slice_ms
        try:
            status = self._status(call, inputs, outputs, seconds)
        finally:
            if call.ask:
                self._calls.append(call)
        if status:
            raised, self._watch.raised = self._watch.raised, None
            if status == _INTERRUPTED and raised is not None:
                raise raised
            _fail(status)

    def _status(
        self, call: _Call, inputs: Sequence[Any], outputs: Sequence[Any], seconds: Any
    ) -> int:
        # As the library reads NumPy's own description of an array, none is made here.
        objects = array("q", [id(each) for arrays in (inputs, outputs) for each in arrays])
        call.objects, _ = objects.buffer_info()
        call.input_count, call.output_count = len(inputs), len(outputs)
        call.seconds = None if seconds is None else ctypes.addressof(seconds)
        status: int = _run(ctypes.addressof(call)) if _NUMPY else _ARGUMENT
        if status == _ARGUMENT:
            described = _described(inputs, "input") + _described(outputs, "output", writable=True)
            call.arrays, call.numpy = described.buffer_info()[0], None
            status = _run(ctypes.addressof(call))
            call.numpy = _NUMPY
        return status


class _Watch:
    """Lets Python see to its signals while a run of the main thread goes on.

    raised: what a signal's handler raised.
    """

    def __init__(self) -> None:
        self.raised: BaseException | None = None
        seen = self._seen()
        next(seen)
        # A handler may raise as soon as Python's code is entered, which within a function would be
        # before its `try`: so what is called goes on inside of one.
        self.ask = _ASK(seen.send)

    def _seen(self) -> Generator[int, object, None]:
        goes_on = 1
        while True:
            try:
                yield goes_on
                ctypes.pythonapi.PyErr_CheckSignals()
                goes_on = 1
            except GeneratorExit:
                raise
            except BaseException as error:
                self.raised, goes_on = error, 0
