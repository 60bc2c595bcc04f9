"""The lowering rules, one file for each kind of op; importing this registers them all."""

from importlib import import_module

from palmkit.engine.backends.cpu.registry import RULES

RULE_FILES = (
    "convolution",
    "elementwise",
    "indexing",
    "movement",
    "normalization",
    "quantization",
    "quantized",
    "recurrent",
    "reduction",
    "sampling",
    "spectrum",
    "trees",
)
for file in RULE_FILES:
    import_module(f"{__name__}.{file}")

__all__ = ["RULES", "RULE_FILES"]
