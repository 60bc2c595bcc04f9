"""Faces with their ids, live: from a camera, a video, a picture or a moving sample.

python demos/face_window.py --source 0
python demos/face_window.py --source clip.mp4 -o marked.mp4
"""

from palmkit import kits
from palmkit.kits import live


def main() -> None:
    parser = live.parser(__doc__)
    parser.add_argument("--max-faces", type=int, metavar="N", help="only the best N")
    parser.add_argument("--min-score", type=float, metavar="S", help="least score, 0..1")
    options = parser.parse_args()
    detector = kits.FaceDetector("video", max_faces=options.max_faces, min_score=options.min_score)
    with detector, live.start(options) as frames:
        for frame, timestamp_ms in frames:
            faces = detector.detect(frame, timestamp_ms)
            frames.show(kits.draw.faces(frame, faces))


if __name__ == "__main__":
    live.run(main)
