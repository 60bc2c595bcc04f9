"""How pictures come out by kind, and the evaluations that say so."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from palmkit.kits.quality import Quality
from palmkit.models import kinds
from palmkit.models.face_detector import evaluate as faces
from palmkit.models.face_detector.contenders import BEST, MODEL, Contender
from palmkit.models.face_detector.labels import known_boxes
from palmkit.models.face_detector.teachers import Detections, Picture


def test_a_spread_tells_mean_worst_tenth_and_failures() -> None:
    values = [0.9] * 17 + [0.1, 0.3, 0.5]
    found = kinds.spread(values)
    assert found == pytest.approx((20, np.mean(values), 0.2, 0.1))
    # Of few pictures it is the worst one.
    assert kinds.spread([0.7, 0.4]).worst_tenth == 0.4
    assert kinds.spread([0.6] * 11 + [0.2]).worst_tenth == pytest.approx(0.4)


def test_the_largest_errors_are_the_worst() -> None:
    errors = [0.02] * 17 + [0.1, 0.3, 0.5]
    assert kinds.spread(errors, 0.1) == pytest.approx((20, np.mean(errors), 0.4, 0.1))
    tally = kinds.Tally(0.1)
    for error in errors:
        tally.add(["crowds"], error)
    assert tally.spreads()["crowds"] == kinds.spread(errors, 0.1)


def test_model_files_do_not_hold_pictures() -> None:
    metrics = {"chosen_on": "x", "dev": {"palmkit": {"ap": 0.5, "pictures": {"all": {"mean": 1}}}}}
    assert kinds.without_pictures(metrics) == {"dev": {"palmkit": {"ap": 0.5}}}


@pytest.mark.parametrize("values", [[], [0.5, float("nan")]])
def test_a_spread_of_nothing_is_an_error(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite numbers of at least one picture"):
        kinds.spread(values)


def test_a_tally_counts_by_kind_in_order() -> None:
    tally = kinds.Tally()
    tally.add(["light dark", "turn 20 to 39", "crowds"], 0.25)
    tally.add(["light bright", "turn 0 to 19", "crowds", "crowds"], 0.75)
    tally.add(["light middle", "turn 100 to 120"], 1)
    found = tally.spreads()
    assert list(found) == [
        "all",
        "crowds",
        "light dark",
        "light middle",
        "light bright",
        "turn 0 to 19",
        "turn 20 to 39",
        "turn 100 to 120",
    ]
    assert found["crowds"] == (2, 0.5, 0.25, 0.5)
    assert found["all"].pictures == 3
    assert kinds.rounded(found)["crowds"] == {
        "pictures": 2,
        "mean": 0.5,
        "worst_tenth": 0.25,
        "failed": 0.5,
    }
    assert list(kinds.lines({"ours": found, "theirs": found}, "IoU"))[:7:3] == [
        "| IoU | pictures | ours: mean | ours: worst tenth | ours: failed"
        " | theirs: mean | theirs: worst tenth | theirs: failed |",
        "| crowds | 2 | 0.500 | 0.250 | 0.500 | 0.500 | 0.250 | 0.500 |",
        "| light bright | 1 | 0.750 | 0.750 | 0.000 | 0.750 | 0.750 | 0.000 |",
    ]


def test_kinds_of_pictures() -> None:
    picture = np.full((300, 400, 3), 84, np.uint8)
    assert kinds.light(picture) == "light dark"
    assert kinds.light(picture + 1) == "light middle"
    assert kinds.light(picture + 66) == "light bright"
    assert kinds.distance([20, 24, 300], picture) == "distance far"
    assert kinds.distance([25], picture) == "distance middle"
    assert kinds.distance([100], picture) == "distance near"
    assert kinds.between(39.5, (0, 20, 40), "turn") == "turn 20 to 39"
    assert kinds.between(40, (0, 20, 40), "turn") == "turn 40 and more"
    assert kinds.between(1, (1, 2, 3), "hands") == "hands 1"
    picture[10:20, 30:40] = 200
    assert kinds.light_on(picture, np.array([[30.5, 10.2], [38.9, 19]])) == "light bright"
    # Points may lie outside.
    assert kinds.light_on(picture, np.array([[-20, -30], [20, 5]])) == "light dark"
    assert kinds.light_on(picture, np.array([[410, 305], [450, 350]])) == "light dark"
    assert kinds.view("hair/fasseg_multipose/03+15-60.png") == ["turn 40 to 69"]
    assert kinds.view("hair/figaro/03.png") == []


def test_boxes_that_a_detector_made_count_where_it_was_sure() -> None:
    row = {
        "boxes": [[0, 0, 10, 20], [5, 5, 8, 8], [30, 30, 4, 4]],
        "scores": [0.7, 0.69, 0.9],
        "unlabelled_auto": [[50, 60, 7, 8]],
    }
    counting, ignored = known_boxes(row)
    assert counting.tolist() == [[0, 0, 10, 20], [30, 30, 34, 34]]
    assert ignored.tolist() == [[5, 5, 13, 13], [50, 60, 57, 68]]
    counting, ignored = known_boxes({"boxes": [[1, 2, 3, 4]]})
    assert counting.tolist() == [[1, 2, 4, 6]]
    assert ignored.shape == (0, 4)


def face(x: float, side: float) -> list[float]:
    return [x, 10, x + side, 10 + side, *[x + side / 2] * 10]


def found(*rows: tuple[float, float, float]) -> Detections:
    """Return detections: x and side of a square, score."""
    boxes = np.array([[x, 10, x + side, 10 + side] for x, side, _ in rows], np.float32)
    scores = np.array([score for _, _, score in rows], np.float32)
    points = np.zeros((len(rows), 5, 2), np.float32)
    return Detections(boxes.reshape(-1, 4), scores, points)


def entry(name: str, *known: list[float], **more: Any) -> dict[str, Any]:
    return {"file": f"{name}.png", "set": name, "faces": list(known), "hard": False, **more}


def test_faces_are_measured_by_kind(tmp_path: Path) -> None:
    entries = [
        entry("oi_crowd", face(10, 12), face(40, 12), face(70, 40), ignored=[]),
        entry("aaf", face(10, 150), ignored=[[200, 10, 240, 50]]),
        entry("animals"),
        entry("grocery", hard=True),
        entry("clothing"),
        # Without a face that counts, what is found means nothing.
        entry("coco_crowd", ignored=[[0, 0, 9, 9]]),
    ]
    for number, each in enumerate(entries):
        Image.new("RGB", (320, 200), (number, 0, 0)).save(tmp_path / each["file"])
    answers = [
        found((10, 12, 0.9), (40, 12, 0.3), (100, 40, 0.8)),
        found((10, 150, 0.9), (200, 40, 0.9)),
        found((5, 30, 0.7)),
        found((5, 30, 0.5)),
        found(),
        found((50, 20, 0.9)),
    ]

    def detect(picture: Picture) -> Detections:
        return answers[int(picture[0, 0, 0])]

    numbers, pictures = faces.measure_kinds(tmp_path, entries, Contender(detect, 0.6))
    assert list(numbers) == ["all", "crowds", "single faces", "animals", "hard", "ordinary"]
    crowds = numbers["crowds"]
    assert crowds["faces"] == 3
    assert crowds["found"] == pytest.approx(1 / 3, abs=1e-4)
    assert crowds["precision"] == 0.5
    # By score: right, wrong, right.
    assert crowds["ap"] == pytest.approx(1 / 3 + 2 / 9, abs=1e-4)
    assert (crowds["ap_0_16"], crowds["found_0_16"]) == (1, 0.5)
    assert (crowds["ap_32_96"], crowds["found_32_96"]) == (0, 0)
    assert "found_16_32" not in crowds
    # What lies where the teachers saw a face is not counted.
    assert (numbers["single faces"]["precision"], numbers["all"]["found"]) == (1, 0.5)
    assert [numbers[kind]["false"] for kind in ("animals", "hard", "ordinary")] == [1, 0, 0]
    assert pictures["crowds"] == pytest.approx((1, 0.4, 0.4, 1))
    assert pictures["all"] == pytest.approx((2, 0.7, 0.4, 0.5))
    assert pictures["distance far"].mean == pytest.approx(0.4)
    assert pictures["distance near"].mean == 1
    # A detector of its own for what is reported.
    silent = Contender(detect, 0.6, lambda picture: found())
    numbers, pictures = faces.measure_kinds(tmp_path, entries, silent)
    assert numbers["crowds"]["ap"] == crowds["ap"]
    assert numbers["crowds"]["found"] == numbers["animals"]["false"] == pictures["all"].mean == 0


@pytest.mark.parametrize(("quality", "best", "looks"), [("fast", None, 1), ("auto", BEST, 4)])
def test_the_cost_counts_all_inputs(
    tmp_path: Path, quality: Quality, best: Path | None, looks: int
) -> None:
    """With quality "auto" it also looks once at each other quarter turn of an empty picture."""
    Image.new("RGB", (320, 200)).save(tmp_path / "aaf.png")
    for name, kind in faces.cost(tmp_path, [entry("aaf")], quality, MODEL, best).items():
        assert name == "single faces"
        assert kind["kilopixels"] == looks * 71.68  # 320 x 224
        assert kind["ms"] > 0
        assert kind["again"] == 0


def test_masks_are_measured_by_kind() -> None:
    from palmkit.models.segmentation import evaluate as masks
    from palmkit.models.segmentation.samples import Sample

    def sample(name: str, share: float, value: int) -> Sample:
        truth = np.zeros((40, 40), np.float32)
        truth[: round(40 * share)] = 1
        picture = np.full((40, 40, 3), value, np.uint8)
        return Sample(name, picture, truth, np.ones((40, 40), np.bool_), f"{name}.png")

    samples = [
        sample("ccp", 0.2, 30),
        sample("ccp", 0.5, 200),
        sample("hs290", 0.05, 90),
        sample("grocery", 0, 90),
    ]

    def upper_half(picture: Picture) -> Any:
        mask = np.zeros(picture.shape[:2], np.float32)
        mask[:20] = 1
        return mask

    result, spreads = masks.measure(samples, upper_half)
    pictures = spreads["iou"]
    assert result["ccp"]["iou"] == pytest.approx(0.7)
    assert pictures["ccp"] == pytest.approx((2, 0.7, 0.4, 0.5))
    assert pictures["percent of the picture 0 to 9"].mean == pytest.approx(0.1)
    assert pictures["light bright"].mean == 1
    assert pictures["all"].pictures == 3
    assert "grocery" not in pictures
    # The opacity of none of them is known.
    assert set(spreads) == {"iou", "edge"}
    assert spreads["edge"]["ccp"].mean == pytest.approx(0.5, abs=0.1)
    known = [sample("cutouts", 0.5, 30), sample("cutouts", 0.4, 30)]
    fringe = masks.measure(known, upper_half)[1]["fringe"]["all"]
    # Of the second the outline is row 15, and of rows 13 to 17 two are wrong.
    assert fringe == pytest.approx((2, 0.2, 0.4, 0.5))


def test_meshes_are_measured_by_kind(tmp_path: Path) -> None:
    from palmkit.kits.crop import Crop
    from palmkit.models.face_mesh import evaluate as meshes

    random = np.random.default_rng(0)
    Image.new("RGB", (400, 400), (90, 90, 90)).save(tmp_path / "a.png")
    crop = Crop(200.0, 200.0, 150.0, 0.0)
    points = random.uniform(0.3, 0.7, (478, 3)).astype(np.float32)
    mesh = crop.to_picture(points)
    unit = meshes.distance_of_eyes(mesh)
    look = meshes.Look(points, 1.0, np.ones(478, np.float32))
    off = mesh + np.array([0.5 * unit, 0, 0], np.float32)
    cases = [
        meshes.Case("a.png", mesh, crop, "frontal", None, 12.5, "aaf"),
        meshes.Case("a.png", off, crop, "profile", None, 55.0, "aaf"),
        meshes.Case("a.png", off, crop, "masked", None, 0.0, "eden"),
    ]

    class Still(meshes.Contender):
        """Sees the same points in every crop, and in its mirror image."""

        def at(self, picture: Picture, crop: Crop) -> meshes.Look:
            inside = crop.to_crop(mesh) if crop != cases[0].first else points
            return look._replace(points=np.asarray(inside, np.float32))

        def mirrored(self, picture: Picture, crop: Crop) -> Any:
            return self.at(picture, crop).points

    _, pictures = meshes.measure(tmp_path, cases, Still(lambda picture: look, 8))
    assert set(pictures) == {
        *("all", "aaf", "turn 0 to 19", "turn 40 to 69", "light middle", "distance middle")
    }
    assert pictures["all"] == pytest.approx((2, 0.25, 0.5, 0.5), abs=1e-3)
    assert pictures["turn 40 to 69"].failed == 1


def test_hands_are_measured_by_kind() -> None:
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    from palmkit.models.hand_detector import evaluate as palms
    from palmkit.models.hand_landmarks import evaluate as hands
    from palmkit.models.hand_landmarks.pipelines import Recognised

    picture = np.full((400, 400, 3), 90, np.uint8)
    points = np.zeros((21, 3), np.float32)
    points[:, :2] = np.random.default_rng(0).uniform(150, 250, (21, 2))
    points[0, :2], points[9, :2] = (200, 250), (200, 150)
    found = Recognised(points, 1.0, 1.0, 1.0, "fist", 1.0)
    hand = {"landmarks": points.tolist(), "right": 1.0, "gesture": "fist"}
    told = {"set": "subhi", "hands": [hand], "ignored": [], "label": None}
    tally = hands.Tally()
    for answer in ([found], []):
        tally.add(told, picture, answer)
    spreads = tally.by_kind.spreads()
    assert spreads["all"] == pytest.approx((2, hands.MISSED / 2, hands.MISSED, 0.5))
    assert set(spreads) == {"all", "subhi", "turn 0 to 44", "distance near", "light middle"}
    two = np.array([[10, 10, 30, 30], [100, 100, 290, 200]], np.float32)
    assert palms.kinds_of("leb", picture, two) == [
        *("leb", "hands 2", "distance near", "light middle")
    ]


def test_pages_are_measured_by_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from palmkit.models.reranker import evaluate, simulator

    log = tmp_path / "log.jsonl"
    simulator.main([str(log), "--visits", "60", "--seed", "3"])
    evaluate.main([str(log), str(tmp_path / "out")])
    told = json.loads((tmp_path / "out/metrics.json").read_text())
    ours = told["pictures"]["palmkit"]
    assert "| all |" in capsys.readouterr().out
    for unit in ("items", "chosen", "events"):
        counted = [each["pictures"] for kind, each in ours.items() if kind.startswith(unit)]
        assert sum(counted) == ours["all"]["pictures"] > 0
    assert 0 < ours["all"]["worst_tenth"] < ours["all"]["mean"] < 1
    assert set(told["pictures"]) > {"palmkit", "the server's order"}


SPREAD = ("mean", "worst_tenth", "failed")
# Cards have three places, metrics.json has four.
ROUNDED = 0.00055


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("face_detector", ["as_it_comes"]),
        ("face_mesh", ["dev"]),
        ("face_mesh_best", ["dev"]),
        ("hand_detector", ["dev"]),
        ("hand_landmarks", ["dev"]),
    ],
)
def test_cards_tell_of_the_worst(name: str, place: list[str]) -> None:
    models = Path(kinds.__file__).parent
    card = (models / name / "card.md").read_text()
    told = json.loads((models / name / "metrics.json").read_text())
    assert told["chosen_on"]
    for key in place:
        told = told[key]
    rows = card.split("the worst, too\n")[1].split("\n## ")[0].splitlines()
    shown = [each["pictures"] for each in told.values() if "pictures" in each]
    assert shown
    for at, spreads in enumerate(shown):
        for kind, spread in spreads.items():
            start = f"| {kind} | {spread['pictures']} |"
            row = next(row for row in rows if row.startswith(start))
            cells = [float(cell) for cell in row.removeprefix(start).strip(" |").split("|")]
            said = [spread[key] for key in SPREAD]
            assert cells[3 * at : 3 * at + 3] == pytest.approx(said, abs=ROUNDED), kind


def test_the_rerankers_card_tells_of_the_worst() -> None:
    folder = Path(kinds.__file__).parent / "reranker"
    card = (folder / "card.md").read_text()
    told = json.loads((folder / "metrics.json").read_text())["pictures"]
    for kind, spread in told["palmkit"].items():
        start = f"| {kind} | {spread['pictures']} |"
        row = next(row for row in card.splitlines() if row.startswith(start))
        cells = [float(cell) for cell in row.removeprefix(start).strip(" |").split("|")]
        assert cells[:3] == pytest.approx([spread[key] for key in SPREAD], abs=ROUNDED), kind
