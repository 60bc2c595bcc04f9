"""The manifest of a release: its files, what it needs and how it proves itself.

A manifest is one TUF target; the files that it names are targets of the same role. A device takes
all of them or none, so no release is ever mixed with another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime

from palmkit.delivery import data_files
from palmkit.delivery.document import FILE, MODEL, RELEASE, SHA256, Fields, dump, is_portable
from palmkit.engine.errors import DeliveryError

CODECS = ("zstd", "bsdiff4", "int")
CIPHERS = ("AES-256-GCM",)
# A model for a device has megabytes; the limit keeps a wrong number from filling a disk.
MOST_FILE_BYTES = 4 << 30


@dataclass(frozen=True)
class Delta:
    """A way from a file that the device may have to the release's file; smaller than that file.

    base: sha256 of the file it starts from; name, size (bytes), sha256: of the delta itself.
    """

    base: str
    name: str
    codec: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Encryption:
    """How a file is encrypted; the key comes from the app.

    plain_sha256, plain_size (bytes): of the file once decrypted.
    """

    cipher: str
    key_id: str
    plain_sha256: str
    plain_size: int


@dataclass(frozen=True)
class File:
    """A file of a release; size (bytes), sha256: as published, of the ciphertext if encrypted."""

    name: str
    size: int
    sha256: str
    deltas: tuple[Delta, ...] = ()
    encryption: Encryption | None = None


@dataclass(frozen=True)
class Needs:
    """What a device must have: support for this .palm version, and an SDK of these (PEP 440)."""

    palm_format: int
    sdk: str


@dataclass(frozen=True)
class Golden:
    """Inputs whose outputs are known; a release must reproduce them before it goes live.

    file: name of an .npz of the release with arrays in/<case>/<input> and out/<case>/<output>.
    rtol, atol: as in numpy.allclose. max_latency_ratio: how many times as slow as the last good
    release it may be on the same device.
    """

    file: str
    rtol: float
    atol: float
    max_latency_ratio: float


@dataclass(frozen=True)
class Manifest:
    """A release of a model.

    created: ISO 8601 in UTC; main: the name of the model's file.

    A release whose main file ends in .json has a data file instead of a model, see
    palmkit.delivery.data_files.
    """

    model: str
    release: str
    created: str
    files: tuple[File, ...]
    main: str
    needs: Needs
    golden: Golden | None = None
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    notes: str = ""

    def file(self, name: str) -> File:
        """Return the file of this name.

        Raises KeyError if there is none.
        """
        for file in self.files:
            if file.name == name:
                return file
        raise KeyError(name)

    def dump(self) -> bytes:
        """Return the document as bytes."""
        return dump({"schema": 1, **asdict(self)})


def parse(content: bytes) -> Manifest:
    """Return the manifest in the bytes of a document.

    Raises DeliveryError (manifest_invalid) that says what is wrong where.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    fields = Fields.parse(content, "manifest", "manifest_invalid")
    try:
        Version(release := fields.text("release", RELEASE))
    except InvalidVersion:
        raise fields.refuse("release", "a version like 1.2.0") from None
    try:
        datetime.fromisoformat(fields.text("created").replace("Z", "+00:00"))
    except ValueError:
        raise fields.refuse("created", "a time like 2026-01-31T12:00:00Z") from None
    needs = fields.object("needs")
    try:
        SpecifierSet(sdk := needs.text("sdk"))
    except InvalidSpecifier:
        raise needs.refuse("sdk", "versions like >=0.1,<2") from None
    manifest = Manifest(
        model=fields.text("model", MODEL),
        release=release,
        created=fields.text("created"),
        files=tuple(_file(entry) for entry in fields.objects("files", 64)),
        main=fields.text("main", FILE),
        needs=Needs(needs.whole("palm_format", 1), sdk),
        golden=_golden(fields.object("golden")) if fields.has("golden") else None,
        metrics=_metrics(fields.object("metrics")) if fields.has("metrics") else {},
        notes=fields.text("notes", most=1 << 16) if fields.has("notes") else "",
    )
    names = [file.name for file in manifest.files]
    every = names + [delta.name for file in manifest.files for delta in file.deltas]
    for name in (manifest.model, *every):
        if not is_portable(name):
            expected = "a name that every system takes"
            raise DeliveryError("manifest_invalid", f"manifest: expected {expected}, got {name!r}")
    # Windows and macOS take names that differ in case for the same.
    if len({name.lower() for name in every}) != len(every):
        raise DeliveryError("manifest_invalid", f"manifest: files: a name stands twice: {every}")
    for wanted in (manifest.main, *([manifest.golden.file] if manifest.golden else [])):
        if wanted not in names:
            raise DeliveryError("manifest_invalid", f"manifest: {wanted!r} is not among its files")
    main = manifest.file(manifest.main)
    if data_files.is_data_file(main.name) and main.size > data_files.MOST_BYTES:
        most = f"a data file of at most {data_files.MOST_BYTES} bytes"
        raise DeliveryError(
            "manifest_invalid", f"manifest: {main.name}: expected {most}, got {main.size}"
        )
    return manifest


def _file(fields: Fields) -> File:
    encryption = None
    if fields.has("encryption"):
        entry = fields.object("encryption")
        if (cipher := entry.text("cipher")) not in CIPHERS:
            raise entry.refuse("cipher", f"one of {', '.join(CIPHERS)}")
        encryption = Encryption(
            cipher,
            entry.text("key_id", most=256),
            entry.text("plain_sha256", SHA256),
            entry.whole("plain_size", 0, MOST_FILE_BYTES),
        )
    return File(
        fields.text("name", FILE),
        fields.whole("size", 0, MOST_FILE_BYTES),
        fields.text("sha256", SHA256),
        tuple(_delta(entry) for entry in fields.objects("deltas", 16)),
        encryption,
    )


def _delta(fields: Fields) -> Delta:
    # A codec of a later SDK is no error: an SDK that does not know it takes the whole file.
    return Delta(
        fields.text("base", SHA256),
        fields.text("name", FILE),
        fields.text("codec", most=32),
        fields.whole("size", 0, MOST_FILE_BYTES),
        fields.text("sha256", SHA256),
    )


def _golden(fields: Fields) -> Golden:
    return Golden(
        fields.text("file", FILE),
        fields.number("rtol", 0, 1),
        fields.number("atol", 0, 1e9),
        fields.number("max_latency_ratio", 1, 1e6),
    )


def _metrics(fields: Fields) -> dict[str, float]:
    return {name: fields.number(name, -1e300, 1e300) for name in fields.names()}
