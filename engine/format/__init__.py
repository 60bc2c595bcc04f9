"""The model file, .palm: its layout is in schema.fbs."""

import struct

IDENTIFIER = b"PALM"
VERSION = 1
ALIGNMENT = 64

# Size of the graph, size of the file, format version, CRC-32 of all bytes before the CRC-32.
TRAILER = struct.Struct("<QQII")
CHECKSUM_SIZE = 4

# Behind the plans: a mark, their size, their version, and their size if they are deflated, or 0.
PLAN_FOOTER = struct.Struct("<8sQII")
PLAN_MARK = b"PALMPLAN"
# PLAN_VERSION counts up when a kernel, an attribute or its meaning changes; OLDEST_PLAN_VERSION
# follows when plans of that version would be refused or wrong. Plans of other versions are ignored,
# and the graph is planned anew.
# native/model_file.h has both, too.
OLDEST_PLAN_VERSION, PLAN_VERSION = 8, 8

# Footer of an encrypted file: a mark, the size, the version of the encryption, and 0.
LOCK_FOOTER = struct.Struct("<8sQII")
LOCK_MARK = b"PALMLOCK"

# What a file may need that the first readers did not know: bodies of control-flow ops; dtypes
# after bool; constants that do not lie in the order of their axes; constants that are coded; tables
# that are deflated; a whole file that only its key opens.
CONTROL_FLOW, NARROW_TYPES, ORDERED, CODED, PACKED, ENCRYPTED = FEATURES = (
    "control_flow",
    "narrow_types",
    "ordered",
    "coded",
    "packed",
    "encrypted",
)
# Deflated tables and plans, of which a hostile file may say anything.
MOST_INFLATED = 2**28


def align(size: int) -> int:
    """Return the next multiple of ALIGNMENT, in bytes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def most_decoded(file_bytes: int) -> int:
    """Return how many bytes a file's constants may decode to, as native/entropy/stored.h does."""
    return max(2**24, 1000 * file_bytes)
