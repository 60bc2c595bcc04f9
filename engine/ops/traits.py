"""Facts about an op that hold for all inputs; passes, backends and tools read them here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

Range = tuple[float, float]


class Elementwise(Enum):
    """An element of the output depends on the element of each input in its place.

    UNARY: on one of the first input; other inputs are single numbers. BROADCAST: all inputs are
    broadcast to one another. TO_FIRST: the others are broadcast to the first.
    """

    UNARY = "unary"
    BROADCAST = "broadcast"
    TO_FIRST = "to the first"


class Movement(Enum):
    """The outputs are elements of the first input, whatever their values are.

    RESHAPES: all in their order, in another shape. TRANSPOSES: all, the axes in another order.
    PERMUTES: all, in yet another order. PICKS: some are left out or repeated.
    """

    RESHAPES = "reshapes"
    TRANSPOSES = "transposes"
    PERMUTES = "permutes"
    PICKS = "picks"


class Layer(Enum):
    """The first input is multiplied by the second, the weights."""

    CONVOLUTION = "convolution"
    TRANSPOSED = "transposed convolution"
    MATRIX = "matrix"


class Family(Enum):
    """A group of ops that drawings of a graph give one colour."""

    MATRICES = "convolution, matrices"
    RECURRENT = "recurrent"
    ACTIVATION = "activation"
    NORMALISATION = "normalisation"
    SAMPLING = "pooling, sampling"
    MOVEMENT = "shape, movement"
    QUANTIZATION = "quantization"
    CONTROL = "control"
    REDUCTION = "reduction"
    ARITHMETIC = "arithmetic"


@dataclass(frozen=True)
class Traits:
    """What passes, backends and tools may assume about an op.

    commutative: its two inputs may change places.
    idempotent: applying it twice equals applying it once. self_inverse: applying it twice changes
    nothing.
    bounds: it clamps to these bounds; an input `min` or `max`, if the op has them, replaces a
    bound. None if it does more than that, or something else.
    slope: it only multiplies negative elements by the attribute or input of this name.
    activation: a layer can apply it to its sums, with these attributes (of clip: inputs) as
    numbers; None if no layer can.
    non_negative: no element of its output is negative (one may be NaN). keeps_sign: that holds
    where no element of its first input is negative.
    keeps_levels: its output has the scale and zero point of its first input's integers.
    homogeneous: its output is s times as large where all that it adds or chooses from, in one
    channel, is s times as large (s > 0).
    reduces: it makes one element of many along the axes that are its second input, or attribute.
    pools: it makes one element of each window, or of all places, channel by channel.
    fused: for a layer, the op that it becomes with an activation. is_fused: it already does more
    than multiply and add a bias.
    worth_integers: between layers that compute with integers it should compute with them, too.
    family: its group in drawings, where that does not follow from its other traits.
    """

    elementwise: Elementwise | None = None
    movement: Movement | None = None
    layer: Layer | None = None
    commutative: bool = False
    idempotent: bool = False
    self_inverse: bool = False
    bounds: Range | None = None
    slope: str = ""
    activation: tuple[str, ...] | None = None
    non_negative: bool = False
    keeps_sign: bool = False
    keeps_levels: bool = False
    homogeneous: bool = False
    reduces: bool = False
    pools: bool = False
    fused: str = ""
    is_fused: bool = False
    worth_integers: bool = False
    family: Family | None = None

    @property
    def is_unary(self) -> bool:
        """Whether it is element-wise, of one value."""
        return self.elementwise is Elementwise.UNARY

    @property
    def broadcasts(self) -> bool:
        """Whether it is element-wise, of values that are broadcast to one another."""
        return self.elementwise is Elementwise.BROADCAST

    @property
    def kind(self) -> Family:
        """The op's group in drawings."""
        follows = {
            Family.MATRICES: self.layer is not None,
            Family.MOVEMENT: self.moves,
            Family.REDUCTION: self.reduces,
            Family.SAMPLING: self.pools,
            Family.ACTIVATION: self.activation is not None or self.bounds is not None,
        }
        return self.family or next((f for f, is_it in follows.items() if is_it), Family.ARITHMETIC)

    @property
    def moves(self) -> bool:
        """Whether the outputs are elements of the first input."""
        return self.movement is not None


PLAIN = Traits()
