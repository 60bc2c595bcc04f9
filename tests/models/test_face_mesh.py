from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "models/face_mesh"
MODEL = FOLDER / "face_mesh.palm"
NETWORKS = ("fast", "best")
NAMES = ("face_mesh", "face_mesh_best")
TEACHER = ROOT.parent / "shared/teachers/face_landmark_with_attention.tflite"


@pytest.mark.parametrize("name", NAMES)
def test_model_file_says_what_it_is(name: str) -> None:
    from palmkit.engine import load

    model = load(ROOT / f"models/{name}/{name}.palm")
    assert model.metadata["name"] == name
    assert 0 < float(model.metadata["threshold"]) < 1
    dims = model.inputs["image"].dims
    assert dims[0] == 1 and dims[1] == dims[2] and dims[3] == 3
    outputs = model.run({"image": np.zeros(tuple(int(dim) for dim in dims), np.float32)})
    assert outputs["points"].shape == (1, 478, 3)
    assert outputs["visibility"].shape == (1, 478)
    assert outputs["presence"].shape == (1, 1)
    assert outputs["presence"][0, 0] < 0.5


def test_weights_are_small() -> None:
    assert MODEL.stat().st_size <= 300_000
    assert (ROOT / "models/face_mesh_best/face_mesh_best.palm").stat().st_size <= 1_000_000


def test_card_names_every_set_it_used_and_its_terms() -> None:
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.face_detector.labels import TERMS
    from palmkit.models.face_mesh.dataset import HANDS, NEGATIVES

    rows = (FOLDER / "card.md").read_text().splitlines()
    faces = {"aaf", "eden", "maskon", "interfaces", "hs290", "figaro", "fasseg_multipose"}
    for name in faces | set(NEGATIVES) | set(HANDS):
        assert any(row.startswith(f"| {name} |") and TERMS[name] in row for row in rows), name


def test_refined_points_take_the_places_of_the_mesh() -> None:
    from palmkit.models.face_mesh.indexes import LEFT_EYE, LIPS, RIGHT_EYE
    from palmkit.models.face_mesh.teacher import SIZE, assemble

    random = np.random.default_rng(0)

    def values(count: int) -> Any:
        return random.uniform(0, SIZE, (1, 1, 1, count)).astype(np.float32)

    outputs = {
        "output_mesh_identity": values(1404),
        "output_lips": values(160),
        "output_left_eye": values(142),
        "output_right_eye": values(142),
        "output_left_iris": values(10),
        "output_right_iris": values(10),
        "conv_faceflag": np.zeros((1, 1, 1, 1), np.float32),
    }
    mesh = assemble(outputs)
    raw = outputs["output_mesh_identity"].reshape(468, 3) / SIZE
    assert mesh.presence == 0.5
    np.testing.assert_allclose(mesh.points[:468, 2], raw[:, 2], rtol=1e-6)
    for name, places in (("lips", LIPS), ("left_eye", RIGHT_EYE), ("right_eye", LEFT_EYE)):
        refined = outputs[f"output_{name}"].reshape(-1, 2) / SIZE
        np.testing.assert_allclose(mesh.points[list(places), :2], refined, rtol=1e-6)
    others = sorted({*range(468)} - {*LIPS, *RIGHT_EYE, *LEFT_EYE})
    np.testing.assert_allclose(mesh.points[others], raw[others], rtol=1e-6)
    np.testing.assert_allclose(
        mesh.points[468:473, 2], raw[list(RIGHT_EYE[:16]), 2].mean(), rtol=1e-5
    )


def test_tables_of_both_eyes_are_each_others_mirror_image() -> None:
    from palmkit.kits.face.topology import MIRROR
    from palmkit.models.face_mesh.indexes import LEFT_EYE, LIPS, RIGHT_EYE

    assert [int(MIRROR[point]) for point in RIGHT_EYE] == list(LEFT_EYE)
    assert {int(MIRROR[point]) for point in LIPS} == set(LIPS)
    assert (len(LIPS), len(RIGHT_EYE)) == (80, 71)


@pytest.mark.skipif(not TEACHER.exists(), reason="the teacher's file is not here")
def test_teacher_sees_no_face_in_noise() -> None:
    from palmkit.models.face_mesh.teacher import Teacher

    noise = np.random.default_rng(0).integers(0, 255, (192, 192, 3)).astype(np.uint8)
    mesh = Teacher(TEACHER)(noise)
    assert mesh.points.shape == (478, 3)
    assert mesh.presence < 0.5


def test_a_point_behind_the_nose_is_not_visible() -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.face_mesh.visible import visible

    points = torch.zeros(1, 478, 3)
    # A triangle of points 0, 1 and 2 near the camera; point 3 behind it, 4 before, 5 beside.
    points[0, :3, :2] = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    points[0, 3:6] = torch.tensor([[0.2, 0.2, 0.3], [0.2, 0.2, -0.3], [0.9, 0.9, 0.3]])
    seen = visible(points, torch.tensor([[0, 1, 2]]))
    assert seen[0, :6].tolist() == [1, 1, 1, 0, 1, 1]
    assert (seen[0, 468:] == 0).all()


def write_pack(folder: Path) -> None:
    """A few drawn pictures, packed as dataset.pack does."""
    from palmkit.models.training.pack import write_pack as write

    random = np.random.default_rng(0)
    kinds = ["face"] * 4 + ["negative"] * 2 + ["hand"] * 2
    sets = ["aaf", "eden", "aaf", "maskon", "grocery", "clothing", "rps_green", "rps_green"]
    entries: list[dict[str, Any]] = [
        {"kind": kind, "set": name} for kind, name in zip(kinds, sets, strict=True)
    ]
    write(
        folder,
        entries,
        lambda entry: np.asarray(
            Image.fromarray(random.integers(0, 255, (9, 7, 3)).astype(np.uint8)).resize((70, 90))
        ),
        70,
    )
    mean = random.uniform(0.3, 0.7, (478, 3)).astype(np.float32)
    np.savez(
        folder / "meshes.npz",
        mean=mean.reshape(-1),
        components=random.normal(0, 0.01, (3, 478 * 3)).astype(np.float32),
        coefficients=random.normal(0, 1, (4, 3)).astype(np.float32),
        spread=np.full(4, 0.02, np.float32),
        masked=np.asarray([False, True, False, False]),
        yaw=np.asarray([0, 20, -40, 5], np.float32),
        triangles=np.asarray([[0, 1, 2], [3, 4, 5]]),
    )


def test_a_share_of_the_crops_is_degraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.face_mesh.compose import DEGRADED, Bank, Composer

    monkeypatch.setattr("palmkit.models.face_mesh.compose.degraded", torch.zeros_like)
    write_pack(tmp_path / "pack")
    composer = Composer(Bank(tmp_path / "pack", torch.device("cpu")), 64)
    images = composer.compose(40).images
    assert int((images.flatten(1).amax(dim=1) == 0).sum()) == round(40 * DEGRADED)


@pytest.mark.parametrize("network", NETWORKS)
def test_training_resumes_to_the_same_weights(tmp_path: Path, network: str) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.face_mesh.compose import Bank
    from palmkit.models.face_mesh.train import MeshRecipe, MeshTrainer
    from palmkit.models.training.loop import train

    write_pack(tmp_path / "pack")
    bank = Bank(tmp_path / "pack", torch.device("cpu"))
    recipe = MeshRecipe(steps=4, batch=2, size=64, warm_up=2, network=network)

    def trainer(limit: int) -> MeshTrainer:
        made = MeshTrainer(recipe, bank, float("inf"))
        advance = made.advance

        def limited() -> Any:
            if made.step >= limit:
                raise KeyboardInterrupt
            return advance()

        made.advance = limited  # type: ignore[method-assign]
        return made

    whole = train(trainer(4), tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("palmkit.models.training.loop.SAVE_EVERY", 2)
        with pytest.raises(KeyboardInterrupt):
            train(trainer(2), tmp_path / "broken")
    broken = train(trainer(4), tmp_path / "broken")
    states = [torch.load(path, weights_only=True) for path in (whole, broken)]
    assert states[0]["step"] == states[1]["step"] == 4
    for name, value in states[0]["averaged"].items():
        assert torch.equal(value, states[1]["averaged"][name]), name


@pytest.mark.parametrize(("network", "start"), [("fast", 0), ("best", 0), ("best", 1)])
def test_training_starts_with_the_weights_that_ship(
    tmp_path: Path, network: str, start: int
) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.engine import load
    from palmkit.models.face_mesh.compose import Bank
    from palmkit.models.face_mesh.train import MeshRecipe, MeshTrainer

    model = ROOT / f"models/{NAMES[start]}/{NAMES[start]}.palm"
    write_pack(tmp_path / "pack")
    bank = Bank(tmp_path / "pack", torch.device("cpu"))
    trainer = MeshTrainer(MeshRecipe(network=network, start=str(model)), bank, minutes=1)
    image = np.random.default_rng(0).integers(0, 255, (1, 160, 160, 3)).astype(np.float32)
    seen = torch.from_numpy(image).permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        found = trainer.mesh.eval()(seen)
    expected = load(model).run({"image": image})
    np.testing.assert_allclose(found.points, expected["points"], atol=1e-4)
    np.testing.assert_allclose(found.visibility.sigmoid(), expected["visibility"], atol=1e-4)
    np.testing.assert_allclose(found.presence.sigmoid(), expected["presence"][0], atol=1e-4)


class SmallTeacher:
    """A shipped network in the place of the teacher."""

    def __init__(self) -> None:
        from palmkit.engine import load

        self.model = load(MODEL)

    def __call__(self, picture: Any) -> Any:
        from palmkit.kits.image import resize
        from palmkit.models.face_mesh.teacher import Mesh

        small = resize(picture, 160, 160)
        found = self.model.run({"image": small[None].astype(np.float32)})
        return Mesh(found["points"][0], float(found["presence"][0, 0]))


def test_faces_are_turned_further_the_way_they_look() -> None:
    from palmkit.kits import FaceMesh, read_image
    from palmkit.kits.face.crop import crop_from_mesh
    from palmkit.models.face_mesh.turned import LEAST_YAW, turned_faces

    pytest.importorskip("cv2")
    picture = read_image(ROOT / "kits/face/example.png")
    with FaceMesh() as kit:
        mesh = kit.detect(picture).mesh
    assert mesh is not None
    crop = crop_from_mesh(mesh[0])
    points = crop.to_crop(mesh[0])
    teacher: Any = SmallTeacher()
    found = [
        each
        for seed in range(6)
        for each in turned_faces(teacher, lambda: picture, crop, points, seed)
    ]
    # It looks into the camera, so it is turned to either side, once.
    assert 4 <= len(found) <= 6 and len({each.yaw > 0 for each in found}) == 2
    ways: list[bool] = []
    for each in found:
        assert abs(each.yaw) > LEAST_YAW and each.label.points.shape == (478, 3)
        first, seen = each.label, each.picture
        aside = turned_faces(teacher, partial(np.asarray, seen), first.crop, first.points, 1)
        ways += [more.yaw * each.yaw > 0 for more in aside]
    assert ways and all(ways)
    # What the teacher does not see is left out.
    hidden = np.zeros_like(picture)
    assert not [*turned_faces(teacher, lambda: hidden, crop, points, 0)]


def test_bent_pictures_and_points_move_together() -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.face_mesh.compose import displacement, follow

    torch.manual_seed(0)
    origins = torch.rand(1, 478, 3) * 0.4 + 0.3
    points = origins + torch.tensor([0.05, -0.03, 0.0])
    field = displacement(points[..., :2], origins[..., :2], 64)
    found = follow(field, points, origins)
    # Most go nearly as far as they should, and a point's colour comes from where it was.
    assert (found - points[..., :2]).abs().mean() < 0.02
    column, row = (found[0, 0] * 64).long().tolist()
    source = torch.tensor([column + 0.5, row + 0.5]) / 64 + field[0, row, column]
    assert (source - origins[0, 0, :2]).abs().max() < 1.5 / 64


def test_marks_are_seen_where_their_maps_are_warm() -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.face_mesh.compose import Batch
    from palmkit.models.face_mesh.network import MARKS, places
    from palmkit.models.face_mesh.train import mark_loss

    heat = torch.full((1, len(MARKS), 8, 8), -9.0)
    heat[..., 2, 5] = 9.0
    place = torch.tensor([5.5, 2.5]) / 8
    torch.testing.assert_close(places(heat), place.expand(1, len(MARKS), 2), atol=1e-4, rtol=0)

    def loss(shift: float) -> float:
        points = torch.cat([place + shift, torch.zeros(1)]).expand(1, 478, 3)
        one = torch.ones(1)
        batch = Batch(heat, points, torch.ones(1, 478), one, one, torch.ones(1, 478))
        return float(mark_loss(heat, batch, 0.27 * one[:, None], torch.ones(1, 478)))

    assert loss(0.0) < loss(0.05) < loss(0.1)
    # Outside the crop nothing is to be seen.
    assert loss(0.7) == 0


@pytest.mark.parametrize("size", NETWORKS)
def test_refit_finds_the_right_last_layer(tmp_path: Path, size: str) -> None:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.kits.crop import Crop, sample
    from palmkit.models.face_mesh import refit
    from palmkit.models.face_mesh.dataset import Faces
    from palmkit.models.face_mesh.network import SIZES, FaceMesh

    torch.manual_seed(0)
    random = np.random.default_rng(0)
    picture = np.asarray(Image.fromarray(random.integers(0, 255, (12, 12, 3)).astype(np.uint8)))
    Image.fromarray(picture).resize((200, 200)).save(tmp_path / "a.png")
    network = FaceMesh(160, SIZES[size]).eval()
    points = random.uniform(0.3, 0.7, (2, 478, 3)).astype(np.float32)
    places = np.asarray([[100, 100, 150, 0.1], [90, 110, 130, 0.0]], np.float32)
    some = np.full(2, 0.01, np.float32)
    off = np.zeros(2, bool)
    part = np.asarray(["train", "train"])
    faces = Faces(np.zeros(2, np.int32), places, places, points, some, some + 1, off, part)

    def error() -> float:
        apart: list[float] = []
        for place, true in zip(places.tolist(), points, strict=True):
            seen = sample(np.asarray(Image.open(tmp_path / "a.png")), Crop(*place), 160)
            with torch.no_grad():
                image = torch.from_numpy(seen).permute(2, 0, 1)[None].float() / 255
                apart.append(float(np.abs(network(image).points[0].numpy() - true).mean()))
        return float(np.mean(apart))

    before, codes = error(), network.encode.weight.clone()
    refit.refit(network, tmp_path, [{"file": "a.png"}], faces)
    assert error() < before / 4
    assert torch.equal(network.encode.weight, codes)
