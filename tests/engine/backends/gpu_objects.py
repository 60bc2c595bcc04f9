"""What the library of the package wgpu holds on its devices."""

from importlib import import_module
from typing import Any


def objects() -> dict[str, int]:
    """The number of objects of each kind, such as "buffers" and "computePipelines"."""
    reports: Any = import_module("wgpu.backends.wgpu_native._helpers")
    hub = reports.generate_report()["hub"]
    return {kind: each["allocated"] for kind, each in hub.items()}
