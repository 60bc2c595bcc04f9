"""Masks of videos whose frames the network's device keeps, beside those that are made here."""

from typing import Any, NoReturn

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit import engine
from palmkit.engine.backends.gpu import device as gpu_device
from palmkit.engine.backends.gpu.frames import GpuFrames
from palmkit.engine.frames import Frames
from palmkit.engine.ir import Graph, Node, Type
from palmkit.kits import HairSegmenter, PortraitSegmenter
from palmkit.kits.image import Image, Part
from palmkit.kits.portrait import on_device
from palmkit.kits.portrait.following import EVERY, Following
from tests.engine.backends.test_gpu import KIND, MISSING, NAME
from tests.kits.conftest import Blobs, picture
from tests.kits.drawn_portraits import SIDE, Reds, iou, scene

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{NAME}: {MISSING}")

# Masks are rounded to levels of 255 there.
MOST_OFF = 0.502 / 255


def reds(backend: str = NAME) -> engine.Model:
    """The network of Reds: red is a person."""
    weights = np.array([1, -1, 0], np.float32).reshape(1, 3, 1, 1) / 170
    nodes = (
        Node("transpose", ("image",), ("x",), {"perm": (0, 3, 1, 2)}),
        Node("conv", ("x", "w"), ("y",)),
        Node("clip", ("y", "low", "high"), ("z",)),
        Node("transpose", ("z",), ("mask",), {"perm": (0, 2, 3, 1)}),
    )
    low, high = (np.array(each, np.float32) for each in (0, 1))
    constants: dict[str, NDArray[Any]] = {"w": weights, "low": low, "high": high}
    inputs = {"image": Type("float32", (1, SIDE, SIDE, 3))}
    outputs = {"mask": Type("float32", (1, SIDE, SIDE, 1))}
    return engine.Model(Graph(inputs, outputs, nodes, constants), backend)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of frames that are sent; adapters in software count as hardware."""
    found, send = list[tuple[int, ...]](), GpuFrames.send

    def counted(self: GpuFrames, image: Image) -> None:
        found.append(image.shape)
        send(self, image)

    monkeypatch.setattr(GpuFrames, "send", counted)
    monkeypatch.setattr(GpuFrames, "is_software", False)
    monkeypatch.setattr(on_device, "_times", {})
    return found


def choose(monkeypatch: pytest.MonkeyPatch, here_s: float, there_s: float) -> None:
    def timed(*_: object) -> tuple[float, float]:
        return here_s, there_s

    monkeypatch.setattr(on_device, "_time", timed)
    monkeypatch.setattr(on_device, "_times", {})


CASES: list[tuple[int, int, Part | None]] = [
    (320, 240, None),
    (641, 359, None),
    (1280, 720, None),
    (97, 531, None),
    (3, 2, None),
    (640, 360, (200, 31, 301, 200)),
    (640, 360, (300, 100, 1, 1)),
    (641, 359, (639.5, 0, 1, 359)),
]


@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize(("width", "height", "roi"), CASES, ids=str)
def test_portraits_are_the_same(
    width: int,
    height: int,
    roi: Part | None,
    refine: bool,
    sent: list[tuple[int, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, masks = reds(), list[Any]()
    noise = np.random.default_rng(0).integers(0, 20, (height, width, 3), dtype=np.uint8)
    for there_s in (np.inf, 0.0):
        choose(monkeypatch, 1.0, there_s)
        with PortraitSegmenter("video", model=model, refine=refine, second_pass=False) as segmenter:
            for shift in (0, 3, 60):
                frame = scene(height, width, shift)[0] + noise
                masks.append(segmenter.segment(frame, roi=roi).mask)
    assert sent == [(height, width, 3)] * 3
    assert any(mask.any() for mask in masks) or roi is not None or width == 3
    for here, there in zip(masks[:3], masks[3:], strict=True):
        assert there.dtype == np.float32
        assert np.abs(here - there).max() <= MOST_OFF


def test_small_people_are_followed_here(
    sent: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of every third frame is looked at, and that one is kept there."""
    masks, frames = list[Any](), 2 * EVERY
    for there_s in (np.inf, 0.0):
        choose(monkeypatch, 1.0, there_s)
        with PortraitSegmenter("video", model=reds()) as segmenter:
            for shift in range(frames):
                frame, inside = scene(360, 640, shift)
                masks.append(segmenter.segment(frame).mask)
                assert iou(masks[-1] > 0.5, inside) > 0.9
    assert sent == [(360, 640, 3)] * 2
    for here, there in zip(masks[:frames], masks[frames:], strict=True):
        assert np.abs(here - there).max() <= MOST_OFF


@pytest.mark.parametrize("faces", [0, 1, 2])
@pytest.mark.parametrize(("width", "height"), [(600, 300), (1279, 717)])
def test_hair_is_the_same(
    faces: int,
    width: int,
    height: int,
    sent: list[tuple[int, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    masks, model = list[Any](), reds()
    squares = [(1, width // 6, height // 3, 60), (2, width * 2 // 3, height // 3, 60)]
    for there_s in (np.inf, 0.0):
        choose(monkeypatch, 1.0, there_s)
        with HairSegmenter("video", model=model, face_model=Blobs(threshold="0.7")) as segmenter:
            for step in range(3):
                shown = [(c, x + 5 * step, y, s) for c, x, y, s in squares[:faces]]
                frame = picture(height, width, *shown)
                frame[height // 4 : height // 3, width // 6 : width // 2, 0] = 120
                masks.append(segmenter.segment(frame).mask)
    assert sent == [(height, width, 3)] * 3
    for here, there in zip(masks[:3], masks[3:], strict=True):
        assert here.any() and np.abs(here - there).max() <= MOST_OFF


def test_it_is_chosen_where_it_is_better(
    sent: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    image, model = scene()[0], reds()

    def frames_sent(kit: Any, *roi: Part) -> int:
        sent.clear()
        with kit:
            for _ in range(2):
                kit.segment(image, roi=roi[0] if roi else None)
        return len(sent)

    choose(monkeypatch, 1.0, 0.8)
    assert frames_sent(PortraitSegmenter("video", model=model, second_pass=False)) == 2
    # A frame is sent as a whole, of which here little is looked at.
    assert (
        frames_sent(PortraitSegmenter("video", model=model, second_pass=False), (0, 0, 320, 200))
        == 0
    )
    assert frames_sent(PortraitSegmenter("video", model=reds("cpu"))) == 0
    assert frames_sent(PortraitSegmenter("video", model=Reds())) == 0
    assert frames_sent(PortraitSegmenter(model=model)) == 0
    choose(monkeypatch, 1.0, 0.95)
    assert frames_sent(PortraitSegmenter("video", model=model, second_pass=False)) == 0
    choose(monkeypatch, 1.0, 0.0)
    image = np.zeros((2, on_device.LONGEST * SIDE, 3), np.uint8)
    assert frames_sent(PortraitSegmenter("video", model=model, second_pass=False)) == 2
    image = np.zeros((2, on_device.LONGEST * SIDE + 1, 3), np.uint8)
    assert frames_sent(PortraitSegmenter("video", model=model, second_pass=False)) == 0
    image = scene()[0]
    monkeypatch.setattr(GpuFrames, "is_software", True)
    assert frames_sent(PortraitSegmenter("video", model=model, second_pass=False)) == 0


def test_both_ways_are_timed_once_for_each_size(
    sent: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    timed, time = list[tuple[int, int]](), on_device._time  # pyright: ignore[reportPrivateUsage]

    def noted(
        model: engine.Model, frames: Frames, height: int, width: int, side: int
    ) -> tuple[float, float]:
        timed.append((height, width))
        here_s, there_s = time(model, frames, height, width, side)
        assert np.isfinite([here_s, there_s]).all()
        return here_s, there_s

    monkeypatch.setattr(on_device, "_time", noted)
    model = reds()
    for _ in range(2):
        with PortraitSegmenter("video", model=model) as segmenter:
            for size in ((240, 320), (120, 160), (240, 320)):
                segmenter.segment(scene(*size)[0])
    assert timed == [(240, 320), (120, 160)]
    assert sent


def test_frames_that_the_device_refuses_stay_here(
    sent: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> NoReturn:
        raise engine.UnsupportedError("frames of 320x240 pixels")

    model, image = reds(), scene()[0]
    choose(monkeypatch, 1.0, np.inf)
    expected = PortraitSegmenter("video", model=model).segment(image).mask
    monkeypatch.setattr(on_device, "_time", refused)
    monkeypatch.setattr(on_device, "_times", {})
    found = PortraitSegmenter("video", model=model).segment(image).mask
    assert not sent
    np.testing.assert_array_equal(found, expected)


def test_a_lost_device_does_not_lose_the_frame(
    sent: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(monkeypatch, 1.0, 0.0)
    expected, masks = list[Any](), list[Any]()
    upsample, calls = GpuFrames.upsample, list[int]()
    begin, begun = Following.begin, list[float]()

    def beginning(self: Following, *given: Any) -> Any:
        begun.append(given[-1])
        return begin(self, *given)

    monkeypatch.setattr(Following, "begin", beginning)

    def losing(self: GpuFrames, *given: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            gpu_device.device(KIND).gpu.destroy()
        return upsample(self, *given)

    for lose in (False, True):
        if lose:
            monkeypatch.setattr(GpuFrames, "upsample", losing)
        with PortraitSegmenter("video", model=reds(), second_pass=False) as segmenter:
            for shift in (0, 5, 10):
                mask = segmenter.segment(scene(shift=shift)[0]).mask
                (masks if lose else expected).append(mask)
    assert len(calls) == 4
    # Each frame was told to what follows people once.
    assert len(begun) == len(masks) + len(expected)
    np.testing.assert_array_equal(masks, expected)
