"""What users may rely on: a name is added or removed here on purpose."""

import importlib

import pytest

PUBLIC = {
    "palmkit.kits": [
        "Face",
        "FaceBlur",
        "FaceDetector",
        "FaceMesh",
        "Faces",
        "Gesture",
        "GestureRecognizer",
        "HairSegmenter",
        "Hand",
        "Handedness",
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
        "TriedOn",
        "TryOn",
        "blur_faces",
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
    ],
    "palmkit.delivery": [
        "Client",
        "Release",
        "configure",
        "get",
        "hint",
        "mark_ok",
        "refresh",
        "report_failure",
        "reports",
        "status",
    ],
    "palmkit.engine": [
        "BackendError",
        "Graph",
        "Model",
        "ModelError",
        "PalmError",
        "ShapeError",
        "Type",
        "UnsupportedError",
        "convert",
        "from_torch",
        "load",
        "optimise",
        "save",
    ],
}


@pytest.mark.parametrize("package", PUBLIC)
def test_public_names(package: str) -> None:
    module = importlib.import_module(package)
    assert sorted(module.__all__) == PUBLIC[package]
    for name in PUBLIC[package]:
        assert getattr(module, name) is not None


def test_assets_read_and_path() -> None:
    assets = importlib.import_module("palmkit.assets")
    with pytest.raises(FileNotFoundError, match="no such asset: 'missing.txt'"):
        assets.read("missing.txt")
    with pytest.raises(FileNotFoundError):
        assets.path("../kits/__init__.py")
    assert assets.path("__init__.py").read_bytes() == assets.read("__init__.py")


def test_kits_dir_lists_and_unknown_name_fails() -> None:
    from palmkit import kits

    assert dir(kits) == kits.__all__
    with pytest.raises(AttributeError, match="no attribute 'detect_dogs'"):
        kits.detect_dogs  # noqa: B018
