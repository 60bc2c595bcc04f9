"""Making a release: its files under their published names, golden inputs, deltas and manifest.

Nothing here signs or uploads: everything lies in a folder until the release is complete and has
run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from palmkit.delivery import data_files, delta, encryption, manifest
from palmkit.delivery.document import FILE, MODEL, RELEASE, is_portable
from palmkit.delivery.facts import sdk
from palmkit.delivery.manifest import Delta, Encryption, File, Golden, Manifest, Needs
from palmkit.delivery.repository.golden_inputs import Cases, write_golden
from palmkit.delivery.repository.storage import sha256_of
from palmkit.engine.errors import DeliveryError, ModelError, PalmError, RepositoryError

GOLDEN = "golden"


@dataclass(frozen=True)
class Options:
    """Options of a release besides its files.

    main: the model among the files (the only one that ends in .palm; without one, in .json: a data
    file, such as a look). golden: as for `write_golden`; None for none, and a data file has none.
    rtol, atol, max_latency_ratio: as in manifest.Golden. sdk: the versions of palmkit that may run
    it, as PEP 440 (by default this one and later). key, key_id: 32 bytes that encrypt all files but
    the golden ones, and the app's name for them.
    """

    main: str | None = None
    golden: Cases | Path | int | None = 1
    rtol: float = 0.01
    atol: float = 0.001
    max_latency_ratio: float = 4.0
    sdk: str | None = None
    metrics: Mapping[str, float] | None = None
    notes: str = ""
    key: bytes | None = None
    key_id: str = ""


@dataclass(frozen=True)
class Made:
    """A release that is not signed yet: its manifest, and where its files and deltas lie."""

    manifest: Manifest
    paths: Mapping[str, Path]


def check_name(model: str, release: str) -> None:
    """Raise RepositoryError for an invalid name of a model or a release."""
    from packaging.version import InvalidVersion, Version

    if not MODEL.fullmatch(model) or not is_portable(model):
        raise RepositoryError(f"model: expected a name like face_detector, got {model!r}")
    if not RELEASE.fullmatch(release):
        raise RepositoryError(f"release: expected at most 64 characters of ASCII, got {release!r}")
    try:
        Version(release)
    except InvalidVersion:
        raise RepositoryError(f"release: expected a version like 1.2.0, got {release!r}") from None


def published_name(model: str, release: str, file: Path, is_main: bool) -> str:
    """Return a file's name in the repository, of which its release is a part."""
    stem = model if is_main else file.stem
    name = f"{stem}{file.suffix}" if release in stem else f"{stem}-{release}{file.suffix}"
    if not FILE.fullmatch(name) or not is_portable(name):
        raise RepositoryError(f"file: expected a name of letters, digits, . _ + -, got {name!r}")
    return name


def make(
    folder: Path,
    model: str,
    release: str,
    files: Sequence[Path],
    options: Options,
    created: datetime,
) -> Made:
    """Make a release in `folder`, without its deltas.

    Raises RepositoryError if a file is missing, or the model does not run (a data file cannot
    be read) here.
    """
    check_name(model, release)
    for file in files:
        if not file.is_file():
            raise RepositoryError(f"no such file: {file}")
    main = _main(files, options.main)
    entries: dict[str, File] = {}
    paths: dict[str, Path] = {}
    for file in files:
        name = published_name(model, release, file, file is main)
        if name in entries:
            raise RepositoryError(f"two files of one name: {name}")
        entries[name], paths[name] = _file(folder, name, file, options)
    golden = None
    if data_files.is_data_file(main):
        _check_data_file(main, options)
    elif options.golden is not None:
        if not 0 <= options.rtol <= 1:
            raise RepositoryError(f"rtol: expected 0 to 1, got {options.rtol}")
        name = f"{GOLDEN}-{release}.npz"
        if name in entries:
            raise RepositoryError(f"the name is for golden inputs: {name}")
        write_golden(main, options.golden, folder / name, options.rtol)
        golden = Golden(name, options.rtol, options.atol, options.max_latency_ratio)
        entries[name] = File(name, (folder / name).stat().st_size, sha256_of(folder / name))
        paths[name] = folder / name
    made = Manifest(
        model=model,
        release=release,
        created=f"{created:%Y-%m-%dT%H:%M:%SZ}",
        files=tuple(entries.values()),
        main=published_name(model, release, main, True),
        needs=Needs(_format_of(main), options.sdk or f">={sdk()}"),
        golden=golden,
        metrics=dict(options.metrics or {}),
        notes=options.notes,
    )
    try:
        # A release that devices would refuse must not be signed.
        manifest.parse(made.dump())
    except (DeliveryError, ValueError) as error:
        raise RepositoryError(f"the release cannot be described: {error}") from error
    return Made(made, paths)


def _check_data_file(main: Path, options: Options) -> None:
    if not isinstance(options.golden, int | None):
        raise RepositoryError(f"golden inputs: expected none for a data file: {main}")
    try:
        data_files.check(main)
    except (PalmError, OSError) as error:
        raise RepositoryError(f"the release cannot be read: {error}") from error


def _main(files: Sequence[Path], name: str | None) -> Path:
    if name is None:
        found = [file for file in files if file.suffix == ".palm"]
        found = found or [file for file in files if data_files.is_data_file(file)]
    else:
        found = [file for file in files if file.name == name]
    if len(found) != 1:
        wanted = "one .palm file (or one of .json), or `main`"
        wanted = wanted if name is None else f"one file called {name}"
        raise RepositoryError(f"expected {wanted}, got {', '.join(map(str, files)) or 'no file'}")
    return found[0]


def _file(folder: Path, name: str, source: Path, options: Options) -> tuple[File, Path]:
    if options.key is None:
        return File(name, source.stat().st_size, sha256_of(source)), source
    if not options.key_id:
        raise RepositoryError("an encrypted release needs a key_id, by which the app finds the key")
    path = folder / name
    try:
        encryption.encrypt(source, path, options.key)
    except ValueError as error:
        raise RepositoryError(str(error)) from error
    plain = Encryption("AES-256-GCM", options.key_id, sha256_of(source), source.stat().st_size)
    return File(name, path.stat().st_size, sha256_of(path), encryption=plain), path


def _format_of(model: Path) -> int:
    """Return the version of the .palm format; for a data file the first, which every SDK reads."""
    if data_files.is_data_file(model):
        return 1
    from palmkit.engine.format import TRAILER
    from palmkit.engine.format.sections import Sections, mapped

    try:
        sections = Sections(mapped(model))
    except ModelError as error:
        raise RepositoryError(f"{model}: {error}; make one with palmkit convert") from error
    _, _, version, _ = TRAILER.unpack_from(sections.file, len(sections.file) - TRAILER.size)
    return int(version)


def with_deltas(
    made: Made,
    folder: Path,
    earlier: Sequence[Manifest],
    read: Callable[[File], bytes],
    shipped: Sequence[Path] = (),
) -> Made:
    """Return the release with deltas from earlier ones, where they save enough.

    earlier: manifests to start from; read: reads a file of theirs; shipped: models that came with
    the app. A file starts from its namesake; an encrypted one has no delta, as ciphertexts have
    nothing in common.
    """
    files: list[File] = []
    paths = dict(made.paths)
    for file in made.manifest.files:
        deltas: list[Delta] = []
        large = file.size > delta.LEAST_SAVED_BYTES
        if large and file.encryption is None and not _is_golden(made.manifest, file):
            namesakes = [_namesake(one, made.manifest, file) for one in earlier]
            bases = [read(base) for base in namesakes if base is not None]
            if file.name == made.manifest.main:
                bases += [path.read_bytes() for path in shipped]
            target = made.paths[file.name].read_bytes()
            for base in bases:
                digest = sha256_of(base)
                if any(each.base == digest for each in deltas):
                    continue
                for codec, patch in delta.worthwhile(base, target):
                    name = f"{file.name}.from-{digest[:12]}.{codec}"
                    (folder / name).write_bytes(patch)
                    paths[name] = folder / name
                    deltas.append(Delta(digest, name, codec, len(patch), sha256_of(patch)))
        files.append(replace(file, deltas=tuple(deltas)))
    return Made(replace(made.manifest, files=tuple(files)), paths)


def _is_golden(of: Manifest, file: File) -> bool:
    return of.golden is not None and file.name == of.golden.file


def _namesake(earlier: Manifest, new: Manifest, file: File) -> File | None:
    """Return the file of an earlier release with the name of `file`, ignoring the release in it."""
    if file.name == new.main:
        return _plain(earlier.file(earlier.main))
    wanted = file.name.replace(new.release, earlier.release)
    return next((_plain(each) for each in earlier.files if each.name == wanted), None)


def _plain(file: File) -> File | None:
    return file if file.encryption is None else None
