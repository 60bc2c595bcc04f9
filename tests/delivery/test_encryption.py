"""Encrypted files: what comes out is what went in, or nothing does."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from palmkit.delivery import encryption
from palmkit.delivery.encryption import CHUNK_BYTES, decrypt, encrypt
from palmkit.delivery.manifest import Encryption, File
from palmkit.engine.errors import DeliveryError
from tests.delivery.fault_server import FaultServer, serving
from tests.delivery.network_devices import Device

KEY = bytes(range(32))
CONTENT = os.urandom(2 * CHUNK_BYTES + 5)


def sealed(folder: Path, content: bytes = CONTENT) -> Path:
    (folder / "plain").write_bytes(content)
    encrypt(folder / "plain", folder / "sealed", KEY)
    return folder / "sealed"


@pytest.mark.parametrize(
    "size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES]
)
def test_what_comes_out_went_in(tmp_path: Path, size: int) -> None:
    path = sealed(tmp_path, CONTENT[:size])
    decrypt(path, tmp_path / "out", KEY)
    assert (tmp_path / "out").read_bytes() == CONTENT[:size]
    assert path.stat().st_size == 36 + size + 16 * max(1, -(-size // CHUNK_BYTES))


def test_the_same_file_is_never_encrypted_the_same_way(tmp_path: Path) -> None:
    first = sealed(tmp_path).read_bytes()
    second = sealed(tmp_path).read_bytes()
    assert len(first) == len(second)
    assert sum(a == b for a, b in zip(first[36:], second[36:], strict=True)) < len(first) / 100


def refused(path: Path, key: bytes = KEY) -> str:
    with pytest.raises(DeliveryError) as caught:
        decrypt(path, path.with_name("out"), key)
    assert caught.value.code == "download_fail"
    return str(caught.value)


def test_another_key_opens_nothing(tmp_path: Path) -> None:
    assert "cannot be decrypted" in refused(sealed(tmp_path), bytes(32))
    assert (tmp_path / "out").read_bytes() == b""


@pytest.mark.parametrize("at", [4, 35, 36, 1000, CHUNK_BYTES + 100, -1])
def test_a_changed_byte_is_found(tmp_path: Path, at: int) -> None:
    path = sealed(tmp_path)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    refused(path)


def test_chunks_cannot_be_cut_off_swapped_or_added(tmp_path: Path) -> None:
    path = sealed(tmp_path)
    content, chunk = path.read_bytes(), CHUNK_BYTES + 16
    head, body = content[:36], content[36:]
    first, second, last = body[:chunk], body[chunk : 2 * chunk], body[2 * chunk :]
    assert len(last) == 5 + 16
    for changed in (
        first,
        first + second,
        second + first + last,
        first + second + last + last,
        first + second + last[:-1],
        first + second + last[:3],
        b"",
    ):
        path.write_bytes(head + changed)
        refused(path)


def test_what_is_no_such_file(tmp_path: Path) -> None:
    for content in (b"", b"PKE1", b"PKE2" + bytes(100)):
        (tmp_path / "a").write_bytes(content)
        assert "not an encrypted file" in refused(tmp_path / "a")


def test_a_key_has_32_bytes(tmp_path: Path) -> None:
    path = sealed(tmp_path)
    for key in (b"", bytes(16), bytes(33)):
        with pytest.raises(ValueError, match="expected 32 bytes"):
            decrypt(path, tmp_path / "out", key)
        with pytest.raises(ValueError, match="expected 32 bytes"):
            encrypt(path, tmp_path / "again", key)


def test_the_nonces_of_one_file_differ() -> None:
    import io

    chunks = getattr(encryption, "_chunks")(io.BytesIO(bytes(10)), 3)  # noqa: B009
    nonces = [nonce for nonce, _ in chunks]
    assert len({*nonces}) == len(nonces) == 4
    assert [nonce[-1] for nonce in nonces] == [0, 0, 0, 1]


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serving() as server:
        yield server


@pytest.fixture
def file(tmp_path: Path, server: FaultServer) -> File:
    content = sealed(tmp_path).read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    server.files[f"/targets/models/face/{sha256}.a.palm"] = content
    plain = hashlib.sha256(CONTENT).hexdigest()
    kept = Encryption("AES-256-GCM", "team", plain, len(CONTENT))
    return File("a.palm", len(content), sha256, encryption=kept)


def test_an_encrypted_model_is_fetched_and_kept_plain(
    tmp_path: Path, server: FaultServer, file: File
) -> None:
    device = Device(tmp_path / "store", server)
    path = device.fetch(file, key=KEY)
    assert path.read_bytes() == CONTENT
    assert path.stat().st_mode & 0o777 == 0o400, "for this user alone"
    assert device.store.size_bytes() == len(CONTENT), "only once"
    assert device.fetch(file) == path and len(server.requests) == 1


def test_without_the_key_nothing_is_kept_but_what_was_fetched(
    tmp_path: Path, server: FaultServer, file: File
) -> None:
    device = Device(tmp_path / "store", server)
    assert "key team" in str(device.fail(file))
    assert "cannot be decrypted" in str(device.fail(file, key=bytes(32)))
    assert device.store.size_bytes() == file.size and len(server.requests) == 1
    device.fetch(file, key=KEY)
    assert len(server.requests) == 1


def test_a_plain_file_that_is_not_the_one_signed(
    tmp_path: Path, server: FaultServer, file: File
) -> None:
    assert file.encryption is not None
    wrong = Encryption("AES-256-GCM", "team", "0" * 64, len(CONTENT))
    device = Device(tmp_path / "store", server)
    other = File(file.name, file.size, file.sha256, encryption=wrong)
    assert device.fail(other, key=KEY).code == "hash_mismatch"
    assert device.store.path("0" * 64) is None
