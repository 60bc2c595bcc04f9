"""A .palm file that only its key opens: AES-256-GCM over the whole file (NIST SP 800-38D).

Encryption keeps a model from those who have the file but not the key. A program that can run the
model holds both, so nothing keeps the model from whoever runs that program.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from palmkit.engine.errors import BackendError, ModelError
from palmkit.engine.format import LOCK_FOOTER, LOCK_MARK

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12
_VERSION = 1


def encrypted(content: bytes, key: bytes) -> bytes:
    """Encrypt a file's content: return a new nonce, the ciphertext, the tag and a footer."""
    nonce = os.urandom(_NONCE_BYTES)
    cipher = _cipher(key).encrypt(nonce, content, LOCK_MARK)
    size = len(nonce) + len(cipher)
    return nonce + cipher + LOCK_FOOTER.pack(LOCK_MARK, size, _VERSION, 0)


def decrypted(data: memoryview, key: bytes | None) -> bytes:
    """Return the file that a data section encrypts.

    Raises ModelError for a missing or wrong key, or for damage.
    """
    from cryptography.exceptions import InvalidTag

    if key is None:
        raise ModelError("encrypted: expected its key, load(path, key=...), got none")
    footer = len(data) - LOCK_FOOTER.size
    _, size, version, zero = LOCK_FOOTER.unpack_from(data, footer)
    if version != _VERSION or zero or not _NONCE_BYTES <= size <= footer:
        raise ModelError("damaged: not an encrypted file")
    begin = footer - size
    nonce = bytes(data[begin : begin + _NONCE_BYTES])
    try:
        return _cipher(key).decrypt(nonce, bytes(data[begin + _NONCE_BYTES : footer]), LOCK_MARK)
    except InvalidTag:
        raise ModelError("encrypted with another key, or changed") from None


def _cipher(key: bytes) -> AESGCM:
    if len(key) != KEY_BYTES:
        raise ValueError(f"key: expected {KEY_BYTES} bytes, got {len(key)}")
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise BackendError(
            "the package cryptography is missing: pip install cryptography"
        ) from None
    return AESGCM(key)
