"""Published networks agree with the engines they were made for, on every backend.

The files lie in ../shared/teachers and are not part of the project.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array

TEACHERS = Path(__file__).parents[2].parent / "shared" / "teachers"
FILES = sorted([*TEACHERS.rglob("*.tflite"), *TEACHERS.rglob("*.onnx")])
CUSTOM_OPS = {"face_landmark_with_attention", "hair_segmentation"}
# On noise some scores stay below 1e-3; both engines are then this far from a float64 run.
PEER_EPSILON = 2.0**-23
SIDES = {"height": 352, "width": 224}

if not FILES:
    pytest.skip(
        "the published networks of ../shared/teachers are not here", allow_module_level=True
    )

Peer = Callable[[dict[str, Array]], dict[str, Array]]


def litert(path: Path) -> Peer:
    interpreter_module = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = interpreter_module.Interpreter(
        model_path=str(path),
        experimental_op_resolver_type=interpreter_module.OpResolverType.BUILTIN_REF
        if path.stem.startswith("version-RFB")
        else interpreter_module.OpResolverType.AUTO,
    )
    interpreter.allocate_tensors()

    def run(inputs: dict[str, Array]) -> dict[str, Array]:
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], inputs[detail["name"]])
        interpreter.invoke()
        return {
            d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()
        }

    return run


def onnx_runtime(path: Path) -> Peer:
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, inputs), strict=True))


def picture(shape: tuple[int, ...], channels_last: bool) -> Array:
    """A real photograph in the input's shape; channels beyond three are zero."""
    import cv2

    data = pytest.importorskip("skimage.data")
    if len(shape) != 4:
        return np.random.default_rng(1).uniform(0, 255, size=shape).astype(np.float32)
    n, height, width, channels = shape if channels_last else (shape[0], *shape[2:], shape[1])
    astronaut: Array = data.astronaut()
    small = cv2.resize(astronaut, (width, height), interpolation=cv2.INTER_AREA)
    image = np.zeros((n, height, width, channels), np.float32)
    image[..., :3] = small
    return image if channels_last else np.ascontiguousarray(image.transpose(0, 3, 1, 2))


def input_range(name: str) -> tuple[int, int]:
    """What the network was trained on."""
    if name.startswith("yunet"):
        return 0, 255
    return (-1, 1) if name.startswith(("face_detection", "version-RFB")) else (0, 1)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.stem}{p.suffix}")
def test_agrees_with_peer(path: Path, backend: str) -> None:
    if path.stem in CUSTOM_OPS:
        with pytest.raises(UnsupportedError, match="MaxPooling|Landmarks2TransformMatrix"):
            engine.load(path, backend=backend)
        return
    peer = (litert if path.suffix == ".tflite" else onnx_runtime)(path)
    model = engine.load(path, backend=backend, threads=2)
    shapes = {
        name: tuple(d if isinstance(d, int) else SIDES.get(d, 1) for d in type.shape)
        for name, type in model.inputs.items()
    }
    random = np.random.default_rng(0)
    low, high = input_range(path.stem)
    photos = {
        name: picture(s, path.suffix == ".tflite") / np.float32(255) * np.float32(high - low) + low
        for name, s in shapes.items()
    }
    noise = {name: random.uniform(low, high, s).astype(np.float32) for name, s in shapes.items()}
    for inputs in (photos, noise):
        expected, got = peer(inputs), model.run(inputs)
        assert set(got) == set(expected)
        assert list(model.outputs) == list(got)
        for name, value in expected.items():
            assert got[name].shape == value.shape
            assert got[name].dtype == value.dtype
            spread = float(max(value.max(), 0) - min(value.min(), 0))
            worst = float(np.abs(got[name] - value).max())
            assert worst <= 1e-4 * spread + PEER_EPSILON, f"{name}: off by {worst}, range {spread}"
