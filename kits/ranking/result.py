"""The former name of what is in palmkit.kits.results."""

from palmkit.engine import deprecated

__getattr__ = deprecated.module(__name__, "palmkit.kits.results")
