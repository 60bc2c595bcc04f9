import json
import os
import signal
import subprocess
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.kits.video import VideoReader, VideoWriter
from tests.kits.conftest import COMMAND, on_a_terminal, picture


def write_picture(path: Path, x: int = 64) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    kits.write_image(path, picture(320, 640, (0, x, 96, 32)))
    return path


def write_video(path: Path, frames: int = 12) -> Path:
    with VideoWriter(path, 25) as writer:
        for _ in range(frames):
            writer.write(picture(320, 640, (0, 64, 96, 32)))
    return path


@pytest.fixture
def face(run: Any, red_model: Path) -> Any:
    return partial(run, "face", "--size", 640, "--model", red_model)


def test_one_picture_gives_one_object(face: Any, tmp_path: Path) -> None:
    result = face(write_picture(tmp_path / "a.png"), "--json")
    assert (result.code, result.err) == (0, "")
    (found,) = result.lines
    assert list(found) == ["width", "height", "faces"]
    assert found["faces"][0]["box"] == [64, 96, 32, 32]
    assert found["faces"][0]["id"] is None


def test_several_give_json_lines_with_their_files(face: Any, tmp_path: Path) -> None:
    paths = [write_picture(tmp_path / name) for name in ("a.png", "b.jpg")]
    result = face(*paths, "--json")
    assert result.code == 0
    assert [line["file"] for line in result.lines] == [str(path) for path in paths]


def test_a_folder_is_walked(face: Any, tmp_path: Path) -> None:
    for name in ("b.png", "a.jpg", "deeper/c.PNG", ".hidden.png", ".cache/d.png"):
        write_picture(tmp_path / "in" / name)
    (tmp_path / "in" / "notes.txt").write_text("no picture")
    result = face(tmp_path / "in", "--json", "-o", tmp_path / "out")
    assert result.code == 0
    names = [os.path.relpath(line["file"], tmp_path / "in") for line in result.lines]
    assert names == ["a.jpg", "b.png", "deeper/c.PNG"]
    written = sorted(p.relative_to(tmp_path / "out") for p in (tmp_path / "out").rglob("*.*"))
    assert [str(path) for path in written] == names
    result = face(tmp_path / "in" / "deeper", "--json")
    assert result.lines[0]["file"].endswith("c.PNG")


def test_summary_for_people(face: Any, tmp_path: Path) -> None:
    result = face(write_picture(tmp_path / "a.png"))
    first, second = result.out.splitlines()
    assert first == f"{tmp_path / 'a.png'}: 1 face"
    assert second == "  0.94 at 64,96 size 32x32"
    kits.write_image(tmp_path / "b.png", picture(320, 320))
    lines = face(tmp_path / "a.png", tmp_path / "b.png").out.splitlines()
    assert lines[2] == f"{tmp_path / 'b.png'}: no faces"
    assert lines[3].startswith("2 pictures, ") and lines[3].endswith(" ms each")


def test_drawn_picture_goes_to_a_file_or_folder(face: Any, tmp_path: Path) -> None:
    source = write_picture(tmp_path / "a.png")
    assert face(source, "-o", tmp_path / "new" / "found.jpg").code == 0
    assert kits.read_image(tmp_path / "new" / "found.jpg").shape == (320, 640, 3)
    assert face(source, "-o", str(tmp_path / "folder") + "/").code == 0
    drawn = kits.read_image(tmp_path / "folder" / "a.png")
    assert (drawn != kits.read_image(source)).any()
    assert face(source, "-o", tmp_path / "new").code == 0
    assert sorted(os.listdir(tmp_path / "new")) == ["a.png", "found.jpg"]


def test_a_failure_is_one_line_and_the_rest_goes_on(face: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write_picture(folder / "a.png")
    write_picture(folder / "z.png")
    (folder / "b.jpg").write_text("not a picture")
    (folder / "c.png").write_bytes(b"")
    (folder / "d.png").write_bytes((folder / "a.png").read_bytes()[:90])
    result = face(folder, tmp_path / "none.jpg", "--json", "-o", tmp_path / "out")
    assert result.code == 1
    assert [Path(line["file"]).name for line in result.lines] == ["a.png", "z.png"]
    assert sorted(os.listdir(tmp_path / "out")) == ["a.png", "z.png"]
    lines = result.err.splitlines()
    assert len(lines) == 5 and all(line.startswith("palmkit: ") for line in lines)
    for line, name in zip(lines, ("b.jpg", "c.png", "d.png", "none.jpg"), strict=False):
        assert name in line
    assert lines[-1] == "palmkit: 4 failed, of 6"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.png", None, "no such file"),
        ("empty.png", b"", "empty"),
        ("text.jpg", b"hello", "not a picture"),
        ("none.mp4", None, "no such file"),
        ("text.mp4", b"hello", "not a video"),
    ],
)
def test_one_bad_input(
    face: Any, tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = face(tmp_path / name, "--json", "-o", tmp_path / f"out{Path(name).suffix}")
    assert (result.code, result.out) == (1, "")
    assert len(result.err.splitlines()) == 1
    assert message in result.err and name in result.err
    assert not list(tmp_path.glob("out*")) and not list(tmp_path.glob(".*"))


def test_empty_folder_and_urls(face: Any, tmp_path: Path) -> None:
    result = face(tmp_path)
    assert (result.code, result.err) == (
        1,
        f"palmkit: no picture or video in the folder: {tmp_path}\n",
    )
    result = face("https://example.org/a.jpg")
    assert result.code == 1 and "is a URL, download it first" in result.err


def test_a_model_that_is_none(run: Any, tmp_path: Path) -> None:
    source = write_picture(tmp_path / "a.png")
    (tmp_path / "text.palm").write_text("not a model")
    result = run("face", source, "--model", tmp_path / "text.palm")
    assert result.code == 1 and len(result.err.splitlines()) == 1 and "text.palm" in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["face"],
        ["face", "a.png", "--min-score", "1.5"],
        ["face", "a.png", "--min-score", "much"],
        ["face", "a.png", "--threads", "0"],
        ["face", "a.png", "--rotation", "45"],
        ["face", "a.png", "--roi", "1,2,3"],
        ["face", "a.png", "-o", "out.txt"],
        ["face", "a.mp4", "-o", "out.png"],
        ["face", "a.png", "-o", "a.png"],
        ["face", "a.png", "other/a.png", "-o", "folder"],
        ["face", "a.png", "other/b.png", "-o", "single.jpg"],
        ["face", ".", "-o", "single.png"],
        ["face", ".", "-o", "single.mp4"],
        ["face", "a.png", "-o", "-", "--json"],
        ["face", "a.png", "b.png", "-o", "-"],
        ["face", ".", "-o", "-"],
        ["face", "a.mp4", "-o", "-"],
        ["face", "-", "-"],
        ["face", "a.png", "--camera"],
        ["face", "--camera", "a.png"],
        ["face", "--camera", "-1"],
        ["face", "--camera", "-o", "a.png"],
        ["face", "--camera", "-o", "-"],
        ["gesture", "--learn", "wave", "-o", "a.json"],
        ["gesture", "--learn", "wave", "-o", "a.json", "--camera"],
        ["portrait", "a.png", "--background", "blur"],
        ["portrait", "a.png", "--background", "blur", "--json"],
        ["portrait", "a.png", "--background", "transparent"],
        ["portrait", "a.png", "--background", "transparent", "-o", "a.jpg"],
        ["portrait", "a.png", "--overlay"],
        ["portrait", "--camera", "--background", "transparent"],
        ["portrait", "--camera", "--background", "blur", "--json"],
        ["hair", "a.png", "--overlay"],
        ["tryon", "a.png", "--lipstick", "ruby"],
        ["tryon", "a.png", "--look", "evening", "--json"],
        ["tryon", "a.png", "--lipstick", "ruby", "--save-look", "mine.json"],
        ["tryon", "--lipstick", "ruby"],
        ["tryon", "a.png"],
        ["convert", "a.onnx"],
        ["convert", "a.onnx", "-o", "a.onnx"],
        ["convert", "a.palm", "-o", "a.palm"],
        ["convert", "a.onnx", "-o", "a.palm", "--metadata", "threshold"],
        ["convert", "a.onnx", "-o", "a.palm", "--input-shape", "1x3x-2x4"],
        ["info", "a.onnx", "--json", "--graph"],
        ["check", "a.palm"],
        ["check", "a.palm", "--source", "a.onnx", "--runs", "0"],
        ["check", "a.palm", "--source", "a.onnx", "--tolerance", "-1"],
        ["check", "a.palm", "--source", "a.onnx", "--range", "1"],
        ["check", "a.palm", "--source", "a.onnx", "--input", "x"],
        ["face", "a.png", "--focal-length", "500"],
        ["face", "a.png", "--min-presence", "0.5"],
        ["face", "a.png", "--no-second-pass"],
        ["show", "a.onnx"],
        ["show", "a.onnx", "-o", "a.png"],
        ["ops", "--format", "xml"],
        ["convert", "a.onnx", "-o", "a.tflite"],
        ["bench", "a.onnx", "--runs", "0"],
        ["bench", "a.onnx", "--threads", "two"],
        ["bench", "a.onnx", "--seconds", "0"],
        ["bench", "a.onnx", "--turns", "0"],
        ["bench", "a.onnx", "--against", "abacus"],
        ["bench", "a.onnx", "--against", "ort", "--ops"],
        ["bench", "a.onnx", "--against", "ort", "-o", "report.pdf"],
        ["bench", "a.onnx", "--against", "ort", "--backend", "reference"],
        ["bench", "a.onnx", "--precision", "middling"],
    ],
)
def test_usage_errors(
    run: Any, red_model: Path, tmp_path: Path, monkeypatch: Any, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_picture(tmp_path / "a.png")
    if arguments[:1] == ["face"] and len(arguments) > 1:
        arguments = [*arguments, "--size", "640", "--model", str(red_model)]
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"palmkit {arguments[0]}") and result.err.count("\n") == 1
    assert os.listdir(tmp_path) == ["a.png"]


def test_every_option_of_the_class_has_its_flag(run: Any) -> None:
    text = run("face", "--help").out
    options: set[str] = set()
    for kit in (kits.FaceDetector, kits.FaceMesh):
        options |= set(signature(kit.__init__).parameters) - {"self"}
        options |= set(signature(kit.detect).parameters) - {"self", "image"}
    by_input = {"mode", "timestamp_ms", "format", "on_result", "on_error"}
    for option in options - by_input:
        flag = option.replace("_", "-")
        assert f"--{flag}" in text or f"--no-{flag}" in text, option


@pytest.mark.parametrize(
    ("former", "words"),
    [
        ("--no-second-look", ["face", "--mesh"]),
        ("--detector", ["face", "--mesh"]),
        ("--no-second-look", ["portrait"]),
        ("--detector", ["gesture"]),
        ("--face-model", ["tryon", "--lipstick", "ruby"]),
    ],
)
def test_former_flags_work_and_warn(
    run: Any, tmp_path: Path, former: str, words: list[str]
) -> None:
    """A model that is not there is what tells that the flag reached its option."""
    source = write_picture(tmp_path / "a.png")
    words = [*words, "-o", str(tmp_path / "out.png")]
    takes = [] if former.startswith("--no") else [tmp_path / "none.palm"]
    with pytest.warns(DeprecationWarning, match=f"{former} is deprecated"):
        result = run(words[0], source, *words[1:], former, *takes)
    assert (result.code, "none.palm" in result.err) == ((1, True) if takes else (0, False))
    assert f" {former} " not in run(words[0], "--help").out


@pytest.mark.parametrize("command", ["face", "convert", "info", "check", "show", "ops", "bench"])
def test_help_teaches_with_examples(run: Any, command: str) -> None:
    result = run(command, "--help")
    assert result.code == 0
    assert "examples:" in result.out and f"  palmkit {command} " in result.out
    assert command in run("--help").out


def test_rotation_flip_roi_and_limits(face: Any, tmp_path: Path) -> None:
    kits.write_image(tmp_path / "a.png", np.rot90(picture(320, 640, (0, 64, 96, 32))).copy())
    found = face(tmp_path / "a.png", "--json", "--rotation", 90).lines[0]
    assert (found["width"], found["faces"][0]["box"]) == (640, [64, 96, 32, 32])
    source = write_picture(tmp_path / "b.png")
    found = face(source, "--json", "--flip", "horizontal").lines[0]
    assert found["faces"][0]["box"] == [640 - 64 - 32, 96, 32, 32]
    assert face(source, "--json", "--roi", "256,0,224,320").lines[0]["faces"] == []
    assert face(source, "--json", "--min-score", "0.99").lines[0]["faces"] == []
    assert face(source, "--json", "--min-face", "33").lines[0]["faces"] == []
    result = face(source, "--max-pixels", "1000")
    assert result.code == 1 and "640x320 is more than 1000 pixels" in result.err


@pytest.mark.parametrize(
    "words",
    [
        ("face", "--max-faces", "0"),
        ("face", "--mesh", "--min-presence", "2"),
        ("gesture", "--max-hands", "0"),
        ("portrait", "--background", "#12"),
        ("hair", "--max-faces", "0"),
    ],
)
def test_usage_errors_of_a_video(run: Any, tmp_path: Path, words: tuple[str, ...]) -> None:
    result = run(words[0], write_video(tmp_path / "clip.avi", 3), *words[1:], "--threads", "1")
    assert result.code == 2 and result.out == ""
    assert result.err.startswith(f"palmkit {words[0]}") and result.err.count("\n") == 1


def test_a_video_gives_a_line_a_frame_and_a_drawn_video(face: Any, tmp_path: Path) -> None:
    source = write_video(tmp_path / "clip.avi")
    result = face(source, "--json", "-o", tmp_path / "found.mp4")
    assert (result.code, result.err) == (0, "")
    assert [line["frame"] for line in result.lines] == list(range(12))
    assert [line["timestamp_ms"] for line in result.lines][:3] == [0, 40, 80]
    assert {line["faces"][0]["id"] for line in result.lines} == {0}
    assert result.lines[0]["file"] == str(source)
    with VideoReader(tmp_path / "found.mp4") as video:
        assert len(list(video)) == 12
    result = face(source)
    first, second = result.out.splitlines()
    assert "clip.avi: 12 frames, " in first and second == "  1 face in 12"


def test_max_pixels_is_no_matter_for_memory_already_read(face: Any, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.png"
    head = write_picture(tmp_path / "a.png").read_bytes()
    size = (60_000).to_bytes(4, "big")
    import zlib

    chunk = b"IHDR" + size + size + head[24:29]
    bomb.write_bytes(head[:12] + chunk + zlib.crc32(chunk).to_bytes(4, "big") + head[33:])
    result = face(bomb)
    assert result.code == 1 and len(result.err.splitlines()) == 1
    assert "more than 80000000 pixels" in result.err


def spawn(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def heed_ctrl_c() -> None:
    """In a child, also where what started the tests ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_as_a_process(red_model: Path, tmp_path: Path) -> None:
    source = write_picture(tmp_path / "a.png")
    # FFmpeg, too, would like to say something of this one.
    text = tmp_path / "text.mp4"
    text.write_text("not a video")
    process = spawn(
        "face", source, tmp_path / "none.png", text, "--json", "--size", 640, "--model", red_model
    )
    out, err = process.communicate()
    assert process.returncode == 1
    assert [json.loads(line)["file"] for line in out.splitlines()] == [str(source)]
    assert err.splitlines() == [
        f"palmkit: no such file: {tmp_path / 'none.png'}",
        f"palmkit: not a video: {text}",
        "palmkit: 2 failed, of 3",
    ]


def test_a_reader_that_goes_away(red_model: Path, tmp_path: Path) -> None:
    source = write_video(tmp_path / "clip.avi", 300)
    process = spawn(
        "face", source, "--json", "--size", 640, "--model", red_model, "-o", tmp_path / "out.mp4"
    )
    assert process.stdout is not None and process.stderr is not None
    json.loads(process.stdout.readline())
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == ""
    process.stderr.close()
    assert sorted(os.listdir(tmp_path)) == ["clip.avi"]


def test_interrupted(red_model: Path, tmp_path: Path) -> None:
    source = write_video(tmp_path / "clip.avi", 1000)
    process = spawn(
        *("face", source, "--json", "--size", 640, "--model", red_model),
        *("-o", tmp_path / "out.mp4"),
        preexec_fn=heed_ctrl_c if hasattr(os, "fork") else None,
    )
    assert process.stdout is not None
    json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert sorted(os.listdir(tmp_path)) == ["clip.avi"]


def test_progress_is_shown_on_a_terminal_and_not_in_the_output(
    red_model: Path, tmp_path: Path
) -> None:
    for index in range(3):
        write_picture(tmp_path / f"{index}.png")
    out, shown = on_a_terminal("face", tmp_path, "--json", "--size", 640, "--model", red_model)
    assert "3" in shown and "file" in shown
    assert len([json.loads(line) for line in out.splitlines()]) == 3


def test_version() -> None:
    process = spawn("--version")
    out, _ = process.communicate()
    assert process.returncode == 0 and out.startswith("palmkit ")
