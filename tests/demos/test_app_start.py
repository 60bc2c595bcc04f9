"""How the application starts, from the command line and where Qt is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.demos.driving import NEEDS_MODELS

# Neither a screen nor the user's settings.
BARE = {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}
on_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere there is a screen"
)


def needs_qt() -> None:
    pytest.importorskip(
        "PySide6.QtWidgets", reason="PySide6 is not here, or cannot be loaded", exc_type=ImportError
    )


def start(
    folder: Path, *arguments: str, before: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """more: variables of the environment."""
    program = f"{before}\nimport sys\nfrom palmkit.demos.app import main\nsys.exit(main())"
    environment = {name: value for name, value in os.environ.items() if name not in BARE}
    environment |= {"XDG_CONFIG_HOME": str(folder), **more}
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)


RING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {here!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""


@on_linux
@pytest.mark.parametrize(
    "here",
    ["palmkit.kits", "palmkit.kits.screen", "palmkit.kits.live", "PySide6.QtWidgets"],
)
def test_ctrl_c_while_it_starts_ends_it_silently(tmp_path: Path, here: str) -> None:
    needs_qt()
    done = start(tmp_path, "--headless", "--frames", "1", before=RING.format(here=here))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@on_linux
@pytest.mark.parametrize("descriptor", [1, 2])
def test_a_stream_that_is_full(tmp_path: Path, descriptor: int) -> None:
    full = f"import os\nos.dup2(os.open('/dev/full', os.O_WRONLY), {descriptor})"
    done = start(tmp_path, "--help" if descriptor == 1 else "--none", before=full)
    assert done.returncode == descriptor and "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == (descriptor == 1)


@on_linux
@NEEDS_MODELS
def test_where_ctrl_c_is_ignored_it_stays_so(tmp_path: Path) -> None:
    needs_qt()
    before = """
import atexit, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
atexit.register(lambda: print(signal.getsignal(signal.SIGINT).name))
"""
    done = start(tmp_path, "--headless", "--frames", "1", "--source", "drawing", before=before)
    assert (done.returncode, done.stdout) == (0, "SIG_IGN\n"), done.stderr


def test_without_qt_it_says_what_to_install(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['PySide6'] = None"
    done = start(tmp_path, "--headless", before=hide)
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.strip() == (
        'palmkit-demo needs the extra [demos]: pip install "palmkit[demos]"'
    )
    assert start(tmp_path, "--help", before=hide).returncode == 0


@pytest.mark.parametrize("frames", ["0", "-3", "many"])
def test_no_frames_is_no_number_of_them(tmp_path: Path, frames: str) -> None:
    done = start(tmp_path, "--headless", f"--frames={frames}")
    assert done.returncode == 2 and "--frames: expected a number of frames" in done.stderr


def test_an_error_of_ours_is_not_taken_for_missing_qt(tmp_path: Path) -> None:
    pytest.importorskip("PySide6", reason="PySide6 is not here")
    done = start(tmp_path, "--headless", before="import sys; sys.modules['palmkit.kits'] = None")
    assert done.returncode == 1 and "extra [demos]" not in done.stderr


@on_linux
def test_without_a_screen_it_says_so(tmp_path: Path) -> None:
    done = start(tmp_path)
    assert done.returncode == 1 and "needs a screen" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@on_linux
def test_a_library_of_the_screen_that_is_missing_is_named(tmp_path: Path, screen: str) -> None:
    """Qt itself would end the process."""
    needs_qt()
    (tmp_path / "libxcb-cursor.so.0").touch()
    display = screen if screen.startswith(":") else ":0"
    done = start(tmp_path, LD_LIBRARY_PATH=str(tmp_path), DISPLAY=display)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "cannot open a window" in done.stderr and "libxcb-cursor.so.0" in done.stderr
    assert "apt-get install libegl1" in done.stderr


@on_linux
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"DISPLAY": ":54321"}, "no screen answers: DISPLAY=:54321"),
        ({"WAYLAND_DISPLAY": "none"}, "no screen answers: WAYLAND_DISPLAY=none"),
        ({"QT_QPA_PLATFORM": "abacus"}, "Qt has no platform 'abacus'"),
    ],
)
def test_a_screen_that_is_not_there_is_said(
    tmp_path: Path, screen: str, variables: dict[str, str], words: str
) -> None:
    needs_qt()
    done = start(tmp_path, XDG_RUNTIME_DIR=str(tmp_path), **variables)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert words in done.stderr or "apt-get install" in done.stderr


@NEEDS_MODELS
@pytest.mark.parametrize("page", ["face", "portrait", "gesture", "try_on"])
def test_some_frames_of_each_page_without_a_screen(tmp_path: Path, page: str) -> None:
    needs_qt()
    done = start(tmp_path, "--headless", "--frames", "3", "--page", page, "--source", "sample")
    assert done.returncode == 0, done.stderr
