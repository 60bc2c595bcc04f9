"""The kernels, one file for each kind; importing this registers them all."""

from importlib import import_module

KERNEL_FILES = (
    "convolution",
    "elementwise",
    "matrices",
    "movement",
    "pooling",
    "reduction",
    "sampling",
)
for file in KERNEL_FILES:
    import_module(f"{__name__}.{file}")
