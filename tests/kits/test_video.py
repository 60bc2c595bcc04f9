import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from palmkit.engine.errors import ImageError
from palmkit.kits.video import VideoReader, VideoWriter
from tests.kits.conftest import picture


def write(path: Path, frames: int = 20) -> None:
    with VideoWriter(path, 25) as writer:
        for index in range(frames):
            writer.write(picture(96, 128, (index % 3, 10 + index, 20, 40)))


@pytest.mark.parametrize("suffix", [".mp4", ".avi", ".mkv", ".mov", ".m4v"])
def test_written_videos_read_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"clip{suffix}"
    write(path)
    with VideoReader(path) as video:
        assert video.frames_per_s == pytest.approx(25)
        assert video.frames == 20
        read = list(video)
    assert len(read) == 20
    np.testing.assert_allclose(np.diff([ms for _, ms in read]), 40, atol=1)
    for index, (frame, _) in enumerate(read):
        assert frame.shape == (96, 128, 3)
        assert frame[40, 30 + index].argmax() == index % 3
    assert os.listdir(tmp_path) == [path.name]


def test_nothing_is_left_of_a_video_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    write(path)
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="stop"), VideoWriter(path, 25) as writer:
        writer.write(picture(96, 128))
        raise RuntimeError("stop")
    with pytest.raises(ImageError, match="video frame: expected"), VideoWriter(path, 25) as writer:
        writer.write(picture(96, 128))
        writer.write(picture(96, 130))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["clip.mp4"]


def test_what_is_no_video(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="no such file: .*none.mp4"):
        VideoReader(tmp_path / "none.mp4")
    path = tmp_path / "text.mp4"
    path.write_text("not a video")
    with pytest.raises(ImageError, match="not a video: .*text.mp4"):
        VideoReader(path)
    with pytest.raises(ImageError, match="camera cannot be opened: 99"):
        VideoReader(99)
    with pytest.raises(ImageError, match="no video format has this suffix"):
        VideoWriter(tmp_path / "a.xyz", 25)


def test_a_truncated_video_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "clip.avi"
    write(path, 60)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    with pytest.raises(ImageError, match=r"not a video|damaged|no frame"), VideoReader(path) as v:
        assert len(list(v)) < 60


FULL_DISK = """
import resource, sys
import numpy as np
from palmkit.kits import ImageError, write_image
from palmkit.kits.video import VideoWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
noise = np.random.default_rng(0).integers(0, 256, (240, 320, 3), dtype=np.uint8)
try:
    if sys.argv[1].endswith(".png"):
        write_image(sys.argv[1], noise)
    else:
        with VideoWriter(sys.argv[1], 25) as writer:
            for frame in range(30):
                writer.write(np.roll(noise, 37 * frame, axis=0))
except ImageError as error:
    print(error)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a limit on the size of files")
@pytest.mark.parametrize("name", ["a.mp4", "a.avi", "a.mkv", "a.png"])
def test_where_no_more_can_be_written_nothing_is_left(tmp_path: Path, name: str) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "cannot be written" in done.stdout, done.stderr
    assert not os.listdir(tmp_path)
