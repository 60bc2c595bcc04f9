"""What there is of PalmKit on this machine, and whether it works: `palmkit doctor`.

Nothing is sent, and no connection is opened.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from palmkit.engine.errors import PalmError
from palmkit.kits.table import KITS, Entry

# What the drawn sample shows, from left to right of the picture.
GESTURES = ("other", "open_palm")
PAGE = [{"id": number, "category": ("lamp", "vase")[number % 2]} for number in range(12)]
CLICKED = [{"event": "click", "id": 7, "time": 1_700_000_000.0}]
# How far two backends may differ, relative and absolute: sums in another order.
TOLERANCE = 1e-4


class Check(NamedTuple):
    """Something that was tried.

    name: of what was tried. works: whether it did as it should. said: what came of it, one line.
    """

    name: str
    works: bool
    said: str


def machine() -> dict[str, str]:
    """Return the versions and what the machine has, by what it is."""
    from palmkit.delivery import facts
    from palmkit.engine import _native
    from palmkit.engine.machine import cpu_name, usable_cores

    memory_mb = facts.memory_mb()
    return {
        "palmkit": _version("palmkit") or "not installed",
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": cpu_name(),
        "cores": f"{os.cpu_count()}, of which this process may use {usable_cores()}",
        "instructions": " ".join(_native.isas()),
        "memory": "unknown" if memory_mb is None else f"{memory_mb} MB",
        "packages": ", ".join(
            f"{name} {_version(name) or '(another build)'}"
            for name in ("numpy", "opencv-python-headless", "pillow")
        ),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def extras() -> dict[str, list[str]]:
    """Return the requirements that are missing for each extra; none: it is installed."""
    try:
        names = metadata.metadata("palmkit").get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        return {}
    return {name: sorted(_missing(name)) for name in sorted(names) if name != "dev"}


def _missing(extra: str) -> Iterator[str]:
    from packaging.requirements import Requirement

    for text in metadata.requires("palmkit") or ():
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            continue
        if not wanted.marker.evaluate({"extra": extra}):
            continue
        if wanted.name == "palmkit":
            for inner in wanted.extras:
                yield from _missing(inner)
        elif not (there := _version(wanted.name)) or not wanted.specifier.contains(there, True):
            yield f"{wanted.name}{wanted.specifier}"


def repository() -> str:
    """Return where newer models come from, by the note in the user's folder."""
    from palmkit.delivery.app import REPOSITORY, default_folder

    folder = default_folder()
    if not (folder / REPOSITORY).is_file():
        return "none; models are those that came with PalmKit"
    return f"asked only by `palmkit models` and apps that configure it; kept in {short(folder)}"


def short(path: Path) -> str:
    """Return a path as text, with ~ for the user's home."""
    try:
        return f"~/{path.relative_to(Path.home()).as_posix()}"
    except (RuntimeError, ValueError):
        return str(path)


def checks() -> Iterator[Check]:
    """Try each backend, each model that came with PalmKit and each kit; yield what came of it.

    Of GPUs and other engines, those devices that are there.
    """
    from palmkit.delivery.embedded import shipped
    from palmkit.engine.backends import BACKENDS, DEVICES

    devices = (f"{name}:{device}" for name, each in DEVICES.items() for device in each.there())
    for name in (*BACKENDS, *devices):
        yield _tried(f"backend {name}", partial(_backend, name))
    for name in shipped():
        yield _tried(f"model {name}", partial(_model, name))
    for name, entry in KITS.items():
        yield _tried(f"kit {name}", partial(_kit, entry))


def _tried(name: str, attempt: Callable[[], str]) -> Check:
    try:
        return Check(name, True, attempt())
    except Exception as error:
        return Check(name, False, " ".join(f"{type(error).__name__}: {error}".split()))


def _backend(name: str) -> str:
    """Run a small network, and compare it with the meaning of its operators."""
    import numpy as np

    from palmkit.engine import Graph, Model
    from palmkit.engine.ir import Node, Type

    rng = np.random.default_rng(0)
    graph = Graph(
        inputs={"image": Type("float32", (1, 3, 32, 32))},
        outputs={"y": Type("float32", (1, 8, 32, 32))},
        nodes=(
            Node("conv", ("image", "w"), ("c",), {"pads": (1, 1, 1, 1)}),
            Node("relu", ("c",), ("y",)),
        ),
        constants={"w": rng.normal(0, 0.2, (8, 3, 3, 3)).astype(np.float32)},
    )
    given = {"image": rng.random((1, 3, 32, 32), np.float32)}
    truth = Model(graph, "reference").run(given)["y"]
    model = Model(graph, name)
    found = model.run(given)["y"]
    if not np.allclose(found, truth, TOLERANCE, TOLERANCE):
        raise PalmError("it gives other numbers than the reference")
    if model.fallbacks:
        return f"leaves to numpy: {'; '.join(sorted(model.fallbacks.values()))}"
    return f"runs a convolution right, on {', '.join(model.devices)}"


def _model(name: str) -> str:
    import hashlib

    from palmkit.delivery.embedded import shipped

    model = shipped()[name]
    content = model.path.read_bytes()
    if hashlib.sha256(content).hexdigest() != model.sha256:
        raise PalmError(f"the file is not the one that was released: {short(model.path)}")
    return f"{model.version}, {len(content) / 1e3:.0f} KB, {short(model.path.parent)}"


def _kit(entry: Entry) -> str:
    """Run a kit on what is drawn, twice: the first time also opens its models."""
    from palmkit import assets

    given = (PAGE, CLICKED) if entry.takes == "page" else (assets.path("samples/hands.jpg"),)
    with entry.load_kit()(**entry.timed) as kit:
        start_s = time.perf_counter()
        look = getattr(kit, entry.method)
        look(*given)
        opened_s = time.perf_counter()
        found = look(*given)
        took_s = time.perf_counter() - opened_s
    return f"{_seen(found)}{took_s * 1e3:.1f} ms, {(opened_s - start_s) * 1e3:.0f} with loading"


def _seen(found: Any) -> str:
    """Return what is known of the sample, or raise PalmError where it should be something else."""
    from palmkit.kits.results.faces import Faces
    from palmkit.kits.results.hands import Hands
    from palmkit.kits.results.ranking import Ranking

    if isinstance(found, Hands):
        seen = tuple(hand.gesture for hand in sorted(found, key=lambda hand: hand.box[0]))
        if seen != GESTURES:
            raise PalmError(f"expected the drawn hands {GESTURES}, found {seen}")
        return f"{' and '.join(map(str, seen))}, "
    if isinstance(found, Ranking):
        if sorted(found.rows) != list(range(len(PAGE))):
            raise PalmError(f"expected an order of {len(PAGE)} items, found {found.rows}")
        return f"{len(PAGE)} items in order, "
    return "no face where none is, " if isinstance(found, Faces) and not len(found) else ""
