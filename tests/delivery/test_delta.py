"""Deltas: they give the file to the byte, save what is worth it, and never cost a file."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palmkit.delivery import delta
from palmkit.delivery.manifest import Delta, File
from tests.delivery.fault_server import Fault, FaultServer, serving
from tests.delivery.network_devices import Device

BASE = np.random.default_rng(1).normal(0, 0.1, 300_000).astype(np.float32).tobytes()


def tuned(base: bytes, step: float) -> bytes:
    """Return a file in which every weight has moved a little, behind a longer header."""
    weights = np.frombuffer(base, np.float32)
    noise = np.random.default_rng(2).normal(0, step, weights.size).astype(np.float32)
    return b"longer header" + (weights + noise * 0.1).tobytes()


def head_only(base: bytes) -> bytes:
    return base[:-40_000] + np.random.default_rng(3).bytes(40_000)


@pytest.mark.parametrize("codec", delta.CODECS)
@pytest.mark.parametrize(
    "target", [head_only(BASE), tuned(BASE, 1e-3), BASE[:1000], b"", BASE * 2, BASE]
)
def test_what_is_made_is_the_target(codec: str, target: bytes) -> None:
    patch = delta.make(codec, BASE, target)
    assert delta.apply(codec, BASE, patch, len(target)) == target


@settings(max_examples=60, deadline=None)
@given(
    codec=st.sampled_from(delta.CODECS),
    base=st.binary(max_size=300),
    target=st.binary(max_size=300),
)
def test_any_two_files(codec: str, base: bytes, target: bytes) -> None:
    assert delta.apply(codec, base, delta.make(codec, base, target), len(target)) == target


@settings(max_examples=150, deadline=None)
@given(
    codec=st.sampled_from(delta.CODECS),
    patch=st.binary(max_size=80),
    size=st.integers(0, 1000),
    damage=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=3),
)
def test_a_damaged_delta_is_an_error_or_of_the_right_size(
    codec: str, patch: bytes, size: int, damage: list[tuple[int, int]]
) -> None:
    real = bytearray(delta.make(codec, bytes(range(200)), bytes(range(255))))
    for at, value in damage:
        real[at % len(real)] = value
    for content in (patch, bytes(real), bytes(real)[: len(patch)]):
        try:
            assert len(delta.apply(codec, bytes(range(200)), content, size)) == size
        except ValueError:
            continue


def test_another_base_or_size_or_codec_is_refused() -> None:
    for codec in delta.CODECS:
        patch = delta.make(codec, BASE, head_only(BASE))
        with pytest.raises(ValueError):
            delta.apply(codec, BASE, patch, len(BASE) - 1)
    with pytest.raises(ValueError, match="another base"):
        delta.apply("int", BASE[:-4], delta.make("int", BASE, head_only(BASE)), len(BASE))
    for call in (delta.make("zstd", b"", b""), b""):
        with pytest.raises(ValueError, match="codec"):
            delta.apply("later", b"", call, 0)
    with pytest.raises(ValueError, match="codec"):
        delta.make("later", b"", b"")
    assert delta.can_apply("zstd") and delta.can_apply("int") and not delta.can_apply("later")


def test_what_every_device_can_apply_is_published_and_bsdiff4_where_it_is_better() -> None:
    ((codec, patch),) = delta.worthwhile(BASE, head_only(BASE))
    assert codec in ("zstd", "int") and len(patch) < len(BASE) * 0.06
    ((codec, patch),) = delta.worthwhile(BASE, tuned(BASE, 1e-3))
    assert codec == "int" and len(patch) < len(BASE) * 0.6
    assert delta.worthwhile(BASE, np.random.default_rng(4).bytes(len(BASE))) == []
    assert delta.worthwhile(BASE[:200_000], head_only(BASE[:200_000])) == [], "under 256 KiB"
    moved = BASE[:500_000] + b"abc" + BASE[500_000:]
    few = bytearray(moved)
    for at in range(0, len(few), 97):
        few[at] = few[at] + 1 & 255
    entries = delta.worthwhile(BASE, bytes(few))
    assert [codec for codec, _ in entries][-1] == "bsdiff4" and len(entries) <= 2


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Release:
    """A release on a server with a delta from BASE, and where both are."""

    def __init__(self, server: FaultServer, codec: str = "zstd") -> None:
        self.content = head_only(BASE)
        self.patch = delta.make(codec, BASE, self.content)
        entry = Delta(sha256(BASE), "a.delta", codec, len(self.patch), sha256(self.patch))
        self.file = File("a.palm", len(self.content), sha256(self.content), (entry,))
        place = "/targets/models/face/"
        self.patch_path = f"{place}{entry.sha256}.a.delta"
        self.path = f"{place}{self.file.sha256}.a.palm"
        server.files |= {self.path: self.content, self.patch_path: self.patch}


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serving() as server:
        yield server


@pytest.fixture
def device(tmp_path: Path, server: FaultServer) -> Device:
    return Device(tmp_path / "store", server)


@pytest.mark.parametrize("codec", delta.CODECS)
def test_a_delta_is_fetched_in_place_of_the_file(
    device: Device, server: FaultServer, codec: str
) -> None:
    release = Release(server, codec)
    device.store.add(BASE)
    device.fetch(release.file)
    assert server.paths() == [release.patch_path]
    assert device.events == ["download_ok", "delta_ok"]
    assert device.store.size_bytes() == len(BASE) + len(release.content), "the delta is dropped"


def test_the_base_may_be_a_file_of_the_wheel(
    device: Device, server: FaultServer, tmp_path: Path
) -> None:
    release = Release(server)
    (tmp_path / "shipped.palm").write_bytes(BASE)
    device.fetch(release.file, base=tmp_path / "shipped.palm")
    assert server.paths() == [release.patch_path]
    assert device.store.path(sha256(BASE)) is None


def test_without_its_base_a_delta_is_not_asked_for(
    device: Device, server: FaultServer, tmp_path: Path
) -> None:
    release = Release(server)
    (tmp_path / "other").write_bytes(b"other")
    device.fetch(release.file, base=tmp_path / "other")
    assert server.paths() == [release.path] and device.events == ["download_ok"]


def test_a_codec_of_a_later_sdk_is_passed_over(device: Device, server: FaultServer) -> None:
    release = Release(server)
    later = replace(release.file.deltas[0], codec="later", size=1)
    device.store.add(BASE)
    device.fetch(replace(release.file, deltas=(later, *release.file.deltas)))
    assert server.paths() == [release.patch_path]


@pytest.mark.parametrize(
    "fault", [Fault("status", status=404), Fault("flipped"), Fault("truncated"), Fault("refuse")]
)
def test_a_delta_that_does_not_come_is_followed_by_the_file(
    device: Device, server: FaultServer, fault: Fault
) -> None:
    release = Release(server)
    device.store.add(BASE)
    server.faults[release.patch_path] = fault
    device.fetch(release.file)
    assert server.paths()[-1] == release.path
    assert [event for event in device.events if event != "hash_mismatch"] == [
        "delta_fail",
        "download_ok",
    ]


def test_a_delta_that_gives_another_file_is_never_used_again(
    device: Device, server: FaultServer
) -> None:
    release = Release(server)
    wrong = delta.make("zstd", BASE, bytes(len(release.content)))
    entry = replace(release.file.deltas[0], size=len(wrong), sha256=sha256(wrong))
    file = replace(release.file, deltas=(entry,))
    server.files[f"/targets/models/face/{entry.sha256}.a.delta"] = wrong
    device.store.add(BASE)
    path = device.fetch(file)
    assert device.events == ["download_ok", "delta_fail", "download_ok"]
    path.unlink()
    server.requests.clear()
    device.fetch(file, metadata="newer")
    assert server.paths() == [release.path]
