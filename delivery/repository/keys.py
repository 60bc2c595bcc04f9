"""The keys that this machine can sign with: URIs of securesystemslib signers, by key id.

keys.json gives the place of each private key: {"<key id>": "encrypted:models.pem"}. Schemes:
`encrypted` (a PEM file of this folder, under a passphrase), `file2` (a PEM file in the clear), and
all of securesystemslib, such as awskms, gcpkms, azurekms, hv (Vault) and hsm; the library of such a
service must be installed. Which keys a role needs is in the signed metadata, not here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from securesystemslib.signer import SIGNER_FOR_URI_SCHEME, CryptoSigner, Key, Signer, SSlibKey

from palmkit.delivery.repository.storage import write_durably
from palmkit.engine.errors import RepositoryError
from palmkit.engine.reading import read_bytes

if TYPE_CHECKING:
    from typing_extensions import Self

Secrets: TypeAlias = Callable[[str], str]
PASSPHRASE = "PALMKIT_PASSPHRASE"
_FILES = ("encrypted", "file2")


def from_environment(name: str) -> str:
    """Return the passphrase in $PALMKIT_PASSPHRASE, for the key file called `name`.

    Raises RepositoryError without it.
    """
    if passphrase := os.environ.get(PASSPHRASE):
        return passphrase
    raise RepositoryError(f"the key needs its passphrase, in ${PASSPHRASE}: {name}")


class EncryptedFileSigner(CryptoSigner):
    """Signs with a PEM file under a passphrase: `encrypted:PATH`."""

    SCHEME = "encrypted"

    @classmethod
    def from_priv_key_uri(
        cls, priv_key_uri: str, public_key: Key, secrets_handler: Secrets | None = None
    ) -> EncryptedFileSigner:
        """Read the file, with the secret called by its name."""
        path = Path(priv_key_uri.partition(":")[2])
        passphrase = (secrets_handler or from_environment)(path.name)
        return cls._of(path, passphrase.encode(), public_key)

    @classmethod
    def _of(cls, path: Path, passphrase: bytes | None, public_key: Key) -> Self:
        private = load_pem_private_key(read_bytes(path), passphrase)
        if not isinstance(public_key, SSlibKey):
            raise ValueError(f"expected a key of securesystemslib, got {public_key.keytype}")
        return cls(private, public_key)


class ClearFileSigner(EncryptedFileSigner):
    """Signs with a PEM file in the clear: `file2:PATH`, where PATH may have any character."""

    SCHEME = "file2"

    @classmethod
    def from_priv_key_uri(
        cls, priv_key_uri: str, public_key: Key, secrets_handler: Secrets | None = None
    ) -> ClearFileSigner:
        """Read the file; securesystemslib's own prefix of its path, if set, stands before it."""
        prefix = os.environ.get(cls.PREFIX_ENV_VAR, "")
        return cls._of(Path(prefix, priv_key_uri.partition(":")[2]), None, public_key)


for _signer in (EncryptedFileSigner, ClearFileSigner):
    SIGNER_FOR_URI_SCHEME[_signer.SCHEME] = _signer


def public_key(pem: bytes) -> SSlibKey:
    """Return the public key of a PEM file, as a KMS or `ceremony key` gives it."""
    try:
        return SSlibKey.from_crypto(load_pem_public_key(pem))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise RepositoryError("expected a public key as PEM (Ed25519, ECDSA or RSA)") from error


def key_signer(path: Path, passphrase: str | None) -> Signer:
    """Return a signer with a key file. Raises RepositoryError if it cannot be opened."""
    try:
        secret = None if passphrase is None else passphrase.encode()
        return CryptoSigner(load_pem_private_key(read_bytes(path), secret))
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise RepositoryError(f"the key cannot be opened: {path}: {error}") from error


def signer_at(uri: str, key: Key, secrets: Secrets) -> Signer:
    """Return a signer with the private key at a URI.

    Raises RepositoryError if it cannot be opened.
    """
    try:
        return Signer.from_priv_key_uri(uri, key, secrets)
    except RepositoryError:
        raise
    # Each signer has its own errors, of files or services.
    except Exception as error:
        raise RepositoryError(f"the key cannot be opened: {uri}: {error}") from error


def is_encrypted(path: Path) -> bool:
    """Return whether a key file has a passphrase.

    Raises RepositoryError if it cannot be read.
    """
    try:
        return b"ENCRYPTED PRIVATE KEY" in read_bytes(path)
    except OSError as error:
        raise RepositoryError(f"the key cannot be opened: {path}: {error}") from error


def write_key(path: Path, passphrase: str | None) -> SSlibKey:
    """Make an Ed25519 key: `path` (private, mode 0600) and, beside it, .pub (public), as PEM.

    passphrase: encrypts the file; None leaves it in the clear.
    Raises RepositoryError if the file exists.
    """
    if path.exists():
        raise RepositoryError(f"there is a key already: {path}")
    encryption: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        if not passphrase:
            raise RepositoryError("the passphrase is empty")
        encryption = BestAvailableEncryption(passphrase.encode())
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    write_durably(path, [pem], 0o600)
    public = private.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    write_durably(path.with_suffix(".pub"), [pem])
    return SSlibKey.from_crypto(public)


class KeyRing:
    """The private keys within reach of this machine."""

    def __init__(self, folder: Path, secrets: Secrets = from_environment) -> None:
        """Read keys.json of `folder`; without it the ring is empty.

        secrets: returns the passphrase of a key file, by the file's name.
        """
        self.folder = folder
        self.secrets = secrets
        self._signers: dict[str, Signer] = {}
        self._uris: dict[str, str] = {}
        if (folder / "keys.json").is_file():
            self._uris = self._read()

    def _read(self) -> dict[str, str]:
        try:
            uris: Any = json.loads((self.folder / "keys.json").read_bytes())
        except ValueError as error:
            raise RepositoryError(f"not JSON: {self.folder / 'keys.json'}") from error
        if not isinstance(uris, dict):
            raise RepositoryError(f"expected an object: {self.folder / 'keys.json'}")
        return {str(keyid): str(uri) for keyid, uri in cast("dict[object, object]", uris).items()}

    def __contains__(self, keyid: str) -> bool:
        """Return whether this machine can sign with a key: it has its file or its URI."""
        scheme, _, path = self._uris.get(keyid, "").partition(":")
        return (self.folder / path).is_file() if scheme in _FILES else bool(scheme)

    @property
    def encrypts(self) -> bool:
        """Whether key files here have a passphrase."""
        return any(uri.startswith("encrypted:") for uri in self._uris.values())

    def generate(self, name: str, passphrase: str | None) -> SSlibKey:
        """Make a key in a file of this folder: name.pem or, if that exists, name-2.pem."""
        number = 2
        path = self.folder / f"{name}.pem"
        # A key that is kept elsewhere may come back.
        used = {uri.partition(":")[2] for uri in self._uris.values()}
        while path.exists() or path.name in used:
            path = self.folder / f"{name}-{number}.pem"
            number += 1
        key = write_key(path, passphrase)
        self.add(key, f"{'file2' if passphrase is None else 'encrypted'}:{path.name}")
        return key

    def add(self, key: Key, uri: str) -> None:
        """Sign with `key`, whose private part is at `uri`; file paths start at the folder."""
        self._uris[key.keyid] = uri
        self._write()

    def forget(self, keyid: str) -> None:
        """Stop signing with a key; its file stays."""
        self._signers.pop(keyid, None)
        if self._uris.pop(keyid, None) is not None:
            self._write()

    def _write(self) -> None:
        content = json.dumps(self._uris, indent=1) + "\n"
        write_durably(self.folder / "keys.json", [content.encode()], 0o600)

    def signer(self, key: Key) -> Signer | None:
        """Return a signer with a key, None if the key is not within reach.

        Raises RepositoryError if it should be, and cannot be opened.
        """
        if key.keyid not in self:
            return None
        if key.keyid not in self._signers:
            uri = self._uris[key.keyid]
            scheme, _, path = uri.partition(":")
            if scheme in _FILES:
                uri = f"{scheme}:{self.folder / path}"
            self._signers[key.keyid] = signer_at(uri, key, self.secrets)
        return self._signers[key.keyid]
