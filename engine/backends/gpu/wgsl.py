"""Text of WGSL: numbers, indices and the accesses to operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite, prod

from palmkit.engine.backends.gpu.dispatches import FLOATS
from palmkit.engine.ir import Array
from palmkit.engine.steps.step import ends_of, strides_of

# Elements of one access where an array is read or written by vectors.
VECTOR = 4
# Threads of a workgroup, but where a kernel has a reason for others.
THREADS = 64


@dataclass(frozen=True)
class Operand:
    """An array in a binding, as a shader sees it.

    binding: "arena" or "weights". offset: the element that it begins at. strides: in elements.
    value: of a constant, all of its buffer; shaders that access it have it put into the weights.
    half: of another, whether its elements are floats of half precision. tensor: its number.
    """

    binding: str
    offset: int
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    value: Array | None = field(default=None, compare=False)
    half: bool = False
    tensor: int = -1

    @staticmethod
    def constant(value: Array) -> Operand:
        """Return an array that is none of the plan's as an operand."""
        strides = tuple(strides_of(value.shape))
        return Operand("weights", 0, value.dtype.name, value.shape, strides, value)

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.dims)

    @property
    def ends(self) -> tuple[int, int]:
        """The first element of its binding that it reaches, and the one behind its last."""
        return ends_of(self.offset, self.dims, self.strides)

    @property
    def scalar(self) -> str:
        """The WGSL type of an element."""
        return "f32" if self.dtype in FLOATS else "i32"

    @property
    def pixel(self) -> int:
        """The elements from one run along the last dim to the next."""
        long = [s for d, s in zip(self.dims[:-1], self.strides[:-1], strict=True) if d > 1]
        return long[-1] if long else self.dims[-1] if self.dims else 1

    def is_wide(self, channels: int) -> bool:
        """Whether vectors of so many channels, and the pixels they are of, lie on whole vectors."""
        return channels % VECTOR == self.pixel % VECTOR == self.offset % VECTOR == 0


@dataclass(frozen=True)
class Access:
    """How a shader reads or writes an operand.

    width: by single elements or by vectors. slot: of the shader's numbers, which one says where
    the operand begins, in that unit. half: whether it is stored in half precision.
    """

    operand: Operand
    width: int
    slot: int
    half: bool

    @property
    def of(self) -> str:
        """The WGSL type of what is read."""
        scalar = self.operand.scalar
        return scalar if self.width == 1 else f"vec4<{scalar}>"


def number(value: float, of: str = "f32") -> str:
    """Return a finite number as WGSL has it, of a type, which may be a vector."""
    if not isfinite(value):
        raise ValueError(f"{value} has no literal")
    if "i32" in of or "u32" in of:
        text = f"{int(value)}{'u' if 'u32' in of else 'i'}"
        # The least number has no literal of its own.
        text = "(-2147483647i - 1i)" if text == "-2147483648i" else text
    else:
        text = f"{float(value)!r}"
        text = f"{text}f" if "e" in text or "." in text else f"{text}.0f"
    return text if not of.startswith("vec") else f"{of}({text})"


def vector(of: str) -> str:
    """The type of vectors of a scalar type."""
    return f"vec4<{of}>"


def is_nan(name: str, of: str) -> str:
    """Whether a float, or each of a vector, is NaN: by bits, since compilers drop comparisons."""
    bits = of.replace("f32", "u32")
    return f"((bitcast<{bits}>({name}) & {bits}(0x7fffffffu)) > {bits}(0x7f800000u))"


def split(index: str, shape: Sequence[int], names: Sequence[str]) -> list[str]:
    """Lines that take a flat index apart: a `let` for the index along each dim of a shape."""
    lines: list[str] = []
    rest = index
    for i in reversed(range(len(shape))):
        if i == 0:
            lines.append(f"let {names[i]} = {rest};")
        elif shape[i] == 1:
            lines.append(f"let {names[i]} = 0u;")
        else:
            lines.append(f"let {names[i]} = {rest} % {shape[i]}u;")
            lines.append(f"let {names[i]}_rest = {rest} / {shape[i]}u;")
            rest = f"{names[i]}_rest"
    return lines


def total(names: Sequence[str], strides: Sequence[int]) -> str:
    """The sum of indices times strides, as i32 where a stride is negative."""
    pairs = [(n, s) for n, s in zip(names, strides, strict=True) if s]
    if any(stride < 0 for _, stride in pairs):
        terms = [f"i32({name}) * {stride}i" for name, stride in pairs]
        return f"u32({' + '.join(terms)})"
    terms = [name if stride == 1 else f"{name} * {stride}u" for name, stride in pairs]
    return " + ".join(terms) or "0u"


def indent(lines: Iterable[str], by: int = 1) -> list[str]:
    """The lines further right."""
    return [f"{'  ' * by}{line}" for line in lines]
