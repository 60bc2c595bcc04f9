"""Make the faces in a video unrecognisable, each blurred in proportion to its size.

    python demos/face_blur.py --source clip.mp4 -o blurred.mp4

A face that is not found is not blurred: check the result before you share it.
"""

import cv2
import numpy as np

from palmkit import kits
from palmkit.kits import live

ROOM = 0.25  # Margin on every side, as a share of the box.


def main() -> None:
    options = live.parser(__doc__).parse_args()
    with kits.FaceDetector("video", min_score=0.3) as detector, live.start(options) as frames:
        for frame, timestamp_ms in frames:
            blurred = frame.copy()
            for face in detector.detect(frame, timestamp_ms):
                x, y, width, height = face.box
                low = np.maximum([y - ROOM * height, x - ROOM * width], 0).astype(int)
                high = np.array([y + (1 + ROOM) * height, x + (1 + ROOM) * width]).astype(int)
                part = blurred[low[0] : high[0], low[1] : high[1]]
                part[...] = cv2.GaussianBlur(part, (0, 0), max(float(height) / 6, 3))
            frames.show(blurred)


if __name__ == "__main__":
    live.run(main)
