"""How the application starts, from the command line and where Qt is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from palmkit.kits.kit import shipped_model

# Neither a screen nor the user's settings.
BARE = {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}


def start(folder: Path, *arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    program = f"{before}\nimport sys\nfrom palmkit.demos.app import main\nsys.exit(main())"
    environment = {name: value for name, value in os.environ.items() if name not in BARE}
    environment["XDG_CONFIG_HOME"] = str(folder)
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)


def test_without_qt_it_says_what_to_install(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['PySide6'] = None"
    done = start(tmp_path, "--headless", before=hide)
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.strip() == (
        'palmkit-demo needs the extra [demos]: pip install "palmkit[demos]"'
    )
    assert start(tmp_path, "--help", before=hide).returncode == 0


def test_an_error_of_ours_is_not_taken_for_missing_qt(tmp_path: Path) -> None:
    pytest.importorskip("PySide6", reason="PySide6 is not here")
    done = start(tmp_path, "--headless", before="import sys; sys.modules['palmkit.kits'] = None")
    assert done.returncode == 1 and "extra [demos]" not in done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is a screen")
def test_without_a_screen_it_says_so(tmp_path: Path) -> None:
    done = start(tmp_path)
    assert done.returncode == 1 and "needs a screen" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(
    not shipped_model("face_mesh").is_file(), reason="the models have not been made here"
)
@pytest.mark.parametrize("page", ["face", "portrait", "gesture", "try_on"])
def test_some_frames_of_each_page_without_a_screen(tmp_path: Path, page: str) -> None:
    pytest.importorskip(
        "PySide6.QtWidgets", reason="PySide6 is not here, or cannot be loaded", exc_type=ImportError
    )
    done = start(tmp_path, "--headless", "--frames", "3", "--page", page, "--source", "sample")
    assert done.returncode == 0, done.stderr
