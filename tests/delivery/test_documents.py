"""Manifests and policies: what is written is read, and what is wrong is named."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palmkit.delivery import manifest, policy
from palmkit.delivery.manifest import Delta, Encryption, File, Golden, Manifest, Needs
from palmkit.delivery.policy import Candidate, Condition, Policy
from palmkit.engine.errors import DeliveryError

DIGEST = "ab" * 32
MANIFEST = Manifest(
    "face_detector",
    "1.1.0",
    "2026-01-31T12:00:00Z",
    (
        File(
            "face_detector-1.1.0.palm",
            1000,
            DIGEST,
            (Delta("cd" * 32, "face_detector-1.1.0.from-cdcdcdcd.zst", "zstd", 90, "ef" * 32),),
            Encryption("AES-256-GCM", "2026", "01" * 32, 984),
        ),
        File("golden-1.1.0.npz", 10, "23" * 32),
    ),
    "face_detector-1.1.0.palm",
    Needs(1, ">=0.1,<2"),
    Golden("golden-1.1.0.npz", 1e-3, 1e-4, 3.0),
    {"ap": 0.96},
    "better in the dark",
)
POLICY = Policy(
    "face_detector",
    7,
    {
        "stable": (
            Candidate("1.1.0", 5.0, "salt", when=(Condition("memory_mb", "at_least", 512),)),
            Candidate("1.0.0", 100.0),
        ),
        "beta": (),
    },
    floor="1.0.0",
    revoked=frozenset({DIGEST, "0.9"}),
)
FACTS: dict[str, object] = {
    "sdk": "0.1.0",
    "os": "linux",
    "arch": "x86_64",
    "cpu": frozenset({"avx2", "fma"}),
    "tag": frozenset[str](),
    "memory_mb": 4096,
}


def changed(document: bytes, path: tuple[str | int, ...], value: object) -> bytes:
    content = json.loads(document)
    at: Any = content
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return json.dumps(content).encode()


def test_documents_are_read_as_written() -> None:
    assert manifest.parse(MANIFEST.dump()) == MANIFEST
    assert policy.parse(POLICY.dump()) == POLICY
    assert MANIFEST.dump() == manifest.parse(MANIFEST.dump()).dump()


def test_fields_of_later_versions_are_left_alone() -> None:
    assert manifest.parse(changed(MANIFEST.dump(), ("colour",), "red")) == MANIFEST
    assert policy.parse(changed(POLICY.dump(), ("colour",), "red")) == POLICY


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("schema",), 2, "upgrade palmkit"),
        (("model",), "../etc", "manifest: model: expected a text like"),
        (("release",), "new", "manifest: release: expected a version"),
        (("created",), "yesterday", "manifest: created: expected a time"),
        (("main",), "other.palm", "'other.palm' is not among its files"),
        (("files", 0, "name"), "../../passwd", r"files\[0\]: name: expected a text like"),
        (("files", 0, "name"), "golden-1.1.0.npz", "a name stands twice"),
        (("files", 0, "name"), "Golden-1.1.0.NPZ", "a name stands twice"),
        (("model",), "con", "a name that every system takes, got 'con'"),
        (("files", 0, "name"), "aux.1.palm", "a name that every system takes"),
        (("files", 0, "name"), "COM1", "a name that every system takes"),
        (("files", 0, "name"), "ends.", "a name that every system takes"),
        (("files", 0, "size"), -1, r"files\[0\]: size: expected a whole number"),
        (("files", 0, "size"), True, r"files\[0\]: size: expected a whole number"),
        (("files", 1, "sha256"), "AB" * 32, r"files\[1\]: sha256: expected"),
        (("files", 0, "encryption", "cipher"), "ROT13", "cipher: expected one of AES-256-GCM"),
        (("files",), {}, "files: expected a list"),
        (("needs", "sdk"), "newest", "needs: sdk: expected versions like"),
        (("golden", "file"), "none.npz", "'none.npz' is not among its files"),
        (("golden", "rtol"), float("nan"), "NaN is no number of JSON"),
        (("metrics", "ap"), "good", "metrics: ap: expected a number"),
    ],
)
def test_a_manifest_that_is_wrong(path: tuple[str | int, ...], value: object, message: str) -> None:
    with pytest.raises(DeliveryError, match=message) as caught:
        manifest.parse(changed(MANIFEST.dump(), path, value))
    assert caught.value.code == "manifest_invalid"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("epoch",), -1, "policy: epoch"),
        (("channels",), [], "policy: channels: expected an object"),
        (("channels", "stable", 0, "percent"), 101, r"stable\[0\]: percent: expected a number"),
        (("channels", "stable", 0, "halt"), 0, "halt: expected true or false"),
        (("channels", "stable", 0, "release"), "one", "expected a version, got 'one'"),
        (("floor",), "low", "expected a version, got 'low'"),
        (("revoked",), [1], r"revoked\[0\]: expected a text"),
        (("next_check_s",), 0, "next_check_s"),
    ],
)
def test_a_policy_that_is_wrong(path: tuple[str | int, ...], value: object, message: str) -> None:
    with pytest.raises(DeliveryError, match=message) as caught:
        policy.parse(changed(POLICY.dump(), path, value))
    assert caught.value.code == "policy_invalid"


@given(st.binary(max_size=200))
def test_bytes_that_are_no_document(content: bytes) -> None:
    for parse in (manifest.parse, policy.parse):
        with pytest.raises(DeliveryError):
            parse(content)


def nested() -> st.SearchStrategy[object]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
    return st.recursive(leaves, lambda some: st.lists(some) | st.dictionaries(st.text(), some))


PATHS: list[tuple[str | int, ...]] = [
    ("model",),
    ("files", 0),
    ("files", 0, "deltas"),
    ("files", 0, "encryption"),
    ("needs",),
    ("golden",),
    ("metrics",),
    ("notes",),
]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(PATHS), nested())
def test_any_value_in_a_manifest(path: tuple[str | int, ...], value: object) -> None:
    try:
        read = manifest.parse(changed(MANIFEST.dump(), path, value))
    except DeliveryError as error:
        assert error.code == "manifest_invalid"
    else:
        assert manifest.parse(read.dump()) == read


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["in", "has", "at_least", "near"]), st.sampled_from(list(FACTS)), nested())
def test_any_condition_holds_or_not(test: str, fact: str, value: object) -> None:
    assert policy.holds(Condition(fact, test, value), FACTS) in (True, False)


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        (Condition("sdk", "in", ">=0.1,<1"), True),
        (Condition("sdk", "in", ">=0.2"), False),
        (Condition("sdk", "in", "newest"), False),
        (Condition("os", "in", ["linux", "darwin"]), True),
        (Condition("os", "in", "linux"), False),
        (Condition("cpu", "has", ["avx2"]), True),
        (Condition("cpu", "has", ["avx2", "avx512f"]), False),
        (Condition("memory_mb", "at_least", 4096), True),
        (Condition("memory_mb", "at_most", 4095), False),
        (Condition("colour", "in", ["red"]), False),
        (Condition("os", "near", ["linux"]), False),
    ],
)
def test_conditions(condition: Condition, held: bool) -> None:
    assert policy.holds(condition, FACTS) is held


def test_shares_are_even_and_grow() -> None:
    seeds = [bytes([i % 256, i // 256]) * 8 for i in range(20000)]
    places = [policy.bucket(seed, "face_detector", "1.1.0", "salt") for seed in seeds]
    five, ten = Candidate("1.1.0", 5), Candidate("1.1.0", 10)
    first = {i for i, place in enumerate(places) if policy.arm(five, place) == "candidate"}
    more = {i for i, place in enumerate(places) if policy.arm(ten, place) == "candidate"}
    compared = {i for i, place in enumerate(places) if policy.arm(five, place) == "control"}
    assert first < more
    assert abs(len(first) / len(seeds) - 0.05) < 0.006
    assert abs(len(compared) / len(seeds) - 0.05) < 0.006
    assert not first & compared
    others = [policy.bucket(seed, "face_detector", "1.1.0", "pepper") for seed in seeds]
    again = {i for i, place in enumerate(others) if policy.arm(five, place) == "candidate"}
    assert len(first & again) < 0.2 * len(first)


def offered(candidate: Candidate, **changes: Any) -> Policy:
    return replace(POLICY, channels={"stable": (candidate, Candidate("1.0.0", 100.0))}, **changes)


def chosen(
    rules: Policy, installed: str | None = None, refused: tuple[str, ...] = ()
) -> str | None:
    taken = policy.choose(
        rules, "stable", FACTS, bytes(16), installed, lambda release: release not in refused
    )
    return None if taken is None else taken.release


def test_the_first_candidate_that_fits_is_taken() -> None:
    assert chosen(offered(Candidate("1.1.0", 100))) == "1.1.0"
    assert chosen(offered(Candidate("1.1.0", 0))) == "1.0.0"
    assert chosen(offered(Candidate("1.1.0", 100)), refused=("1.1.0",)) == "1.0.0"
    assert chosen(offered(Candidate("1.1.0", 100)), refused=("1.1.0", "1.0.0")) is None
    never = (Condition("os", "in", ["plan9"]),)
    assert chosen(offered(Candidate("1.1.0", 100, when=never))) == "1.0.0"


def test_halted_recalled_revoked_and_below_the_floor() -> None:
    assert chosen(offered(Candidate("1.1.0", 100, halt=True))) == "1.0.0"
    assert chosen(offered(Candidate("1.1.0", 100, halt=True)), installed="1.1.0") == "1.1.0"
    assert chosen(offered(Candidate("1.1.0", 0)), installed="1.1.0") == "1.1.0"
    recalled = Candidate("1.1.0", 100, halt=True, recall=True)
    assert chosen(offered(recalled), installed="1.1.0") == "1.0.0"
    revoked = offered(Candidate("1.1.0", 100), revoked=frozenset({"1.1.0"}))
    assert chosen(revoked, installed="1.1.0") == "1.0.0"
    low = offered(Candidate("1.1.0", 100), floor="2.0")
    assert chosen(low, installed="1.1.0") is None


def test_an_unknown_channel_is_named() -> None:
    with pytest.raises(DeliveryError, match="no channel 'nightly', those there are: beta, stable"):
        policy.choose(POLICY, "nightly", FACTS, bytes(16), None, lambda release: True)
