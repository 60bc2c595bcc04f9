"""Another background behind the people, live.

python demos/portrait_background.py --source 0                      blurred
python demos/portrait_background.py --source 0 --background beach.jpg
python demos/portrait_background.py --source me.jpg --background "#20304a" -o away.png
"""

from palmkit import kits
from palmkit.kits import live


def main() -> None:
    parser = live.parser(__doc__)
    parser.add_argument(
        "--background", default="blur", help="blur, a colour #rrggbb, or a picture (blur)"
    )
    options = parser.parse_args()
    segmenter = kits.PortraitSegmenter("video", background=options.background)
    with segmenter, live.start(options) as frames:
        for frame, timestamp_ms in frames:
            person = segmenter.segment(frame, timestamp_ms)
            assert person.picture is not None
            frames.show(person.picture)


if __name__ == "__main__":
    live.run(main)
