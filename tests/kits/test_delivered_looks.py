"""Looks are delivered as models are: signed, read before they go live, changed between frames."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.delivery import golden
from palmkit.delivery.client import Client
from palmkit.delivery.policy import Candidate
from palmkit.delivery.repository import Options, Repository
from palmkit.engine.errors import DeliveryError, RepositoryError, TryOnError
from palmkit.kits import Look, TryOn, delivered, try_on
from palmkit.kits.image import Image, write_image
from palmkit.kits.tryon.makeup import Lipstick
from tests.delivery.devices import Devices
from tests.delivery.fault_server import FaultServer

NAME = "summer"


@pytest.fixture(scope="module")
def face() -> Image:
    image: Image = pytest.importorskip("skimage.data").astronaut()
    return np.ascontiguousarray(image[:300, 60:400])


@pytest.fixture
def devices(tmp_path: Path) -> Devices:
    return Devices(tmp_path)


@pytest.fixture
def client(devices: Devices, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """The app's client, of a device that puts releases to the proof as devices do."""
    client = devices.client(prove=golden.ask)
    monkeypatch.setattr("palmkit.delivery.app.client", lambda: client)
    monkeypatch.setattr(delivered, "POLL_EVERY_S", 0.01)
    yield client
    client.close()


def content(look: Look, folder: Path) -> bytes:
    look.save(folder / "look.json")
    return (folder / "look.json").read_bytes()


def release(devices: Devices, version: str, content: bytes, name: str = NAME) -> None:
    devices.published.publish(version, content, name, suffix=".json")
    devices.published.offer(Candidate(version, 100), model=name)


def go_on_until(done: Callable[[], bool], step: Callable[[], Any], limit_s: float = 10) -> None:
    end = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < end
        step()
        time.sleep(0.002)


def state(client: Client, name: str = NAME) -> Any:
    return client.status(name)["models"][0]


def test_a_mirror_takes_a_new_look_between_two_frames(
    devices: Devices, client: Client, tmp_path: Path, face: Image
) -> None:
    red, plum = Look.of(lipstick="classic_red"), Look.of(lipstick="plum", blush="rose")
    release(devices, "1.0", content(red, tmp_path))
    client.refresh(NAME)
    with TryOn("video", look="summer@stable", behind_hair=False) as mirror:
        assert mirror.wear(face).look == mirror.look == red
        assert mirror.releases == {"summer@stable": "1.0"}
        for _ in range(20):
            mirror.wear(face)
        go_on_until(lambda: state(client)["state"] == "ACTIVE", lambda: None)
        release(devices, "1.1", content(plum, tmp_path))
        client.refresh(NAME)
        seen: list[Look] = []
        go_on_until(
            lambda: mirror.releases["summer@stable"] == "1.1",
            lambda: seen.append(mirror.wear(face).look),
        )
        assert set(seen) <= {red, plum} and mirror.wear(face).look == plum
        # A look of the user's own stays.
        own = mirror.look = Look.of(lipstick="nude")
        release(devices, "1.2", content(red, tmp_path))
        client.refresh(NAME)
        for _ in range(30):
            assert mirror.wear(face).look == own
            time.sleep(0.002)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"no look",
        b'{"palmkit_look": 1, "hat": {}}',
        b'{"palmkit_look": 2}',
        b'{"palmkit_look": 1, "lipstick": {"colour": "#aa0000", "opacity": 3}}',
        b'{"lipstick": "ruby"}',
        b'{"palmkit_look": 1, "lipstick": "ruby", "lipstick": "nude"}',
        b"[" * 9000,
    ],
)
def test_what_is_no_look_never_goes_live(
    devices: Devices, client: Client, tmp_path: Path, bad: bytes
) -> None:
    red = Look.of(lipstick="classic_red")
    release(devices, "1.0", content(red, tmp_path))
    client.refresh(NAME)
    client.mark_ok(client.get(NAME))
    release(devices, "1.1", bad)
    with pytest.raises(DeliveryError, match="load_fail"):
        client.refresh(NAME)
    assert Look.load("summer@stable") == red
    entry = state(client)["quarantine"][0]
    assert (entry["release"], entry["code"]) == ("1.1", "load_fail")


def test_a_look_larger_than_any_is_not_even_fetched(devices: Devices, client: Client) -> None:
    release(devices, "1.0", b" " * 70_000)
    client.refresh(NAME)
    assert not [name for name in devices.published.fetched if name.endswith(".json")]
    with pytest.raises(DeliveryError, match="no such model here: summer"):
        TryOn(look="summer@stable")


def test_a_look_that_fails_at_a_frame_gives_way_for_that_frame(
    devices: Devices, client: Client, tmp_path: Path, face: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    red, plum = Look.of(lipstick="classic_red"), Look.of(lipstick="plum")
    release(devices, "1.0", content(red, tmp_path))
    client.refresh(NAME)
    client.mark_ok(client.get(NAME))
    mirror = TryOn("video", look="summer@stable", behind_hair=False)
    assert mirror.wear(face).look == red
    release(devices, "1.1", content(plum, tmp_path))
    client.refresh(NAME)
    lay = Lipstick.lay

    def fails(self: Lipstick, canvas: Any) -> None:
        if self == plum.lipstick:
            raise FloatingPointError("not on this device")
        lay(self, canvas)

    monkeypatch.setattr(Lipstick, "lay", fails)
    seen: list[Look] = []
    go_on_until(
        lambda: bool(state(client)["quarantine"]), lambda: seen.append(mirror.wear(face).look)
    )
    assert set(seen) == {red} and mirror.releases == {"summer@stable": "1.0"}
    # What is the picture's fault is not the look's.
    with pytest.raises(ValueError, match="roi"):
        mirror.wear(face, roi=(5000, 0, 10, 10))
    assert mirror.wear(face).look == red


def test_a_preset_is_worn_until_its_name_is_delivered(
    devices: Devices, client: Client, tmp_path: Path, face: Image
) -> None:
    preset = Look.load("evening")
    with TryOn("video", look="evening@stable", behind_hair=False) as mirror:
        assert mirror.wear(face).look == preset == Look.load("evening@stable")
        new = preset.adding(lipstick="plum")
        release(devices, "9.0", content(new, tmp_path), "evening")
        client.refresh("evening")
        go_on_until(lambda: mirror.look == new, lambda: mirror.wear(face))
        assert mirror.wear(face).look == new
    client.report_failure("evening", "load_fail")
    assert Look.load("evening@stable") == preset


def test_a_model_is_no_look(devices: Devices, client: Client, face: Image) -> None:
    devices.published.publish("1.0", devices.content(2), NAME)
    devices.published.offer(Candidate("1.0", 100), model=NAME)
    client.refresh(NAME)
    with pytest.raises(DeliveryError, match="no such model here"):
        try_on(face, "summer@stable")
    assert state(client)["quarantine"][0]["code"] == "load_fail"


def test_from_the_publisher_s_command_to_the_face(
    run: Any, tmp_path: Path, face: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it: a repository, its server, a device, and the process that proves the release."""
    monkeypatch.setenv("PALMKIT_PASSPHRASE", "secret")
    place = ("--repository", tmp_path / "repository")
    assert run("models", "create", *place).code == 0
    Look.of(lipstick="ruby", hair="copper").save(tmp_path / "new.json")
    (tmp_path / "readme.txt").write_text("for the beach")
    key = tmp_path / "key.bin"
    key.write_bytes(bytes(range(32)))
    for version, more in (("1.0", ()), ("1.1", ("--key", key, "--key-id", "app"))):
        given = (tmp_path / "new.json", tmp_path / "readme.txt", *more, "--json")
        made = run("models", "publish", NAME, version, *given, *place)
        assert made.code == 0, made.err
        assert json.loads(made.out)["main"] == f"summer-{version}.json"
        assert run("models", "promote", NAME, version, *place).code == 0
        repository = Repository.open(tmp_path / "repository")
        server = FaultServer()
        for file in repository.public.rglob("*"):
            if file.is_file():
                server.files[f"/{file.relative_to(repository.public)}"] = file.read_bytes()
        (tmp_path / "root.json").write_bytes(repository.root())
        client = Client(
            tmp_path / "device", [server.url], repository.root(), keys={"app": key.read_bytes()}
        )
        client.refresh(NAME)
        assert client.get(NAME).version == version
        client.close()
        server.stop()
    monkeypatch.setenv("PALMKIT_DELIVERY_FOLDER", str(tmp_path / "device"))
    monkeypatch.setattr("palmkit.delivery.app._client", None)
    write_image(tmp_path / "face.png", face)
    out = tmp_path / "out.png"
    found = run("tryon", tmp_path / "face.png", "-o", out, "--look", "summer@stable", "--json")
    assert found.code == 0, found.err
    assert list(json.loads(found.out)["look"]) == ["lipstick", "hair"]


def test_publishing_what_is_no_look(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "repository")
    file = tmp_path / "look.json"
    for text, message in (
        ('{"palmkit_look": 1, "lipstick": "reddish"}', "lipstick: expected a colour"),
        ('{"shade": "ruby"}', "expected an object with one of palmkit_look"),
        ("[]", "expected an object with one of palmkit_look"),
        ("{", "expected JSON"),
        (" " * 70_000, "at most 65536 bytes"),
    ):
        file.write_text(text)
        with pytest.raises(RepositoryError, match=message):
            repository.publish(NAME, "1.0", [file])
    Look.of(lipstick="ruby").save(file)
    with pytest.raises(RepositoryError, match="golden inputs: expected none for a data file"):
        repository.publish(NAME, "1.0", [file], Options(golden=tmp_path / "inputs.npz"))
    with pytest.raises(RepositoryError, match="expected one .palm file"):
        repository.publish(NAME, "1.0", [file, tmp_path / "look.json"])
    assert repository.models() == ()
    assert repository.publish(NAME, "1.0", [file]).golden is None
    with pytest.raises(TryOnError):
        Look.load(tmp_path / "none.json")
