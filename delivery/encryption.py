"""Encrypted files: AES-256-GCM in chunks, so that a large file is neither held nor trusted whole.

The construction is STREAM of Hoang, Reyhanitabar, Rogaway and Vizar, "Online authenticated
encryption and its nonce-reuse misuse-resistance" (2015), with a key of its own for each file by
HKDF-SHA256: 4 bytes "PKE1", 32 bytes salt, then chunks of 1 MiB with 16 bytes tag each, the last
one shorter or equal. The nonce of a chunk is 7 zero bytes, its number (4 bytes, big-endian) and 1
for the last, else 0: chunks cannot change places and the end cannot be cut off.

It keeps a mirror or a CDN from reading a model. A device that runs the model holds it in the clear.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from palmkit.engine.errors import DeliveryError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
CHUNK_BYTES = 1 << 20
_MAGIC = b"PKE1"
_SALT_BYTES = 32
_TAG_BYTES = 16


def encrypt(source: Path, target: Path, key: bytes) -> None:
    """Write source encrypted to target; see seal.

    Raises OSError, too.
    """
    with open(source, "rb") as plain, open(target, "wb") as encrypted:
        seal(plain, encrypted, key)


def decrypt(source: Path, target: Path, key: bytes) -> None:
    """Write source decrypted to target; see unseal.

    Raises OSError, too.
    """
    with open(source, "rb") as encrypted, open(target, "wb") as plain:
        unseal(encrypted, plain, key, source.name)


def seal(plain: IO[bytes], encrypted: IO[bytes], key: bytes) -> None:
    """Encrypt `plain`.

    key: 32 secret bytes; each file gets a salt of its own.
    Raises ValueError for a key of another length.
    """
    salt = os.urandom(_SALT_BYTES)
    cipher = _cipher(key, salt)
    encrypted.write(_MAGIC + salt)
    for nonce, chunk in _chunks(plain, CHUNK_BYTES):
        encrypted.write(cipher.encrypt(nonce, chunk, _MAGIC))


def unseal(encrypted: IO[bytes], plain: IO[bytes], key: bytes, name: str) -> None:
    """Decrypt `encrypted`; nothing of a chunk is written before it is verified.

    name: the file's name, for messages.
    Raises DeliveryError (download_fail) where the key is wrong or the file is no such file or was
    changed, ValueError for a key of another length.
    """
    from cryptography.exceptions import InvalidTag

    header = encrypted.read(len(_MAGIC) + _SALT_BYTES)
    if len(header) != len(_MAGIC) + _SALT_BYTES or not header.startswith(_MAGIC):
        raise DeliveryError("download_fail", f"{name}: not an encrypted file")
    cipher = _cipher(key, header[len(_MAGIC) :])
    try:
        for nonce, chunk in _chunks(encrypted, CHUNK_BYTES + _TAG_BYTES):
            plain.write(cipher.decrypt(nonce, chunk, _MAGIC))
    except InvalidTag:
        message = f"{name}: cannot be decrypted: the key is another, or it was changed"
        raise DeliveryError("download_fail", message) from None


def _cipher(key: bytes, salt: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    if len(key) != KEY_BYTES:
        raise ValueError(f"key: expected {KEY_BYTES} bytes, got {len(key)}")
    return AESGCM(HKDF(SHA256(), KEY_BYTES, salt, b"palmkit model file").derive(key))


def _chunks(file: IO[bytes], size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the chunks of the rest of a file with their nonces; an empty file has one."""
    number, chunk = 0, file.read(size)
    while True:
        following = file.read(size)
        yield bytes(7) + number.to_bytes(4, "big") + bytes([not following]), chunk
        if not following:
            return
        number, chunk = number + 1, following
