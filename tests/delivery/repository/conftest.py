"""What the tests of a repository share."""

import pytest

from palmkit.delivery.repository import storage


@pytest.fixture(autouse=True)
def nothing_is_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether bytes outlive a power cut cannot be seen here; waiting for the disk is most of it."""

    def pass_by(*_: object) -> None:
        pass

    monkeypatch.setattr(storage, "sync_file", pass_by)
    monkeypatch.setattr(storage, "sync_folder", pass_by)
