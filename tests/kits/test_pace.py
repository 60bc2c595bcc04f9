"""A budget for the frames of a video: which are left out, and what they show then."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.kits import FaceMesh, HairSegmenter, live
from palmkit.kits.image import Image
from palmkit.kits.pace import Budget, Shares, leave_out, noting
from palmkit.kits.tryon.kit import heads_of
from palmkit.kits.tryon.moved import MovedHair

# The camera moves by so many pixels a frame, to the left and up: things go right and down.
STEP_X, STEP_Y = 4, 2
FRAMES = 6
SIDES = (500, 490)


def looks(budget_ms: float, took_ms: Callable[[int], float], frames: int) -> list[bool]:
    """Which frames are looked at, where the n-th look takes so long and the others half a ms."""
    budget, made, count = Budget(budget_ms), list[bool](), 0
    for _ in range(frames):
        looked = budget.begin()
        budget.end(took_ms(count) if looked else 0.5, looked=looked)
        count += looked
        made.append(looked)
    return made


def test_frames_that_fit_are_all_looked_at() -> None:
    assert all(looks(10, lambda _: 9, 100))


@pytest.mark.parametrize("took_ms", [15, 25, 60])
def test_frames_take_their_budget_on_average(took_ms: float) -> None:
    made = looks(10, lambda _: took_ms, 300)
    spent_ms = sum(took_ms if looked else 0.5 for looked in made)
    assert 0.8 * 10 * 300 < spent_ms <= 10 * 300 + took_ms
    assert made[0]


def test_what_is_saved_is_spent_once() -> None:
    # A hundred quick frames pay for no more than one slow one.
    made = looks(10, lambda count: 1 if count < 100 else 40, 140)
    assert all(made[:101]) and sum(made[101:]) <= 10


def test_a_budget_of_nothing_looks_once() -> None:
    assert looks(0, lambda _: 5, 5) == [True, False, False, False, False]


def shared(
    budget_ms: float, took_ms: dict[str, float], rest_ms: float, frames: int
) -> tuple[list[set[str]], float]:
    """Return what each frame is looked at for, where looks take so long, and the mean time."""
    shares = Shares(budget_ms, {"faces": 3, "hair": 1, "hands": 1})
    made, spent_ms = list[set[str]](), 0.0
    for _ in range(frames):
        shares.begin()
        looks = set[str]()
        for kind, look_ms in took_ms.items():
            if shares.has_time(kind):
                shares.spent(kind, look_ms)
                looks.add(kind)
        took = rest_ms + sum(took_ms[kind] for kind in looks)
        shares.end(took)
        made.append(looks)
        spent_ms += took
    return made, spent_ms / frames


TOOK_MS = {"faces": 5.0, "hair": 8.0, "hands": 6.0}


def test_looks_that_fit_are_all_made() -> None:
    made, _ = shared(24, TOOK_MS, 4, 100)
    assert made == [set(TOOK_MS)] * 100


@pytest.mark.parametrize("budget_ms", [9, 14, 18])
def test_looks_share_a_budget_by_their_weights(budget_ms: float) -> None:
    made, mean_ms = shared(budget_ms, TOOK_MS, 4, 600)
    assert made[0] == set(TOOK_MS)
    assert 0.9 * budget_ms < mean_ms <= budget_ms + sum(TOOK_MS.values()) / 600
    counts = {kind: sum(kind in looks for looks in made) for kind in TOOK_MS}
    # By their turns, or each time if there is time for the others as well.
    assert counts["faces"] >= min(2.5 * counts["hair"], 500)
    assert 0.6 < counts["hair"] / counts["hands"] < 1.6
    gaps = np.diff([n for n, looks in enumerate(made) if "hair" in looks])
    assert gaps.max() <= 3 * np.median(gaps)


def test_what_is_not_asked_for_takes_no_share() -> None:
    made, _ = shared(9.5, {"faces": 5.0}, 4, 100)
    assert all(made)


def test_where_drawing_takes_all_looks_have_half() -> None:
    made, _ = shared(10, TOOK_MS, 30, 600)
    spent_ms = sum(TOOK_MS[kind] for looks in made for kind in looks)
    assert 0.8 * 5 * 600 < spent_ms <= 5 * 600 + sum(TOOK_MS.values())


def test_shares_forget_a_video() -> None:
    shares = Shares(0, {"faces": 1})
    asked = list[bool]()
    for _ in range(2):
        shares.begin()
        asked.append(shares.has_time("faces"))
        if asked[-1]:
            shares.spent("faces", 5)
        shares.end(5)
    shares.reset()
    shares.begin()
    assert [*asked, shares.has_time("faces")] == [True, False, True]


def test_what_is_left_out_is_noted_in_its_own_picture() -> None:
    leave_out("nobody asks")
    with noting() as outer:
        leave_out("a")
        with noting() as inner:
            leave_out("b")
            leave_out("b")
        leave_out("c")
    assert outer == ["a", "c"] and inner == ["b"]


def panned() -> list[Image]:
    """Frames of a camera that pans over a portrait."""
    scene, (height, width) = live.sample("face"), SIDES
    top, left = (FRAMES - 1) * STEP_Y, (FRAMES - 1) * STEP_X
    return [
        np.ascontiguousarray(
            scene[top - n * STEP_Y :, left - n * STEP_X :][:height, :width],
        )
        for n in range(FRAMES)
    ]


@pytest.mark.parametrize("kit", [kits.FaceDetector, kits.FaceMesh])
def test_faces_of_a_frame_left_out_move_with_the_camera(kit: Any) -> None:
    frames = panned()
    with kit("video", budget_ms=0) as tracker:
        found = [tracker.detect(frame) for frame in frames]
    assert len(found[0]) and found[0].left_out != "frame"
    assert [each.left_out for each in found[1:]] == ["frame"] * (FRAMES - 1)
    assert found[-1].to_dict()["left_out"] == "frame"
    for n, each in enumerate(found):
        expected = found[0].keypoints + np.array([n * STEP_X, n * STEP_Y])
        kept = np.isin(found[0].ids, each.ids)
        assert kept.any()
        assert np.abs(each.keypoints - expected[kept]).max() < 1
        if kit is kits.FaceMesh:
            assert each.mesh.dtype == np.float32
            moved = each.mesh[..., :2] - found[0].mesh[kept][..., :2]
            assert np.abs(moved - (n * STEP_X, n * STEP_Y)).max() < 1


def test_masks_of_a_frame_left_out_move_with_the_camera() -> None:
    frames = panned()
    with kits.PortraitSegmenter("video", budget_ms=0) as segmenter:
        found = [segmenter.segment(frame) for frame in frames]
    assert found[-1].left_out == "frame" and found[-1].image is frames[-1]
    down, right = (FRAMES - 1) * STEP_Y, (FRAMES - 1) * STEP_X
    before, after = found[0].mask[:-down, :-right], found[-1].mask[down:, right:]
    assert np.abs(before - after).mean() < 0.01


def test_without_need_nothing_is_left_out() -> None:
    frames = panned()
    with kits.FaceDetector("video", budget_ms=1e6) as rich, kits.FaceDetector("video") as free:
        for frame in frames:
            one, other = rich.detect(frame), free.detect(frame)
            assert one.left_out == "" and "left_out" not in one.to_dict()
            assert np.array_equal(one.boxes, other.boxes)


def test_a_frame_of_another_size_or_part_is_looked_at() -> None:
    frames = panned()
    with kits.FaceDetector("video", budget_ms=0) as detector:
        detector.detect(frames[0])
        part = (0, 0, 400, 400)
        assert detector.detect(frames[1][:-20]).left_out != "frame"
        assert detector.detect(frames[2][:-20], roi=part).left_out != "frame"
        assert detector.detect(frames[3][:-20], roi=part).left_out == "frame"
        detector.reset()
        assert detector.detect(frames[4][:-20], roi=part).left_out != "frame"


def test_a_look_has_no_faces_looked_for_where_there_is_no_time() -> None:
    frames = panned()
    with kits.TryOn("video", look=kits.Look.load("evening"), budget_ms=0) as mirror:
        worn = [mirror.wear(frame) for frame in frames[:3]]
    assert [each.left_out for each in worn] == [
        "closer looks",
        *["faces, hair, hands"] * 2,
    ]
    assert [each.faces.left_out for each in worn] == ["closer looks", "frame", "frame"]
    assert not np.array_equal(worn[2].after, worn[2].before)


def test_hair_of_a_frame_left_out_moves_with_its_head() -> None:
    frames = panned()
    with FaceMesh("video") as mesh, HairSegmenter("video", smoothing=False) as hair:
        faces = [heads_of(mesh.detect(frame)) for frame in frames]
        height, width = frames[0].shape[:2]
        area = (0, 0, width, height)
        found = hair.around(frames[0], faces[0], area, 0.0)
        expected = hair.around(frames[-1], faces[-1], area, 0.2)
    moved = MovedHair()
    assert moved.along(faces[0]) is None
    moved.looked(found, faces[0])
    still, later = moved.along(faces[0]), moved.along(faces[-1])
    assert still is not None and later is not None
    assert np.abs(still - found).max() < 0.02
    assert np.abs(later - expected).mean() < 0.01 < np.abs(found - expected).mean()
    # Of a face that was not there nothing is known, and of another size neither.
    assert moved.along(replace(faces[0], ids=np.asarray(faces[0].ids) + 1)) is None
    assert moved.along(replace(faces[0], height=height - 1)) is None


def test_closer_looks_that_a_picture_has_no_time_for_are_told() -> None:
    crowd = np.tile(live.sample("face")[::4, ::4], (4, 4, 1))
    with kits.FaceDetector(budget_ms=0) as detector:
        assert detector.detect(crowd).left_out == "closer looks"
    with kits.FaceDetector() as detector:
        assert detector.detect(crowd).left_out == ""


def test_a_budget_is_of_videos() -> None:
    with pytest.raises(ValueError, match=r"budget_ms: expected in video and stream mode"):
        kits.PortraitSegmenter(budget_ms=10)
    with pytest.raises(ValueError, match="budget_ms: expected a number from 0 to"):
        kits.PortraitSegmenter("video", budget_ms=-1)
