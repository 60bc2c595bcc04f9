"""A device that knows only TUF: what the metadata alone lets it believe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tuf.api.exceptions import DownloadHTTPError
from tuf.ngclient import Updater
from tuf.ngclient.fetcher import FetcherInterface


class Files(FetcherInterface):
    """Serves a folder without a network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _fetch(self, url: str) -> Iterator[bytes]:
        path = self.folder / url.removeprefix("files://")
        if not path.is_file():
            raise DownloadHTTPError("not found", 404)
        return iter([path.read_bytes()])


class Device:
    """A device's TUF metadata, started from one root."""

    def __init__(self, folder: Path, root: bytes) -> None:
        self.folder, self.root = folder, root
        (folder / "metadata").mkdir(parents=True)
        (folder / "targets").mkdir()

    def refresh(self, public: Path) -> Updater:
        updater = Updater(
            str(self.folder / "metadata"),
            "files://metadata/",
            str(self.folder / "targets"),
            "files://targets/",
            fetcher=Files(public),
            bootstrap=self.root,
        )
        updater.refresh()
        return updater

    def get(self, public: Path, path: str) -> bytes:
        updater = self.refresh(public)
        info = updater.get_targetinfo(path)
        assert info is not None, path
        return Path(updater.download_target(info)).read_bytes()
