"""What the kits return: frozen dataclasses of arrays, one row a thing found.

All of them are here: who draws, writes or compares results needs no kit for it. Each is imported
when it is first used.

Pixels are those of the upright input picture, origin top left, y down; scores are 0..1; left and
right are the subject's own.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from palmkit.engine.forks import importing

if TYPE_CHECKING:
    from palmkit.kits.results.faces import ACTIONS, KEYPOINTS, POSE, Face, Faces
    from palmkit.kits.results.hands import GESTURES, Gesture, Hand, Handedness, Hands, OwnGesture
    from palmkit.kits.results.mask import INSIDE, Mask
    from palmkit.kits.results.ranking import Ranking
    from palmkit.kits.results.result import PictureResult, Result
    from palmkit.kits.results.things import Thing, Things
    from palmkit.kits.results.tried_on import TriedOn

__all__ = [
    "ACTIONS",
    "GESTURES",
    "INSIDE",
    "KEYPOINTS",
    "POSE",
    "Face",
    "Faces",
    "Gesture",
    "Hand",
    "Handedness",
    "Hands",
    "Mask",
    "OwnGesture",
    "PictureResult",
    "Ranking",
    "Result",
    "Thing",
    "Things",
    "TriedOn",
]

_MODULES = {
    "faces": ("ACTIONS", "KEYPOINTS", "POSE", "Face", "Faces"),
    "hands": ("GESTURES", "Gesture", "Hand", "Handedness", "Hands", "OwnGesture"),
    "mask": ("INSIDE", "Mask"),
    "ranking": ("Ranking",),
    "result": ("PictureResult", "Result"),
    "things": ("Thing", "Things"),
    "tried_on": ("TriedOn",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with importing:
        value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
