"""Shared fixtures of the tests of a repository."""

import pytest

from palmkit.delivery.repository import storage


@pytest.fixture(autouse=True)
def nothing_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip syncing to the disk, which takes most of the time and cannot be tested here."""

    def pass_by(*_: object) -> None:
        pass

    monkeypatch.setattr(storage, "sync_file", pass_by)
    monkeypatch.setattr(storage, "sync_folder", pass_by)
