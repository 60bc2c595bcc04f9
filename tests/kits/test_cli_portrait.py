from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine, kits
from palmkit.engine.ir import Node, Type
from palmkit.kits.video import VideoReader, VideoWriter
from tests.kits.drawn_portraits import RED, SIDE, iou, scene


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real .palm model: what is red and not green is a person."""
    graph = engine.Graph(
        {"image": Type("float32", (1, SIDE, SIDE, 3))},
        {"mask": Type("float32", (1, SIDE, SIDE, 1))},
        (
            Node("transpose", ("image",), ("nchw",), {"perm": (0, 3, 1, 2)}),
            Node("conv", ("nchw", "weight"), ("red",)),
            Node("clip", ("red", "zero", "one"), ("clipped",)),
            Node("transpose", ("clipped",), ("mask",), {"perm": (0, 2, 3, 1)}),
        ),
        {
            "weight": np.array([[[[1 / 170]], [[-1 / 170]], [[0]]]], np.float32),
            "zero": np.array(0, np.float32),
            "one": np.array(1, np.float32),
        },
    )
    path = tmp_path_factory.mktemp("model") / "reds.palm"
    engine.save(graph, path)
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    kits.write_image(tmp_path / "a.png", scene()[0])
    return tmp_path / "a.png"


def test_command_writes_the_mask(run: Any, model_path: Path, source: Path) -> None:
    target = source.parent / "out" / "mask.png"
    result = run("portrait", source, "--model", model_path, "-o", target, "--json")
    assert (result.code, result.err) == (0, "")
    (found,) = result.lines
    assert list(found) == ["width", "height", "mask", "coverage"]
    assert found["mask"] == str(target)
    import PIL.Image

    with PIL.Image.open(target) as written:
        assert written.mode == "L" and written.size == (320, 240)
        assert iou(np.asarray(written) > 127, scene()[1]) > 0.95
    result = run("portrait", source, "--model", model_path)
    assert result.out == f"{source}: 21 % of the pixels\n"


def test_command_backgrounds(run: Any, model_path: Path, source: Path) -> None:
    folder = source.parent
    kits.write_image(folder / "beach.png", np.full((50, 90, 3), (0, 0, 255), np.uint8))
    for background, name in (
        ("#0000ff", "colour.png"),
        (folder / "beach.png", "picture.png"),
        ("blur", "blur.png"),
        ("blur=2.5", "less.jpg"),
    ):
        options = ("--background", background, "-o", folder / name, "--json")
        result = run("portrait", source, "--model", model_path, *options)
        assert result.code == 0, result.err
        assert result.lines[0]["mask"] is None
        assert result.lines[0]["picture"] == str(folder / name)
    colour, other = kits.read_image(folder / "colour.png"), kits.read_image(folder / "picture.png")
    assert (colour == other).all() and (colour[5, 5] == (0, 0, 255)).all()
    assert np.abs(colour[120, 160].astype(int) - RED).max() <= 1
    result = run(
        "portrait",
        source,
        "--model",
        model_path,
        "--background",
        "transparent",
        "-o",
        f"{folder}/d/",
    )
    assert result.code == 0
    import PIL.Image

    with PIL.Image.open(folder / "d" / "a.png") as cut:
        assert cut.mode == "RGBA" and np.asarray(cut)[5, 5, 3] == 0
    shown = run("portrait", source, "--model", model_path, "--overlay", "-o", folder / "o.png")
    assert shown.code == 0 and kits.read_image(folder / "o.png").shape == (240, 320, 3)


@pytest.mark.parametrize(
    ("background", "code", "message"),
    [
        ("#12", 2, "--background: expected a colour like #1e90ff"),
        ("blur=much", 2, "--background: expected a number of pixels"),
        ("none.png", 1, "--background: no such file: none.png"),
        ("blu", 1, "--background: no such file: blu, did you mean blur?"),
        ("transparant", 1, "no such file: transparant, did you mean transparent?"),
    ],
)
def test_command_with_a_bad_background(
    run: Any, model_path: Path, source: Path, background: str, code: int, message: str
) -> None:
    options = ("--model", model_path, "-o", source.parent / "out.png")
    result = run("portrait", source, *options, "--background", background)
    assert result.code == code and message in result.err and result.err.count("\n") == 1
    assert not (source.parent / "out.png").exists()


def test_command_transparent(run: Any, model_path: Path, source: Path) -> None:
    """What cannot be is said before the model is even opened."""
    import PIL.Image

    options = ("--background", "transparent", "-o")
    for name in ("a.jpg", "a.bmp", "a.JPEG"):
        result = run("portrait", source, "--model", "none.palm", *options, source.parent / name)
        assert result.code == 2 and "a transparent picture must be PNG" in result.err
    for name in ("a.webp", "a.tif"):
        target = source.parent / name
        assert run("portrait", source, "--model", model_path, *options, target).code == 0
        with PIL.Image.open(target) as cut:
            assert cut.mode == "RGBA"


def test_command_folder_of_masks(run: Any, model_path: Path, source: Path) -> None:
    (source.parent / "in").mkdir()
    kits.write_image(source.parent / "in" / "b.jpg", scene()[0])
    out = source.parent / "masks"
    result = run("portrait", source.parent / "in", "--model", model_path, "-o", out, "--json")
    assert result.code == 0 and result.lines[0]["mask"] == str(out / "b.png")


def test_command_videos(run: Any, model_path: Path, tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "in.mp4", 25) as writer:
        for step in range(6):
            writer.write(scene(shift=5 * step)[0])
    for name, options in (("mask.mp4", ()), ("blue.mp4", ("--background", "#0000ff"))):
        target = tmp_path / name
        result = run("portrait", tmp_path / "in.mp4", "--model", model_path, "-o", target, *options)
        assert result.code == 0, result.err
        with VideoReader(target) as video:
            frames = [frame for frame, _ in video]
        assert len(frames) == 6 and frames[0].shape == (240, 320, 3)
    assert frames[0][5, 5, 2] > 200 and frames[0][5, 5, 0] < 40
    result = run(
        "portrait",
        tmp_path / "in.mp4",
        "--model",
        model_path,
        "--background",
        "transparent",
        "-o",
        tmp_path / "cut.mp4",
    )
    assert result.code == 1 and "a video holds no transparency" in result.err
    assert not (tmp_path / "cut.mp4").exists()


def test_command_hair(run: Any, model_path: Path, red_model: Path, source: Path) -> None:
    options = ("--model", model_path, "--face-model", red_model, "--json", "--max-faces", 2)
    result = run("hair", source, *options)
    assert result.code == 0 and result.lines[0]["coverage"] > 0.1
