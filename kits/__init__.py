"""Ready-made vision and ranking kits: `kits.detect_faces("group.jpg")`.

Every name is imported on first use, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

# For type checkers, which do not run the table of kits.
if TYPE_CHECKING:
    from palmkit.engine.errors import ImageError as ImageError
    from palmkit.engine.errors import PalmError as PalmError
    from palmkit.engine.errors import TableError as TableError
    from palmkit.kits import draw as draw
    from palmkit.kits.face.kit import FaceDetector as FaceDetector
    from palmkit.kits.face.kit import detect_faces as detect_faces
    from palmkit.kits.face.mesh_kit import FaceMesh as FaceMesh
    from palmkit.kits.face.mesh_kit import face_mesh as face_mesh
    from palmkit.kits.hands import gestures as gestures
    from palmkit.kits.hands.kit import GestureRecognizer as GestureRecognizer
    from palmkit.kits.hands.kit import recognize_gestures as recognize_gestures
    from palmkit.kits.image import read_image as read_image
    from palmkit.kits.image import write_image as write_image
    from palmkit.kits.portrait.hair import HairSegmenter as HairSegmenter
    from palmkit.kits.portrait.hair import segment_hair as segment_hair
    from palmkit.kits.portrait.kit import PortraitSegmenter as PortraitSegmenter
    from palmkit.kits.portrait.kit import segment_portrait as segment_portrait
    from palmkit.kits.ranking.kit import Reranker as Reranker
    from palmkit.kits.ranking.kit import rerank as rerank
    from palmkit.kits.ranking.schema import Schema as Schema
    from palmkit.kits.results import Face as Face
    from palmkit.kits.results import Faces as Faces
    from palmkit.kits.results import Hand as Hand
    from palmkit.kits.results import Hands as Hands
    from palmkit.kits.results import Mask as Mask
    from palmkit.kits.results import Ranking as Ranking
    from palmkit.kits.results import TriedOn as TriedOn
    from palmkit.kits.tryon.kit import TryOn as TryOn
    from palmkit.kits.tryon.kit import try_on as try_on
    from palmkit.kits.tryon.look import Look as Look

# What belongs to no kit, or to several.
_SHARED = {
    "ImageError": "palmkit.engine.errors",
    "Look": "palmkit.kits.tryon.look",
    "PalmError": "palmkit.engine.errors",
    "Schema": "palmkit.kits.ranking.schema",
    "TableError": "palmkit.engine.errors",
    "draw": "palmkit.kits.draw",
    "gestures": "palmkit.kits.hands.gestures",
    "read_image": "palmkit.kits.image",
    "write_image": "palmkit.kits.image",
}


def __getattr__(name: str) -> object:
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
