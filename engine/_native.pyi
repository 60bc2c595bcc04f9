"""The runtime in C++: runs a flat plan over arrays, all shapes fixed.

Every error is one of palmkit.engine.errors: ModelError for a plan that could not be run safely,
UnsupportedError for what no kernel does, ShapeError for an array that is not what the plan says,
BackendError for what the machine lacks.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

_Array: TypeAlias = NDArray[Any]
_Attr: TypeAlias = int | float | str | Sequence[int] | Sequence[float]
_Tensor: TypeAlias = (
    tuple[str, int, str, Sequence[int]] | tuple[str, int, str, Sequence[int], int, Sequence[int]]
)
_Step: TypeAlias = tuple[str, Sequence[int], Sequence[int], Mapping[str, _Attr]]

def isas() -> list[str]:
    """The instruction sets that kernels can use on this host, best first."""

def peak_flops(seconds: float) -> float:
    """The most float32 operations a second that the calling thread reaches, measured so long."""

def kernels() -> list[tuple[str, str, str]]:
    """The kernels that a step may name: (name, its inputs, its outputs).

    Names of inputs and outputs come in the order in which steps have them, separated by spaces; one
    that ends in an asterisk stands for any number of inputs. Behind a slash stands what it may be
    besides a C-contiguous array: "/pixels" an array whose last dim is contiguous and whose runs of
    it, the pixels, are as far from one another each, "/strides" any, another operand's name one
    with pixels as far from one another as that one's.
    """

def functions() -> list[str]:
    """The functions of one float that a step of the kernel "unary" may name."""

def crc32(data: _Array | memoryview) -> int | None:
    """The CRC-32 of an array's bytes, as zlib has it; None where this host has no fast way."""

def encode(coding: str, data: _Array, planes: int = 1) -> bytes:
    """Bytes coded by how often each comes; native/entropy/entropy.h has the layout.

    coding: plain, huffman, rans or planes; planes: bytes of an element, for planes alone.
    Returns b"" where the coding cannot: rans of one kind of byte.
    """

def decode(recipe: bytes, data: _Array, to: _Array) -> None:
    """Decode a constant of a file into `to`; ModelError if it is damaged.

    recipe: native/entropy/stored.h has the layout; data: uint8[size], the data section.
    """

def guided_fit(
    prior: _Array, colours: Sequence[_Array], reach: float, weight: float, to: _Array
) -> None:
    """Coefficients of a mask as a linear function of colour; palmkit.engine.guided has more."""

def guided_upsample(offset: _Array, slopes: Sequence[_Array], image: _Array, to: _Array) -> None:
    """Enlarge a linear function of colour; palmkit.engine.guided says what of each.

    Raises TypeError for arrays of other dtypes or numbers of dims, ShapeError for other shapes.
    """

def candidates(
    tensors: Sequence[_Tensor],
    steps: Sequence[_Step],
    isa: str = "",
    constants: Sequence[_Array] = (),
) -> list[list[tuple[str, float, list[float]]]]:
    """For each step that is a convolution: (algorithm, seconds, terms) of all that suit it.

    constants: the plan's; left out, no weight counts as zero.
    algorithm: a value of the attribute of that name; the first is what the kernel takes where the
    attribute is "". seconds: what the cost model expects, with 1 thread, on the machine that it was
    measured on. terms: what is done how often (see native/kernels/conv/cost.cc). A step that copies
    has one, "" without terms, other steps have none.
    """

def touching_seconds(bytes: int) -> float:
    """What the cost model expects of a step that writes so much once, with 1 thread."""

def sharing_seconds() -> float:
    """What the cost model expects a step to take beside half its time where 2 threads share it."""

def most_bytes_in_place() -> int:
    """Bytes of one model's constants up to which runs had better read them where they lie."""

class Program:
    """A plan, checked and with its weights packed; immutable and shared by its sessions."""

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

    def session(self, threads: int, eager: bool = False) -> Session:
        """What one caller at a time needs to run this; with 1 thread none is started.

        eager: share out whatever can be split, worth it or not; for tests.
        """

class Plans:
    """The plans of a model file, checked; its graph is not looked at."""

    def __init__(self, section: _Array, data: _Array) -> None:
        """Read the section of plans in a file; format/plans.py has the layout.

        section: uint8[size], without its footer; data: uint8[size], the data section; both are
        kept alive.
        """

    @property
    def inputs(self) -> list[tuple[str, str, list[int | str]]]:
        """Name, dtype and dims of each of the graph's inputs."""

    @property
    def outputs(self) -> list[tuple[str, str, list[int | str]]]:
        """Name, dtype and dims of each of the graph's outputs."""

    @property
    def metadata(self) -> list[tuple[str, str]]:
        """What the file says of the model."""

    @property
    def shapes(self) -> list[list[list[int]]]:
        """For each plan the shape of each input."""

    @property
    def backends(self) -> list[str]:
        """For each plan the name of the backend that runs it."""

    def steps(self, index: int) -> list[tuple[str, str]]:
        """For each step of a plan the name of its node, and its kernel."""

    def program(
        self, index: int, isa: str = "", threads: int = 1
    ) -> tuple[Program, list[tuple[str, list[int]]], list[tuple[int, int]]]:
        """A plan of backend cpu as a Program, its outputs, and what of `data` it reads.

        Outputs are the dtype and dims of each; what is read are begins and ends in bytes, growing.
        """

class Session:
    """Arena, scratch memory and threads of one caller."""

    def run(self, inputs: Sequence[_Array], outputs: Sequence[_Array]) -> None:
        """Run every step: from C-contiguous arrays into C-contiguous writable ones."""

    def profile(self, inputs: Sequence[_Array], outputs: Sequence[_Array]) -> list[float]:
        """Run, and return the seconds of each step."""
