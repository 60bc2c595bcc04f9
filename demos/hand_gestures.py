"""Hands and what they show, live; and a gesture of your own, taught by the first frames.

    python demos/hand_gestures.py --source 0
    python demos/hand_gestures.py --source 0 --learn call --save mine.json
    python demos/hand_gestures.py --source 0 --gestures mine.json

While it learns, the largest hand with no gesture it knows counts: hold it, and turn it a little.
"""

from pathlib import Path

from palmkit import kits
from palmkit.kits import gestures, live
from palmkit.kits.results import Hand


def main() -> None:
    parser = live.parser(__doc__, source="hands")
    parser.add_argument("--learn", metavar="NAME", help="teach this gesture at the beginning")
    parser.add_argument("--examples", type=int, default=5, metavar="N", help="from N frames (5)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep what was taught (JSON)")
    parser.add_argument("--gestures", type=Path, metavar="FILE", help="gestures kept before")
    options = parser.parse_args()
    recognizer = kits.GestureRecognizer("video", gestures=options.gestures)
    examples: list[Hand] = []
    seen: list[str] = []
    with live.start(options) as frames:
        for number, (frame, timestamp_ms) in enumerate(frames):
            hands = recognizer.recognize(frame, timestamp_ms)
            frames.show(kits.draw.hands(frame, hands))
            unknown = [hand for hand in hands if hand.gesture == "other"]
            # A gesture counts once it has been held for a while.
            if options.learn and unknown and number > 10 and len(examples) < options.examples:
                examples.append(max(unknown, key=lambda hand: float(hand.box[2:].prod())))
                if len(examples) == options.examples:
                    own = gestures.custom(options.learn, examples)
                    recognizer = kits.GestureRecognizer("video", gestures=own)
                    print(f"{options.learn}: learned from {len(examples)} frames")
                    if options.save:
                        own.save(options.save)
            if seen != (seen := [f"{hand.handedness} {hand.gesture}" for hand in hands]):
                print(f"frame {number}: {', '.join(seen) or 'no hand'}")


if __name__ == "__main__":
    live.run(main)
