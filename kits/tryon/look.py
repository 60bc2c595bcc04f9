"""Looks: effects that are worn together, their files, and their delivery."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast
from weakref import ref

from palmkit.engine.errors import DeliveryError, ImageError, TryOnError, why
from palmkit.engine.reading import check_readable
from palmkit.engine.replacing import replacing
from palmkit.kits.delivered import PROVING_RUNS, Delivered, Unfit, is_delivered_name
from palmkit.kits.nearest import did_you_mean
from palmkit.kits.tryon import palettes
from palmkit.kits.tryon.effect import Effect
from palmkit.kits.tryon.glasses import Glasses
from palmkit.kits.tryon.hair import HairDye
from palmkit.kits.tryon.makeup import Blush, Eyeliner, EyeShadow, Foundation, Iris, Lipstick

if TYPE_CHECKING:
    from palmkit.delivery import Release
    from palmkit.delivery.client import Mode

Result = TypeVar("Result")
# A file of a look is some hundred bytes.
MOST_BYTES = 1 << 16
FORMAT = 1


@dataclass(frozen=True)
class Look:
    """Effects worn together, at most one of a kind, laid on in this order; immutable.

    Look(lipstick="#b3202a", hair=HairDye("#5b2e8c", opacity=0.6)): for an effect stands also its
    colour, the name of a shade of palettes.shades(), or the mapping of its options as in JSON.
    Raises ValueError for an option that cannot be.
    """

    KINDS: ClassVar[Mapping[str, type[Effect]]] = {
        "foundation": Foundation,
        "blush": Blush,
        "eye_shadow": EyeShadow,
        "eyeliner": Eyeliner,
        "iris": Iris,
        "lipstick": Lipstick,
        "hair": HairDye,
        "glasses": Glasses,
    }

    foundation: Foundation | None = None
    blush: Blush | None = None
    eye_shadow: EyeShadow | None = None
    eyeliner: Eyeliner | None = None
    iris: Iris | None = None
    lipstick: Lipstick | None = None
    hair: HairDye | None = None
    glasses: Glasses | None = None

    @classmethod
    def of(cls, /, **effects: Any) -> Look:
        """Return a look of effects by their names; None: not worn."""
        found: dict[str, Any] = {}
        for name, wanted in effects.items():
            if name not in cls.KINDS:
                raise ValueError(f"look: expected one of {', '.join(cls.KINDS)}, got {name!r}")
            if wanted is not None:
                found[name] = _effect(name, cls.KINDS[name], wanted)
        return cls(**found)

    def __iter__(self) -> Iterator[Effect]:
        """Yield the effects worn, in the order in which they are laid on."""
        return (worn for each in fields(self) if (worn := getattr(self, each.name)) is not None)

    def __bool__(self) -> bool:
        """Return whether anything is worn."""
        return any(True for _ in self)

    def adding(self, /, **effects: Any) -> Look:
        """Return the look with these effects in place of its own, given as for `of`."""
        own: dict[str, Any] = {each.name: each for each in self}
        return Look.of(**own | {name: each for name, each in effects.items() if each is not None})

    def to_dict(self) -> dict[str, Any]:
        """Return the options of each effect by name, ready for JSON."""
        return {each.name: asdict(each) for each in self}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON; a file there is replaced as a whole.

        Raises OSError if it cannot be written.
        """
        text = json.dumps({"palmkit_look": FORMAT, **self.to_dict()}, indent=2) + "\n"
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, source: str | os.PathLike[str]) -> Look:
        """The look in a JSON file, or of a preset's name, or delivered as "evening@stable".

        A delivered look is the local one of now: see TryOn for one that is kept new.
        Raises TryOnError if there is none, or what is there is no look; DeliveryError if nothing of
        such a name was ever delivered here.
        """
        name = os.fspath(source)
        if name in palettes.presets():
            return cls.from_dict(palettes.presets()[name], name)
        if is_delivered_name(name):
            return DeliveredLook(name, watched=False).content
        return cls.read(name)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Look:
        """Return the look in a JSON file.

        Raises TryOnError if there is none, or the file holds no look.
        """
        name = os.fspath(path)
        try:
            check_readable(name)
            with open(name, "rb") as file:
                data = file.read(MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            known = ", ".join(palettes.presets())
            meant = did_you_mean(name, palettes.presets())
            raise TryOnError(f"{name}: {why(error)}; presets are {known}{meant}") from None
        if len(data) > MOST_BYTES:
            raise TryOnError(f"{name}: expected at most {MOST_BYTES} bytes of JSON, got more")
        try:
            found: Any = json.loads(data, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise TryOnError(f"{name}: expected JSON: {error}") from None
        if (
            not isinstance(found, dict)
            or cast("dict[str, Any]", found).pop("palmkit_look", None) != FORMAT
        ):
            raise TryOnError(f'{name}: expected {{"palmkit_look": {FORMAT}, ...}}')
        return cls.from_dict(cast("dict[str, Any]", found), name)

    @classmethod
    def from_dict(cls, options: Mapping[str, Any], name: str = "look") -> Look:
        """Return the look of to_dict's result.

        name: its source, for the message.

        Raises TryOnError if it is none.
        """
        try:
            return cls.of(**options)
        except (TypeError, ValueError) as error:
            raise TryOnError(f"{name}: {error}") from None


class DeliveredLook(Delivered[Look]):
    """A look of a name and channel: a newer one is taken between frames, a bad one given back.

    The preset of that name is worn while nothing else is here.
    """

    def __init__(self, name: str, watched: bool = True) -> None:
        """Follow a look, as Delivered.follow does. Raises DeliveryError, TryOnError."""
        super().__init__()
        self._runs = 0
        self.follow(name, watched)

    def wear(self, at_frame: Callable[[Look], Result]) -> Result:
        """Return the result of a frame with the look.

        Raises Unfit if the look is on trial and the frame failed: for Turns.
        """
        look, release = self.content, self.release
        if release is None or not release.on_trial:
            return at_frame(look)
        try:
            result = at_frame(look)
        except ImageError:
            raise
        except Exception as error:
            raise Unfit(ref(self), release, "load_fail") from error
        with self._lock:
            self._runs += 1
            is_proved = self._runs == PROVING_RUNS
        if is_proved:
            self.proved(release)
        return result

    def _read(self, release: Release) -> Look:
        if release.source == "embedded" and release.path == Path(release.model):
            return Look.load(release.model)
        self._runs = 0
        return Look.read(release.path)

    def _ask(self, mode: Mode = "local_update_in_background") -> Release:
        try:
            return super()._ask(mode)
        except DeliveryError:
            return self._shipped()

    def _shipped(self) -> Release:
        from palmkit.delivery import Release
        from palmkit.delivery.facts import sdk

        model, _, channel = self.name.partition("@")
        if model not in palettes.presets():
            return super()._shipped()
        return Release(model, channel, Path(model), sdk(), "embedded", {})


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose names are unique; with duplicates the meaning is ambiguous."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} stands twice")
    return found


def _effect(name: str, kind: type[Effect], wanted: Any) -> Effect:
    if isinstance(wanted, str) and not wanted.startswith("#"):
        shades = palettes.shades(name)
        if wanted in shades:
            return kind.of(shades[wanted])
        known, meant = ", ".join(shades) or "none", did_you_mean(wanted, shades)
        raise ValueError(
            f"{name}: expected a colour like #b3202a or one of {known}, got {wanted!r}{meant}"
        )
    return kind.of(wanted)
