"""The command, run in this process; and two stand-ins for the face detector's network.

They have its contract, and what they find is certain.
"""

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit import engine, kits
from palmkit.engine.ir import Node, Type
from palmkit.kits import live
from palmkit.kits.cli import main
from palmkit.kits.image import Image, resize
from tests.kits.drawn_portraits import Reds


class Blobs:
    """Finds one thing for each colour channel: the box round what shines in it.

    The score is how brightly. runs: the input shapes it saw.
    """

    def __init__(self, **metadata: str) -> None:
        self.metadata = metadata
        self.runs: list[tuple[int, ...]] = []

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        image = inputs["image"]
        assert image.dtype == np.float32 and not any(side % 32 for side in image.shape[1:3])
        self.runs.append(image.shape)
        height, width = image.shape[1:3]
        outputs: dict[str, NDArray[Any]] = {}
        for stride in (8, 16, 32):
            for name, channels in (("score", 1), ("box", 4), ("points", 10)):
                shape = (1, height // stride, width // stride, channels)
                outputs[f"{name}_{stride}"] = np.zeros(shape, np.float32)
        for channel in range(3):
            plane = image[0, :, :, channel]
            brightest = plane.max()
            if brightest < 25:
                continue
            ys, xs = np.nonzero(plane > brightest / 2)
            low, high = np.array([xs.min(), ys.min()]), np.array([xs.max(), ys.max()]) + 1
            column, row = ((low + high) / 2 // 8).astype(int)
            centre = (np.array([column, row]) + 0.5) * 8
            outputs["score_8"][0, row, column] = brightest / 255
            outputs["box_8"][0, row, column] = [*((centre - low) / 8), *((high - centre) / 8)]
            middle = ((low + high) / 2 - centre) / 8
            outputs["points_8"][0, row, column] = np.tile(middle, 5)
        return outputs


class NoFaces(Blobs):
    """Finds nothing, whatever shines."""

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {name: np.zeros_like(values) for name, values in super().run(inputs).items()}


def _cut_out(image: Image, width: int) -> tuple[Image, NDArray[np.bool_]]:
    """Return an oval round the first face of a photo, `width` pixels wide, and its place."""
    x, y, wide, tall = kits.detect_faces(image).boxes[0]
    rim = 0.35 * wide
    rows = slice(max(round(float(y - rim)), 0), round(float(y + tall + rim)))
    columns = slice(max(round(float(x - rim)), 0), round(float(x + wide + rim)))
    part = image[rows, columns]
    height = round(width * part.shape[0] / part.shape[1])
    down, across = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    return resize(part, height, width), (across / 0.84) ** 2 + (down / 0.92) ** 2 < 1


def faces_that_cross(speed: float) -> Iterator[Image]:
    """Yield a clip of 640x360: a face goes right, before one that goes left."""
    import matplotlib
    import skimage.data

    photo = Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"
    behind = _cut_out(kits.read_image(photo), 160)
    portrait = np.asarray(skimage.data.astronaut(), np.uint8)  # type: ignore[no-untyped-call]
    in_front = _cut_out(portrait, 180)
    for index in range(int(440 / speed)):
        frame = np.full((360, 640, 3), 90, np.uint8)
        moved = round(speed * index)
        for (image, mask), x in ((behind, 450 - moved), (in_front, 10 + moved)):
            top, (height, width) = 60, mask.shape
            frame[top : top + height, x : x + width][mask] = image[mask]
        yield frame


COMMAND = [sys.executable, "-m", "palmkit"]


def on_a_terminal(*arguments: object) -> tuple[str, str]:
    """Return what the command, which must succeed, writes to its output and a terminal."""
    if sys.platform == "win32":
        pytest.skip("needs a pseudo-terminal")
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=theirs, text=True
    )
    os.close(theirs)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    shown = b""
    while True:
        try:
            read = os.read(ours, 4096)
        except OSError:
            break
        if not read:
            break
        shown += read
    os.close(ours)
    return out, shown.decode()


class Result:
    """A command's result: exit code, output, error output."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(scope="session")
def astronaut() -> Image:
    """Return a woman before a busy background, 512 x 512."""
    import skimage.data

    return np.asarray(skimage.data.astronaut(), np.uint8)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="session")
def admiral() -> Image:
    """Return a portrait, 606 x 512."""
    import matplotlib

    return kits.read_image(Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg")


@pytest.fixture(scope="session")
def group(astronaut: Image, admiral: Image) -> Image:
    """Return two faces of different sizes side by side, 480 x 640."""
    picture = np.full((480, 640, 3), 90, np.uint8)
    picture[60:380, 10:330] = resize(astronaut, 320, 320)
    picture[100:340, 400:603] = resize(admiral, 240, 203)
    return picture


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: object) -> Result:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as exit:
            code = int(exit.code or 0)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def blobs() -> Blobs:
    return Blobs()


def picture(height: int, width: int, *squares: tuple[int, float, float, float]) -> Image:
    """Return a black picture with squares: channel, x, y of the corner, side."""
    image = np.zeros((height, width, 3), np.uint8)
    for channel, x, y, side in squares:
        rows = slice(max(round(y), 0), max(round(y + side), 0))
        image[rows, max(round(x), 0) : max(round(x + side), 0), channel] = 240
    return image


@pytest.fixture
def draw_squares() -> Callable[..., Image]:
    return picture


@pytest.fixture(scope="session")
def red_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a real .palm model that finds red squares of 32 x 32 on a grid of 32, exactly."""
    nodes = [Node("transpose", ("image",), ("nchw",), {"perm": (0, 3, 1, 2)})]
    constants: dict[str, NDArray[Any]] = {
        "red": np.array([[[[1 / 255]], [[-1 / 255]], [[-1 / 255]]]], np.float32),
        "none": np.zeros((1, 3, 1, 1), np.float32),
        "box": np.full((1, 4, 1, 1), 0.5, np.float32),
        "points": np.zeros((1, 10, 1, 1), np.float32),
        "zero": np.zeros(1, np.float32),
    }
    outputs: dict[str, Type] = {}
    for stride in (8, 16, 32):
        kernel = {"kernel_shape": (stride, stride), "strides": (stride, stride)}
        weight = "red" if stride == 32 else "none"
        sides = (f"height_{stride}", f"width_{stride}")
        nodes += [
            Node("average_pool", ("nchw",), (f"mean_{stride}",), kernel),
            Node("conv", (f"mean_{stride}", weight), (f"red_{stride}",)),
            Node("relu", (f"red_{stride}",), (f"score_nchw_{stride}",)),
            Node("mul", (f"red_{stride}", "zero"), (f"zero_{stride}",)),
        ]
        for name, channels in (("score", 1), ("box", 4), ("points", 10)):
            value = f"{name}_nchw_{stride}"
            if name != "score":
                nodes.append(Node("add", (f"zero_{stride}", name), (value,)))
            outputs[f"{name}_{stride}"] = Type("float32", (1, *sides, channels))
            perm = {"perm": (0, 2, 3, 1)}
            nodes.append(Node("transpose", (value,), (f"{name}_{stride}",), perm))
    graph = engine.Graph(
        {"image": Type("float32", (1, "height", "width", 3))},
        outputs,
        tuple(nodes),
        constants,
        {"threshold": "0.9"},
    )
    path = tmp_path_factory.mktemp("model") / "red.palm"
    engine.save(graph, path)
    return path


@pytest.fixture
def reds() -> Reds:
    return Reds()


@pytest.fixture
def finder() -> Reds:
    """Return a finder of red."""
    return Reds(finds=True)


def far_away(*places: tuple[int, int, int]) -> Image:
    """A large picture with the sample's face at some places: left, top, side of all of it."""
    image = np.full((900, 2000, 3), (120, 130, 110), np.uint8)
    for left, top, side in places:
        image[top : top + side, left : left + side] = resize(live.sample("face"), side, side)
    return image
