"""Folders of a model, inputs and outputs for C: `python -m tests.engine.native.golden FOLDER`.

FOLDER/NAME/model.palm is a model; input.0, input.1 ... are arrays for its first plan, as they lie
in memory, and output.0 ... are what the cpu backend makes of them. FOLDER/refused/ holds files that
C cannot run, and FOLDER/slow.palm a model whose first plan takes long.
"""

import argparse
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

import palmkit.models
from palmkit import engine
from palmkit.engine.backends.cpu.ready import ready_plan
from palmkit.engine.format import PLAN_FOOTER, PLAN_VERSION, TRAILER, VERSION, writer
from palmkit.engine.format.model_file import ModelFile
from palmkit.engine.ir import Array, Graph, Node, Type
from tests.engine.format.samples import coded, network, sealed, unpacked

SHIPPED = sorted(Path(palmkit.models.__file__).parent.glob("*/*.palm"))
NEWER, OLDER = PLAN_VERSION + 1, 1
_PLAN_VERSION_AT = -TRAILER.size - PLAN_FOOTER.size + struct.calcsize("<8sQ")


def write(folder: Path) -> list[Path]:
    """Write all folders; return those of models that run."""
    made = [write_model(folder / path.stem, path.read_bytes()) for path in SHIPPED]
    # Of functions that shipped models have: a runtime for those has no others.
    simple = network("sigmoid")
    for name, graph in {"network": simple, "integers": _integers(), "coded": coded()}.items():
        path = folder / "saved.palm"
        for weights in ("auto", "smallest"):
            engine.save(graph, path, weights)
            made.append(write_model(folder / f"{name}_{weights}", path.read_bytes()))
        path.unlink()
    made.append(write_model(folder / "coded_inflated", unpacked(coded())))
    made.append(write_model(folder / "chain", _with_backends(simple, "other", "cpu")))
    _refused(folder / "refused")
    engine.save(_slow(), folder / "slow.palm")
    return made


def inputs_of(path: Path) -> dict[str, Array]:
    """Return inputs for the first plan of a file, always the same."""
    plans = ModelFile(path).plans
    shapes = next(shapes for backend, shapes in plans if backend == "cpu")
    random = np.random.default_rng(0)
    return {
        name: _random(random, shape, type.dtype)
        for shape, (name, type) in zip(shapes, engine.load(path).inputs.items(), strict=True)
    }


def write_model(folder: Path, content: bytes) -> Path:
    """Write the folder of a file with these bytes, and return it."""
    folder.mkdir(parents=True)
    path = folder / "model.palm"
    path.write_bytes(content)
    inputs = inputs_of(path)
    for kind, arrays in ("input", inputs), ("output", engine.load(path).run(inputs)):
        for index, array in enumerate(arrays.values()):
            (folder / f"{kind}.{index}").write_bytes(array.tobytes())
    return folder


def _random(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    if np.dtype(dtype).kind == "f":
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def _integers() -> Graph:
    """Return a graph of several types, with an unread input and one without elements."""
    return Graph(
        inputs={
            "a": Type("int64", (3,)),
            "empty": Type("float32", (0, 3)),
            "scalar": Type("bool", ()),
            "unread": Type("uint8", (2, 2)),
        },
        outputs={"sum": Type("int64", (3,)), "not": Type("bool", ())},
        nodes=(Node("add", ("a", "one"), ("sum",)), Node("not", ("scalar",), ("not",))),
        constants={"one": np.array([1], np.int64)},
    )


def _slow() -> Graph:
    """Return convolutions that take seconds."""
    weights = np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype(np.float32)
    names = [f"v{i}" for i in range(17)]
    image = Type("float32", (1, 64, 512, 512))
    attrs = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}
    nodes = tuple(
        Node("conv", (a, "weights"), (b,), attrs) for a, b in zip(names, names[1:], strict=False)
    )
    return Graph({names[0]: image}, {names[-1]: image}, nodes, {"weights": weights})


def _with_backends(graph: Graph, *backends: str) -> bytes:
    """Return a file with a plan for each backend."""
    plan = ready_plan(graph, {name: type.dims for name, type in graph.inputs.items()})
    assert plan is not None
    return writer.dumps(graph, "auto", [replace(plan, backend=backend) for backend in backends])


def _refused(folder: Path) -> None:
    """Write files by a word of C's error for them."""
    folder.mkdir()
    content = unpacked(network())
    named = {"plans.palm": writer.dumps(network()), "upgrade_it.palm": content}
    named |= {"again.palm": content, "format.palm": content}
    named["backend.palm"] = _with_backends(network(), "other")
    for name, version in ("upgrade_it.palm", NEWER), ("again.palm", OLDER):
        body = bytearray(named[name])
        body[_PLAN_VERSION_AT : _PLAN_VERSION_AT + 4] = struct.pack("<I", version)
        named[name] = sealed(body)
    newer = bytearray(content)
    newer[-8:-4] = struct.pack("<I", VERSION + 1)
    named["format.palm"] = sealed(newer)
    for name, each in named.items():
        (folder / name).write_bytes(each)
    # Without the package cryptography there is no such file.
    with suppress(engine.BackendError):
        engine.save(network(), folder / "encrypted.palm", key=bytes(32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where they go; nothing may be there")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True)
    write(folder)


if __name__ == "__main__":
    main()
