"""A mirror: make-up, hair colour and glasses, before on the left and after on the right.

    python demos/try_on_mirror.py --source 0 --look evening
    python demos/try_on_mirror.py --source 0 --lipstick "#b3202a" --hair violet --whole

Shades and looks: palmkit tryon --shades
"""

from palmkit import kits
from palmkit.kits import live
from palmkit.kits.tryon.palettes import EFFECTS


def main() -> None:
    parser = live.parser(__doc__)
    parser.add_argument("--look", default="party", help="a look's name or file (party)")
    for name in EFFECTS:
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, dest=name, metavar="SHADE", help="instead of the look's")
    parser.add_argument("--whole", action="store_true", help="not split")
    options = parser.parse_args()
    look = kits.Look.load(options.look)
    look = look.adding(**{name: getattr(options, name) for name in EFFECTS})
    with kits.TryOn("video", look=look) as mirror, live.start(options) as frames:
        for frame, timestamp_ms in frames:
            worn = mirror.wear(frame, timestamp_ms, flip="horizontal")
            frames.show(worn.after if options.whole else worn.split())


if __name__ == "__main__":
    live.run(main)
