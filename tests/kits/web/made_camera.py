"""A video for Chromium's fake camera: a drawn face and a drawn hand that sway."""

from pathlib import Path

import cv2
import numpy as np

from palmkit import assets
from palmkit.kits.image import Image, read_image
from tests.kits import drawn_hands

FRAMES, FRAMES_PER_S = 30, 30


def scene() -> Image:
    """Return uint8[480, 640, 3] with a face on the left and an open palm on the right."""
    face = read_image(assets.path("samples/face.jpg"))
    picture = drawn_hands.scene([(480, 350, "open_palm", "right")], 480, 640)
    picture[:, :320] = face[:, 160:480]
    return picture


def write(path: Path) -> list[str]:
    """Write the video as .y4m, and return Chromium's flags for a camera that shows it."""
    picture = scene()
    height, width = picture.shape[:2]
    with path.open("wb") as file:
        file.write(f"YUV4MPEG2 W{width} H{height} F{FRAMES_PER_S}:1 Ip A1:1 C420jpeg\n".encode())
        for number in range(FRAMES):
            moved = np.roll(picture, round(8 * np.sin(2 * np.pi * number / FRAMES)), axis=0)
            file.write(b"FRAME\n" + cv2.cvtColor(moved, cv2.COLOR_RGB2YUV_I420).tobytes())
    return [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-video-capture={path}",
    ]
