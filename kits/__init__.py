"""Ready-made vision and ranking kits: `kits.detect_faces("group.jpg")`.

Every name is imported on first use, so that importing this package costs next to nothing. It
imports nothing itself: where the command does, Ctrl-C could not end it silently yet.
"""

# For type checkers: the names of the table of kits, and those that belong to no kit.
TYPE_CHECKING = False  # pyright: ignore[reportConstantRedefinition]
if TYPE_CHECKING:
    from palmkit.engine.errors import ImageError as ImageError
    from palmkit.engine.errors import PalmError as PalmError
    from palmkit.engine.errors import TableError as TableError
    from palmkit.kits import draw as draw
    from palmkit.kits.face.blur import FaceBlur as FaceBlur
    from palmkit.kits.face.blur import blur_faces as blur_faces
    from palmkit.kits.hands import gestures as gestures
    from palmkit.kits.image import read_image as read_image
    from palmkit.kits.image import write_image as write_image
    from palmkit.kits.ranking.schema import Schema as Schema
    from palmkit.kits.table import *  # noqa: F403
    from palmkit.kits.tryon.look import Look as Look

# Their modules.
_SHARED = {
    "FaceBlur": "palmkit.kits.face.blur",
    "ImageError": "palmkit.engine.errors",
    "Look": "palmkit.kits.tryon.look",
    "PalmError": "palmkit.engine.errors",
    "Schema": "palmkit.kits.ranking.schema",
    "TableError": "palmkit.engine.errors",
    "blur_faces": "palmkit.kits.face.blur",
    "draw": "palmkit.kits.draw",
    "gestures": "palmkit.kits.hands.gestures",
    "read_image": "palmkit.kits.image",
    "write_image": "palmkit.kits.image",
}


def import_module(name: str) -> object:
    """Import a module, as importlib does."""
    from importlib import import_module

    return import_module(name)


def __getattr__(name: str) -> object:
    from palmkit.engine.forks import importing

    with importing:
        from palmkit.kits.table import homes

        known = _SHARED | homes()
        if name == "__all__":
            return sorted(known)
        if name not in known:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = import_module(known[name])
    value: object = getattr(home, name, home)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from palmkit.kits.table import homes

    return sorted(_SHARED | homes())
