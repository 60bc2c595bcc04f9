"""Whatever is done to a repository, in whatever order: devices believe it, and see what it says."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from palmkit.delivery import policy
from palmkit.delivery.repository import Repository
from palmkit.engine.errors import RepositoryError
from tests.delivery.releases import QUICK, make_repository, write_model
from tests.delivery.tuf_device import Device

MODEL = "doubler"
RELEASES = ("1.0.0", "1.1.0", "2.0.0")
CHANNELS = ("stable", "beta")
releases = st.sampled_from(RELEASES)
channels = st.sampled_from(CHANNELS)


class Life(RuleBasedStateMachine):
    """People publish, promote, change their minds, and change keys."""

    made: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(dir=self.made))
        shutil.copytree(self.made / "repository", self.folder / "repository")
        self.repository = Repository.open(self.folder / "repository")
        self.device = Device(self.folder / "device", self.repository.root())
        self.epoch = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(release=releases)
    def publish(self, release: str) -> None:
        file = self.made / f"{release}.palm"
        assert self.repository.publish(MODEL, release, [file], QUICK).release == release

    @rule(release=releases, channel=channels, percent=st.sampled_from((0, 1, 50, 100)))
    def promote(self, release: str, channel: str, percent: float) -> None:
        self.attempt(lambda: self.repository.promote(MODEL, release, channel, percent))

    @rule(release=releases)
    def halt(self, release: str) -> None:
        self.attempt(lambda: self.repository.halt(MODEL, release))

    @rule(release=releases, channel=channels)
    def recall(self, release: str, channel: str) -> None:
        self.attempt(lambda: self.repository.recall(MODEL, release, channel))

    @rule(channel=channels)
    def rollback(self, channel: str) -> None:
        self.attempt(lambda: self.repository.rollback(MODEL, channel))

    @rule(release=releases)
    def revoke(self, release: str) -> None:
        self.attempt(lambda: self.repository.revoke(MODEL, release))

    @rule(name=st.sampled_from(("root", "targets", "models", "rollout", "snapshot", "timestamp")))
    def rotate_key(self, name: str) -> None:
        self.repository.rotate_key(name)

    @rule()
    def prune(self) -> None:
        self.repository.gc(0)

    @rule()
    def resign(self) -> None:
        self.repository.resign(force=True)

    @rule()
    def somebody_else_comes(self) -> None:
        self.repository = Repository.open(self.folder / "repository")

    def attempt(self, change: Callable[[], object]) -> None:
        """What is refused leaves everything as it was."""
        before = self.repository.policy(MODEL)
        try:
            change()
        except RepositoryError:
            assert self.repository.policy(MODEL) == before

    @invariant()
    def devices_see_what_it_says(self) -> None:
        said = self.repository.policy(MODEL)
        seen = policy.parse(self.device.get(self.repository.public, f"rollout/{MODEL}.json"))
        assert seen == said
        assert said.epoch >= self.epoch
        self.epoch = said.epoch
        published = self.repository.releases(MODEL)
        for candidates in said.channels.values():
            names = [each.release for each in candidates]
            assert len(set(names)) == len(names)
            assert set(names) <= set(published)

    @invariant()
    def nothing_is_wrong_with_it(self) -> None:
        assert self.repository.verify(deep=False) == []


def test_a_life(tmp_path: Path) -> None:
    make_repository(tmp_path, MODEL, "1.0.0")
    shutil.copy(tmp_path / "1.0.0/model.palm", tmp_path / "1.0.0.palm")
    for number, release in enumerate(RELEASES[1:]):
        write_model(tmp_path / f"{release}.palm", 3.0 + number)
    Life.made = tmp_path
    run_state_machine_as_test(
        Life, settings=settings(max_examples=10, stateful_step_count=15, deadline=None)
    )
