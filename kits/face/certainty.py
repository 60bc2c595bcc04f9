"""How sure it is that what the looks of a search saw are faces, and which need a closer look."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats, iou
from palmkit.kits.detection import Candidates, merge

# On the validation part all faces of so many pixels or more are as certain as they are in more.
QUICK_FACE = 24
# Of the least score, from which something smaller may be a face; of less than TINY_FACE pixels,
# where no face is certain or what is likelier has shown to be one.
DOUBT = 0.35
TINY_FACE = 12
TINY_DOUBT = 1 / 12
# Of four places of what may be a crowd one has to be a face as surely as the first says, or two as
# the second.
CROWD_SCORES = (0.65, 0.45)
# Of what is left to certainty, by which a face must score more there: so picked out, more than
# elsewhere looks like one.
CONFIRMED = 1 / 8
# An earlier look doubts what scores so much, the first one and later ones: 98 % of the faces of
# training pictures, in half of their area.
HEAT = (0.05, 0.1)
# What a look shows is as sure as it and the look before say together: of its logit, so much is that
# of what lay at the same place before, by its IoU, or of HEAT[0] where nothing did. Where faces are
# the mean is lower than the look's own, which a logit added makes up for. On the validation part's
# crowds the two looks find as many and F1 is .94 for .92, with the best network and WINDOW 3.
BEFORE = 0.2
SAME_PLACE = 0.3
ADDED = 0.2
# Beyond this the score of one look is not believed.
CERTAIN = 0.999
# A small face beside more than so many others of at least half and at most twice its size is
# likelier one than its score says, which tells of any place of any picture: logits to add, so that
# of training crowds' faces that one look scores 0.6 three in five are right. One without them has
# to be CONFIRMED. With 3 others hands and shoes of people with large faces count more often, with 8
# fewer faces of crowds do.
COMPANY = 0.5
OTHERS = 5


def surer(min_score: float, share: float) -> float:
    """Return a score that is more certain, by a share of what is left to certainty."""
    return min_score + (1 - min_score) * share


def longer_sides(found: Candidates) -> Floats:
    """Return the longer side of each box, float32[n]."""
    return np.asarray((found.boxes[:, 2:] - found.boxes[:, :2]).max(axis=1), np.float32)


def is_in_doubt(found: Candidates, scale: float, min_score: float) -> NDArray[np.bool_]:
    """Return which faces, seen at this scale, are so small that a closer pass is needed."""
    sides = longer_sides(found) * scale
    least = np.where(sides < TINY_FACE, TINY_DOUBT, DOUBT) * min_score
    return np.asarray((sides < QUICK_FACE) & (found.scores >= least))


def may_be_crowd(found: Candidates, scale: float) -> bool:
    """Return whether several of these faces, seen at this scale, are small."""
    is_small = longer_sides(found) * scale < QUICK_FACE
    return int(np.sum(is_small & (found.scores >= CROWD_SCORES[-1]))) >= len(CROWD_SCORES)


def as_both_say(found: Candidates, before: Candidates) -> Candidates:
    """Return a look's candidates, as sure as it and the look before say."""
    is_same = iou(found.boxes, before.boxes) >= SAME_PLACE
    earlier = np.where(is_same, before.scores, 0).max(axis=1, initial=HEAT[0])
    logits = (1 - BEFORE) * _logit(found.scores) + BEFORE * _logit(earlier) + ADDED
    return replace(found, scores=(1 / (1 + np.exp(-logits))).astype(np.float32))


def in_company(found: Candidates, min_score: float, small: float) -> Candidates:
    """Return a crowd's faces that score at least `min_score`, smaller ones by their company.

    small: pixels.
    """
    scores = np.clip(found.scores, 0, 1)
    sides = longer_sides(found)
    others = merge(found.take(scores >= CROWD_SCORES[1]))
    ratios = sides[:, None] / longer_sides(others)
    # Each counts itself.
    is_in_company = np.sum((ratios > 1 / 2) & (ratios < 2), axis=1) > OTHERS
    bonus = np.float32(math.exp(-COMPANY))
    raised = np.where(is_in_company, scores / (scores + (1 - scores) * bonus), scores)
    confirmed = surer(min_score, CONFIRMED)
    least = np.where((sides < small) & ~is_in_company, confirmed, min_score)
    scores = np.where(sides < small, raised, scores).astype(np.float32)
    return merge(replace(found, scores=scores).take(scores >= least))


def _logit(scores: Floats) -> Floats:
    scores = np.clip(scores, 1 - CERTAIN, CERTAIN, dtype=np.float32)
    return np.asarray(np.log(scores / (1 - scores)), np.float32)
