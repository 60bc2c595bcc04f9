import numpy as np
import pytest

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.shapes import symbolic_types, with_input_shapes


def network(*dims: int | str) -> Graph:
    """A picture to half its size, and its mean by channel through a matrix."""
    constants: dict[str, Array] = {
        "w": np.ones((4, 3, 3, 3), np.float32),
        "m": np.ones((4, 2), np.float32),
    }
    nodes = (
        Node("conv", ("x", "w"), ("half",), {"pads": (1, 1, 1, 1), "strides": (2, 2)}, "c1"),
        Node("global_average_pool", ("half",), ("mean",), name="p1"),
        Node("flatten", ("mean",), ("flat",), name="f1"),
        Node("gemm", ("flat", "m"), ("y",), name="g1"),
    )
    outputs = {"half": Type("float32", (1, 4, 16, 16)), "y": Type("float32", (1, 2))}
    return Graph({"x": Type("float32", dims)}, outputs, nodes, constants)


def shapes(graph: Graph) -> dict[str, tuple[int | str, ...]]:
    return {name: type.shape for name, type in graph.outputs.items()}


def test_outputs_follow_fixed_shapes() -> None:
    graph = with_input_shapes(network(1, 3, 32, 32), {"x": (2, 3, 64, 48)})
    assert graph.inputs["x"].shape == (2, 3, 64, 48)
    assert shapes(graph) == {"half": (2, 4, 32, 24), "y": (2, 2)}


def test_outputs_follow_names() -> None:
    graph = with_input_shapes(network(1, 3, 32, 32), {"x": ("batch", 3, "height", "width")})
    assert shapes(graph) == {"half": ("batch", 4, "height/2", "width/2"), "y": ("batch", 2)}
    named = with_input_shapes(graph, {"x": ("n", 3, 32, "w")})
    assert shapes(named) == {"half": ("n", 4, 16, "w/2"), "y": ("n", 2)}
    fixed = with_input_shapes(named, {"x": (5, 3, 32, 32)})
    assert shapes(fixed) == {"half": (5, 4, 16, 16), "y": (5, 2)}


def test_types_between_the_nodes_have_names_too() -> None:
    types = symbolic_types(network("n", 3, "h", "w"))
    assert str(types["half"]) == "float32[n, 4, h/2, w/2]"
    assert str(types["flat"]) == "float32[n, 4]"


def test_a_shape_of_several_names() -> None:
    node = Node("flatten", ("x",), ("y",), {"axis": 2})
    outputs = {"y": Type("float32", (1, 1))}
    graph = Graph({"x": Type("float32", (1, 3, 4, 4))}, outputs, (node,))
    named = with_input_shapes(graph, {"x": (1, 3, "h", "w")})
    assert named.outputs["y"].shape == (3, "h*w")


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 4, 32, 32), r"node c1: conv: .*float32\[1, 4, 32, 32\]"),
        ((1, "channels", 32, 32), r"dim channels: only 3 was found to fit: node c1"),
        ((1, 4, "h", 32), r"no sizes of h were found to fit: node c1"),
        ((3, 32, 32), r"input x: expected float32\[1, 3, 32, 32\], got the shape of float32\[3"),
        ((1, 3, -1, 32), r"input x: expected dims of 0 or more"),
    ],
)
def test_shapes_that_do_not_fit(shape: tuple[int | str, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        with_input_shapes(network(1, 3, 32, 32), {"x": shape})


def test_an_input_that_is_not_there() -> None:
    with pytest.raises(ShapeError, match="no input 'z'; the model's inputs: x"):
        with_input_shapes(network(1, 3, 32, 32), {"z": (1,)})


def test_a_name_of_two_inputs_is_one_size() -> None:
    type = Type("float32", ("n",))
    graph = Graph({"a": type, "b": type}, {"y": type}, (Node("add", ("a", "b"), ("y",)),))
    sized = with_input_shapes(graph, {"a": (5,)})
    assert sized.inputs["b"].shape == sized.outputs["y"].shape == (5,)
    renamed = with_input_shapes(graph, {"b": ("m",)})
    assert renamed.inputs["a"].shape == renamed.outputs["y"].shape == ("m",)
