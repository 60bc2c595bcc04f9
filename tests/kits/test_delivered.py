"""Kits whose models are delivered: a newer one is taken between frames, a bad one given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data

from palmkit import engine
from palmkit.delivery import embedded
from palmkit.delivery.client import Client
from palmkit.delivery.policy import Candidate
from palmkit.engine.errors import DeliveryError, ModelError, PalmError
from palmkit.kits import (
    FaceDetector,
    FaceMesh,
    Faces,
    GestureRecognizer,
    HairSegmenter,
    PortraitSegmenter,
    delivered,
)
from palmkit.kits.image import Image
from palmkit.kits.kit import shipped_model
from palmkit.kits.ranking.kit import Reranker
from tests.delivery.devices import Devices
from tests.kits.conftest import picture

SQUARES = picture(96, 160, (0, 0, 0, 32), (0, 64, 32, 32), (0, 128, 64, 32))


@pytest.fixture
def devices(tmp_path: Path) -> Devices:
    return Devices(tmp_path)


@pytest.fixture
def client(devices: Devices, red_model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """The app's client; the red model is what came with the app."""
    client = devices.client(baselines={"face_detector": red_model})
    monkeypatch.setattr("palmkit.delivery.app.client", lambda: client)
    monkeypatch.setattr(delivered, "POLL_EVERY_S", 0.01)
    yield client
    client.close()


@pytest.fixture
def changed(red_model: Path, tmp_path: Path) -> Callable[..., bytes]:
    """The red model with a gain, and what its file says of it."""

    def changed(gain: float, **metadata: str) -> bytes:
        graph = engine.convert(red_model)
        constants = {
            name: np.asarray(value * np.float32(gain)) if value.shape == (1, 3, 1, 1) else value
            for name, value in graph.constants.items()
        }
        engine.save(replace(graph, constants=constants, metadata=metadata), tmp_path / "red.palm")
        return (tmp_path / "red.palm").read_bytes()

    return changed


def release(devices: Devices, version: str, content: bytes, model: str = "face_detector") -> None:
    devices.published.publish(version, content, model)
    devices.published.offer(Candidate(version, 100), model=model)


def wait_for(kit: Any, version: str, go_on: Callable[[], Any], limit_s: float = 10) -> None:
    """Look at frames until the kit has the release."""
    end = time.monotonic() + limit_s
    while version not in kit.releases.values():
        assert time.monotonic() < end, f"{kit.releases} after {limit_s} s"
        go_on()
        time.sleep(0.002)


def score(faces: Faces) -> float:
    """Return the score of three squares, which one model must have seen."""
    assert len(faces) == 3
    assert len(set(faces.scores.round(3).tolist())) == 1, "a frame seen by two models"
    return round(float(faces.scores[0]), 2)


def test_a_video_goes_on_through_a_new_release(
    devices: Devices, client: Client, changed: Callable[..., bytes]
) -> None:
    with FaceDetector("video", model="face_detector@stable", size=160) as kit:
        first = kit.detect(SQUARES)
        assert (score(first), kit.releases) == (0.94, {"face_detector@stable": "0"})
        release(devices, "1.0", changed(0.8))
        client.refresh("face_detector")
        seen = [first]
        wait_for(kit, "1.0", lambda: seen.append(kit.detect(SQUARES)))
        seen += [kit.detect(SQUARES) for _ in range(30)]
    scores = [score(faces) for faces in seen]
    assert scores == sorted(scores, reverse=True) and set(scores) == {0.94, 0.75}
    assert all(sorted(faces.ids.tolist()) == [0, 1, 2] for faces in seen if faces.ids is not None)
    # Twenty good runs proved it.
    end = time.monotonic() + 5
    while client.status("face_detector")["models"][0]["state"] != "ACTIVE":
        assert time.monotonic() < end
        time.sleep(0.01)


class NewThreads:
    """The threads that were not there when it was made."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    def names(self) -> list[str]:
        return [each.name for each in threading.enumerate() if each not in self._before]

    def wait_for_end(self, limit_s: float = 5) -> None:
        end = time.monotonic() + limit_s
        while self.names():
            assert time.monotonic() < end
            time.sleep(0.01)


def test_kits_and_updates_have_one_thread_which_ends_with_the_last_kit(
    devices: Devices,
    client: Client,
    changed: Callable[..., bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("palmkit.delivery.client.HINT_WITHIN_S", 0.0)
    threads = NewThreads()
    kit = FaceDetector(model="face_detector@stable", size=160)
    other = FaceDetector(model="face_detector@stable", size=160)
    release(devices, "1.0", changed(0.8))
    seen: set[tuple[str, ...]] = set()

    def look() -> None:
        kit.detect(SQUARES)
        seen.add(tuple(threads.names()))

    # Brought and taken behind its back.
    client.hint(1)
    wait_for(kit, "1.0", look)
    assert seen == {("palmkit delivery",)}
    kit.close()
    assert threads.names() == ["palmkit delivery"]
    del other
    threads.wait_for_end()


def test_what_changes_in_this_process_is_taken_at_once(
    devices: Devices,
    client: Client,
    changed: Callable[..., bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivered, "POLL_EVERY_S", 3600.0)
    threads = NewThreads()
    with FaceDetector(model="face_detector@stable", size=160) as kit:
        release(devices, "1.0", changed(0.8))
        client.refresh("face_detector")
        wait_for(kit, "1.0", lambda: kit.detect(SQUARES))
        client.rollback("face_detector")
        wait_for(kit, "0", lambda: kit.detect(SQUARES))
    threads.wait_for_end()


def test_many_threads_see_each_picture_by_one_model(
    devices: Devices, client: Client, changed: Callable[..., bytes]
) -> None:
    kit = FaceDetector(model="face_detector@stable", size=160, tile=64)
    scores: list[float] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            scores.append(score(kit.detect(SQUARES)))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for version, gain in (("1.0", 0.8), ("1.1", 0.9), ("1.2", 0.7)):
            release(devices, version, changed(gain))
            client.refresh("face_detector")
            wait_for(kit, version, lambda: None)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert set(scores) <= {0.94, 0.75, 0.85, 0.66} and 0.66 in scores


def test_thresholds_are_those_of_the_new_model(
    devices: Devices, client: Client, changed: Callable[..., bytes]
) -> None:
    kit = FaceDetector(model="face_detector@stable", size=160)
    own = FaceDetector(model="face_detector@stable", size=160, min_score=0.2)
    assert len(kit.detect(SQUARES)) == 3
    release(devices, "1.0", changed(0.8, threshold="0.8"))
    client.refresh("face_detector")
    wait_for(kit, "1.0", lambda: kit.detect(SQUARES))
    wait_for(own, "1.0", lambda: own.detect(SQUARES))
    assert (len(kit.detect(SQUARES)), len(own.detect(SQUARES))) == (0, 3)


@pytest.mark.parametrize("mode", ["image", "video"])
def test_numbers_that_are_none_give_the_model_back(
    devices: Devices, client: Client, changed: Callable[..., bytes], mode: Any
) -> None:
    kit = FaceDetector(mode, model="face_detector@stable", size=160)
    before = kit.detect(SQUARES)
    release(devices, "1.0", changed(np.nan))
    client.refresh("face_detector")
    end = time.monotonic() + 10
    while not client.status("face_detector")["models"][0]["quarantine"]:
        assert time.monotonic() < end
        assert score(kit.detect(SQUARES)) == score(before)
    assert kit.releases == {"face_detector@stable": "0"}
    entry = client.status("face_detector")["models"][0]["quarantine"][0]
    assert (entry["release"], entry["code"]) == ("1.0", "nan")


def test_a_kit_made_with_a_bad_release_runs_the_one_before(
    devices: Devices, client: Client, changed: Callable[..., bytes]
) -> None:
    release(devices, "1.0", changed(0.8))
    client.refresh("face_detector")
    client.mark_ok(client.get("face_detector"))
    for version, content in (("1.1", b"no model"), ("1.2", devices.content(2))):
        release(devices, version, content)
        client.refresh("face_detector")
        kit = FaceDetector(model="face_detector@stable", size=160)
        assert score(kit.detect(SQUARES)) == 0.75
        assert kit.releases == {"face_detector@stable": "1.0"}
    codes = [each["code"] for each in client.status("face_detector")["models"][0]["quarantine"]]
    assert codes == ["load_fail", "load_fail"]


def test_a_release_for_another_kit_never_gets_into_a_running_one(
    devices: Devices, client: Client
) -> None:
    kit = FaceDetector("video", model="face_detector@stable", size=160)
    release(devices, "1.0", devices.content(2))
    client.refresh("face_detector")
    end = time.monotonic() + 10
    while not client.status("face_detector")["models"][0]["quarantine"]:
        assert time.monotonic() < end
        assert score(kit.detect(SQUARES)) == 0.94


def test_frames_of_a_stream_all_come(
    devices: Devices, client: Client, changed: Callable[..., bytes]
) -> None:
    scores: list[float] = []

    def take(faces: Faces, frame: Image, timestamp_ms: float | None) -> None:
        scores.append(score(faces))

    release(devices, "1.0", changed(0.8))
    with FaceDetector("stream", model="face_detector@stable", size=160, on_result=take) as kit:
        frames = 0

        def submit() -> None:
            nonlocal frames
            frames += 1
            kit.submit(SQUARES)
            while len(scores) + kit.dropped < frames:
                time.sleep(0.001)

        submit()
        client.refresh("face_detector")
        wait_for(kit, "1.0", submit)
        submit()
    assert len(scores) == frames and set(scores) == {0.94, 0.75}


@pytest.mark.parametrize(
    ("make", "mode", "options", "method"),
    [
        (FaceDetector, "video", {"model": "face_detector"}, "detect"),
        (FaceMesh, "video", {"model": "face_mesh", "detector_model": "face_detector"}, "detect"),
        (
            GestureRecognizer,
            "video",
            {"model": "hand_landmarks", "detector_model": "hand_detector"},
            "recognize",
        ),
        (PortraitSegmenter, "video", {"model": "portrait"}, "segment"),
        (
            PortraitSegmenter,
            "image",
            {"model": "portrait", "finder_model": "person_finder"},
            "segment",
        ),
        (HairSegmenter, "video", {"model": "hair", "face_model": "face_detector"}, "segment"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_every_kit_takes_new_releases_of_all_its_models(
    devices: Devices,
    client: Client,
    tmp_path: Path,
    make: Any,
    mode: str,
    options: dict[str, str],
    method: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = list(options.values())
    missing = [name for name in models if not shipped_model(name).is_file()]
    if missing:
        pytest.skip(f"not made here: models/{missing[0]}/{missing[0]}.palm")
    client = devices.client("other", baselines={})
    monkeypatch.setattr("palmkit.delivery.app.client", lambda: client)
    kit = make(mode, **{name: f"{model}@stable" for name, model in options.items()})
    photo: Any = skimage.data
    frame = np.ascontiguousarray(photo.astronaut()[:256, 128:384])
    before = getattr(kit, method)(frame)
    assert kit.releases == {f"{name}@stable": embedded.shipped()[name].version for name in models}
    for name in models:
        graph = engine.convert(shipped_model(name))
        metadata = {**graph.metadata, "threshold": "0.999999"}
        engine.save(replace(graph, metadata=metadata), tmp_path / "new.palm")
        release(devices, "2.0", (tmp_path / "new.palm").read_bytes(), name)
    for name in models:
        client.refresh(name)
    end = time.monotonic() + 10
    while set(kit.releases.values()) != {"2.0"}:
        assert time.monotonic() < end
        getattr(kit, method)(frame)
    kit.reset()
    after = getattr(kit, method)(frame)
    if hasattr(before, "mask"):
        np.testing.assert_allclose(after.mask, before.mask, atol=1e-5)
    elif make is not GestureRecognizer:
        # The threshold that the new file states leaves nothing.
        assert (len(before), len(after)) == (1, 0)


def test_pages_are_ordered_by_one_model_each(
    devices: Devices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shipped_model("reranker").is_file():
        pytest.skip("not made here: models/reranker/reranker.palm")
    client = devices.client(baselines={})
    monkeypatch.setattr("palmkit.delivery.app.client", lambda: client)
    monkeypatch.setattr(delivered, "POLL_EVERY_S", 0.01)
    graph = engine.convert(shipped_model("reranker"))
    page = [{"id": n, "brand": "ab"[n % 2], "price": float(n), "position": n} for n in range(1, 9)]
    event = {"event": "click", "id": 2, "time": 1.7e9, "brand": "a", "price": 2.0}
    kit = Reranker("reranker@stable")
    session = kit.session()
    session.observe(event)
    before = session.rerank(page)

    def give(version: str, **changes: Any) -> None:
        metadata = {**graph.metadata, "version": version}
        engine.save(replace(graph, **{"metadata": metadata, **changes}), tmp_path / "new.palm")
        release(devices, version, (tmp_path / "new.palm").read_bytes(), "reranker")
        client.refresh("reranker")

    give("1.1")
    wait_for(kit, "1.1", lambda: kit.rerank(page, [event]))
    assert kit.rerank(page, [event]).ids == before.ids
    # A visit ends with the model that it began with.
    assert session.rerank(page).model == before.model != kit.model
    session.reset()
    assert session.rerank(page).model == kit.model
    for _ in range(20):
        kit.rerank(page, [event])
    session.observe(event)
    broken = {
        name: np.full_like(value, np.nan) if value.dtype == np.float32 else value
        for name, value in graph.constants.items()
    }
    end = time.monotonic() + 10
    while client.status("reranker")["models"][0]["state"] != "ACTIVE":
        assert time.monotonic() < end
        time.sleep(0.01)
    give("1.2", constants=broken)
    while not client.status("reranker")["models"][0]["quarantine"]:
        assert time.monotonic() < end
        session.reset()
        session.observe(event)
        assert session.rerank(page).ids == kit.rerank(page, [event]).ids == before.ids
    assert kit.releases == {"reranker@stable": "1.1"}


def test_names_that_are_no_models(client: Client) -> None:
    with pytest.raises(DeliveryError, match="no such model here: cat_detector"):
        FaceDetector(model="cat_detector@stable")
    with pytest.raises(ModelError):
        FaceDetector(model="face_detector")
    if shipped_model("hair").is_file():
        with pytest.raises(PalmError):
            FaceDetector(model="hair@stable").detect(SQUARES)
