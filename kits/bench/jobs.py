"""What the kits are timed on, and who is timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from palmkit.engine.bench.comparison import Comparison, Report, Schedule, Subject, compare
from palmkit.engine.bench.engines import OURS
from palmkit.kits.image import Image

WIDTH, HEIGHT = 640, 480


@dataclass(frozen=True)
class Job:
    """A kit at one job.

    title: what is done; ours, peers by name: classes, as for palmkit.engine.bench.engines.find.
    """

    title: str
    ours: str
    peers: Mapping[str, str]


JOBS = {
    "face": Job(
        "face detection",
        "palmkit.kits.bench.ours:FaceDetection",
        {"mediapipe": "palmkit.kits.bench.mediapipe:FaceDetection"},
    ),
    "mesh": Job(
        "face mesh, pictures",
        "palmkit.kits.bench.ours:FaceMesh",
        {"mediapipe": "palmkit.kits.bench.mediapipe:FaceMesh"},
    ),
    "mesh_once": Job(
        "face mesh, pictures, one look",
        "palmkit.kits.bench.ours:FaceMeshOnce",
        {"mediapipe": "palmkit.kits.bench.mediapipe:FaceMesh"},
    ),
    "mesh_video": Job(
        "face mesh, video",
        "palmkit.kits.bench.ours:FaceMeshVideo",
        {"mediapipe": "palmkit.kits.bench.mediapipe:FaceMeshVideo"},
    ),
    "portrait": Job(
        "portrait mask, pictures",
        "palmkit.kits.bench.ours:Portrait",
        {"mediapipe": "palmkit.kits.bench.mediapipe:Portrait"},
    ),
    "portrait_once": Job(
        "portrait mask, pictures, one look",
        "palmkit.kits.bench.ours:PortraitOnce",
        {"mediapipe": "palmkit.kits.bench.mediapipe:Portrait"},
    ),
    "portrait_video": Job(
        "portrait mask, video",
        "palmkit.kits.bench.ours:PortraitVideo",
        {"mediapipe": "palmkit.kits.bench.mediapipe:Portrait"},
    ),
    "gesture": Job(
        "hands, pictures",
        "palmkit.kits.bench.ours:Gestures",
        {"mediapipe": "palmkit.kits.bench.mediapipe:Hands"},
    ),
    "gesture_video": Job(
        "hands, video",
        "palmkit.kits.bench.ours:GesturesVideo",
        {"mediapipe": "palmkit.kits.bench.mediapipe:HandsVideo"},
    ),
}


def frame(picture: Image) -> Image:
    """The picture in the middle of a black frame of 640x480, as large as fits.

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
