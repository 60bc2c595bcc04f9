"""The publisher's side of delivery: releases signed into a repository that is only files.

from pathlib import Path

from palmkit.delivery.repository import Repository

repository = Repository.create(Path("models"))
repository.publish("face_detector", "1.1.0", [Path("face_detector.palm")])
repository.promote("face_detector", "1.1.0", percent=5)
"""

from palmkit.delivery.repository.golden_inputs import Cases
from palmkit.delivery.repository.release import Options
from palmkit.delivery.repository.repository import Repository
from palmkit.delivery.repository.storage import Conflict, Missing

__all__ = ["Cases", "Conflict", "Missing", "Options", "Repository"]
