"""Ready-made vision kits: `kits.detect_faces("group.jpg")`.

Every name is imported on first use, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmkit.engine.errors import ImageError, PalmError
    from palmkit.kits import draw
    from palmkit.kits.face.kit import FaceDetector, detect_faces
    from palmkit.kits.face.mesh_kit import FaceMesh, face_mesh
    from palmkit.kits.image import read_image, write_image
    from palmkit.kits.portrait.kit import (
        HairSegmenter,
        PortraitSegmenter,
        segment_hair,
        segment_portrait,
    )
    from palmkit.kits.portrait.result import Mask
    from palmkit.kits.results import Face, Faces

__all__ = [
    "Face",
    "FaceDetector",
    "FaceMesh",
    "Faces",
    "HairSegmenter",
    "ImageError",
    "Mask",
    "PalmError",
    "PortraitSegmenter",
    "detect_faces",
    "draw",
    "face_mesh",
    "read_image",
    "segment_hair",
    "segment_portrait",
    "write_image",
]

_HOMES = {
    "Face": "palmkit.kits.results",
    "FaceDetector": "palmkit.kits.face.kit",
    "FaceMesh": "palmkit.kits.face.mesh_kit",
    "Faces": "palmkit.kits.results",
    "HairSegmenter": "palmkit.kits.portrait.kit",
    "ImageError": "palmkit.engine.errors",
    "Mask": "palmkit.kits.portrait.result",
    "PalmError": "palmkit.engine.errors",
    "PortraitSegmenter": "palmkit.kits.portrait.kit",
    "detect_faces": "palmkit.kits.face.kit",
    "draw": "palmkit.kits.draw",
    "face_mesh": "palmkit.kits.face.mesh_kit",
    "read_image": "palmkit.kits.image",
    "segment_hair": "palmkit.kits.portrait.kit",
    "segment_portrait": "palmkit.kits.portrait.kit",
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
