"""The jobs that kits are timed on, and the contenders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from palmkit.engine.bench.comparison import Comparison, Report, Schedule, Subject, compare
from palmkit.engine.bench.engines import OURS
from palmkit.kits.image import Image
from palmkit.kits.options import options_of
from palmkit.kits.table import KITS, Entry, of_pictures

WIDTH, HEIGHT = 640, 480


@dataclass(frozen=True)
class Job:
    """A kit at one job.

    title: what is done; ours, peers by name: classes, as for palmkit.engine.bench.engines.find.
    """

    title: str
    ours: str
    peers: Mapping[str, str]


_OURS = "palmkit.kits.bench.ours"
_MEDIAPIPE = "palmkit.kits.bench.mediapipe"
# Its classes at the same jobs, for pictures and for videos; "" where it has none.
_PEERS = {
    "face": ("FaceDetection", ""),
    "mesh": ("FaceMesh", "FaceMeshVideo"),
    "portrait": ("Portrait", "Portrait"),
    "gesture": ("Hands", "HandsVideo"),
}


def kit_jobs(name: str, entry: Entry) -> dict[str, Job]:
    """Return a kit's jobs: pictures, pictures in one pass if it has two, and videos."""
    known = {each.name for each in options_of(entry.load_options())}
    found = {name: "pictures", f"{name}_once": "pictures, one pass", f"{name}_video": "video"}
    if "second_pass" not in known:
        del found[f"{name}_once"]
    jobs: dict[str, Job] = {}
    for job, what in found.items():
        peer = _PEERS.get(name, ("", ""))[what == "video"]
        peers = {"mediapipe": f"{_MEDIAPIPE}:{peer}"} if peer else {}
        jobs[job] = Job(f"{entry.title}, {what}", f"{_OURS}:{job}", peers)
    return jobs


JOBS: Mapping[str, Job] = {
    job: found for name in of_pictures() for job, found in kit_jobs(name, KITS[name]).items()
}


def frame(picture: Image) -> Image:
    """Return the picture in the middle of a black frame of 640x480, as large as fits.

    picture: uint8[h, w, 3] RGB.
    """
    import cv2
    import numpy as np

    height, width = picture.shape[:2]
    scale = min(WIDTH / width, HEIGHT / height)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    found = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    left, top = (WIDTH - size[0]) // 2, (HEIGHT - size[1]) // 2
    small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    found[top : top + size[1], left : left + size[0]] = small
    return found


def time_job(
    job: Job,
    picture: Image,
    threads: int = 1,
    schedule: Schedule | None = None,
    peers: bool = True,
    report: Report = lambda step: None,
) -> Comparison:
    """Time a job on a frame; each contender in a process of its own, in turns, on so many cores.

    A peer that does not find as many things in the frame as we do is left out: it does less, or
    more. report: is told of each step.
    """
    subject = Subject(
        name=job.title,
        files={"frame": Path()},
        inputs={"image": frame(picture)},
        outputs=("found",),
    )
    engines = {OURS: job.ours, **(job.peers if peers else {})}
    return compare(subject, engines, threads, "high", schedule, report=report)
