"""Small people in a video: looked at closely, and followed from one frame to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from palmkit.kits.portrait.parts import area, groups, overlap, people_in, within
from palmkit.kits.portrait.refine import Mask
from palmkit.kits.portrait.search import FAR, Found, PeopleSearch
from palmkit.kits.portrait.steady import Steady
from palmkit.kits.portrait.views import Box, Halves, box_round

# Where less of a frame than this is people they are followed; those who are, until so much is.
# Chosen on pans over development pictures: up to .06 people of half the height are seen less well,
# up to .25 others little better.
SMALL, LARGE = 0.25, 0.35
# All of so many frames is looked at once while people are followed.
EVERY = 3
# So many parts of a frame in which there may be others are glanced at, the next ones later; and
# when all have been.
GLANCES, LATER = 2, 1
# So many frames are looked at as a whole after a look at all of one sees somebody whom a closer one
# does not.
REST = 4
# Who is not seen any more is looked at for so long where they were.
HELD_S = 0.3
# The room on each side of those who are followed, in their width and height. Where it is less than
# the second, or the part so many times as large as it would be, the next frame's is chosen anew;
# where it is less than the last, the frame is looked at again.
ROOM, LEAST_ROOM, TIMES, CUT = 0.25, 0.08, 2.5, 0.02


@dataclass(eq=False)
class _Person:
    """Somebody, or several close together: what is looked at, and when they were seen last."""

    box: Box
    seen_s: float
    steady: Steady = field(default_factory=Steady)


class Following:
    """Follows people who are small in the frames of a video."""

    def __init__(self, search: PeopleSearch, smoothing: bool) -> None:
        """Begin with the next frame.

        search: finds them, by networks that the caller adopts. smoothing: whether their masks are
        held still where the picture is.
        """
        self._search = search
        self._smoothing = smoothing
        self._people: list[_Person] = []
        self._area: Box | None = None
        # How many parts have been glanced at, and frames that follow the last that was due.
        self._glanced = self._frames = 0
        # How many frames are to be looked at as a whole.
        self._rest = 0

    def is_due(self, area: Box) -> bool:
        """Return whether `begin` is to be called with this frame, or else `follow`.

        area: the part of the frame that these get. Nobody is followed while it changes.
        """
        if self._area not in (None, area):
            self._people.clear()
            self._rest = REST
        self._area = area
        return not self._people or self._frames >= EVERY - 1

    def begin(self, picture: Halves, seen: Found, time_s: float) -> list[Found]:
        """Return the parts of a frame with small people, which may overlap.

        There are none where nobody is, or somebody large. seen: what a look at all of the frame
        says. time_s: strictly increasing.
        """
        self._frames = -1
        if self._rest:
            self._rest -= 1
            return []
        if not self._search.has_less(picture, seen, LARGE if self._people else SMALL):
            self._people.clear()
            self._glanced = 0
            return []
        known = [person.box for person in self._people]
        is_far = self._search.has_less(picture, seen, FAR)
        found = self._others(picture, known) if is_far else []
        left = seen._replace(mask=_without(seen, known))
        if is_far or not self._search.has_less(picture, left, FAR):
            near = people_in(left.mask, left.box)
            around = near and self._around(picture, near)
            if around:
                found.append(around)
            elif not is_far:
                self._people.clear()
                self._rest = REST
                return []
        self._people += [_Person(box, time_s) for box in found]
        return self.follow(picture, time_s)

    def follow(self, picture: Halves, time_s: float) -> list[Found]:
        """Return the parts of a frame with the people who are followed; they may overlap."""
        self._frames += 1
        # They may come together, and then are looked at as one.
        known = {person.box: person for person in self._people}
        self._people = [known.get(box) or _Person(box, time_s) for box in groups([*known])]
        looks = [self._look(picture, person, time_s) for person in self._people]
        self._people = [each for each in self._people if time_s - each.seen_s <= HELD_S]
        return looks

    def _others(self, picture: Halves, known: list[Box]) -> list[Box]:
        """Return what to look at for people far away who are not known yet."""
        found: list[Box] = []
        parts = self._search.far_parts(picture)
        for _ in range(GLANCES if self._glanced < len(parts) else LATER):
            box = self._search.far_box(picture, parts[self._glanced % len(parts)])
            self._glanced += 1
            if box and not any(overlap(box, other) for other in known):
                around = self._around(picture, box)
                found += [around] if around else []
        return found

    def _around(self, picture: Halves, box: Box) -> Box | None:
        """Return what to look at for who is in a box; None where nobody is for sure."""
        sure = self._search.sure(picture, box)
        return sure and _box_round(sure, picture)

    def _look(self, picture: Halves, person: _Person, time_s: float) -> Found:
        found = self._search.look(picture, person.box)
        if _has_left(found, picture, CUT):
            person.box = _box_round(found, picture) or person.box
            found = self._search.look(picture, person.box)
        if around := _box_round(found, picture):
            person.seen_s = time_s
            if _has_left(found, picture, LEAST_ROOM) or area(found.box) > TIMES * area(around):
                person.box = around
        if not self._smoothing:
            return found
        left, top, right, bottom = found.box
        place = (left, top, right - left, bottom - top)
        return found._replace(mask=person.steady.update(found.mask, found.view, place, time_s))


def _without(seen: Found, boxes: list[Box]) -> Mask:
    """Return a mask of what is seen outside of some boxes."""
    mask = seen.mask.copy()
    left, top, right, bottom = seen.box
    height, width = mask.shape
    for box in boxes:
        columns = [(x - left) * width / (right - left) for x in box[::2]]
        rows = [(y - top) * height / (bottom - top) for y in box[1::2]]
        mask[
            math.floor(rows[0]) : math.ceil(rows[1]), math.floor(columns[0]) : math.ceil(columns[1])
        ] = 0
    return mask


def _has_left(found: Found, picture: Halves, room: float) -> bool:
    """Return whether there is less room than this round people in a part of a picture."""
    box = _box_round(found, picture, room)
    return box is not None and not within(box, found.box)


def _box_round(found: Found, picture: Halves, room: float = ROOM) -> Box | None:
    """Return the part of a picture round the people found in one; None where nobody is.

    room: round them, in their width and height; it may reach out of the part that they were found
    in.
    """
    return box_round(found.mask, found.box, *picture.size, room)
