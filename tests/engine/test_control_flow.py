"""If, Loop and Scan of ONNX models: on both backends and through .palm, against ONNX Runtime."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine import files
from palmkit.engine.converters.onnx import convert
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array, Graph
from palmkit.engine.model import Model

onnx: Any = pytest.importorskip("onnx")

TRUE, FALSE = np.array(True), np.array(False)
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
ROWS = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 9


def model(opset: int, text: str) -> bytes:
    """The bytes of a graph in the syntax of onnx.parser."""
    source = f'<ir_version: 8, opset_import: ["" : {opset}]> {text}'
    made: bytes = onnx.parser.parse_model(source).SerializeToString()
    return made


def run_peer(source: bytes, inputs: Mapping[str, Array]) -> dict[str, Array]:
    runtime: Any = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(3)
    session = runtime.InferenceSession(source, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(inputs)), strict=True))


def check(source: bytes, tmp_path: Path, *feeds: dict[str, Array]) -> Graph:
    """Every backend, before and after it was saved, gives what ONNX Runtime gives."""
    graph = convert(source)
    files.save(graph, tmp_path / "saved.palm")
    saved = files.load(tmp_path / "saved.palm")
    models = [Model(graph, "reference"), Model(graph, "cpu"), saved]
    for inputs in feeds:
        wanted = run_peer(source, inputs)
        for each in models:
            got = each.run(inputs)
            assert list(got) == list(wanted)
            for name, peer in wanted.items():
                assert (got[name].dtype, got[name].shape) == (peer.dtype, peer.shape), name
                np.testing.assert_allclose(got[name], peer, rtol=1e-5, atol=1e-6, err_msg=name)
    return graph


def test_if_captures_values_and_aliases(tmp_path: Path) -> None:
    source = model(
        16,
        """
        g (bool cond, float[2,3] x) => (float[2,3] y, float[2,3] z) {
            same = Identity (x)
            h = Relu (same)
            w = Constant <value = float[3] {1.0, -2.0, 3.0}> ()
            y, z = If (cond) <
                then_branch = t () => (float[2,3] a, float[2,3] b) {
                    other = Identity (h)
                    a = Add (other, w)
                    b = Mul (same, x)
                },
                else_branch = e () => (float[2,3] c, float[2,3] d) {
                    c = Neg (h)
                    d = Identity (c)
                }
            >
        }
        """,
    )
    check(source, tmp_path, {"cond": TRUE, "x": X}, {"cond": FALSE, "x": X})


def test_if_gives_out_what_it_captured(tmp_path: Path) -> None:
    source = model(
        16,
        """
        g (bool cond, float[2,3] x) => (float[2,3] y, float[2,3] z) {
            h = Relu (x)
            y, z = If (cond) <
                then_branch = t () => (float[2,3] a, float[2,3] b) {
                    a = Identity (h)
                    b = Identity (h)
                },
                else_branch = e () => (float[2,3] c, float[2,3] d) {
                    c = Identity (x)
                    d = Constant <value = float[2,3] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> ()
                }
            >
        }
        """,
    )
    check(source, tmp_path, {"cond": TRUE, "x": X}, {"cond": FALSE, "x": X})


def test_if_branches_of_different_shapes(tmp_path: Path) -> None:
    source = model(
        16,
        """
        g (bool cond, float[2,3] x) => (float[?,?] y, float[?] total) {
            s = If (cond) <
                then_branch = t () => (float[2,3] a) { a = Neg (x) },
                else_branch = e () => (float[4,3] b) { b = Concat <axis=0> (x, x) }
            >
            y = Relu (s)
            axes = Constant <value = int64[1] {1}> ()
            total = ReduceSum <keepdims=0> (s, axes)
        }
        """,
    )
    check(source, tmp_path, {"cond": TRUE, "x": X}, {"cond": FALSE, "x": X})


def test_if_inside_if(tmp_path: Path) -> None:
    source = model(
        16,
        """
        g (bool p, bool q, float[2,3] x) => (float[2,3] y) {
            w = Constant <value = float {2.0}> ()
            y = If (p) <
                then_branch = t () => (float[2,3] a) {
                    h = Mul (x, w)
                    a = If (q) <
                        then_branch = tt () => (float[2,3] b) { b = Add (h, x) },
                        else_branch = te () => (float[2,3] c) { c = Sub (h, w) }
                    >
                },
                else_branch = e () => (float[2,3] d) { d = Abs (x) }
            >
        }
        """,
    )
    feeds = [{"p": p, "q": q, "x": X} for p in (TRUE, FALSE) for q in (TRUE, FALSE)]
    check(source, tmp_path, *feeds)


LOOP = """
    g ({inputs} float[2,3] x) => (float[2,3] last, float[?,2,3] all) {{
        step = Constant <value = float {{0.5}}> ()
        top = Constant <value = float {{7.0}}> ()
        {lines}
        last, all = Loop ({m}, {cond}, x) <
            body = b (int64 i, bool go, float[2,3] before) => (bool on, float[2,3] after, float[2,3] row) {{
                turn = Cast <to=1> (i)
                grown = Mul (turn, step)
                after = Add (before, grown)
                row = Neg (after)
                greatest = ReduceMax <keepdims=0> (after)
                on = Less (greatest, top)
            }}
        >
    }}
"""  # noqa: E501


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_loop_with_a_trip_count(tmp_path: Path, turns: int) -> None:
    source = model(16, LOOP.format(inputs="int64 m,", lines="", m="m", cond=""))
    check(source, tmp_path, {"m": np.array(turns), "x": X})


@pytest.mark.parametrize("start", [TRUE, FALSE])
def test_loop_with_a_condition(tmp_path: Path, start: Array) -> None:
    source = model(16, LOOP.format(inputs="bool cond,", lines="", m="", cond="cond"))
    check(source, tmp_path, {"cond": start, "x": X})


@pytest.mark.parametrize("turns", [0, 2, 99])
@pytest.mark.parametrize("start", [TRUE, FALSE])
def test_loop_with_both(tmp_path: Path, turns: int, start: Array) -> None:
    source = model(16, LOOP.format(inputs="int64 m, bool cond,", lines="", m="m", cond="cond"))
    check(source, tmp_path, {"m": np.array(turns), "cond": start, "x": X})


def test_loop_with_neither_stops_by_its_body(tmp_path: Path) -> None:
    source = model(16, LOOP.format(inputs="", lines="", m="", cond=""))
    check(source, tmp_path, {"x": X})


def test_loop_of_a_constant_count(tmp_path: Path) -> None:
    lines = "m = Constant <value = int64 {3}> ()"
    source = model(16, LOOP.format(inputs="", lines=lines, m="m", cond=""))
    check(source, tmp_path, {"x": X})


def test_loop_in_a_loop(tmp_path: Path) -> None:
    source = model(
        16,
        """
        g (int64 m, int64 n, float[2,3] x) => (float[2,3] last, float[?,?,2,3] all) {
            yes = Constant <value = bool {1}> ()
            last, all = Loop (m, yes, x) <
                body = outer (int64 i, bool a, float[2,3] s) => (bool ao, float[2,3] so, float[?,2,3] rows) {
                    ao = Identity (a)
                    so, rows = Loop (n, a, s) <
                        body = inner (int64 j, bool b, float[2,3] t) => (bool bo, float[2,3] to, float[2,3] r) {
                            bo = Identity (b)
                            both = Add (i, j)
                            wide = Cast <to=1> (both)
                            to = Add (t, wide)
                            r = Mul (to, x)
                        }
                    >
                }
            >
        }
        """,  # noqa: E501
    )
    feeds = [{"m": np.array(m), "n": np.array(n), "x": X} for m, n in ((2, 3), (1, 1), (3, 1))]
    check(source, tmp_path, *feeds)


def test_loop_that_grows_a_value(tmp_path: Path) -> None:
    source = model(
        16,
        """
        g (int64 m, float[2,3] x) => (float[?,3] last) {
            yes = Constant <value = bool {1}> ()
            last = Loop (m, yes, x) <
                body = b (int64 i, bool go, float[?,3] s) => (bool on, float[?,3] so) {
                    on = Identity (go)
                    so = Concat <axis=0> (s, x)
                }
            >
        }
        """,
    )
    check(source, tmp_path, {"m": np.array(0), "x": X}, {"m": np.array(3), "x": X})


def test_a_branch_in_a_loop(tmp_path: Path) -> None:
    source = model(
        16,
        """
        g (int64 m, float[2,3] x) => (float[2,3] last) {
            yes = Constant <value = bool {1}> ()
            two = Constant <value = int64 {2}> ()
            zero = Constant <value = int64 {0}> ()
            last = Loop (m, yes, x) <
                body = b (int64 i, bool go, float[2,3] s) => (bool on, float[2,3] so) {
                    on = Identity (go)
                    rest = Mod (i, two)
                    even = Equal (rest, zero)
                    so = If (even) <
                        then_branch = t () => (float[2,3] a) { a = Add (s, x) },
                        else_branch = e () => (float[2,3] c) { c = Mul (s, s) }
                    >
                }
            >
        }
        """,
    )
    check(source, tmp_path, {"m": np.array(3), "x": X})


def scan(opset: int = 16, **attrs: Any) -> bytes:
    """A scan of x[2, 3, 4] and z over an axis of 3; the state is a row that all add to."""
    helper = onnx.helper
    numpy_helper = onnx.numpy_helper

    def value(name: str, *shape: int) -> Any:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    body = helper.make_graph(
        [
            helper.make_node("Add", ["before", "a"], ["sum"]),
            helper.make_node("Add", ["sum", "big"], ["grown"]),
            helper.make_node("Mul", ["grown", "w"], ["after"]),
            helper.make_node("Sub", ["after", "b"], ["row"]),
        ],
        "body",
        [value("before", 2, 4), value("a", 2, 4), value("b", 2, 4)],
        [value("after", 2, 4), value("row", 2, 4)],
    )
    nodes = [
        helper.make_node("Relu", ["y"], ["big"]),
        helper.make_node(
            "Scan", ["state", "x", "z"], ["last", "all"], body=body, num_scan_inputs=2, **attrs
        ),
    ]
    shape = [2, 4]
    shape.insert(attrs.get("scan_output_axes", [0])[0], 3)
    graph = helper.make_graph(
        nodes,
        "g",
        [value("y", 2, 4), value("state", 2, 4), value("x", 2, 3, 4), value("z", 3, 2, 4)],
        [value("last", 2, 4), value("all", *shape)],
        [numpy_helper.from_array(np.array([0.5, -1, 0.25, 1], np.float32), "w")],
    )
    opsets = [helper.make_opsetid("", opset)]
    made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return made


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"scan_input_directions": [1, 0]},
        {"scan_input_directions": [0, 1], "scan_output_directions": [1]},
        {"scan_output_axes": [1]},
        {"scan_output_axes": [2], "scan_output_directions": [1]},
    ],
    ids=str,
)
def test_scan_with_axes_and_directions(tmp_path: Path, attrs: dict[str, Any]) -> None:
    random = np.random.default_rng(0)
    shapes = {"y": (2, 4), "state": (2, 4), "x": (2, 3, 4), "z": (3, 2, 4)}
    inputs = {name: random.normal(size=s).astype(np.float32) for name, s in shapes.items()}
    check(scan(scan_input_axes=[1, 0], **attrs), tmp_path, inputs)


def scan_of_opset_8(sequence_lens: str) -> bytes:
    return model(
        8,
        f"""
        g (float[2,4] state, float[2,3,4] x) => (float[2,4] last, float[2,3,4] all) {{
            last, all = Scan <
                num_scan_inputs = 1,
                body = b (float[4] before, float[4] a) => (float[4] after, float[4] row) {{
                    after = Add (before, a)
                    row = Identity (after)
                }}
            > ({sequence_lens}, state, x)
        }}
        """,
    )


def test_scan_of_opset_8_has_a_batch(tmp_path: Path) -> None:
    state = np.arange(8, dtype=np.float32).reshape(2, 4)
    check(scan_of_opset_8(""), tmp_path, {"state": state, "x": ROWS})


def test_scan_of_opset_8_with_lengths_has_no_rule() -> None:
    with pytest.raises(UnsupportedError, match="sequence_lens is not supported"):
        convert(scan_of_opset_8("state"))


def test_a_condition_of_many_values_is_refused() -> None:
    source = model(
        16,
        """
        g (bool[2] cond, float[2,3] x) => (float[2,3] y) {
            y = If (cond) <
                then_branch = t () => (float[2,3] a) { a = Neg (x) },
                else_branch = e () => (float[2,3] b) { b = Abs (x) }
            >
        }
        """,
    )
    with pytest.raises(ModelError, match="expected a condition of one value"):
        Model(convert(source), "reference").run({"cond": np.array([True, False]), "x": X})


def test_constant_conditions_leave_no_branch() -> None:
    from palmkit.engine.passes import optimise

    source = model(
        16,
        """
        g (float[2,3] x) => (float[2,3] y) {
            shape = Shape (x)
            rank = Size (shape)
            two = Constant <value = int64 {2}> ()
            flat = Equal (rank, two)
            y = If (flat) <
                then_branch = t () => (float[2,3] a) { a = Neg (x) },
                else_branch = e () => (float[2,3] b) { b = Abs (x) }
            >
        }
        """,
    )
    assert [node.op for node in optimise(convert(source)).nodes] == ["neg"]
