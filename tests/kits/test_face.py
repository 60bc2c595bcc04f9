import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import skimage.data
from numpy.typing import NDArray

from palmkit import kits
from palmkit.engine.errors import ImageError, ModelError
from palmkit.kits import FaceDetector, FaceMesh, Faces
from palmkit.kits.detection import Candidates, decode, merge
from palmkit.kits.image import Image, Source, resize
from palmkit.kits.kit import shipped_model
from palmkit.kits.quality import Quality
from tests.kits.conftest import Blobs, faces_that_cross, picture


def ignore(faces: Faces, frame: Image, timestamp_ms: float | None) -> None:
    """What a stream needs where the result is no matter."""


needs_model = pytest.mark.skipif(
    not shipped_model("face_detector").is_file(),
    reason="models/face_detector/face_detector.palm has not been made here",
)


def empty_outputs(height: int, width: int) -> dict[str, NDArray[np.float32]]:
    return {
        f"{name}_{stride}": np.zeros((1, height // stride, width // stride, channels), np.float32)
        for stride in (8, 16, 32)
        for name, channels in (("score", 1), ("box", 4), ("points", 10))
    }


def test_decode_follows_the_contract() -> None:
    outputs = empty_outputs(64, 96)
    outputs["score_16"][0, 2, 3] = 0.8
    outputs["box_16"][0, 2, 3] = [1, 2, 3, 0.5]
    outputs["points_16"][0, 2, 3] = [0, 0, 1, -1, 0.5, 0.25, -2, 2, 0, 1]
    found = decode(outputs, 0.5)
    assert len(found) == 1 and found.scores[0] == np.float32(0.8)
    x, y = 3.5 * 16, 2.5 * 16
    assert found.boxes[0].tolist() == [x - 16, y - 32, x + 48, y + 8]
    assert found.keypoints[0].tolist() == [
        [x, y],
        [x + 16, y - 16],
        [x + 8, y + 4],
        [x - 32, y + 32],
        [x, y + 16],
    ]
    assert len(decode(outputs, 0.81)) == 0
    assert len(decode(outputs, 0.8 - 1e-6)) == 1


def test_decode_leaves_out_what_is_no_box() -> None:
    outputs = empty_outputs(64, 64)
    outputs["score_8"][0, 0, :4, 0] = [0.9, 0.9, np.nan, 0.9]
    outputs["box_8"][0, 0, 0] = [1, np.nan, 1, 1]
    outputs["box_8"][0, 0, 1] = [-2, 1, 1, 1]
    outputs["box_8"][0, 0, 3] = [1, 1, 1, 1]
    assert decode(outputs, 0.5).boxes.tolist() == [[20, -4, 36, 12]]


def test_another_model_is_refused() -> None:
    outputs = empty_outputs(64, 64)
    outputs["box_16"] = outputs["box_16"][..., :3]
    with pytest.raises(ModelError, match=r"output box_16: expected float32\[1, h, w, 4\], got"):
        decode(outputs, 0.5)
    del outputs["box_16"]
    with pytest.raises(ModelError, match="output box_16: .* got nothing"):
        decode(outputs, 0.5)


def test_what_lies_within_a_likelier_box_is_a_part_of_it() -> None:
    boxes = np.array([[30, 60, 70, 95], [0, 0, 100, 100], [60, 60, 110, 110]], np.float32)
    scores = np.array([0.7, 0.9, 0.8], np.float32)
    points = np.zeros((3, 5, 2), np.float32)
    merged = merge(Candidates(boxes, scores, points))
    np.testing.assert_array_equal(merged.scores, scores[[1, 2]])
    # What is likelier than the box round it is no part.
    merged = merge(Candidates(boxes, scores[[1, 0, 2]], points))
    np.testing.assert_array_equal(merged.scores, scores[[1, 2, 0]])


def test_merge_makes_one_of_many() -> None:
    outputs = empty_outputs(64, 64)
    for column, score in ((2, 0.6), (3, 0.9)):
        outputs["score_8"][0, 3, column] = score
        outputs["box_8"][0, 3, column] = [column - 1, 2, 5 - column, 2]
    merged = merge(decode(outputs, 0.5))
    assert len(merged) == 1 and merged.scores[0] == np.float32(0.9)
    np.testing.assert_allclose(merged.boxes[0], [12, 12, 44, 44], atol=1e-4)


@pytest.mark.parametrize(
    ("height", "width"), [(480, 640), (640, 480), (97, 131), (1200, 900), (1000, 3000), (31, 700)]
)
def test_boxes_come_back_in_pixels_of_the_picture(blobs: Blobs, height: int, width: int) -> None:
    side = min(height, width) / 4
    image = picture(height, width, (1, width / 2, height / 3, side))
    faces = FaceDetector(model=blobs, size=640).detect(image)
    assert (faces.width, faces.height, len(faces)) == (width, height, 1)
    tolerance = 1.5 * max(1, max(height, width) / 640)
    expected = [round(width / 2), round(height / 3), side, side]
    np.testing.assert_allclose(faces.boxes[0], expected, atol=tolerance)
    centre = faces.boxes[0, :2] + faces.boxes[0, 2:] / 2
    np.testing.assert_allclose(faces.keypoints[0], np.tile(centre, (5, 1)), atol=0.1)
    assert faces.ids is None
    assert max(blobs.runs[0][1:3]) <= 640


def test_small_pictures_are_enlarged_and_large_ones_fitted(blobs: Blobs) -> None:
    detector = FaceDetector(model=blobs, size=640)
    for height, width in [(100, 100), (200, 200), (400, 400), (2000, 1000), (1, 1)]:
        detector.detect(picture(height, width))
    sides = [run[1:3] for run in blobs.runs]
    assert sides == [(224, 224), (416, 416), (640, 640), (640, 320), (32, 32)]


def test_size_is_the_longest_side(blobs: Blobs) -> None:
    FaceDetector(model=blobs, size=320).detect(picture(480, 640))
    assert blobs.runs == [(1, 256, 320, 3)]


def test_what_may_be_a_small_face_is_seen_closer() -> None:
    def sizes(*squares: tuple[int, float, float, float], **options: Any) -> list[int]:
        blobs = Blobs()
        detector = FaceDetector(model=blobs, **options)
        detector.detect(picture(480, 640, *squares))
        return [max(run[1:3]) for run in blobs.runs]

    large, middling, small = (0, 50, 50, 120), (1, 300, 50, 60), (2, 500, 50, 30)
    assert sizes(large) == sizes(middling) == sizes(large, middling) == [320]
    assert sizes(small) == sizes(large, small) == [320, 128]
    assert sizes() == [320]
    assert sizes(large, size=160) == [160]
    assert sizes(large, max_faces=1) == [320]
    assert sizes(large, tile=640) == [640]
    # A large one that is not sure would not be in more pixels.
    assert sizes(large, min_score=0.95) == [320]


def test_order_max_faces_min_score_and_min_face(blobs: Blobs) -> None:
    image = picture(480, 640, (0, 50, 50, 100), (1, 300, 50, 50), (2, 450, 50, 20))
    image[:, :, 0] //= 3
    image[:, :, 1] //= 2

    def sides(**options: Any) -> list[int]:
        detector = FaceDetector(model=blobs, **options)
        return [round(float(box[2])) for box in detector.detect(image).boxes]

    assert sides(min_score=0.1) == [20, 50, 100]
    assert sides(min_score=0.1, max_faces=2) == [20, 50]
    assert sides(min_score=0.4) == [20, 50]
    assert sides() == [20]
    assert sides(min_score=0.1, min_face=30) == [50, 100]
    assert sides(min_score=0.1, min_face=0.15) == [100]


def test_the_models_threshold_is_the_default() -> None:
    image = picture(320, 320, (0, 50, 50, 100))
    assert len(FaceDetector(model=Blobs(threshold="0.95")).detect(image)) == 0
    assert len(FaceDetector(model=Blobs(threshold="0.9")).detect(image)) == 1
    for text in ("high", "1.5", "nan"):
        with pytest.raises(ModelError, match="metadata threshold: expected a number from 0 to 1"):
            FaceDetector(model=Blobs(threshold=text))


def test_boxes_end_at_the_border(blobs: Blobs) -> None:
    image = picture(320, 320, (0, -50, 280, 100))
    assert FaceDetector(model=blobs).detect(image).boxes.tolist() == [[0, 280, 50, 40]]


def test_roi_is_looked_at_alone(blobs: Blobs) -> None:
    image = picture(480, 640, (0, 100, 100, 40), (1, 500, 300, 40))
    faces = FaceDetector(model=blobs).detect(image, roi=(400.5, 200, 239, 280))
    assert len(faces) == 1
    np.testing.assert_allclose(faces.boxes[0], [500, 300, 40, 40], atol=1)
    following = FaceDetector("video", model=blobs)
    assert len(following.detect(image)) == 2
    with pytest.raises(ImageError, match="roi: lies outside"):
        following.detect(image, roi=(640, 0, 10, 10))
    with pytest.raises(ImageError, match="roi: lies outside the picture of 640x480"):
        FaceDetector(model=blobs).detect(image, roi=(700, 0, 10, 10))


def test_rotation_turns_the_picture_before(blobs: Blobs) -> None:
    upright = picture(480, 640, (0, 100, 60, 40))
    lying = np.rot90(upright)
    faces = FaceDetector(model=blobs).detect(lying, rotation=90)
    assert (faces.width, faces.height) == (640, 480)
    np.testing.assert_allclose(faces.boxes[0], [100, 60, 40, 40], atol=1)
    faces = FaceDetector(model=blobs).detect(upright, flip="horizontal")
    np.testing.assert_allclose(faces.boxes[0], [500, 60, 40, 40], atol=1)


def test_tiles_find_what_is_too_small_in_the_whole(blobs: Blobs) -> None:
    """A square of 5 pixels is less than one in 640 and loses half its light there."""
    image = picture(3000, 4000, (1, 2111, 1333, 5), (0, 500, 500, 300))
    assert len(FaceDetector(model=blobs, min_score=0.8).detect(image)) == 1
    blobs.runs.clear()
    faces = FaceDetector(model=blobs, min_score=0.8, tile=640).detect(image)
    assert len(faces) == 2
    found = sorted(faces.boxes.tolist(), key=lambda box: box[2])
    np.testing.assert_allclose(found[0], [2111, 1333, 5, 5], atol=1)
    np.testing.assert_allclose(found[1], [500, 500, 300, 300], atol=7)
    assert set(blobs.runs[1:]) == {(1, 640, 640, 3)}


@pytest.mark.parametrize("tile", [100, 640, 5000])
def test_tiles_do_not_cut_or_double(blobs: Blobs, tile: int) -> None:
    for x in range(0, 700, 97):
        image = picture(500, 800, (2, x, 210, 60))
        faces = FaceDetector(model=blobs, tile=tile).detect(image)
        np.testing.assert_allclose(faces.boxes, [[x, 210, 60, 60]], atol=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "movie"}, "mode: expected one of 'image', 'video', 'stream', got 'movie'"),
        ({"threads": 0}, "threads: expected a whole number, at least 1, got 0"),
        ({"threads": True}, "threads: expected a whole number, at least 1, got True"),
        ({"precision": "exact"}, "precision: expected one of 'high'"),
        ({"max_faces": 0}, "max_faces: expected a whole number, at least 1, got 0"),
        ({"max_faces": 1.5}, "max_faces: expected a whole number"),
        ({"min_score": 1.5}, "min_score: expected a number from 0 to 1, got 1.5"),
        ({"min_score": "0.5"}, "min_score: expected a number from 0 to 1, got '0.5'"),
        ({"min_score": float("nan")}, "min_score: expected a number from 0 to 1, got nan"),
        ({"min_face": -1}, "min_face: expected a number from 0 to inf, got -1"),
        ({"size": 16}, "size: expected a number from 32 to 4096, got 16"),
        ({"tile": 0}, "tile: expected a whole number, at least 32, got 0"),
        ({"detect_every": 0}, "detect_every: expected a whole number, at least 1, got 0"),
        ({"mode": "stream"}, "on_result: expected in stream mode and only there"),
        ({"on_result": print}, "on_result: expected in stream mode and only there"),
    ],
)
def test_options_that_cannot_be(blobs: Blobs, options: Any, message: str) -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match=message):
        FaceDetector(model=blobs, **options)
    assert threading.active_count() <= before


def test_a_model_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no.palm"):
        FaceDetector(model=tmp_path / "no.palm")
    (tmp_path / "text.palm").write_text("not a model")
    with pytest.raises(ModelError, match="text.palm"):
        FaceDetector(model=tmp_path / "text.palm")


def test_calls_that_do_not_fit_the_mode(blobs: Blobs) -> None:
    image = picture(64, 64)
    with FaceDetector(model=blobs) as detector:
        with pytest.raises(RuntimeError, match="submit needs mode 'stream', mode is 'image'"):
            detector.submit(image)
        detector.detect(image)
    with pytest.raises(RuntimeError, match="face detector is closed"):
        detector.detect(image)
    with pytest.raises(RuntimeError, match="face detector is closed"):
        detector.__enter__()
    stream = FaceDetector("stream", model=blobs, on_result=ignore)
    with stream, pytest.raises(RuntimeError, match="mode is 'stream', use submit"):
        stream.detect(image)
    with pytest.raises(RuntimeError, match="closed"):
        stream.submit(image)


def test_one_detector_in_many_threads(blobs: Blobs) -> None:
    detector = FaceDetector(model=blobs)
    wrong: list[int] = []

    def look(index: int) -> None:
        for step in range(20):
            image = picture(320, 320, (0, 10 * index, 10 * step, 40))
            box = detector.detect(image).boxes[0]
            if not np.allclose(box, [10 * index, 10 * step, 40, 40], atol=0.01):
                wrong.append(index)

    threads = [threading.Thread(target=look, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def moving(frames: int) -> Iterator[tuple[Image, float]]:
    """A red square that goes right and a green one that goes down, 30 frames a second."""
    for index in range(frames):
        red = (0, 40 + 3.0 * index, 60, 50)
        green = (1, 500, 40 + 2.0 * index, 60)
        yield picture(480, 640, red, green), index * 1000 / 30


def test_video_keeps_ids_and_detects_now_and_then(blobs: Blobs) -> None:
    detector = FaceDetector("video", model=blobs, detect_every=10, smoothing=False)
    for index, (frame, timestamp_ms) in enumerate(moving(60)):
        faces = detector.detect(frame, timestamp_ms)
        assert faces.ids is not None
        boxes = faces.boxes[np.argsort(faces.ids)]
        assert sorted(faces.ids) == [0, 1]
        np.testing.assert_allclose(boxes[0], [500, 40 + 2 * index, 60, 60], atol=3)
        np.testing.assert_allclose(boxes[1], [40 + 3 * index, 60, 50, 50], atol=3)
    whole = [run for run in blobs.runs if run == (1, 256, 320, 3)]
    assert len(whole) == 6 and len(blobs.runs) == 6 + 2 * 54


def test_detect_every_frame(blobs: Blobs) -> None:
    detector = FaceDetector("video", model=blobs, detect_every=1)
    for frame, timestamp_ms in moving(5):
        detector.detect(frame, timestamp_ms)
    assert blobs.runs == [(1, 256, 320, 3)] * 5


def test_a_lost_face_is_looked_for_at_once_and_gets_a_new_id_later(blobs: Blobs) -> None:
    detector = FaceDetector("video", model=blobs, detect_every=1000)
    square, nothing = picture(480, 640, (0, 100, 100, 60)), picture(480, 640)
    time_ms = 0.0

    def ids(frame: Image, frames: int) -> list[list[int]]:
        nonlocal time_ms
        seen: list[list[int]] = []
        for _ in range(frames):
            time_ms += 33
            faces = detector.detect(frame, time_ms)
            assert faces.ids is not None
            seen.append(faces.ids.tolist())
        return seen

    assert ids(square, 3) == [[0]] * 3
    assert ids(nothing, 10) == [[]] * 10
    assert ids(square, 3) == [[0]] * 3
    assert ids(nothing, 95) == [[]] * 95
    assert ids(square, 3) == [[1]] * 3
    far = picture(480, 640, (0, 500, 300, 60))
    assert ids(far, 2) == [[2]] * 2


def test_a_new_face_is_seen_at_the_next_whole_look(blobs: Blobs) -> None:
    detector = FaceDetector("video", model=blobs, detect_every=5)
    one = picture(480, 640, (0, 50, 50, 60))
    two = picture(480, 640, (0, 50, 50, 60), (1, 500, 300, 60))
    counts = [len(detector.detect(frame)) for frame in [one] * 3 + [two] * 5]
    assert counts == [1, 1, 1, 1, 1, 2, 2, 2]


def shaken(frames: int) -> Iterator[Image]:
    """Three squares near each other, before something grey; frames are up to 60 pixels off."""
    import cv2

    random = np.random.default_rng(0)
    grey = cv2.GaussianBlur(random.normal(50, 400, (576, 736)), (0, 0), 8)
    scene = np.repeat(np.clip(grey, 0, 100).astype(np.uint8)[..., None], 3, axis=2)
    for channel in range(3):
        left = 250 + 66 * channel
        scene[250:310, left : left + 60] = 0
        scene[250:310, left : left + 60, channel] = 255
    for x, y in random.integers(0, 61, (frames, 2)):
        yield scene[y : 480 + y, x : 640 + x]


def test_ids_stay_in_a_shaking_hand(blobs: Blobs) -> None:
    detector = FaceDetector("video", model=blobs, detect_every=1, smoothing=False)
    # With two things in sight the camera's motion is looked for, from the next frame on.
    frames = list(shaken(40))
    detector.detect(frames[0])
    for frame in frames:
        faces = detector.detect(frame)
        assert faces.ids is not None
        assert faces.ids[np.argsort(faces.boxes[:, 0])].tolist() in ([0, 1, 2], [2, 1, 0])


def test_timestamps_that_repeat_jump_back_or_are_missing(blobs: Blobs) -> None:
    detector = FaceDetector("video", model=blobs)
    stamps = [0, 33, 33, 33, 10, -500, None, 66, 66.5, 1e15, 1e15]
    for (frame, _), timestamp_ms in zip(moving(len(stamps)), stamps, strict=True):
        faces = detector.detect(frame, timestamp_ms)
        assert len(faces) == 2 and np.isfinite(faces.boxes).all()
    with pytest.raises(ValueError, match="timestamp_ms: expected a finite number, got nan"):
        detector.detect(picture(480, 640), float("nan"))


def test_smoothing_steadies_a_still_face_and_can_be_turned_off(blobs: Blobs) -> None:
    random = np.random.default_rng(0)
    jitter = random.integers(-2, 3, (60, 2))

    def spread(smoothing: bool) -> float:
        detector = FaceDetector("video", model=blobs, smoothing=smoothing)
        frames = [picture(480, 640, (0, 200 + x, 150 + y, 100)) for x, y in jitter]
        points = [detector.detect(frame).keypoints[0, 2] for frame in frames]
        return float(np.std(points[20:], axis=0).mean())

    assert spread(True) < 0.6 * spread(False)


def test_max_faces_keeps_the_same_ones_in_a_video(blobs: Blobs) -> None:
    detector = FaceDetector("video", model=blobs, max_faces=1, detect_every=1)
    first = picture(480, 640, (0, 50, 50, 60))
    both = picture(480, 640, (0, 50, 50, 60), (1, 400, 300, 60))
    both[:, :, 0] //= 2
    assert [detector.detect(f)[0].id for f in (first, both, both)] == [0, 0, 0]


def test_reset_starts_a_new_video(blobs: Blobs) -> None:
    detector = FaceDetector("video", model=blobs)
    square = picture(480, 640, (0, 100, 100, 60))
    assert [detector.detect(square, ms)[0].id for ms in (500, 533)] == [0, 0]
    detector.reset()
    assert detector.detect(square, 0)[0].id == 0
    assert len(detector.detect(picture(480, 640), 33)) == 0


def test_stream_gives_results_frames_and_timestamps(blobs: Blobs) -> None:
    got: list[tuple[Faces, Image, float | None]] = []
    waiting = threading.Semaphore(0)

    def on_result(faces: Faces, frame: Image, timestamp_ms: float | None) -> None:
        got.append((faces, frame, timestamp_ms))
        waiting.release()

    buffer = np.zeros((480, 640, 3), np.uint8)
    with FaceDetector("stream", model=blobs, on_result=on_result) as detector:
        for frame, timestamp_ms in moving(5):
            buffer[:] = frame
            detector.submit(buffer, timestamp_ms)
            buffer[:] = 0
            assert waiting.acquire(timeout=10)
        assert detector.dropped == 0
    assert [round(ms or 0) for _, _, ms in got] == [0, 33, 67, 100, 133]
    assert [len(faces) for faces, _, _ in got] == [2] * 5
    assert all(frame.any() for _, frame, _ in got)


def test_stream_under_overload_drops_and_stays_bounded(blobs: Blobs) -> None:
    go_on = threading.Event()
    got: list[float | None] = []

    def on_result(faces: Faces, frame: Image, timestamp_ms: float | None) -> None:
        go_on.wait(10)
        got.append(timestamp_ms)

    with FaceDetector("stream", model=blobs, on_result=on_result) as detector:
        for index in range(200):
            detector.submit(picture(64, 64), index)
        go_on.set()
    assert detector.dropped + len(got) == 200
    assert len(got) <= 3 and got[-1] == 199


def test_stream_errors_reach_the_user(blobs: Blobs) -> None:
    errors: list[Exception] = []
    image = picture(64, 64)
    with FaceDetector("stream", model=blobs, on_result=ignore, on_error=errors.append) as detector:
        with pytest.raises(ImageError, match="got float64"):
            detector.submit(np.zeros((4, 4)))
        detector.submit(image, roi=(900, 900, 5, 5))
    assert [str(error) for error in errors] == [
        "roi: lies outside the picture of 64x64 pixels: (900, 900, 5, 5)"
    ]
    with (
        pytest.raises(ImageError, match="roi: lies outside"),
        FaceDetector("stream", model=blobs, on_result=ignore) as detector,
    ):
        detector.submit(image, roi=(900, 900, 5, 5))


def test_fuzzed_calls_give_faces_or_one_clear_error(blobs: Blobs) -> None:
    """Whatever comes: a result inside the picture, or ImageError with one line."""
    random = np.random.default_rng(5)
    detector = FaceDetector(model=blobs, tile=64)
    choices: list[Callable[[], Source]] = [
        lambda: random.integers(0, 256, random.integers(0, 90, random.integers(1, 5)), np.uint8),
        lambda: random.integers(0, 256, (*random.integers(1, 90, 2), 3), np.uint8),
        lambda: random.integers(0, 256, (*random.integers(1, 90, 2), 4), np.uint8)[:, ::-2],
        lambda: random.random((*random.integers(1, 9, 2), 3)),
        lambda: random.bytes(int(random.integers(0, 50))),
        lambda: np.zeros((1, int(random.integers(1, 2000)), 3), np.uint8),
    ]
    for _ in range(300):
        roi = tuple(random.uniform(-50, 100, 4)) if random.random() < 0.3 else None
        source = choices[random.integers(len(choices))]()
        try:
            faces = detector.detect(source, roi=roi)
        except ImageError as error:
            assert "\n" not in str(error)
            continue
        assert (faces.boxes[:, 2:] > 0).all() and (faces.boxes[:, :2] >= 0).all()
        assert (faces.boxes[:, 0] + faces.boxes[:, 2] <= faces.width).all()
        assert (faces.boxes[:, 1] + faces.boxes[:, 3] <= faces.height).all()


def test_a_real_model_through_the_engine(red_model: Path) -> None:
    detector = FaceDetector(model=red_model, size=640)
    faces = detector.detect(picture(320, 640, (0, 64, 96, 32), (1, 160, 160, 32)))
    np.testing.assert_allclose(faces.boxes, [[64, 96, 32, 32]], atol=0.01)
    assert faces.scores[0] == pytest.approx(240 / 255, abs=1e-4)
    again = FaceDetector(model=red_model, size=640)
    ours, theirs = (
        each._search.network  # pyright: ignore[reportPrivateUsage]
        for each in (again, detector)
    )
    assert ours.model is theirs.model


@needs_model
@pytest.mark.parametrize("kit", [FaceDetector, FaceMesh])
def test_the_best_network_finds_faces_too(kit: Any) -> None:
    photo: Any = skimage.data
    image: Image = photo.astronaut()
    found: list[Faces] = [kit(quality=each).detect(image) for each in get_args(Quality)]
    auto, fast, best = found
    assert len(fast) == len(best) == 1
    # One large face needs no other network to be found.
    assert auto.scores == fast.scores
    if auto.mesh is None:
        np.testing.assert_array_equal(auto.boxes, fast.boxes)
    np.testing.assert_allclose(fast.boxes, best.boxes, atol=0.2 * fast.boxes[0, 2])
    assert fast.scores[0] != best.scores[0]
    with pytest.raises(
        ValueError, match="quality: expected one of 'auto', 'fast', 'best', got 'better'"
    ):
        kit(quality="better")


@needs_model
@pytest.mark.parametrize("speed", [1.5, 4, 5, 8, 20])
def test_real_faces_that_cross_keep_their_ids(speed: float) -> None:
    seen: list[dict[int, float]] = []
    with FaceDetector("video") as detector:
        for index, frame in enumerate(faces_that_cross(speed)):
            faces = detector.detect(frame, index * 1000 / 30)
            assert faces.ids is not None
            places = faces.boxes[:, 0] + faces.boxes[:, 2] / 2
            seen.append(dict(zip(faces.ids.tolist(), places.tolist(), strict=True)))
    assert sorted(seen[0]) == sorted(seen[-1]) == [0, 1]
    for id in (0, 1):
        assert (seen[0][id] < 320) == (seen[-1][id] > 320)
    # What is left to see of a face may be taken for two for a moment.
    assert np.mean([max(each) > 1 for each in seen]) < 0.05
    # Both are found nearly all the time, hidden or not.
    assert np.mean([len(each) >= 2 for each in seen]) > 0.75


def astronaut() -> Image:
    return kits.read_image(skimage.data.astronaut())  # type: ignore[no-untyped-call]


@needs_model
def test_astronaut() -> None:
    faces = kits.detect_faces(astronaut())
    assert len(faces) == 1
    face = faces[0]
    assert face.score > 0.6
    # The face lies from brow to chin between x 177 and 270, y 64 and 178.
    left, top, width, height = face.box
    assert 160 < left < 195 and 40 < top < 90 and 70 < width < 120 and 85 < height < 140
    expected = [[247, 104], [203, 104], [224, 128], [242, 145], [204, 144]]
    assert np.abs(face.keypoints - expected).max() < 10


def grace_hopper() -> Path:
    import matplotlib

    return Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")


@needs_model
def test_grace_hopper() -> None:
    faces = kits.detect_faces(grace_hopper())
    assert faces[0].score > 0.6
    expected = [[306, 196], [224, 197], [264, 242], [303, 276], [231, 277]]
    assert np.abs(faces[0].keypoints - expected).max() < 20


@needs_model
def test_grace_hopper_is_alone() -> None:
    assert len(kits.detect_faces(grace_hopper())) == 1


@needs_model
@pytest.mark.parametrize("value", [0, 128, 255])
def test_blank_picture(value: int) -> None:
    assert len(kits.detect_faces(np.full((300, 400, 3), value, np.uint8))) == 0


@needs_model
@pytest.mark.parametrize("scale", [0.25, 0.5, 2])
def test_astronaut_at_other_sizes(scale: float) -> None:
    side = round(512 * scale)
    faces = kits.detect_faces(resize(astronaut(), side, side))
    assert len(faces) == 1
    assert np.abs(faces[0].keypoints[2] / scale - [224, 128]).max() < 12


@needs_model
def test_astronaut_in_a_video_keeps_its_id() -> None:
    with FaceDetector("video", detect_every=8) as detector:
        for index in range(24):
            shift = round(30 * np.sin(index / 5))
            faces = detector.detect(np.roll(astronaut(), shift, axis=1), index * 33)
            assert [face.id for face in faces] == [0]
            assert np.abs(faces[0].keypoints[2] - [224 + shift, 128]).max() < 16


@needs_model
def test_the_function_makes_its_detector_once() -> None:
    from palmkit.kits.face.options import FaceOptions
    from palmkit.kits.options import kept

    kits.detect_faces(astronaut())
    made = kept(kits.FaceDetector, FaceOptions, FaceOptions())
    kits.detect_faces(astronaut())
    assert kept(kits.FaceDetector, FaceOptions, FaceOptions()) is made
    assert kept(kits.FaceDetector, FaceOptions, FaceOptions(max_faces=1)) is not made
