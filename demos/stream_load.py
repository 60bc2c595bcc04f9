"""Frames that arrive faster than they can be processed: none queues, new ones replace old ones.

    python demos/stream_load.py --source 0
    python demos/stream_load.py --rate 500 --frames 1000

`submit` takes a frame and returns at once; a thread works on the newest one.
"""

import threading
import time

from palmkit import kits
from palmkit.kits import live
from palmkit.kits.image import Image


def main() -> None:
    parser = live.parser(__doc__)
    parser.add_argument("--rate", type=float, default=240, help="frames a second at most (240)")
    options = parser.parse_args()
    newest: list[Image] = []
    ages_ms: list[float] = []
    first = threading.Event()

    def seen(faces: kits.Faces, frame: Image, timestamp_ms: float | None) -> None:
        ages_ms.append((time.perf_counter() - start_s) * 1e3 - (timestamp_ms or 0))
        newest[:] = [kits.draw.mesh(frame, faces)]
        first.set()

    start_s = time.perf_counter()
    with kits.FaceMesh("stream", on_result=seen) as mesh, live.start(options) as frames:
        for frame, _ in frames:
            mesh.submit(frame, (time.perf_counter() - start_s) * 1e3)
            time.sleep(1 / options.rate)
            # What is shown is the newest result: it may be of an earlier frame.
            first.wait()
            frames.show(newest[0])
    print(f"{len(ages_ms)} looked at, {mesh.dropped} gave way")
    print(f"the oldest frame was {max(ages_ms):.0f} ms old when its result came")


if __name__ == "__main__":
    live.run(main)
