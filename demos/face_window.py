"""Faces in a window, live from a camera, a video or a moving sample picture.

    python demos/face_window.py                    the first camera
    python demos/face_window.py --source clip.mp4
    python demos/face_window.py --mesh             478 points, pose and actions
    python demos/face_window.py --source astronaut --headless --frames 3

Quit with q or Escape.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import count, islice

import numpy as np

from palmkit import kits
from palmkit.kits.image import Image
from palmkit.kits.video import FRAMES_PER_S, VideoReader


def astronaut() -> Iterator[tuple[Image, float]]:
    """The sample photograph, swaying from side to side."""
    import skimage.data

    photograph = kits.read_image(skimage.data.astronaut())  # type: ignore[no-untyped-call]
    for index in count():
        shift = round(40 * float(np.sin(index / 15)))
        yield np.roll(photograph, shift, axis=1), index * 1000 / FRAMES_PER_S


def frames(source: str) -> Iterator[tuple[Image, float]]:
    if source == "astronaut":
        yield from astronaut()
        return
    with VideoReader(int(source) if source.isdigit() else source) as video:
        yield from video


def main() -> int:
    parser = argparse.ArgumentParser(description="Show the faces in a camera's picture or a video.")
    parser.add_argument("--source", default="0", help="camera number, video file or astronaut (0)")
    parser.add_argument("--frames", type=int, metavar="N", help="stop after N frames")
    parser.add_argument("--mesh", action="store_true", help="points, pose and actions of each face")
    parser.add_argument("--headless", action="store_true", help="no window, a line for each frame")
    options = parser.parse_args()
    try:
        draw = kits.draw.mesh if options.mesh else kits.draw.faces
        with (kits.FaceMesh if options.mesh else kits.FaceDetector)("video") as detector:
            for index, (frame, timestamp_ms) in enumerate(
                islice(frames(options.source), options.frames)
            ):
                start = time.perf_counter()
                faces = detector.detect(frame, timestamp_ms)
                passed_ms = (time.perf_counter() - start) * 1e3
                if options.headless:
                    ids = [face.id for face in faces]
                    print(f"frame {index}: {len(faces)} found, ids {ids}, {passed_ms:.1f} ms")
                elif not show(draw(frame, faces)):
                    break
    except kits.PalmError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def show(picture: Image) -> bool:
    """Show a frame; false when the user wants to quit."""
    import cv2

    try:
        cv2.imshow("PalmKit", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
        return cv2.waitKey(1) & 0xFF not in (ord("q"), 27)
    except cv2.error:
        reason = "no window can be opened here: it needs a screen and the package opencv-python"
        raise kits.PalmError(f"{reason}, or try --headless") from None


if __name__ == "__main__":
    sys.exit(main())
