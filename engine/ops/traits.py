"""What is true of an op whatever its inputs are; passes, backends and tools ask for it here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

Range = tuple[float, float]


class Elementwise(Enum):
    """An element of the output hangs on one element of each input, that in its place.

    UNARY: on one of the first input; other inputs are single numbers. BROADCAST: all inputs are
    broadcast to one another. TO_FIRST: the others are broadcast to the first.
    """

    UNARY = "unary"
    BROADCAST = "broadcast"
    TO_FIRST = "to the first"


class Movement(Enum):
    """The outputs are elements of the first input, whatever those are.

    RESHAPES: all in their order, under another shape. TRANSPOSES: all, the axes in another order.
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
    """What a drawing of a graph gives one colour."""

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
    """What passes, backends and tools may take for granted of an op.

    commutative: its two inputs may change places.
    idempotent: doing it again changes nothing. self_inverse: doing it again undoes it.
    bounds: what is outside is moved to the nearer bound; an input `min` or `max`, if the op has
    them, takes a bound's place. None if it does more than that, or something else.
    slope: it multiplies what is below zero by the attribute or input of this name, no more.
    activation: a layer can do it behind its sums, with these attributes (of clip: inputs) as
    numbers; None if no layer can.
    non_negative: no element it gives is below zero (one may be no number). keeps_sign: nor where
    no element of its first input is.
    keeps_levels: its output has the scale and zero point of its first input's integers.
    homogeneous: it gives s times as much where all it adds or chooses from, of one channel, is s
    times as much (s > 0).
    reduces: makes one element of many along the axes that are its second input, or attribute.
    pools: makes one element of the window of each place, or of all places, channel by channel.
    fused: of a layer, the op that it becomes with an activation behind it. is_fused: it does more
    than multiply and add a bias already.
    worth_integers: between layers that compute with integers it is to compute with them, too.
    family: what it is akin to, where that does not follow from its other traits.
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
        """It is element-wise, of one value."""
        return self.elementwise is Elementwise.UNARY

    @property
    def broadcasts(self) -> bool:
        """It is element-wise, of values that are broadcast to one another."""
        return self.elementwise is Elementwise.BROADCAST

    @property
    def kind(self) -> Family:
        """What the op is akin to."""
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
        """The outputs are elements of the first input."""
        return self.movement is not None


PLAIN = Traits()
