"""The model file, .palm: its layout is in schema.fbs."""

import struct

IDENTIFIER = b"PALM"
VERSION = 1
ALIGNMENT = 64

# Size of the graph, size of the file, format version, CRC-32 of all bytes before the CRC-32.
TRAILER = struct.Struct("<QQII")
CHECKSUM_SIZE = 4

# What a file may need that the first readers did not know: bodies of control-flow ops; dtypes
# after bool.
CONTROL_FLOW, NARROW_TYPES = FEATURES = ("control_flow", "narrow_types")


def align(size: int) -> int:
    """The next multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT
