"""Kits of the npm package run the newest release that can be opened."""

import json
from pathlib import Path
from typing import Any

from palmkit.kits.kit import shipped_model
from tests.engine.web.package import needs_package, node

pytestmark = needs_package


def opened(*files: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node("../../kits/web/releases.mjs", *files))
    return found


def test_the_newest_release_that_opens_runs(tmp_path: Path) -> None:
    good, cut = Path(shipped_model("face_detector")), tmp_path / "cut.palm"
    content = good.read_bytes()
    cut.write_bytes(content[:-100])
    whole: dict[str, Any] = {"failed": [], "open": len(content), "faces": 0}
    assert opened(good) == whole
    first = ["face_detector", len(content) - 100]
    assert opened(cut, good) == {**whole, "failed": [first]}
    assert opened(cut, cut) == {"failed": [first, first], "open": 0, "faces": 0}
    assert opened() == {"failed": [], "open": 0, "faces": 0}
