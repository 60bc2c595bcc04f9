"""Graphs and damage for the tests of the model file."""

import random
import zlib
from collections.abc import Iterator

import numpy as np

from palmkit.engine.backends.cpu.ready import ready_plan
from palmkit.engine.format import CHECKSUM_SIZE, TRAILER, writer
from palmkit.engine.ir import (
    DTYPES,
    NARROW_DTYPES,
    UNKNOWN,
    Array,
    Attr,
    Graph,
    Node,
    Type,
    numpy_dtype,
)
from palmkit.engine.ops import infer_types, registry

INTERESTING = (0, 1, 2, 3, 4, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1)


def everything() -> Graph:
    """Return a graph with every kind of attribute, dim, name and constant of the format."""
    constants: dict[str, Array] = {
        f"constant.{dtype}": (np.arange(6) % (2 if dtype in NARROW_DTYPES else 6))
        .reshape(2, 3)
        .astype(numpy_dtype(dtype))
        for dtype in DTYPES
    }
    constants |= {
        "scalar": np.array(2.5, np.float32),
        "empty": np.zeros((0, 3), np.int64),
        "one": np.array([1.0009765625, np.inf, -0.0, np.nan], np.float32),
        "длинное имя, 长": np.array([0.1], np.float32),
    }
    attrs: dict[str, Attr] = {
        "hidden_size": -(2**63),
        "clip": float("-inf"),
        "direction": "",
        "activation_alpha": (0.1, 5e-324, float("inf")),
        "activations": ("SAME_UPPER", "", "ß\0"),
        "activation_beta": (),
    }
    inner = Graph({"b": UNKNOWN}, {"c": UNKNOWN}, (Node("identity", ("b",), ("c",)),))
    body = Graph(
        inputs={"y": Type("undefined", (3, "h"))},
        outputs={"c": UNKNOWN},
        nodes=(
            Node(
                "if",
                ("on", "y"),
                ("c",),
                {"then_branch": inner, "else_branch": inner, "captures": 1},
            ),
        ),
        constants={"on": np.array(True)},
    )
    nodes = (
        Node("add", ("x", "", "длинное имя, 长"), ("y",), {}, "add/сумма"),
        Node(
            "if",
            ("flag", "y"),
            ("u",),
            {"then_branch": body, "else_branch": body, "captures": 1},
            "either",
        ),
        # What a run alone gives the type of is not looked at more closely.
        Node("transpose", ("u",), ("t",), {"perm": (2**63 - 1, 0, -1)}),
        Node("lstm", ("t", "one", "scalar"), ("z",), attrs),
    )
    return Graph(
        inputs={"x": Type("float32", ("batch", 3, "h", 0)), "flag": Type("bool", ())},
        outputs={"z": Type("float32", ("batch", 3, "h", 2**31 - 1)), "flag": Type("bool", ())},
        nodes=nodes,
        constants=constants,
        metadata={"name": "имя", "labels": "cat\ndog", "": "", "licence": "Apache-2.0"},
    )


def network(function: str = "leaky_relu") -> Graph:
    """Return a small graph that runs: all its types are known."""
    rng = np.random.default_rng(0)
    attrs: dict[str, Attr] = {"alpha": 0.125} if function == "leaky_relu" else {}
    return Graph(
        inputs={"x": Type("float32", (1, 2, 3, 4))},
        outputs={"y": Type("float32", (1, 2, 3, 4)), "a": Type("float32", (1, 2, 3, 4))},
        nodes=(
            Node("add", ("x", "bias"), ("a",), name="first"),
            Node(function, ("a",), ("b",), attrs),
            Node("add", ("b", "a"), ("c",)),
            Node("relu", ("c",), ("y",)),
        ),
        constants={"bias": rng.standard_normal((1, 2, 1, 1)).astype(np.float32)},
        metadata={"kit": "test"},
    )


def storages() -> dict[str, Array]:
    """Return constants by the encoding that stores them in the fewest bytes."""
    rng = np.random.default_rng(1)
    floats = rng.normal(0, 0.1, (24, 10, 3, 3)).astype(np.float32)
    scales = np.abs(floats).max(axis=(1, 2, 3), keepdims=True) / np.float32(7)
    return {
        "raw": floats,
        "half": floats.astype(np.float16).astype(np.float32),
        "quantized": np.rint(floats / scales).astype(np.int8) * scales,
        "sparse": np.where(rng.random(floats.shape) < 0.2, floats, np.float32(0)),
        "codebook": rng.choice(rng.normal(size=16), floats.shape).astype(np.float32),
    }


def coded() -> Graph:
    """Return a graph that runs, with a constant of every encoding."""
    constants = storages()
    values = [f"v{i}" for i in range(len(constants) + 1)]
    nodes = tuple(
        Node("add", (values[i], name), (values[i + 1],)) for i, name in enumerate(constants)
    )
    shape = Type("float32", constants["raw"].shape)
    return Graph({values[0]: shape}, {values[-1]: shape}, nodes, constants)


def unpacked(graph: Graph) -> bytes:
    """Return a graph's smallest file with a plan, without deflating tables and plans."""
    plan = ready_plan(graph, {name: type.dims for name, type in graph.inputs.items()})
    assert plan is not None
    return writer.dumps(graph, "smallest", [plan], deflated=False)


def single_ops() -> Iterator[Graph]:
    """Yield one graph for each test case of an op."""
    for op in registry().values():
        for case in op.cases:
            inputs = {f"x{i}": x for i, x in enumerate(case.inputs) if isinstance(x, Type)}
            constants = {
                f"x{i}": np.asarray(x)
                for i, x in enumerate(case.inputs)
                if x is not None and not isinstance(x, Type)
            }
            names = tuple("" if x is None else f"x{i}" for i, x in enumerate(case.inputs))
            node = Node(op.name, names, tuple(f"y{i}" for i in range(case.outputs)), case.attrs)
            types = infer_types(Graph(inputs, {}, (node,), constants))
            if any(name not in types for name in node.outputs):
                continue
            outputs = {name: Type(types[name].dtype, types[name].shape) for name in node.outputs}
            yield Graph(inputs, outputs, (node,), constants)


def sealed(content: bytes | bytearray) -> bytes:
    """Return the file with correct size and checksum, so that only its content is wrong."""
    body = bytearray(content)
    graph_size, _, version, _ = TRAILER.unpack_from(body, len(body) - TRAILER.size)
    body[-TRAILER.size :] = TRAILER.pack(graph_size, len(body), version, 0)
    body[-CHECKSUM_SIZE:] = zlib.crc32(body[:-CHECKSUM_SIZE]).to_bytes(CHECKSUM_SIZE, "little")
    return bytes(body)


def mutants(content: bytes, rng: random.Random) -> Iterator[bytes]:
    """Yield files without end that differ from a good one in a few places, checksum fixed."""
    while True:
        body = bytearray(content)
        for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
            _damage(body, rng)
        yield sealed(body)


def _damage(body: bytearray, rng: random.Random) -> None:
    """Change one place; the size of the file may change by a multiple of 4."""
    width = rng.choice((1, 2, 4, 8))
    place = rng.randrange(0, len(body) - TRAILER.size - 8)
    aligned = place - place % width
    match rng.randrange(6):
        case 0:
            body[place] ^= 1 << rng.randrange(8)
        case 1:
            value = rng.choice(INTERESTING) % 256**width
            body[aligned : aligned + width] = value.to_bytes(width, "little")
        case 2:
            value = int.from_bytes(body[aligned : aligned + width], "little")
            value = (value + rng.choice((-8, -4, -1, 1, 4, 8))) % 256**width
            body[aligned : aligned + width] = value.to_bytes(width, "little")
        case 3:
            source = rng.randrange(0, len(body) - TRAILER.size - 8)
            source -= source % width
            body[aligned : aligned + width] = body[source : source + width]
        case 4:
            start = place - place % 4
            del body[start : start + 4 * rng.randrange(1, 5)]
            body += bytes(max(0, 2 * TRAILER.size - len(body)))
        case _:
            trailer = len(body) - TRAILER.size
            field = trailer + rng.choice((0, 16))
            body[field : field + 4] = rng.choice(INTERESTING).to_bytes(4, "little")
