"""The engines that can be compared, by their names on the command line."""

from __future__ import annotations

from importlib import import_module

from palmkit.engine.bench.engines.engine import Engine, Job, Refusal, Run, place_of

__all__ = ["OURS", "PEERS", "Engine", "Job", "Refusal", "Run", "find", "place_of"]

OURS = "palmkit"
# Module and class: an engine is made in the process that runs it.
_CLASSES = {
    OURS: "palmkit.engine.bench.engines.palmkit:PalmKit",
    "ort": "palmkit.engine.bench.engines.onnxruntime:OnnxRuntime",
    "openvino": "palmkit.engine.bench.engines.openvino:OpenVino",
    "litert": "palmkit.engine.bench.engines.litert:LiteRt",
    "ncnn": "palmkit.engine.bench.engines.ncnn:Ncnn",
    "mnn": "palmkit.engine.bench.engines.mnn:Mnn",
    "opencv": "palmkit.engine.bench.engines.opencv:OpenCv",
    "pytorch": "palmkit.engine.bench.engines.pytorch:PyTorch",
}
PEERS = tuple(name for name in _CLASSES if name != OURS)


def find(name: str) -> Engine:
    """Return the engine of a name, or of a class elsewhere, written as module:Class.

    Raises ValueError for an unknown name.
    """
    place = _CLASSES.get(name, name)
    module, colon, attribute = place.partition(":")
    if not colon:
        raise ValueError(f"no engine {name!r}; known: {', '.join(_CLASSES)}")
    engine: Engine = getattr(import_module(module), attribute)()
    return engine
