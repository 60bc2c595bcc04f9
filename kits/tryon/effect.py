"""Common base of the effects: checked options, and laying them on a face."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, TypeVar, cast, get_args

from palmkit.kits.options import between, one_of
from palmkit.kits.tryon.canvas import Canvas
from palmkit.kits.tryon.colour import Finish, Floats, lab_of, read_shade

AnyEffect = TypeVar("AnyEffect", bound="Effect")


@dataclass(frozen=True)
class Effect:
    """One thing worn; immutable, comparable, made of numbers and texts that JSON holds.

    colour: "#rrggbb". opacity: 0..1, how far the region takes it. finish: how its light falls:
    "matte" dims highlights, "satin" keeps them, "gloss" adds to them, "shimmer" sparkles.
    Raises ValueError for an option that cannot be.
    """

    name: ClassVar[str]
    finishes: ClassVar[tuple[Finish, ...]] = get_args(Finish)

    colour: str
    opacity: float = 0.5
    finish: Finish = "satin"

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid option."""
        red, green, blue = read_shade(self.name, self.colour)
        object.__setattr__(self, "colour", f"#{red:02x}{green:02x}{blue:02x}")
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "finish":
                one_of(f"{self.name} finish", value, self.finishes)
            elif isinstance(each.default, float):
                between(f"{self.name} {each.name}", value, 0, 1)
                object.__setattr__(self, each.name, float(value))

    @classmethod
    def of(cls: type[AnyEffect], wanted: Any) -> AnyEffect:
        """Return the effect itself, one of a colour, or of a mapping of its options, as in JSON.

        Raises ValueError for anything else.
        """
        if isinstance(wanted, cls):
            return wanted
        if not isinstance(wanted, Mapping):
            return cls(wanted)
        options = cast("Mapping[str, Any]", wanted)
        known = [each.name for each in fields(cls)]
        for key in options:
            if key not in known:
                raise ValueError(f"{cls.name}: expected one of {', '.join(known)}, got {key!r}")
        if "colour" not in options and cls.__dataclass_fields__["colour"].default is MISSING:
            raise ValueError(f"{cls.name}: expected a colour, got {wanted!r}")
        return cls(**options)

    @property
    def lab(self) -> Floats:
        """The colour in CIELAB, float32[3]."""
        return lab_of(read_shade(self.name, self.colour))

    def aim(self, base: Floats) -> Floats:
        """Return the mean CIELAB of a region of this mean colour at full opacity, float32[3]."""
        return self.lab

    @abstractmethod
    def lay(self, canvas: Canvas) -> None:
        """Lay the effect on the canvas."""
