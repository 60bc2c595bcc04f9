"""Attributes of nodes are read in one typed way, and of ops declared once."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Node, Type
from palmkit.engine.ops import infer_node, registry


def node(op: str, **attrs: Any) -> Node:
    return Node(op, ("x", "w"), ("y",), attrs, "n")


def test_given_attributes_are_read_as_their_kind() -> None:
    conv = node("conv", group=2, pads=(1, 1), auto_pad="VALID")
    assert conv.integer("group") == 2
    assert conv.integers("pads") == (1, 1)
    assert conv.text("auto_pad") == "VALID"
    assert node("leaky_relu", alpha=1).number("alpha") == 1.0
    assert node("fused_conv", activation_params=(0, 6.0)).numbers("activation_params") == (0.0, 6.0)
    assert node("rnn", activations=("Tanh",)).texts("activations") == ("Tanh",)


def test_attributes_left_out_are_the_op_s_defaults() -> None:
    assert node("conv").integer("group") == node("fused_conv").integer("group") == 1
    assert node("leaky_relu").number("alpha") == 0.01
    assert node("resize").text("mode") == "nearest"
    assert node("conv").integers("strides") == ()
    assert node("quantized_conv").text("auto_pad") == "NOTSET"


def test_has_tells_given_ones_from_empty_ones() -> None:
    assert node("conv", pads=(0, 0)).has("pads")
    assert not node("conv", pads=()).has("pads")
    assert not node("conv").has("pads")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: node("conv", group="two").integer("group"), "an integer, got 'two'"),
        (lambda: node("elu", alpha=(1.0,)).number("alpha"), r"a number, got \(1.0,\)"),
        (lambda: node("conv", auto_pad=3).text("auto_pad"), "text, got 3"),
        (lambda: node("conv", pads=1).integers("pads"), "integers, got 1"),
        (lambda: node("conv", pads=(1, "a")).integers("pads"), r"integers, got \(1, 'a'\)"),
        (
            lambda: node("rnn", activation_alpha=(1, "a")).numbers("activation_alpha"),
            "numbers, got",
        ),
        (lambda: node("rnn", activations=(1,)).texts("activations"), r"texts, got \(1,\)"),
        (lambda: node("max_pool").integers("kernel_shape"), "integers, got none"),
    ],
)
def test_other_kinds_are_refused(read: Callable[[], object], message: str) -> None:
    with pytest.raises(ModelError, match=rf"node n: \w+: attribute \w+: expected {message}"):
        read()


def test_attributes_that_the_op_has_not_are_not_read() -> None:
    with pytest.raises(ModelError, match="^relu has no attribute alpha$"):
        node("relu").number("alpha")


X = Type("float32", (1, 3, 8, 8))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Node("relu", ("x",), ("y",), {"alpha": 1.0}), "no attribute alpha among none"),
        (
            Node("elu", ("x",), ("y",), {"alpha": "a"}),
            "attribute alpha: expected a number, got 'a'",
        ),
        (Node("max_pool", ("x",), ("y",)), "attribute kernel_shape: expected integers, got none"),
        (
            Node("transpose", ("x",), ("y",), {"perm": (0, "a", 1, 2)}),  # type: ignore[dict-item]
            r"attribute perm: expected integers, got \(0, 'a', 1, 2\)",
        ),
    ],
)
def test_a_node_s_attributes_are_those_of_its_op(broken: Node, message: str) -> None:
    with pytest.raises(ModelError, match=f"node y: {broken.op} .*{message}"):
        infer_node(broken, [X])


@pytest.mark.parametrize("name", sorted(registry()))
def test_defaults_stand_once(name: str) -> None:
    """The type rule gets every attribute, and has no defaults of its own."""
    op = registry()[name]
    parameters = inspect.signature(op.rule).parameters.values()
    attributes = [each for each in parameters if each.kind is each.KEYWORD_ONLY]
    assert [each.name for each in attributes if each.default is not each.empty] == []
    assert {each.name for each in attributes} <= op.attributes.keys()
