"""Published networks agree with the engines they were made for, on every backend.

The files lie in ../shared/teachers and are not part of the project.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.ir import Array

TEACHERS = Path(__file__).parents[2].parent / "shared" / "teachers"
FILES = sorted([*TEACHERS.rglob("*.tflite"), *TEACHERS.rglob("*.onnx")])
# LiteRT has no kernels for its custom operators: test_attention_refines_the_mesh instead.
WITHOUT_PEER = {"face_landmark_with_attention"}
# Its max unpooling puts a pixel where the greatest of four stood: where two of them differ by less
# than rounding, as in a wall of one colour, it jumps. What that touches may be as much.
JUMPS = {"hair_segmentation": 0.01}
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
    if path.stem in WITHOUT_PEER:
        pytest.skip("LiteRT cannot run it")
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
    # Grain far below a level of 255: where a wall is of one colour, rounding alone would decide
    # which of four is the greatest, and it differs from one BLAS to the next.
    grain = 1e-3 * (high - low) if path.stem in JUMPS else 0
    photos = {
        name: (value + random.uniform(-grain, grain, value.shape)).astype(np.float32)
        for name, value in photos.items()
    }
    for inputs in (photos, noise):
        expected, got = peer(inputs), model.run(inputs)
        assert set(got) == set(expected)
        assert list(model.outputs) == list(got)
        for name, value in expected.items():
            assert got[name].shape == value.shape
            assert got[name].dtype == value.dtype
            spread = float(max(value.max(), 0) - min(value.min(), 0))
            off = np.abs(got[name] - value)
            worst = float(np.quantile(off, 1 - JUMPS.get(path.stem, 0)))
            assert worst <= 1e-4 * spread + PEER_EPSILON, f"{name}: off by {worst}, range {spread}"


# The box that the short-range network finds in skimage's astronaut, and the eyes' line is level.
FACE = (176, 59, 97, 118)


def face_crop(side: int) -> Array:
    """The face with half as much round it, float32[1, side, side, 3] in 0..1."""
    import cv2

    data = pytest.importorskip("skimage.data")
    astronaut: Array = data.astronaut()
    x, y, width, height = FACE
    reach = 0.75 * max(width, height)
    left, top = int(x + width / 2 - reach), int(max(0, y + height / 2 - reach))
    crop = astronaut[top : top + int(2 * reach), left : left + int(2 * reach)]
    small = cv2.resize(crop, (side, side), interpolation=cv2.INTER_AREA)
    return np.asarray(small[None] / np.float32(255))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_attention_refines_the_mesh(backend: str) -> None:
    """Lips, eyes and irises of a real face lie on the lips and eyes of the mesh.

    The order of the refined points is that of the mesh's points which place the crop.
    """
    path = TEACHERS / "face_landmark_with_attention.tflite"
    subsets: dict[Any, list[int]] = {}
    for node in engine.convert(path).nodes:
        if node.op == "landmarks2_transform_matrix":
            attrs: Any = node.attrs
            subsets[attrs["left_rotation_idx"]] = list(attrs["subset_idxs"])
    got = engine.load(path, backend=backend).run({"input_1": face_crop(192)})
    mesh = got["output_mesh_identity"].reshape(468, 3)[:, :2]
    assert float(got["conv_faceflag"].item()) > 5
    across = float(np.linalg.norm(mesh[263] - mesh[33]))
    assert 40 < across < 80
    for name, first in (("lips", 61), ("left_eye", 33), ("right_eye", 362)):
        refined = got[f"output_{name}"].reshape(-1, 2)
        off = np.linalg.norm(refined - mesh[subsets[first]], axis=1)
        assert off.mean() < 0.05 * across, f"{name}: {off.mean()} of {across} pixels"
        assert off.max() < 0.15 * across
    for side, first in (("left", 33), ("right", 362)):
        iris = got[f"output_{side}_iris"].reshape(5, 2)
        eyelids = mesh[subsets[first][:16]]
        assert (iris[0] > eyelids.min(0)).all()
        assert (iris[0] < eyelids.max(0)).all()
        assert np.linalg.norm(iris[0] - iris[1:].mean(0)) < 0.02 * across


def test_hair_of_a_portrait() -> None:
    """The hair, and not the face, the suit or the wall behind."""
    path = TEACHERS / "hair_segmentation.tflite"
    model = engine.load(path)
    image = np.zeros((1, 512, 512, 4), np.float32)
    image[..., :3] = face_crop(512)
    logits = next(iter(model.run({"input_1": image}).values()))[0]
    hair = logits[..., 1] > logits[..., 0]
    assert hair[60:130, 200:330].mean() > 0.9
    assert hair[220:330, 200:330].mean() < 0.05
    assert hair[:40, :60].mean() < 0.05
    assert 0.1 < hair.mean() < 0.4
