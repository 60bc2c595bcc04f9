"""The file of one user's learning: arrays, on request encrypted."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import DeliveryError, ModelError
from palmkit.engine.reading import check_readable
from palmkit.engine.replacing import replacing
from palmkit.kits.ranking.learning import Learner, Shown
from palmkit.kits.ranking.taste import WORDS, Own

# A file may hold so many times what the session may take in memory, and no more.
_SLACK = 4


def write(path: str | os.PathLike[str], learner: Learner, key: bytes | None) -> None:
    """Do what Session.save says."""
    arrays: dict[str, NDArray[np.generic]] = {"model": np.array(learner.head.digest)}
    for name, value in (learner.weights or {}).items():
        arrays[f"weights/{name}"] = value
    pages = learner.pages
    arrays["counts"] = np.array([len(page.wanted) for page in pages], np.int64)
    arrays["words"] = np.array([*learner.words], np.int64)
    if pages:
        arrays["hidden"] = np.concatenate([page.hidden for page in pages])
        arrays["codes"] = np.concatenate([page.own.codes for page in pages])
        arrays["measures"] = np.concatenate([page.own.measures for page in pages])
        arrays["wanted"] = np.concatenate([page.wanted for page in pages])
        arrays["seen"] = np.concatenate([page.seen for page in pages])
    plain = io.BytesIO()
    np.savez(plain, **arrays)  # type: ignore[arg-type]
    with replacing(path) as part, part.open("wb") as file:
        if key is None:
            file.write(plain.getbuffer())
        else:
            from palmkit.delivery.encryption import seal

            plain.seek(0)
            seal(plain, file, key)


def read(path: str | os.PathLike[str], learner: Learner, key: bytes | None) -> None:
    """Do what Session.load says."""
    limit = _SLACK * learner.memory_bytes
    file = Path(path)
    check_readable(file)
    if file.stat().st_size > limit:
        raise ModelError(f"what was learned: expected at most {limit} bytes: {file.name}")
    plain = io.BytesIO()
    try:
        if key is None:
            plain.write(file.read_bytes())
        else:
            from palmkit.delivery.encryption import unseal

            with file.open("rb") as encrypted:
                unseal(encrypted, plain, key, file.name)
        arrays = _arrays(plain, limit)
        _take(arrays, learner)
    except DeliveryError as error:
        raise ModelError(f"what was learned: {error}") from None
    except (KeyError, ValueError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise ModelError(f"what was learned: {file.name}: no such file: {error}") from None


def _arrays(plain: io.BytesIO, limit: int) -> dict[str, NDArray[np.generic]]:
    with zipfile.ZipFile(plain) as zipped:
        if sum(each.file_size for each in zipped.infolist()) > limit:
            raise ValueError(f"expected at most {limit} bytes")
    plain.seek(0)
    with np.load(plain, allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}


def _take(arrays: dict[str, NDArray[np.generic]], learner: Learner) -> None:
    """Check all, then change the learner."""
    head = learner.head
    if str(arrays["model"]) != head.digest:
        raise ModelError("what was learned: expected that of this model and schema")
    weights = {name: _weight(arrays, name, value) for name, value in head.shipped.items()}
    is_own = any(name.startswith("weights/") for name in arrays)
    counts = _whole(arrays["counts"])
    if len(counts) and counts.min() < 1:
        raise ValueError("counts: expected at least 1 each")
    hashes = _whole(arrays["words"]).tolist()
    if len(hashes) >= WORDS or len({*hashes}) != len(hashes):
        raise ValueError(f"words: expected fewer than {WORDS}, all different")
    pages: list[Shown] = []
    if len(counts):
        total, ends = int(counts.sum()), counts.cumsum()[:-1]
        hidden = _floats(arrays["hidden"], (total, head.channels))
        measures = _floats(arrays["measures"], (total, head.width - WORDS))
        codes = arrays["codes"]
        if codes.dtype != np.int16 or codes.ndim != 2 or len(codes) != total:
            raise ValueError(f"codes: expected int16[{total}, n], got {codes.dtype}")
        whole = codes.astype(np.int16)
        if whole.size and not 0 <= whole.min() <= whole.max() <= len(hashes):
            raise ValueError("codes: expected those of words")
        wanted, seen = (_flags(arrays[name], total) for name in ("wanted", "seen"))
        for rows in np.split(np.arange(total), ends):
            # Ids mean something within a process only.
            nobody = np.zeros(len(rows), np.int64)
            own = Own(whole[rows], measures[rows])
            pages.append(Shown(nobody, hidden[rows], own, wanted[rows], seen[rows]))
    words = {key: code for code, key in enumerate(hashes, 1)}
    learner.restore(pages, weights if is_own else None, words)


def _weight(
    arrays: dict[str, NDArray[np.generic]], name: str, like: NDArray[np.generic]
) -> NDArray[np.float32]:
    if f"weights/{name}" not in arrays:
        if any(each.startswith("weights/") for each in arrays):
            raise ValueError(f"no weights {name}")
        return np.zeros(0, np.float32)
    return _floats(arrays[f"weights/{name}"], like.shape)


def _floats(array: NDArray[np.generic], shape: tuple[int, ...]) -> NDArray[np.float32]:
    if array.dtype != np.float32 or array.shape != shape:
        raise ValueError(f"expected float32{list(shape)}, got {array.dtype}{list(array.shape)}")
    found = np.array(array, np.float32)
    if not np.isfinite(found).all():
        raise ValueError("expected finite numbers")
    return found


def _flags(array: NDArray[np.generic], count: int) -> NDArray[np.bool_]:
    if array.dtype != np.bool_ or array.shape != (count,):
        raise ValueError(f"expected bool[{count}], got {array.dtype}{list(array.shape)}")
    return np.array(array, np.bool_)


def _whole(array: NDArray[np.generic]) -> NDArray[np.int64]:
    if array.dtype != np.int64 or array.ndim > 1:
        raise ValueError(f"expected int64, got {array.dtype}{list(array.shape)}")
    return np.array(array, np.int64)
