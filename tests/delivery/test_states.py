"""Whatever happens in whatever order: there is a release to run, whole and allowed."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from palmkit.delivery import golden
from palmkit.delivery.client import Client
from palmkit.delivery.codes import Code
from palmkit.delivery.device import Release
from palmkit.delivery.policy import Candidate
from palmkit.delivery.state import State
from palmkit.engine.errors import DeliveryError
from tests.delivery.devices import MODEL, Devices

EXAMPLES = int(os.environ.get("DELIVERY_EXAMPLES", "20"))
STEPS = 40
FAULTS: tuple[Code, ...] = (
    "check_fail_dns",
    "check_fail_http5xx",
    "sig_fail",
    "expired",
    "rollback_attack",
    "download_fail",
)
CERTAIN: tuple[Code, ...] = ("nan", "load_fail", "golden_fail", "rollback")


class Life(RuleBasedStateMachine):
    """One device, its processes one after the other, and a repository that it may not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.devices = Devices(self.folder)
        self.content: dict[str, bytes] = {}
        self.failing: set[str] = set()
        self.seed = bytes(16)

        def seed(_: State) -> bytes:
            return self.seed

        self.seeding = patch.object(State, "seed", seed)
        self.seeding.start()
        self.client = self.start()

    @initialize(seed=st.binary(min_size=16, max_size=16))
    def begin(self, seed: bytes) -> None:
        """What is random is drawn: the same steps lead to the same device."""
        self.seed = seed

    def teardown(self) -> None:
        self.client.close()
        self.seeding.stop()
        shutil.rmtree(self.folder)

    def start(self) -> Client:
        return self.devices.client(prove=self.prove)

    def prove(self, question: golden.Question) -> golden.Answer:
        version = Path(question.model).name.removeprefix(f"{MODEL}-").removesuffix(".palm")
        return golden.Answer("golden_fail" if version in self.failing else None)

    @rule(is_good=st.booleans())
    def publish(self, is_good: bool) -> None:
        version = f"{len(self.content) + 1}.0"
        content = f"release {version}".encode() * 10
        self.content[version] = content
        self.devices.published.publish(version, content)
        if not is_good:
            self.failing.add(version)

    @rule(works=st.booleans())
    def a_release_comes(self, works: bool) -> None:
        """The usual way, which chance alone seldom finds."""
        self.publish(True)
        self.server(None)
        before = self.devices.published.policies.get(MODEL)
        others = before.channels["stable"][:1] if before else ()
        self.devices.published.offer(Candidate(f"{len(self.content)}.0", 100), *others)
        self.refresh()
        if works:
            self.it_works()

    @precondition(lambda self: self.content)
    @rule(
        data=st.data(),
        percent=st.sampled_from((0.0, 50.0, 100.0)),
        halt=st.booleans(),
        recall=st.booleans(),
        reaches=st.booleans(),
    )
    def offer(
        self, data: st.DataObject, percent: float, halt: bool, recall: bool, reaches: bool
    ) -> None:
        versions = data.draw(
            st.lists(st.sampled_from(sorted(self.content)), min_size=1, max_size=3, unique=True)
        )
        first, *others = versions
        self.devices.published.offer(
            Candidate(first, percent, halt=halt, recall=recall),
            *(Candidate(version, 100) for version in others),
        )
        if reaches:
            self.the_server_is_well()

    @precondition(lambda self: self.content)
    @rule(data=st.data(), what=st.sampled_from(("revoke", "floor", "retry")), reaches=st.booleans())
    def restrict(self, data: st.DataObject, what: str, reaches: bool) -> None:
        published = self.devices.published
        policy = published.policies.get(MODEL)
        version = data.draw(st.sampled_from(sorted(self.content)))
        candidates = policy.channels["stable"] if policy else ()
        if what == "revoke":
            revoked = policy.revoked if policy else frozenset[str]()
            published.offer(*candidates, revoked=revoked | {version})
        elif what == "floor":
            published.offer(*candidates, floor=version)
        else:
            self.failing.clear()
            published.offer(*candidates, retry_epoch=policy.retry_epoch + 1 if policy else 1)
        if reaches:
            self.the_server_is_well()

    @rule(fault=st.sampled_from((None, *FAULTS)))
    def server(self, fault: Code | None) -> None:
        self.devices.published.fault = None if fault is None else DeliveryError(fault, "so it is")

    @rule()
    def lose_a_file_of_the_server(self) -> None:
        if self.devices.published.files:
            self.devices.published.files.popitem()

    @rule()
    def the_server_is_well(self) -> None:
        self.server(None)
        self.refresh()

    @rule()
    def refresh(self) -> None:
        with suppress(DeliveryError):
            self.client.refresh(MODEL)

    @rule(minutes=st.sampled_from((1, 60, 60 * 26, 60 * 24 * 9, -60 * 24 * 400)))
    def time_passes(self, minutes: int) -> None:
        self.devices.time.pass_(minutes=minutes)

    @rule(ends_well=st.booleans())
    def next_process(self, ends_well: bool) -> None:
        if ends_well:
            self.client.close()
        else:
            # The lock of a process that is gone is free; the file may be gone too.
            for lock in (self.folder / "device/running").glob("*.lock"):
                lock.unlink()
        self.client = self.start()

    @rule()
    def it_works(self) -> None:
        self.client.mark_ok(self.client.get(MODEL, "local"))

    @rule(code=st.sampled_from(CERTAIN))
    def it_fails(self, code: Code) -> None:
        self.client.report_failure(self.client.get(MODEL, "local"), code)

    @rule()
    def user_goes_back(self) -> None:
        self.client.rollback(MODEL)

    @rule(data=st.data())
    def user_pins(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(("embedded", "", *sorted(self.content))))
        if name:
            self.client.pin(MODEL, name)
        else:
            self.client.unpin(MODEL)

    @rule()
    def collect(self) -> None:
        self.client.collect()

    @rule(how=st.sampled_from(("removed", "damaged")))
    def state_is_lost(self, how: str) -> None:
        self.client.close()
        database = self.folder / "device/state.db"
        if database.exists():
            if how == "removed":
                database.unlink()
            else:
                database.write_bytes(b"SQLite format 3\0" + b"\xff" * 9000)
        self.client = self.start()

    @rule(number=st.integers(0, 99))
    def a_file_is_damaged(self, number: int) -> None:
        files = sorted((self.folder / "device/blobs/sha256").glob("*/*"))
        if files:
            file = files[number % len(files)]
            file.chmod(0o644)
            file.write_bytes(b"damaged")

    @invariant()
    def there_is_a_release_to_run(self) -> None:
        release: Release = self.client.get(MODEL, "local")
        content = release.path.read_bytes()
        event(f"{release.source} {'on trial' if release.on_trial else ''}")
        if release.source == "embedded":
            assert content == self.devices.baseline.read_bytes()
            return
        assert content == self.content[release.version]
        status = self.client.status(MODEL)["models"][0]
        assert release.version not in {each["release"] for each in status["quarantine"]}
        assert release.version in (status["active"], status["candidate"])
        policy = self.client.device.policy(MODEL)
        if policy is not None:
            assert release.version not in policy.revoked
            assert policy.floor is None or float(release.version) >= float(policy.floor)
            back = {each.release for each in policy.channels["stable"] if each.recall}
            assert release.version not in back or status["pinned"] == release.version


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
