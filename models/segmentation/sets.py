"""The sets of pictures that masks are learnt from and measured on."""

from __future__ import annotations

# What the mask of a task is of.
KINDS = {"portrait": "person", "hair": "hair"}
# Sets without anybody in them.
EMPTY = frozenset({"backgrounds", "clothing", "grocery", "animals", "flowers"})
# Sets whose masks somebody drew, of the person and of the hair.
TRUTHS = {
    "person": frozenset({"ccp", "hs290", "cutouts", "voc_person"}),
    "hair": frozenset({"ccp", "figaro", "fasseg_frontal", "fasseg_multipose"}),
}
# Those of the person whose opacity is known, not only a mask.
OPACITIES = frozenset({"cutouts"})
