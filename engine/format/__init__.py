"""The model file, .palm: its layout is in schema.fbs."""

import struct

IDENTIFIER = b"PALM"
VERSION = 1
ALIGNMENT = 64

# Size of the graph, size of the file, format version, CRC-32 of all bytes before the CRC-32.
TRAILER = struct.Struct("<QQII")
CHECKSUM_SIZE = 4

# Behind the plans: a mark, their size, their version, and 0.
PLAN_FOOTER = struct.Struct("<8sQII")
PLAN_MARK = b"PALMPLAN"
# Counts up when a plan of before would be refused, or be wrong: a kernel, an attribute or its
# meaning has changed. Plans of another version are left alone; the graph is then planned anew.
PLAN_VERSION = 2

# What a file may need that the first readers did not know: bodies of control-flow ops; dtypes
# after bool; constants that do not lie in the order of their axes.
CONTROL_FLOW, NARROW_TYPES, ORDERED = FEATURES = ("control_flow", "narrow_types", "ordered")


def align(size: int) -> int:
    """The next multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT
