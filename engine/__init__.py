"""The inference engine: read a model, optimise it, run it.

    from palmkit import engine
    model = engine.load("net.onnx", threads=2)
    outputs = model.run({"image": image})

Reads its own .palm files, ONNX (extra `onnx`) and TFLite (extra `tflite`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from palmkit.engine.forks import importing
from palmkit.engine.machine import check_processor

check_processor()
with importing:
    from palmkit.engine.errors import (
        BackendError,
        DeviceLostError,
        ModelError,
        PalmError,
        ShapeError,
        UnsupportedError,
    )
    from palmkit.engine.files import convert, load, save
    from palmkit.engine.ir import Graph, Type
    from palmkit.engine.levels import Levels
    from palmkit.engine.model import Model

if TYPE_CHECKING:
    from palmkit.engine.passes import optimise
    from palmkit.engine.pytorch import from_torch

__all__ = [
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
]

# Imported on first use, because running a model does not need them.
_LATER = {"from_torch": "palmkit.engine.pytorch", "optimise": "palmkit.engine.passes"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        with importing:
            return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
