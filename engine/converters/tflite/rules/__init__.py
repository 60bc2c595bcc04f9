"""The rules, one file a family; each function here writes the nodes of a TFLite operator."""

import importlib
import pkgutil


def load_rules() -> None:
    """Register every rule of this folder."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
