"""Pictures made worse: those that networks learn from, and those that kits are measured on."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from palmkit.models import degradations
from palmkit.models.degradations import DEGRADATIONS, Measure, Numbers, Picture, lines


def scene() -> Picture:
    """Return a picture of several colours, with edges."""
    drawn = np.full((120, 200, 3), (90, 120, 160), np.uint8)
    drawn[30:90, 40:120] = (200, 140, 110)
    drawn[::6, 130:] = (20, 30, 20)
    return drawn


@pytest.mark.parametrize("name", DEGRADATIONS)
def test_each_is_the_same_again_and_leaves_the_picture_alone(name: str) -> None:
    picture, kept = scene(), scene()
    worse = DEGRADATIONS[name](picture)
    assert worse.shape == picture.shape and worse.dtype == np.uint8
    assert np.array_equal(worse, DEGRADATIONS[name](picture))
    assert np.array_equal(picture, kept)
    assert np.array_equal(worse, picture) == (name == "as they are")


def test_each_is_what_it_is_called() -> None:
    picture = scene()
    worse = {name: degrade(picture).astype(np.float64) for name, degrade in DEGRADATIONS.items()}
    assert worse["dark"].mean() < 0.25 * picture.mean()
    assert worse["too bright"].mean() > 1.3 * picture.mean()
    assert np.ptp(worse["grey"], axis=2).max() == 0
    old = worse["old print"].mean(axis=(0, 1))
    assert old[0] > old[1] > old[2]
    assert worse["red light"].argmax(axis=2).max() == 0
    # Colours stay where they are: red is still the first one.
    assert abs(worse["compressed"][60, 80] - picture[60, 80]).max() < 40
    lines_apart = {
        name: np.abs(np.diff(each[:, 140], axis=0)).mean() for name, each in worse.items()
    }
    assert lines_apart["blurred"] < lines_apart["as they are"]
    assert lines_apart["small"] < 0.6 * lines_apart["as they are"]


def test_a_table_has_a_row_for_each_and_the_mean_of_the_worse() -> None:
    rows: list[tuple[str, Numbers]] = [
        ("as they are", {"ours": {"iou": 0.9, "failed": 0.0}, "theirs": {"iou": 0.8}}),
        ("dark", {"ours": {"iou": 0.7, "failed": 0.1}, "theirs": {"iou": 0.5}}),
        ("noisy", {"ours": {"iou": 0.5, "failed": 0.3}, "theirs": {"iou": 0.1}}),
    ]
    assert list(lines(rows)) == [
        "| | ours: iou, failed | theirs: iou |",
        "|---|---|---|",
        "| as they are | 0.900, 0.000 | 0.800 |",
        "| dark | 0.700, 0.100 | 0.500 |",
        "| noisy | 0.500, 0.300 | 0.100 |",
        "| mean of the worse | 0.600, 0.200 | 0.300 |",
    ]
    # Which of them are asked for first is nothing to it.
    assert list(lines(rows[1:]))[2:] == list(lines(rows))[3:]
    assert list(lines(rows[:1]))[2:] == ["| as they are | 0.900, 0.000 | 0.800 |"]


def test_the_command_measures_what_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def light(data: Path, work: Path, teachers: Path) -> Measure:
        assert (data, work, teachers) == (Path("d"), Path("w"), Path("t"))
        return lambda worse: {"eye": {"light": float(worse(scene()).mean())}}

    monkeypatch.setitem(degradations.KITS, "face", light)
    asked = ["--kits", "face", "--degradations", "as they are", "dark"]
    degradations.main(["d", "w", "t", *asked])
    told = capsys.readouterr().out.splitlines()
    assert told[1] == "face" and told[3] == "| | eye: light |"
    assert [each.split("|")[1].strip() for each in told[5:]] == [
        "as they are",
        "dark",
        "mean of the worse",
    ]
    assert float(told[5].split("|")[2]) > 4 * float(told[6].split("|")[2])


def test_a_mesh_is_looked_for_in_the_worse_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    from palmkit.kits.crop import Crop
    from palmkit.models.face_mesh import evaluate

    points = np.random.default_rng(0).uniform(0.2, 0.8, (478, 3)).astype(np.float32)
    light: list[float] = []

    def look(seen: Picture) -> evaluate.Look:
        light.append(float(seen.mean()))
        # It is off by what it sees of the light.
        moved = points + np.asarray((0, seen.mean() / 2550, 0), np.float32)
        return evaluate.Look(moved, 1.0, np.ones(478, np.float32))

    first = Crop(80.0, 60.0, 60.0, 0.0)
    case = evaluate.Case("one.png", first.to_picture(points), first, "frontal", None)
    monkeypatch.setattr(evaluate, "read_picture", lambda data, file: scene())
    contender = evaluate.Contender(look, 64)
    errors: list[float] = []
    for worse in (None, DEGRADATIONS["dark"]):
        means, kinds = evaluate.measure(Path(), [case], contender, worse)
        assert kinds["all"].mean == pytest.approx(means["error_two_looks"], abs=1e-4)
        errors.append(means["error_first_look"])
    assert len(light) == 6
    assert light[3] < 0.3 * light[0]
    assert errors[1] < 0.3 * errors[0]


@pytest.fixture
def seeded() -> Iterator[None]:
    torch = pytest.importorskip("torch", reason="the extra [train] is not installed")
    state = torch.get_rng_state()
    torch.manual_seed(5)
    yield
    torch.set_rng_state(state)


@pytest.mark.usefixtures("seeded")
def test_training_pictures_are_made_worse_in_many_ways() -> None:
    import torch

    from palmkit.models.training.degrade import degraded

    picture = torch.from_numpy(scene()[:96, :192].copy()).permute(2, 0, 1).float() / 255
    images = picture.expand(200, -1, -1, -1)
    worse = degraded(images)
    assert worse.shape == images.shape and worse.dtype == torch.float32
    assert worse.min() >= 0 and worse.max() <= 1
    light = worse.mean(dim=(1, 2, 3)) / picture.mean()
    assert light.min() < 0.3 and light.max() > 1.3
    # Most keep what they show: brighter where the picture is.
    both = torch.stack([worse.flatten(1), images.flatten(1)])
    centred = both - both.mean(dim=2, keepdim=True)
    likeness = torch.cosine_similarity(centred[0], centred[1], dim=1)
    assert likeness.median() > 0.8
    # Hardly any stays as it is.
    assert ((worse - images).abs().amax(dim=(1, 2, 3)) == 0).float().mean() < 0.1


@pytest.mark.usefixtures("seeded")
def test_a_batch_without_pictures_is_worse_in_nothing() -> None:
    import torch

    from palmkit.models.training.degrade import degraded

    assert degraded(torch.zeros(0, 3, 64, 64)).shape == (0, 3, 64, 64)
