"""The one call of each kit: with pictures of every kind, with lists, and awaited."""

import asyncio
import contextlib
import gc
import io
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image
import pytest
from numpy.typing import NDArray

from palmkit import kits
from palmkit.kits.calls import is_listed
from palmkit.kits.image import Image
from palmkit.kits.results import Faces, Hands, Mask, TriedOn
from palmkit.kits.table import KITS
from tests.kits.conftest import Blobs, picture
from tests.kits.test_ending import FORKING, end_of

if TYPE_CHECKING:
    from typing_extensions import assert_type


PICTURE_KITS = [name for name, entry in KITS.items() if entry.takes == "picture"]
LOOK = {"tryon": {"look": "evening"}}


def png_of(image: Image) -> bytes:
    file = io.BytesIO()
    PIL.Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


class Counting(Blobs):
    """Takes its time, and says how many calls are in it."""

    def __init__(self, delay_s: float = 0.02) -> None:
        super().__init__()
        self.delay_s = delay_s
        self.began = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.within = self.most = 0
        self.lock = threading.Lock()

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        with self.lock:
            self.within += 1
            self.most = max(self.most, self.within)
        self.began.set()
        time.sleep(self.delay_s)
        self.go_on.wait(20)
        with self.lock:
            self.within -= 1
        return super().run(inputs)


@pytest.mark.parametrize("name", PICTURE_KITS)
def test_every_kit_takes_a_list_and_is_awaited(name: str) -> None:
    entry = KITS[name]
    grey = np.full((48, 64, 3), 128, np.uint8)
    with entry.load_kit()(**LOOK.get(name, {})) as kit:
        method, twin = getattr(kit, entry.method), getattr(kit, f"{entry.method}_async")
        several = method([grey, io.BytesIO(png_of(grey[:32]))])
        awaited, each = asyncio.run(both(twin(grey), twin((grey, grey[:32]))))
    heights = [(48, entry.load_result()), (32, entry.load_result())]
    assert [(found.height, type(found)) for found in several] == heights
    assert (awaited.height, type(awaited)) == heights[0]
    assert [(found.height, type(found)) for found in each] == heights
    function = getattr(kits, entry.function)
    assert [found.height for found in function([grey[:40]])] == [40]
    assert function([]) == []


def nothing(found: Faces, frame: Image, timestamp_ms: float | None) -> None:
    pass


async def both(one: Any, other: Any) -> tuple[Any, Any]:
    return await one, await other


def test_pictures_come_in_every_form(tmp_path: Path, blobs: Blobs) -> None:
    image = picture(96, 128, (0, 32, 32, 32))
    path, data = tmp_path / "red.png", png_of(image)
    path.write_bytes(data)
    with kits.FaceDetector(model=blobs, min_score=0.5) as detector, path.open("rb") as file:
        forms: list[Any] = [
            path, str(path), data, bytearray(data), memoryview(data), io.BytesIO(data), file, image,
            PIL.Image.fromarray(image),
        ]  # fmt: skip
        found = detector.detect(forms)
        assert not file.closed
    for each in found:
        np.testing.assert_array_equal(each.boxes, found[0].boxes)
        # What was read once can be read again.
        np.testing.assert_array_equal(each.image, image)
    assert len(found[0]) == 1


def test_options_count_for_each_picture_of_a_list(blobs: Blobs) -> None:
    image = picture(96, 128, (0, 32, 32, 32))
    with kits.FaceDetector(model=blobs, min_score=0.5) as detector:
        for found in detector.detect([image, image], rotation=90, flip="vertical"):
            alone = detector.detect(image, rotation=90, flip="vertical")
            assert (found.width, found.height) == (96, 128)
            np.testing.assert_array_equal(found.boxes, alone.boxes)
        assert [len(each) for each in detector.detect([image] * 2, roi=(0, 0, 9, 9))] == [0, 0]


def test_a_background_is_read_once_for_all_pictures_of_a_list() -> None:
    grey = np.full((48, 64, 3), 128, np.uint8)
    file = io.BytesIO(png_of(grey[:9] // 2))

    class Once:
        def read(self, size: int = -1, /) -> bytes:
            return file.read(size)

    for found in kits.segment_portrait([grey, grey], Once()):
        assert found.picture is not None and (found.picture == 64).all()
    with pytest.raises(kits.ImageError, match="^no such file: none.png"):
        kits.segment_hair([grey, grey], "none.png")


def test_what_is_one_picture_and_what_several() -> None:
    one: list[Any] = ["a.jpg", b"", bytearray(), memoryview(b""), Path("a"), np.zeros((2, 2)), None]
    assert not any(is_listed(each) for each in one)
    assert is_listed([]) and is_listed(("a.jpg",))


@pytest.mark.parametrize("is_awaited", [False, True])
def test_an_error_of_one_picture_names_its_index(is_awaited: bool, blobs: Blobs) -> None:
    image = picture(32, 32)
    wrong: list[tuple[list[Any], str]] = [
        ([image, "none.jpg"], r"^image\[1\]: no such file: none.jpg$"),
        ([4], r"^image\[0\]: input image: expected a path"),
        ([[0, 255], [3]], r"^image\[0\]: input image: .*got list$"),
        ([image, image, b"x"], r"^image\[2\]: not a picture"),
    ]
    with kits.FaceDetector(model=blobs) as detector:
        for given, message in wrong:
            with pytest.raises(kits.ImageError, match=message):
                if is_awaited:
                    asyncio.run(detector.detect_async(given))
                else:
                    detector.detect(given)
    with pytest.raises(kits.ImageError, match=r"image\[1\]: no such file"):
        kits.detect_faces([image, "none.jpg"])


def test_lists_are_for_pictures_that_stand_for_themselves(blobs: Blobs) -> None:
    with kits.FaceDetector("video", model=blobs) as detector:
        message = "face detector: a list of pictures needs mode 'image', mode is 'video'"
        with pytest.raises(RuntimeError, match=message):
            detector.detect([picture(32, 32)])
        with pytest.raises(RuntimeError, match=message):
            asyncio.run(detector.detect_async([picture(32, 32)]))


def test_wrong_arguments_name_the_method(blobs: Blobs) -> None:
    with kits.FaceDetector(model=blobs) as detector:
        with pytest.raises(TypeError, match=r"FaceDetector.detect\(\).*'image'"):
            detector.detect()  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
        with pytest.raises(TypeError, match=r"FaceDetector.detect\(\).*'rio'"):
            detector.detect("a.jpg", rio=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"GestureRecognizer.recognize_async\(\).*'image'"):
        asyncio.run(kits.GestureRecognizer.recognize_async(None))


def test_the_event_loop_goes_on_while_a_kit_works() -> None:
    model = Counting()
    model.go_on.clear()

    async def main() -> int:
        with kits.FaceDetector(model=model) as detector:
            doing = asyncio.create_task(detector.detect_async(picture(32, 32)))
            while not model.began.is_set():
                await asyncio.sleep(0.001)
            turns = 0
            while turns < 20:
                await asyncio.sleep(0.001)
                turns += 1
            assert not doing.done()
            model.go_on.set()
            return len(await doing)

    assert asyncio.run(main()) == 0


def test_pictures_are_worked_on_at_once_up_to_the_number_of_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    model = Counting()
    model.go_on.clear()

    async def begun(count: int) -> None:
        while model.within < count:
            await asyncio.sleep(0.001)

    async def main() -> None:
        with kits.FaceDetector(model=model) as detector:
            calls = asyncio.gather(*(detector.detect_async(picture(32, 32)) for _ in range(9)))
            await asyncio.wait_for(begun(3), 20)
            await asyncio.sleep(0.05)
            model.go_on.set()
            await calls

    asyncio.run(main())
    assert model.most == 3


def test_frames_are_awaited_in_the_order_of_the_calls() -> None:
    model = Counting(0.005)
    square = [picture(96, 256, (0, 20 + 8 * at, 32, 32)) for at in range(9)]

    async def main() -> list[Faces]:
        with kits.FaceDetector("video", model=model, min_score=0.5, smoothing=False) as detector:
            calls = (detector.detect_async(frame, 33.0 * at) for at, frame in enumerate(square))
            return await asyncio.gather(*calls)

    found = asyncio.run(main())
    assert [list(each.ids if each.ids is not None else ()) for each in found] == [[0]] * 9
    middles = [float(each.boxes[0, 0]) for each in found]
    assert middles == sorted(middles) and model.most == 1


def test_what_is_cancelled_before_its_turn_is_never_begun() -> None:
    model = Counting()
    model.go_on.clear()

    async def main() -> None:
        with kits.FaceDetector("video", model=model) as detector:
            first = asyncio.create_task(detector.detect_async(picture(32, 32)))
            while not model.began.is_set():
                await asyncio.sleep(0.001)
            waiting = asyncio.create_task(detector.detect_async(picture(32, 32)))
            await asyncio.sleep(0.01)
            for task in (waiting, first):
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.wait_for(task, 5)
            model.go_on.set()
            # The kit can be used as ever.
            assert len(await detector.detect_async(picture(32, 32))) == 0

    asyncio.run(main())
    # The first one, which went on, and the last one.
    assert len(model.runs) == 2


def test_a_time_limit_ends_the_waiting() -> None:
    model = Counting()
    model.go_on.clear()

    async def main() -> None:
        with kits.FaceDetector(model=model) as detector, pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(detector.detect_async(picture(32, 32)), 0.05)
        model.go_on.set()

    asyncio.run(main())


def test_errors_arrive_where_they_are_awaited(blobs: Blobs) -> None:
    async def main() -> None:
        detector = kits.FaceDetector(model=blobs)
        found = await asyncio.gather(
            detector.detect_async("none.jpg"),
            detector.detect_async(picture(32, 32)),
            return_exceptions=True,
        )
        assert isinstance(found[0], kits.ImageError) and not isinstance(found[1], BaseException)
        detector.close()
        later = detector.detect_async(picture(32, 32))
        with pytest.raises(RuntimeError, match="face detector is closed"):
            await later
        stream = kits.FaceDetector("stream", model=blobs, on_result=nothing)
        with stream, pytest.raises(RuntimeError, match="mode is 'stream', use submit"):
            await stream.detect_async(picture(32, 32))

    asyncio.run(main())


def test_what_waits_while_the_kit_is_closed_is_told_so() -> None:
    model = Counting()
    model.go_on.clear()

    async def main() -> None:
        with kits.FaceDetector("video", model=model) as detector:
            first = asyncio.create_task(detector.detect_async(picture(32, 32)))
            while not model.began.is_set():
                await asyncio.sleep(0.001)
            second = asyncio.create_task(detector.detect_async(picture(32, 32)))
            await asyncio.sleep(0.01)
        model.go_on.set()
        assert len(await first) == 0
        with pytest.raises(RuntimeError, match="face detector is closed"):
            await second

    asyncio.run(main())


@pytest.mark.parametrize("is_closed", [False, True])
def test_threads_end_with_the_kit(is_closed: bool, blobs: Blobs) -> None:
    # Threads of earlier tests may still be ending.
    before = set(threading.enumerate())

    def threads_of_kit() -> set[threading.Thread]:
        later = set(threading.enumerate()) - before
        return {thread for thread in later if thread.name.startswith("palmkit_")}

    async def main() -> None:
        kit = kits.FaceDetector(model=blobs)
        await kit.detect_async(picture(32, 32))
        assert threads_of_kit()
        if is_closed:
            kit.close()

    asyncio.run(main())
    gc.collect()
    until_s = time.monotonic() + 5
    while threads_of_kit() and time.monotonic() < until_s:
        time.sleep(0.01)
    assert not threads_of_kit()


def test_one_kit_serves_several_event_loops(blobs: Blobs) -> None:
    failed: list[BaseException] = []
    with kits.FaceDetector("video", model=blobs) as detector:

        async def some() -> None:
            await asyncio.gather(*(detector.detect_async(picture(32, 32)) for _ in range(5)))

        def loop() -> None:
            try:
                asyncio.run(some())
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=loop) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed
    assert len(blobs.runs) == 20


def test_the_callers_context_is_that_of_the_work(blobs: Blobs) -> None:
    import contextvars

    asked: contextvars.ContextVar[str] = contextvars.ContextVar("asked", default="nobody")
    told: list[str] = []
    run = blobs.run

    class Telling(Blobs):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            told.append(asked.get())
            return run(inputs)

    async def main() -> None:
        asked.set("me")
        with kits.FaceDetector(model=Telling()) as detector:
            await detector.detect_async(picture(32, 32))

    asyncio.run(main())
    assert told == ["me"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("mode", ["image", "video"])
def test_a_forked_child_awaits_with_threads_of_its_own(mode: str) -> None:
    script = f"""
import asyncio
model.delay_s = 0.1
kit = kits.FaceDetector({mode!r}, model=model)
async def main():
    doing = asyncio.create_task(kit.detect_async(picture))
    while not began.is_set():
        await asyncio.sleep(0.001)
    in_child(lambda: asyncio.run(kit.detect_async(picture)))
    await doing
    await kit.detect_async(picture)
asyncio.run(main())
kit.close()
for _ in range(8):
    # Threads that have just ended hold nothing that a child needs.
    kit = kits.FaceDetector({mode!r}, model=model)
    model.delay_s = 0
    asyncio.run(kit.detect_async(picture))
    kit.close()
    del kit
    child = os.fork()
    if not child:
        cv2.GaussianBlur(large[:300, :300], (31, 31), 5)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
    assert end_of(FORKING + script) == (0, "0\n", "")


def test_python_ends_with_work_that_nobody_awaits() -> None:
    script = """
import asyncio
kit = kits.FaceDetector(model=model)
async def main():
    asyncio.ensure_future(kit.detect_async(picture))
    while not began.is_set():
        await asyncio.sleep(0.001)
asyncio.run(main())
"""
    assert end_of(script) == (0, "", "")


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs Linux's list of threads")
def test_threads_tell_forks_of_their_end() -> None:
    from palmkit.kits import opencv
    from palmkit.kits.threads import Threads

    threads = Threads(1)
    number = asyncio.run(threads.run(threading.get_native_id))
    assert number not in opencv._leaving  # pyright: ignore[reportPrivateUsage]
    threads.close()
    until_s = time.monotonic() + 5
    with contextlib.suppress(ValueError):
        while time.monotonic() < until_s:
            if number in opencv._leaving:  # pyright: ignore[reportPrivateUsage]
                return
            time.sleep(0.001)
    raise AssertionError("its end was not told")


if TYPE_CHECKING:
    # Checkers know that a picture gives a result, and a list of them a list.
    async def types(
        path: Path,
        paths: list[Path],
        arrays: tuple[Image, ...],
        mixed: list[str | bytes],
        either: str | list[str],
        numbers: list[int],
        detector: kits.FaceDetector,
        mirror: kits.TryOn,
    ) -> None:
        assert_type(kits.detect_faces(path), Faces)
        assert_type(kits.detect_faces(image="a.jpg", max_faces=2), Faces)
        assert_type(kits.detect_faces(paths, max_faces=2), list[Faces])
        assert_type(kits.detect_faces(either), Faces | list[Faces])
        assert_type(kits.recognize_gestures(io.BytesIO()), Hands)
        assert_type(kits.segment_portrait(mixed, "blur"), list[Mask])
        assert_type(kits.try_on(arrays, lipstick="ruby"), list[TriedOn])
        assert_type(detector.detect(path, 33.0), Faces)
        assert_type(detector.detect(["a.jpg", path]), list[Faces])
        with path.open("rb") as file:
            assert_type(await detector.detect_async(file), Faces)
        assert_type(await detector.detect_async(paths), list[Faces])
        assert_type(await mirror.wear_async(arrays, flip="horizontal"), list[TriedOn])
        detector.detect(3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
        detector.detect(numbers)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
        kits.detect_faces(path, max_face=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
