"""The former name of palmkit.kits.detection."""

from palmkit.engine import deprecated

__getattr__ = deprecated.module(__name__, "palmkit.kits.detection")
