"""What is written plays in a browser: frames have their colours, and sound comes with them."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

pytest.importorskip("av", reason="what browsers play needs PyAV (extra video)")

from palmkit.kits.video import VideoReader, VideoWriter
from tests.kits.made_videos import FLASHES, make, plain

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
COLOURS = ((200, 40, 40), (40, 180, 60), (50, 60, 210), (120, 120, 120))

PAGE = """<!doctype html><title>-</title><script>
const tell = found => fetch("/found", {method: "POST", body: JSON.stringify(found)});
// "seeked" may come before the frame can be drawn.
const seeked = (video, at) => new Promise(done => {
  const shown = (_, frame) => Math.abs(frame.mediaTime - at) < 0.1 ? done()
    : video.requestVideoFrameCallback(shown);
  video.requestVideoFrameCallback(shown);
  video.currentTime = at;
});
async function sound(name) {
  const context = new OfflineAudioContext(1, 48000, 48000);
  const data = await (await fetch(name)).arrayBuffer();
  const samples = (await context.decodeAudioData(data)).getChannelData(0);
  const bursts = [];
  for (let i = 0; i < samples.length; i++)
    if (Math.abs(samples[i]) > 0.2 && (!bursts.length || i / 48000 - bursts.at(-1) > 0.2))
      bursts.push(i / 48000);
  return bursts;
}
async function look(name, times, hasSound) {
  const video = document.createElement("video");
  video.muted = true; video.preload = "auto";
  const ready = new Promise((done, fail) => {
    video.oncanplay = done; video.onerror = () => fail(video.error.message);
  });
  // Of a server that sends whole files only, a browser cannot seek.
  video.src = URL.createObjectURL(await (await fetch(name)).blob());
  await ready;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  const context = canvas.getContext("2d"), pixels = [];
  for (const at of times) {
    await seeked(video, at);
    context.drawImage(video, 0, 0);
    pixels.push([...context.getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data]);
  }
  await video.play();
  return {width: video.videoWidth, height: video.videoHeight, duration: video.duration, pixels,
          bursts: hasSound ? await sound(name) : []};
}
(async () => {
  try { tell(await look(...JSON.parse(decodeURIComponent(location.hash.slice(1))))); }
  catch (error) { tell({error: String(error)}); }
})();
</script>"""


class Server(SimpleHTTPRequestHandler):
    """Gives files of a folder, and takes what the page found."""

    found: Queue[Any]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.found.put(json.loads(body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


class Browser:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: Queue[Any] = Queue()
        handler = type("Handler", (Server,), {"found": self._found})
        made = partial(handler, directory=str(folder))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), made)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        (folder / "page.html").write_text(PAGE)

    def play(self, path: Path, *times_s: float, has_sound: bool = False) -> Any:
        """What the browser shows of a video at some times."""
        from urllib.parse import quote

        assert BROWSER is not None
        given = quote(json.dumps([path.name, times_s, has_sound]))
        url = f"http://127.0.0.1:{self._server.server_port}/page.html#{given}"
        # The processes that the browser began write there until they end, after it.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            flags = (
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--mute-audio",
                "--no-first-run",
            )
            command = [BROWSER, *flags, f"--user-data-dir={profile}", url]
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            try:
                return self._found.get(timeout=60)
            finally:
                process.terminate()
                process.wait(30)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    if BROWSER is None:
        pytest.skip("needs Chromium")
    opened = Browser(tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_a_browser_plays_what_is_written(browser: Browser, tmp_path: Path, suffix: str) -> None:
    source = make(tmp_path / "source.mkv", sound=("pcm_s16le",))
    path = tmp_path / f"clip{suffix}"
    with VideoReader(source) as video, VideoWriter(path, 25, audio_from=video) as writer:
        for _, timestamp_ms in video:
            colour = COLOURS[min(int(timestamp_ms / 500), 3)]
            writer.write(plain(91, 121, colour), timestamp_ms)
    found = browser.play(path, 0.25, 0.75, 1.25, 1.75, has_sound=True)
    assert "error" not in found, found
    assert (found["width"], found["height"]) == (122, 92)
    assert found["duration"] == pytest.approx(2, abs=0.05)
    for pixel, colour in zip(found["pixels"], COLOURS, strict=True):
        # Without a GPU, Chromium multiplies blue by 2.0 where BT.709 has 2.11: up to 7 here.
        assert pixel[:3] == pytest.approx(list(colour), abs=8)
    assert found["bursts"] == pytest.approx(list(FLASHES), abs=0.03)
