"""What users may rely on: a name is added or removed here on purpose."""

import importlib

import pytest

from palmkit.kits.table import homes

PUBLIC = {
    # Besides those of the table of kits: there they are added and removed.
    "palmkit.kits": [
        "FaceBlur",
        "ImageError",
        "Look",
        "PalmError",
        "Schema",
        "TableError",
        "blur_faces",
        "draw",
        "gestures",
        "read_image",
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
        "DeviceLostError",
        "Graph",
        "Levels",
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
    wanted = sorted([*PUBLIC[package], *(homes() if package == "palmkit.kits" else ())])
    assert sorted(module.__all__) == wanted
    for name in wanted:
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
