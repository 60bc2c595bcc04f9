"""A depthwise convolution and the 1x1 convolution that alone reads it become one step.

What lies between the two is then no buffer of the arena: native/kernels/separable_conv makes it
block by block, each in the cache of the core that reads it at once. Threads wait for each other
once, not twice.
"""

from __future__ import annotations

from palmkit.engine.backends.cpu.costs import pays
from palmkit.engine.backends.cpu.passes.convolutions import (
    is_float_conv,
    is_pointwise,
    over_residual,
)
from palmkit.engine.steps.rewriting import Lowered, join_pairs, joined_name
from palmkit.engine.steps.step import Step, StepAttr


def join_separable(lowered: Lowered) -> Lowered:
    """Make each such pair of float32 convolutions one step where the cost model says that it pays.

    It computes the same numbers, bit for bit, and runs where the second one did.
    """

    def join(first: Step, second: Step, name: str) -> Step | None:
        if name != "image" or not _is_depthwise(first):
            return None
        if not is_float_conv(second) or not is_pointwise(second):
            return None
        both = _one(lowered, first, second)
        return both if pays(lowered, both, [first, second]) else None

    return join_pairs(lowered, join)


def _is_depthwise(step: Step) -> bool:
    if not is_float_conv(step) or step.has("residual"):
        return False
    channels = step.input("image").dims[3]
    return step.integer("group", 1) == channels == step.input("weights").dims[0] > 1


def _one(lowered: Lowered, first: Step, second: Step) -> Step:
    own = ("strides", "dilations", "pads")
    ends = ("activation", "activation_params")
    attrs: dict[str, StepAttr] = {name: first.attrs[name] for name in own}
    attrs |= {f"depthwise_{name}": first.attrs[name] for name in ends}
    attrs |= {name: second.attrs[name] for name in ends}
    first_own = ("weights", "bias", "slope")
    inputs = {
        **{f"depthwise_{name}": first.inputs.get(name) for name in first_own},
        **second.inputs,
        "image": first.input("image"),
    }
    return lowered.kernels.step(
        "separable_conv",
        joined_name(first, second),
        inputs,
        second.outputs,
        attrs,
        over_residual(second, [first.input("image")]),
    )
