"""Make the faces in a video unrecognisable, each blurred in proportion to its size.

    python demos/face_blur.py --source clip.mp4 -o blurred.mp4

The command does the same: palmkit face clip.mp4 -o blurred.mp4 --blur
A face that is not found is not blurred: check the result before you share it.
"""

from palmkit import kits
from palmkit.kits import live


def main() -> None:
    options = live.parser(__doc__).parse_args()
    blur = kits.FaceBlur()
    detector = kits.FaceDetector("video", min_score=0.3, detect_every=1)
    with detector, live.start(options) as frames:
        for frame, timestamp_ms in frames:
            frames.show(blur(frame, detector.detect(frame, timestamp_ms), timestamp_ms))


if __name__ == "__main__":
    live.run(main)
