"""What x86-64 found in the drawn samples: `python -m tests.platforms.recorded` writes it anew."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import palmkit.engine
from palmkit.engine import load

FILE = Path(__file__).with_name("recorded.json")
MODELS = sorted(Path(palmkit.engine.__file__).parents[1].glob("models/*/*.palm"))
PORTRAITS = Path(__file__).parents[2] / "kits/tryon/example.jpg"
SIDES = {"height": 96, "width": 160}
# Of each array so many numbers are kept, spread over it.
KEPT = 64


def spread(array: NDArray[Any]) -> list[float]:
    """Some numbers of an array, and their mean over all of it."""
    flat = np.asarray(array, np.float64).ravel()
    places = np.linspace(0, flat.size - 1, min(KEPT, flat.size)).round().astype(int)
    return [float(f"{value:.7g}") for value in (flat.mean(), *flat[places])]


def of_model(path: Path) -> dict[str, list[float]]:
    """What a shipped network gives for numbers that are the same everywhere."""
    model = load(path)
    random = np.random.default_rng(0)
    given: dict[str, NDArray[Any]] = {}
    for name, type in model.inputs.items():
        dims = [d if isinstance(d, int) else SIDES.get(d, 3) for d in type.shape]
        given[name] = random.random(dims).astype(type.dtype)
    return {name: spread(value) for name, value in model.run(given).items()}


def of_kits() -> Iterator[tuple[str, dict[str, Any]]]:
    """What each kit finds: hands that are drawn, and eight small portraits of one face."""
    from palmkit import assets, kits
    from palmkit.kits.doctor import CLICKED, PAGE

    hands = kits.read_image(assets.path("samples/hands.jpg"))
    found = kits.recognize_gestures(hands)
    yield "gestures", {"names": [f"{hand.handedness} {hand.gesture}" for hand in found]}
    for number, hand in enumerate(found):
        yield f"hand {number}", {"box": spread(hand.box), "landmarks": spread(hand.landmarks)}
    picture = kits.read_image(PORTRAITS)
    yield "no faces", {"count": len(kits.detect_faces(hands))}
    yield "faces", {"boxes": spread(np.sort(kits.detect_faces(picture).boxes, axis=0))}
    one = np.ascontiguousarray(picture[:, : picture.shape[1] // 4][: picture.shape[0] // 2])
    mesh = kits.face_mesh(one)[0].mesh
    assert mesh is not None
    yield "mesh", {"landmarks": spread(mesh)}
    yield "portrait", {"alpha": spread(kits.segment_portrait(one).alpha)}
    yield "hair", {"alpha": spread(kits.segment_hair(one).alpha)}
    yield "tryon", {"after": spread(kits.try_on(one, look="evening").after)}
    order = kits.rerank(PAGE, CLICKED)
    yield "rerank", {"scores": spread(np.sort(order.scores))}


if __name__ == "__main__":
    found = {
        "models": {path.stem: of_model(path) for path in MODELS},
        "kits": dict(of_kits()),
    }
    lines = [
        f'"{kind}": {{\n'
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in each.items())
        + "\n}"
        for kind, each in found.items()
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
