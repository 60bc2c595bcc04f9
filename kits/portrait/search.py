"""The search for the people of a picture: a glance first, then looks at where they are."""

from __future__ import annotations

import itertools
from typing import NamedTuple, cast

import numpy as np

from palmkit.kits.image import Image
from palmkit.kits.portrait import refine
from palmkit.kits.portrait.finder import Finder
from palmkit.kits.portrait.network import SegmentationNetwork
from palmkit.kits.portrait.parts import (
    apart,
    are_small,
    area,
    closer,
    groups,
    joined,
    mixed_in,
    part_of,
    parts_of,
    people_in,
    put_together,
    uncut,
)
from palmkit.kits.portrait.views import Box, Halves, doubt
from palmkit.kits.results import INSIDE

# From this doubt on the best network looks as well, or who is apart from others is looked at alone.
# Chosen on the dev and held-out pictures, over a third of which are so doubtful: lower values gain
# more, and ask the best network more often. Where its looks leave as much, it looks closer: where
# people are small in them at so many parts a side, each with so much of the length of what it
# looked at, and at people apart from others.
DOUBT = 0.09
QUARTERS = 2, 0.6
# Where less of a picture than this is people, others may be too far away for a look at the whole:
# parts of it are glanced at, so many a side, with so much of its length each. Who is at most .4 of
# the width and height lies within one of the first, who is at most .2 within one of the second.
FAR = 0.01
FAR_PARTS = (3, 0.6), (4, 0.4)
# Their edges are at so many steps of a picture's longer side at most, of a power of two of pixels:
# what is halved for one of them serves all.
FAR_STEPS = 512
# How sure the network must be of some place of somebody who is seen in a part, and how little it
# may doubt: of 499 training pictures without people 13 have some so as the kit comes, 9 if none
# were looked for there; 18 from .995 on, for .77 to .78 in IoU of people a fifth as high as it.
FAR_SURE, FAR_DOUBT = 0.998, 0.3


class Found(NamedTuple):
    """What a network says of a part of a picture.

    view: its input, uint8[n, n, 3]. mask: float32[n, n], 0..1.
    """

    box: Box
    view: Image
    mask: refine.Mask


class PeopleSearch:
    """Finds the people of a picture; any thread may use it."""

    def __init__(
        self,
        network: SegmentationNetwork,
        best: SegmentationNetwork | None,
        finder: Finder | None,
        *,
        is_best: bool = False,
    ) -> None:
        """Set up a search by networks that the caller adopts.

        network: of the first look, and of who is far away. best: the one that takes several looks
        where the first is in doubt; None: none does. is_best: whether it looks at all pictures, and
        the first one only at who is far away. finder: says where to look; None: the whole picture
        is looked at, once by each network.
        """
        self._network = network
        self._best = best
        self._is_best = is_best
        self._finder = finder

    def find(self, picture: Halves) -> list[Found]:
        """Return the parts of a picture with people, which do not overlap; one at least.

        There are several where people are far away and apart from each other.
        """
        whole = (0, 0, *picture.size)
        found = None if self._finder is None else self._finder.box(picture)
        seen = self._infer(picture, whole, found)
        if not self.has_less(picture, seen, FAR):
            return [seen]
        boxes = [
            people_in(sure.mask, sure.box) or sure.box
            for part in self.far_parts(picture)
            if (box := self.far_box(picture, part)) and (sure := self.sure(picture, box))
        ]
        if not boxes:
            return [seen]
        near = people_in(seen.mask, seen.box)
        return [self._infer_sure(picture, box) for box in groups([near, *boxes] if near else boxes)]

    def has_less(self, picture: Halves, seen: Found, share: float) -> bool:
        """Return whether less of a picture than this share is people; False without a finder."""
        least = share * area((0, 0, *picture.size))
        return self._finder is not None and _people(seen.mask) * area(seen.box) < least

    def far_parts(self, picture: Halves) -> list[Box]:
        """Return the parts of a picture to glance at for people far away.

        Who is seen in one may be seen in others.
        """
        whole = (0, 0, *picture.size)
        step = 1 << ((max(picture.size) - 1) // FAR_STEPS).bit_length()
        parts = [parts_of(whole, count, share, step) for count, share in FAR_PARTS]
        return list(itertools.chain(*parts))

    def far_box(self, picture: Halves, part: Box) -> Box | None:
        """Return where a glance at a part sees people who do not reach out of it, if there are."""
        if self._finder is None:
            return None
        people = self._finder.people(picture, part)
        return people_in(uncut(people, part, *picture.size), part)

    def sure(self, picture: Halves, box: Box) -> Found | None:
        """Return what the first network sees in a box, where it is sure of somebody."""
        seen = self._infer_closer(self._network, picture, box)
        return seen if _is_sure(seen.mask) else None

    def look(self, picture: Halves, box: Box) -> Found:
        """Return what the network of all pictures says of all of a box, in one look."""
        network = self._best if self._best is not None and self._is_best else self._network
        view, said = self._look(network, picture, box)
        return Found(box, view, refine.without_specks(said))

    def _infer_sure(self, picture: Halves, box: Box) -> Found:
        """Return what is in a box where somebody far away is.

        Of whom the first network is sure counts, though the best one may see nobody.
        """
        first = self._infer_closer(self._network, picture, box)
        seen = self._better(first, picture, box, box)
        return first if not _people(seen.mask) and _is_sure(first.mask) else seen

    def _infer(self, picture: Halves, whole: Box, found: Box | None) -> Found:
        """Return the part of a box with people.

        The finder says where to look first, which is everywhere if it sees nobody.
        """
        if self._best is not None and self._is_best:
            return self._infer_best(self._best, picture, whole, found)
        first = self._infer_closer(self._network, picture, found or whole)
        return self._better(first, picture, whole, found)

    def _better(self, first: Found, picture: Halves, whole: Box, found: Box | None) -> Found:
        """Return what closer looks or the best network see where they have to, else the first.

        They have to where the first one is in doubt, the best network also where the first one sees
        nobody and the finder does.
        """
        missed = found is not None and not _people(first.mask)
        if doubt(first.mask) < DOUBT and not missed:
            return first
        if self._best is not None:
            return self._infer_best(self._best, picture, whole, found)
        return first._replace(mask=self._infer_apart(self._network, picture, first.box, first.mask))

    def _infer_closer(
        self,
        network: SegmentationNetwork,
        picture: Halves,
        box: Box,
        first: tuple[Image, refine.Mask] | None = None,
    ) -> Found:
        """Return the part of the box with people.

        Where people are in little of the box, the network looks again, closer, and its second word
        counts. first: its input and what it says of all of the box, if that is known.
        """
        view, said = first or self._look(network, picture, box)
        mask = refine.without_specks(said)
        nearer = closer(mask, box) if self._finder is not None else None
        if nearer is not None:
            box = nearer
            view, said = self._look(network, picture, box)
            mask = refine.without_specks(said)
        return Found(box, view, mask)

    def _infer_best(
        self, network: SegmentationNetwork, picture: Halves, whole: Box, found: Box | None
    ) -> Found:
        """Return the part of a box with people, in the mean of four looks, or eight.

        The first is at all of the box: people whom the finder misses, far behind others, it may
        see. A closer one is at all that either sees. In each of them, and in their mirror images,
        the network errs in other places. Where they leave a doubt, closer looks have half of the
        word: at quarters of the part if all people are small in it, and at people apart from
        others. found: where the finder sees people.
        """
        first = self._look(network, picture, whole)
        box = whole
        if self._finder is not None:
            seen = people_in(refine.without_specks(first[1]), whole)
            box = joined(found, seen) or whole
        box, view, mask = self._infer_closer(network, picture, box, first if box == whole else None)
        words = [mask, network.infer_mirrored(view)]
        if box != whole:
            everything = first[1], network.infer_mirrored(first[0])
            words += [part_of(said, box, whole) for said in everything]
        mean = cast(refine.Mask, np.mean(words, axis=0))
        # Without the finder nothing is looked at closer.
        is_unsure = self._finder is not None and doubt(mean) >= DOUBT
        if is_unsure and are_small(mean):
            parts = parts_of(box, *QUARTERS)
            near = [self._look(network, picture, part)[1] for part in parts]
            both = mean, put_together(near, parts, box)
            mean = cast(refine.Mask, np.mean(both, axis=0))
        mask = refine.without_specks(mean)
        return Found(
            box, view, self._infer_apart(network, picture, box, mask) if is_unsure else mask
        )

    def _infer_apart(
        self, network: SegmentationNetwork, picture: Halves, box: Box, coarse: refine.Mask
    ) -> refine.Mask:
        """Return the mask of a box, where looks at people apart from others have half of the word.

        coarse: float32[n, n], what was found in the box, without specks. Without the finder nothing
        is looked at closer.
        """
        parts = apart(coarse, box) if self._finder is not None else []
        mask = coarse
        for part in parts:
            said = refine.without_specks(self._look(network, picture, part)[1])
            mask = mixed_in(mask, said, part, box)
        return refine.without_specks(mask) if parts else mask

    def _look(
        self, network: SegmentationNetwork, picture: Halves, box: Box
    ) -> tuple[Image, refine.Mask]:
        view = picture.part(box, network.side)
        return view, network.infer(view)


def _people(mask: refine.Mask) -> float:
    """Return how much of a mask is people."""
    return float(np.count_nonzero(mask > INSIDE)) / mask.size


def _is_sure(mask: refine.Mask) -> bool:
    return bool(mask.max() >= FAR_SURE) and doubt(mask) < FAR_DOUBT
