"""Writing pictures and clips in a thread of their own, whole or not at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Full, Queue

import numpy as np
from PySide6.QtCore import QObject, QStandardPaths, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from palmkit.demos.app.page import Context, Level
from palmkit.engine.errors import PalmError
from palmkit.kits import write_image
from palmkit.kits.image import Image
from palmkit.kits.video import VideoWriter

# The most frames that wait for the disk; more are left out of a clip.
WAITING = 30
FRAMES_PER_S = 30.0


class Saving(QObject):
    """Writes what is shown.

    recording: emitted with whether a clip is being recorded.
    """

    recording = Signal(bool)
    _done = Signal(str, str)

    def __init__(self, context: Context) -> None:
        """Start idle."""
        super().__init__()
        self._context = context
        self._clip: _Clip | None = None
        self._threads: list[threading.Thread] = []
        self._done.connect(self._say)

    @property
    def is_recording(self) -> bool:
        """Return whether a clip is being recorded."""
        return self._clip is not None

    def save_picture(self, parent: QWidget, picture: Image) -> None:
        """Ask for a path, and write a picture."""
        start = str(self._folder() / f"palmkit {time.strftime('%Y-%m-%d %H-%M-%S')}.png")
        name, _ = QFileDialog.getSaveFileName(
            parent, "Save the picture", start, "Pictures (*.png *.jpg *.webp)"
        )
        if name:
            self.write_picture(Path(name), picture)

    def write_picture(self, path: Path, picture: Image) -> None:
        """Write a picture; without a suffix it is a PNG."""
        if not path.suffix:
            path = path.with_suffix(".png")
        self._keep_folder(path)

        def work() -> None:
            try:
                write_image(path, picture)
            except (PalmError, OSError) as error:
                self._done.emit(f"the picture cannot be saved: {error}", "error")
            else:
                self._done.emit(f"saved as {path}", "info")

        self._run(work)

    def toggle_clip(self, parent: QWidget, shown: Image | None) -> None:
        """Ask for a path and begin a clip, or end the current one."""
        if self._clip is not None:
            self.end_clip()
            return
        start = str(self._folder() / f"palmkit {time.strftime('%Y-%m-%d %H-%M-%S')}.mp4")
        name, _ = QFileDialog.getSaveFileName(
            parent, "Record a clip", start, "Videos (*.mp4 *.mkv *.avi)"
        )
        if name:
            self.begin_clip(Path(name), shown)
        else:
            self.recording.emit(False)

    def begin_clip(self, path: Path, shown: Image | None = None) -> None:
        """Record what is shown from now on.

        shown: the first frame.
        """
        if not path.suffix:
            path = path.with_suffix(".mp4")
        self._keep_folder(path)
        self._clip = _Clip(self, path)
        if shown is not None:
            self._clip.add(shown)
        self._run(self._clip.work)
        self.recording.emit(True)

    def end_clip(self) -> None:
        """Finish the current clip; a message tells when the file is complete."""
        clip, self._clip = self._clip, None
        if clip is not None:
            clip.end()
        self.recording.emit(False)

    def add(self, picture: Image) -> None:
        """Add a shown frame."""
        if self._clip is not None:
            self._clip.add(picture)

    def stop(self) -> None:
        """Finish the current clip, and wait for it."""
        self.end_clip()
        for thread in self._threads:
            thread.join(10)

    def tell(self, text: str, level: Level) -> None:
        """Report the result; from any thread."""
        self._done.emit(text, level)

    def _say(self, text: str, level: Level) -> None:
        self._context.say(text, level)

    def _run(self, work: Callable[[], None]) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=work, name="palmkit demo saving")
        self._threads.append(thread)
        thread.start()

    def _folder(self) -> Path:
        kept = str(self._context.settings.value("save_folder", ""))
        if kept and Path(kept).is_dir():
            return Path(kept)
        location = QStandardPaths.StandardLocation.PicturesLocation
        found = Path(QStandardPaths.writableLocation(location))
        return found if found.is_dir() else Path.home()

    def _keep_folder(self, path: Path) -> None:
        self._context.settings.setValue("save_folder", str(path.parent))


class _Clip:
    def __init__(self, saving: Saving, path: Path) -> None:
        self.path = path
        self._saving = saving
        self._frames: Queue[tuple[Image, float]] = Queue(WAITING)
        self._ended: float | None = None

    def add(self, picture: Image) -> None:
        try:
            self._frames.put_nowait((picture, time.perf_counter()))
        except Full:
            return

    def end(self) -> None:
        self._ended = time.perf_counter()

    def work(self) -> None:
        try:
            count = self._write()
        except (PalmError, OSError) as error:
            self._saving.tell(f"the clip cannot be saved: {error}", "error")
        else:
            if count:
                self._saving.tell(f"saved {count / FRAMES_PER_S:.1f} s as {self.path}", "info")
            else:
                self._saving.tell("nothing was shown meanwhile: no clip was saved", "warning")

    def _write(self) -> int:
        """Write frames at a steady rate, repeating each until the next; return how many."""
        count, began = 0, 0.0
        held: Image | None = None
        with VideoWriter(self.path, FRAMES_PER_S) as writer:
            while self._ended is None or not self._frames.empty():
                try:
                    picture, at = self._frames.get(timeout=0.1)
                except Empty:
                    continue
                if held is None:
                    began, held = at, picture
                while count < round((at - began) * FRAMES_PER_S):
                    writer.write(held)
                    count += 1
                held = fitted(picture, held)
            while held is not None and count <= round((self._ended - began) * FRAMES_PER_S):
                writer.write(held)
                count += 1
        return count


def fitted(picture: Image, other: Image) -> Image:
    """Return a picture in the size of another, proportions kept, with black borders."""
    if picture.shape == other.shape:
        return picture
    import cv2

    height, width = other.shape[:2]
    ratio = min(height / picture.shape[0], width / picture.shape[1])
    size = [max(1, round(side * ratio)) for side in picture.shape[1::-1]]
    smaller = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    whole = np.zeros_like(other)
    top, left = (height - size[1]) // 2, (width - size[0]) // 2
    whole[top : top + size[1], left : left + size[0]] = smaller
    return whole
