"""Layers that work on each element by itself, or on several blobs element by element."""

from math import log

import numpy as np

from palmkit.engine.converters.caffe.graph import Draft
from palmkit.engine.converters.caffe.rules import MANY, rule


@rule("ReLU")
def _relu(draft: Draft, x: str) -> str:
    slope = draft.layer.message.relu_param.negative_slope
    return draft.emit("leaky_relu", x, alpha=slope) if slope else draft.emit("relu", x)


@rule("ReLU6")
def _relu6(draft: Draft, x: str) -> str:
    return draft.emit("clip", x, draft.constant(0), draft.constant(6))


@rule("PReLU", blobs=1)
def _prelu(draft: Draft, x: str) -> str:
    if draft.layer.message.prelu_param.channel_shared:
        return draft.emit("prelu", x, draft.weight(0, 1))
    slope = draft.blob(0, draft.channels(x))
    return draft.emit("prelu", x, draft.by_channel(x, slope))


@rule("ELU")
def _elu(draft: Draft, x: str) -> str:
    return draft.emit("elu", x, alpha=draft.layer.message.elu_param.alpha)


@rule("Sigmoid")
def _sigmoid(draft: Draft, x: str) -> str:
    return draft.emit("sigmoid", x)


@rule("TanH")
def _tanh(draft: Draft, x: str) -> str:
    return draft.emit("tanh", x)


@rule("AbsVal")
def _abs(draft: Draft, x: str) -> str:
    return draft.emit("abs", x)


@rule("BNLL")
def _bnll(draft: Draft, x: str) -> str:
    return draft.emit("softplus", x)


@rule("Mish")
def _mish(draft: Draft, x: str) -> str:
    return draft.emit("mul", x, draft.emit("tanh", draft.emit("softplus", x)))


@rule("Swish", "SiLU")
def _swish(draft: Draft, x: str) -> str:
    scaled = draft.scaled(x, draft.layer.message.swish_param.beta)
    return draft.emit("mul", x, draft.emit("sigmoid", scaled))


@rule("Clip")
def _clip(draft: Draft, x: str) -> str:
    bounds = draft.layer.message.clip_param
    if not (bounds.HasField("min") and bounds.HasField("max")):
        raise draft.bad("expected min and max")
    return draft.emit("clip", x, draft.constant(bounds.min), draft.constant(bounds.max))


@rule("Threshold")
def _threshold(draft: Draft, x: str) -> str:
    limit = draft.constant(draft.layer.message.threshold_param.threshold)
    return draft.emit("cast", draft.emit("greater", x, limit), to="float32")


@rule("Power")
def _power(draft: Draft, x: str) -> str:
    """Write (shift + scale * x) ** power."""
    options = draft.layer.message.power_param
    x = draft.scaled(x, options.scale, options.shift)
    return x if options.power == 1 else draft.emit("pow", x, draft.constant(options.power))


@rule("Exp")
def _exp(draft: Draft, x: str) -> str:
    """Write base ** (shift + scale * x); a base of -1 is e."""
    options = draft.layer.message.exp_param
    factor = _log_of_base(draft, options.base)
    return draft.emit("exp", draft.scaled(x, factor * options.scale, factor * options.shift))


@rule("Log")
def _log(draft: Draft, x: str) -> str:
    """Write the logarithm to the base of shift + scale * x; a base of -1 is e."""
    options = draft.layer.message.log_param
    factor = _log_of_base(draft, options.base)
    if not factor:
        raise draft.bad("expected a base other than 1")
    y = draft.emit("log", draft.scaled(x, options.scale, options.shift))
    return draft.scaled(y, 1 / factor)


def _log_of_base(draft: Draft, base: float) -> float:
    if base != -1 and not base > 0:
        raise draft.bad(f"expected a base above 0, or -1 for e, got {base}")
    return 1.0 if base == -1 else log(base)


@rule("Dropout", "SpatialDropout")
def _dropout(draft: Draft, x: str) -> str:
    """Pass x through; a fork that does not scale in training scales here instead."""
    options = draft.layer.message.dropout_param
    if options.sample_weights_test:
        raise draft.unsupported("dropping out at random when running (sample_weights_test)")
    return x if options.scale_train else draft.scaled(x, 1 - options.dropout_ratio)


@rule("Eltwise", bottoms=(1, MANY))
def _eltwise(draft: Draft, *bottoms: str) -> str:
    options = draft.layer.message.eltwise_param
    for x in bottoms:
        if draft.dims(x) != draft.dims(bottoms[0]):
            raise draft.bad(
                f"expected bottoms of one shape, got {draft.type(bottoms[0])} and {draft.type(x)}"
            )
    factors = list(options.coeff)
    if factors and (options.operation != 1 or len(factors) != len(bottoms)):
        raise draft.bad(f"{len(factors)} coefficients for {len(bottoms)} bottoms")
    values = [
        draft.scaled(x, factor)
        for x, factor in zip(bottoms, factors or [1.0] * len(bottoms), strict=True)
    ]
    op = ("mul", "add", "max")[options.operation]
    y = values[0]
    for value in values[1:]:
        y = draft.emit(op, y, value)
    return y


@rule("Axpy", bottoms=3)
def _axpy(draft: Draft, a: str, x: str, y: str) -> str:
    """Write a * x + y, where a has one number a channel."""
    missing = range(draft.rank(a), draft.rank(x))
    if missing:
        a = draft.emit("unsqueeze", a, draft.int64(*missing))
    return draft.emit("add", draft.emit("mul", a, x), y)


@rule("Embed", blobs=lambda layer: 1 + layer.message.embed_param.bias_term)
def _embed(draft: Draft, x: str) -> str:
    """Look up row x of the learned table."""
    options = draft.layer.message.embed_param
    table = draft.weight(0, options.input_dim, options.num_output)
    y = draft.emit("gather", table, draft.emit("cast", x, to="int64"))
    return draft.emit("add", y, draft.weight(1, options.num_output)) if options.bias_term else y


@rule("Parameter", bottoms=0, blobs=1)
def _parameter(draft: Draft) -> str:
    return draft.weight(0, *draft.layer.message.parameter_param.shape.dim)


@rule("DummyData", bottoms=0)
def _dummy_data(draft: Draft) -> list[str]:
    """Make blobs filled with one number each; random fillers are for timing networks only."""
    options = draft.layer.message.dummy_data_param
    shapes = [tuple(shape.dim) for shape in options.shape] or [
        *zip(options.num, options.channels, options.height, options.width, strict=True)
    ]
    fillers = [(each.type, each.value) for each in options.data_filler] or [("constant", 0.0)]
    tops = len(draft.layer.tops)
    results: list[str] = []
    for i in range(tops):
        shape = shapes[min(i, len(shapes) - 1)]
        kind, value = fillers[min(i, len(fillers) - 1)]
        if kind != "constant":
            raise draft.unsupported(f"a blob filled with numbers of kind {kind}")
        results.append(draft.emit("expand", draft.constant(np.float32(value)), draft.int64(*shape)))
    return results
