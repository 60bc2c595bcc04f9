"""lstm, gru and rnn: one kernel, over [steps, batch, input]."""

from palmkit.engine.backends.cpu.registry import rule
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Node
from palmkit.engine.ops import gru, lstm, rnn
from palmkit.engine.ops.recurrent import activation_names
from palmkit.engine.steps.lowering import Lowering, Order, plain
from palmkit.engine.steps.step import StepAttr, View

NATIVE: dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]] = {
    "lstm": (lstm.ACTIVATIONS, [("sigmoid", "tanh", "tanh")]),
    "gru": (gru.ACTIVATIONS, [("sigmoid", "tanh")]),
    "rnn": (rnn.ACTIVATIONS, [("tanh",), ("sigmoid",), ("relu",)]),
}


def _activations(node: Node, count: int) -> tuple[str, ...]:
    """The activations of a direction, the same for both; UnsupportedError if no kernel has them."""
    default, native = NATIVE[node.op]
    names = activation_names(node.texts("activations"), default, count)
    each = len(default)
    first = tuple(names[:each])
    if first not in native or names != [*first] * count:
        raise UnsupportedError(f"activations {', '.join(names)}")
    return first


def _swapped(order: Order, layout: int) -> Order:
    """The order in which a kernel sees a value; in layout 1 the first axis is the batch."""
    if not layout:
        return order
    return (1, 2, 0, 3) if len(order) == 4 else (1, 0, 2)


@rule(*NATIVE)
def lower_recurrent(lowering: Lowering, node: Node) -> None:
    """Both directions in one step; layout 1 is another order in memory."""
    x, w, r, b, lengths, h, c, p = (*node.inputs, "", "", "", "", "", "")[:8]
    lowering.need_dtype(x, w, r, b, h, c, p)
    if lengths:
        raise UnsupportedError("sequence_lens")
    if 0 in (*lowering.dims(x), lowering.dims(r)[2]):
        raise UnsupportedError("an empty sequence")
    names = _activations(node, lowering.dims(w)[0])
    layout = node.integer("layout")

    def constant(name: str) -> View | None:
        return lowering.constant(lowering.constant_of(name, "a weight")) if name else None

    def state(name: str) -> View | None:
        return lowering.get(name, _swapped(plain(3), layout)) if name else None

    inputs = {
        "x": lowering.get(x, _swapped(plain(3), layout)),
        "w": constant(w),
        "r": constant(r),
        "b": constant(b),
        "initial_h": state(h),
        "initial_c": state(c),
        "p": constant(p),
    }
    attrs: dict[str, StepAttr] = {
        "op": names[0] if node.op == "rnn" else node.op,
        "clip": node.number("clip"),
        "reverse": int(node.text("direction") == "reverse"),
    }
    for name in ("input_forget", "linear_before_reset"):
        if name in node.attrs:
            attrs[name] = node.integer(name)
    y_shape, state_shape = _shapes(lowering, node, layout)
    shapes = (y_shape, state_shape, state_shape)[: 3 if node.op == "lstm" else 2]
    outputs: dict[str, View] = {}
    given = (*node.outputs, "", "", "")
    for name, result, dims in zip(given, ("y", "y_h", "y_c"), shapes, strict=False):
        order = _swapped(plain(len(dims)), layout)
        view = lowering.put(name, order) if name else lowering.scratch("float32", dims)
        outputs[result] = view
    lowering.step("recurrent", inputs, outputs, attrs)


def _shapes(lowering: Lowering, node: Node, layout: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of Y and of the last states, in memory."""
    batch, steps = lowering.dims(node.inputs[0])[:2]
    if not layout:
        batch, steps = steps, batch
    directions, _, hidden = lowering.dims(node.inputs[2])
    return (steps, directions, batch, hidden), (directions, batch, hidden)
