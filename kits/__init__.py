"""Ready-made vision and ranking kits: `kits.detect_faces("group.jpg")`.

Every name is imported on first use, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmkit.engine.errors import ImageError, PalmError, TableError
    from palmkit.kits import draw
    from palmkit.kits.face.kit import FaceDetector, detect_faces
    from palmkit.kits.face.mesh_kit import FaceMesh, face_mesh
    from palmkit.kits.hands import gestures
    from palmkit.kits.hands.kit import GestureRecognizer, recognize_gestures
    from palmkit.kits.image import read_image, write_image
    from palmkit.kits.portrait.hair import HairSegmenter, segment_hair
    from palmkit.kits.portrait.kit import PortraitSegmenter, segment_portrait
    from palmkit.kits.portrait.result import Mask
    from palmkit.kits.ranking.kit import Reranker, rerank
    from palmkit.kits.ranking.result import Ranking
    from palmkit.kits.ranking.schema import Schema
    from palmkit.kits.results import Face, Faces, Hand, Hands
    from palmkit.kits.tryon.kit import TryOn, try_on
    from palmkit.kits.tryon.look import Look

__all__ = [
    "Face",
    "FaceDetector",
    "FaceMesh",
    "Faces",
    "GestureRecognizer",
    "HairSegmenter",
    "Hand",
    "Hands",
    "ImageError",
    "Look",
    "Mask",
    "PalmError",
    "PortraitSegmenter",
    "Ranking",
    "Reranker",
    "Schema",
    "TableError",
    "TryOn",
    "detect_faces",
    "draw",
    "face_mesh",
    "gestures",
    "read_image",
    "recognize_gestures",
    "rerank",
    "segment_hair",
    "segment_portrait",
    "try_on",
    "write_image",
]

_HOMES = {
    "Face": "palmkit.kits.results",
    "FaceDetector": "palmkit.kits.face.kit",
    "FaceMesh": "palmkit.kits.face.mesh_kit",
    "Faces": "palmkit.kits.results",
    "GestureRecognizer": "palmkit.kits.hands.kit",
    "HairSegmenter": "palmkit.kits.portrait.hair",
    "Hand": "palmkit.kits.results",
    "Hands": "palmkit.kits.results",
    "ImageError": "palmkit.engine.errors",
    "Look": "palmkit.kits.tryon.look",
    "Mask": "palmkit.kits.portrait.result",
    "PalmError": "palmkit.engine.errors",
    "PortraitSegmenter": "palmkit.kits.portrait.kit",
    "Ranking": "palmkit.kits.ranking.result",
    "Reranker": "palmkit.kits.ranking.kit",
    "Schema": "palmkit.kits.ranking.schema",
    "TableError": "palmkit.engine.errors",
    "TryOn": "palmkit.kits.tryon.kit",
    "detect_faces": "palmkit.kits.face.kit",
    "draw": "palmkit.kits.draw",
    "face_mesh": "palmkit.kits.face.mesh_kit",
    "gestures": "palmkit.kits.hands.gestures",
    "read_image": "palmkit.kits.image",
    "recognize_gestures": "palmkit.kits.hands.kit",
    "rerank": "palmkit.kits.ranking.kit",
    "segment_hair": "palmkit.kits.portrait.hair",
    "segment_portrait": "palmkit.kits.portrait.kit",
    "try_on": "palmkit.kits.tryon.kit",
    "write_image": "palmkit.kits.image",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(_HOMES[name])
    value: object = getattr(home, name, home)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
