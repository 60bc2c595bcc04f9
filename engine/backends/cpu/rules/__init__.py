"""The lowering rules, one file for each kind of op; importing this registers them all."""

from palmkit.engine.backends.cpu.lowering import RULES
from palmkit.engine.backends.cpu.rules import (
    convolution,
    elementwise,
    indexing,
    movement,
    normalization,
    quantization,
    recurrent,
    reduction,
    sampling,
    spectrum,
)

RULE_FILES = (
    convolution,
    elementwise,
    indexing,
    movement,
    normalization,
    quantization,
    recurrent,
    reduction,
    sampling,
    spectrum,
)

__all__ = ["RULES", "RULE_FILES"]
