"""A model that updates itself while a video runs: published here, taken between two frames.

python demos/update_model.py                   a repository of its own, on this machine
python demos/update_model.py --url https://models.example.com --root root.json
"""

import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from palmkit import delivery, kits
from palmkit.delivery.repository import Repository
from palmkit.kits import live
from palmkit.kits.kit import shipped_model

MODEL = "face_detector"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def publish(folder: Path) -> tuple[str, bytes]:
    """Serve a repository with a release for all; return its URL and its root of trust."""
    repository = Repository.create(folder)
    repository.publish(MODEL, "99.0.0", [shipped_model(MODEL)])
    repository.promote(MODEL, "99.0.0")
    handler = partial(Quiet, directory=str(repository.public))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}", repository.root()


def main() -> None:
    parser = live.parser(__doc__)
    parser.add_argument("--url", help="of a repository, with --root")
    parser.add_argument("--root", type=Path, help="its root.json")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        own = (options.url, options.root.read_bytes()) if options.url else None
        url, root = own or publish(Path(folder, "repository"))
        delivery.configure([url], root, folder=Path(folder, "device"))
        with kits.FaceDetector("video", model=f"{MODEL}@stable") as kit, live.start(options) as on:
            for number, (frame, timestamp_ms) in enumerate(on):
                before = dict(kit.releases)
                on.show(kits.draw.faces(frame, kit.detect(frame, timestamp_ms)))
                if number == 0 or kit.releases != before:
                    print(f"frame {number}: {dict(kit.releases)}")
                if number == 0:
                    delivery.refresh(MODEL)
                    time.sleep(1.5)  # Kits look for new releases once a second.


if __name__ == "__main__":
    live.run(main)
