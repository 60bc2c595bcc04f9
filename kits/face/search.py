"""The search for the faces of a picture: in few pixels first, then closer at what may be one."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from palmkit.kits.delivered import Current
from palmkit.kits.detection import Candidates, merge
from palmkit.kits.detector import OTHER_RATIOS, ROW, Detector, picture_dims
from palmkit.kits.face.certainty import (
    CONFIRMED,
    CROWD_SCORES,
    DOUBT,
    HEAT,
    QUICK_FACE,
    TINY_DOUBT,
    as_both_say,
    in_company,
    is_in_doubt,
    longer_sides,
    may_be_crowd,
    surer,
)
from palmkit.kits.face.closer import is_shown, surroundings
from palmkit.kits.face.options import DETECTORS, FaceOptions
from palmkit.kits.face.turning import turned_back, upright_faces
from palmkit.kits.image import Image, Part, clip_part
from palmkit.kits.kit import Mode, ModelSource, Runnable, threshold
from palmkit.kits.pace import leave_out
from palmkit.kits.results import KEYPOINTS
from palmkit.kits.sheets import GAP, SHEETS, rectangles, rows, sheets, windows

# Without a size the whole picture is seen in the second of these pixels. The first comes before
# for who wants only so many faces: beside a large one, small ones do not show in it. The last is
# for who wants tiles, and for frames with many small faces, where one pass costs less.
SIZES = (160, 320, 640)
# What may be a small face is seen closer, in so many pixels: first the likeliest; if it is a face,
# all others. On the validation part 96 pixels find fewer faces.
CLOSER_SIDE = 128
# More squares may be a crowd, if of the four likeliest one is surely a face or two may be, whatever
# the least score: so in 219 of 228 such training pictures of crowds, in none of four without.
MOST_CLOSER = 8
CROWD_PROBES = 4
# Where the first look ends with nobody, of what a second one in more pixels finds one must be as
# sure: of 228 pictures without a face, enlarged fourfold, three then have one, 20 otherwise; of 240
# distant faces in large pictures 207 are found, 131 by the first look alone.
SECOND_SURE = 0.45
# Small faces in small pictures are found better when these are enlarged, up to about this.
MAX_ENLARGED = 2.0
LEAST_SIDE = CLOSER_SIDE / MAX_ENLARGED
# In a crowd each look enlarges by STEP what the last one leaves in doubt, and what is tiny in twice
# its own pixels once more, up to MOST_ENLARGED.
STEP = 2
MOST_ENLARGED = 3.0
# A turned picture is searched where a glance at it sees a face of this score.
GLANCE = 0.5
# A look shows what is in doubt with so many of its sizes, or pixels, on each side of its middle.
WINDOW = 3.0
LEAST_WINDOW = 8
# What is larger, in pixels as seen closer, would have been large enough before.
TOO_LARGE = 96


class FaceSearch:
    """Finds the faces of a picture; any thread may use it."""

    def __init__(
        self,
        model: Runnable,
        options: FaceOptions,
        *,
        is_video: bool = False,
        best: Runnable | None = None,
    ) -> None:
        """Wrap a model with the contract of palmkit.kits.detection.

        options: min_score, size, tile and budget_ms count. is_video: see crowds in 640 pixels and
        no closer. best: another model, which searches again where this one sees what may be a
        crowd, and finds what counts there.
        Raises ModelError if the model's threshold is an invalid number.
        """
        self.network = Detector(model, len(KEYPOINTS), MAX_ENLARGED)
        # Of what find returns, if it is not told another one.
        self.min_score = threshold(model) if options.min_score is None else options.min_score
        size, tile = options.size, options.tile
        # Tiles are meant for small faces.
        self.size = SIZES[-1] if size is None else int(size)
        self._is_quick = size is None and tile is None
        # Whether a crowd is looked for as without a size, and so is who was not seen in a larger
        # picture: not for who asks for fewer pixels than the first look has, and so for speed.
        self._looks_closer = not is_video and tile is None and self.size >= SIZES[1]
        self._tile = tile
        self._is_video = is_video
        self._budget_ms = options.budget_ms
        is_careful = options.quality == "best" or best is not None
        has_time = self._looks_closer and options.budget_ms is None
        self._looks_turned = is_careful and has_time
        if self._looks_closer:
            options = replace(options, size=None)
        self._best = None if best is None else FaceSearch(best, options)

    def find_any_way_up(
        self, image: Image, roi: Part | None, *, enough: int | None = None
    ) -> Candidates:
        """Return what `find` does, or where surer faces lie or hang upside down, those.

        It looks so in pictures, with a best network, without a tile or a budget.
        Raises ImageError if `roi` lies outside the picture.
        """
        found = self.find(image, roi, enough=enough)
        if not self._looks_turned:
            return found
        area = clip_part(image, roi)
        left, top, right, bottom = area
        part = image[top:bottom, left:right]

        def find(turned: Image) -> Candidates:
            whole = (0, 0, turned.shape[1], turned.shape[0])
            glance = self.network.infer_whole(turned, whole, SIZES[1], GLANCE)
            return self.find(turned, None, enough=enough) if len(glance) else glance

        quarters, faces = upright_faces(part, find, found)
        return turned_back(faces, quarters, area) if quarters else found

    def find(
        self,
        image: Image,
        roi: Part | None,
        min_score: float | None = None,
        *,
        enough: int | None = None,
        smallest: float = math.inf,
        crowd: Candidates | None = None,
    ) -> Candidates:
        """Return one row a face that scores at least `min_score`, best first, in pixels.

        min_score: None: that of the options. enough: the number of faces wanted; None: any number.
        smallest: the longer side of the smallest face known to be there, in pixels. crowd: what
        another model, which saw a crowd, has seen of the whole: it is looked for there as well.
        Raises ImageError if `roi` lies outside the picture.
        """
        if min_score is None:
            min_score = self.min_score
        budget = _Budget(self._budget_ms)
        left, top, right, bottom = clip_part(image, roi)
        area = (left, top, right - left, bottom - top)
        first, second = (_scale(area, size) for size in SIZES[:2])
        if self._is_quick and enough is not None and smallest >= QUICK_FACE / first:
            found = self.network.search(image, area, SIZES[0], min_score * DOUBT)
            sure = found.scores >= min_score
            if len(found) and sure.all() and longer_sides(found).min() >= QUICK_FACE / first:
                return found
            if np.count_nonzero(sure) >= enough:
                return found.take(sure)
        if not self._is_quick or smallest < QUICK_FACE / second:
            found = self.network.search(image, area, self.size, min_score, self._tile)
            is_crowd = may_be_crowd(found, second)
            if is_crowd and self._best is not None:
                return self._best.find(image, area, enough=enough, crowd=found)
            is_nobody = not len(found) and SIZES[-1] < self.size < max(area[2:])
            if not self._looks_closer or not (is_crowd or is_nobody):
                return found
        found = self._search(image, area, min_score, SIZES[1], enough, budget, crowd)
        is_large = not self._is_video and max(area[2:]) > SIZES[-1]
        if len(found) or not is_large or not budget.allows(_pixels(area, SIZES[-1])):
            return found
        # Faces of a large picture may be too small there to be seen at all.
        again = self._search(image, area, min_score, SIZES[-1], enough, budget, None)
        is_sure = again.scores >= surer(min_score, SECOND_SURE)
        return again if is_sure.any() else found

    def _search(
        self,
        image: Image,
        area: Part,
        min_score: float,
        size: int,
        enough: int | None,
        budget: _Budget,
        crowd: Candidates | None,
    ) -> Candidates:
        """Infer the whole picture in this size, then closer what may be a small face."""
        scale = _scale(area, size)
        seen = self.network.infer_whole(image, area, size, min_score * TINY_DOUBT)
        budget.count(_pixels(area, size))
        is_sure = seen.scores >= min_score
        in_doubt = is_in_doubt(seen, scale, min_score)
        least = min_score * (DOUBT if is_sure.any() else TINY_DOUBT)
        sure = merge(seen.take(is_sure))
        is_enough = enough is not None and len(sure) >= enough
        if crowd is not None and not is_enough:
            # Seen by another model it may be a face, and is none until this one sees it.
            hot = replace(crowd, scores=np.minimum(crowd.scores, np.float32(HEAT[0])))
            seen = Candidates.joined([seen, hot.take(crowd.scores >= HEAT[0])])
            return self._look_closer(image, area, min_score, seen, scale, budget)
        if is_enough or scale == MAX_ENLARGED or not (in_doubt & (seen.scores >= least)).any():
            return sure
        doubtful = seen.take(in_doubt)
        by_score = np.argsort(-doubtful.scores, kind="stable")
        squares = surroundings(doubtful.boxes[by_score], area, LEAST_SIDE)
        parts = list(islice(squares, MOST_CLOSER + 1))
        if len(parts) > MOST_CLOSER:
            return self._search_crowd(image, area, min_score, parts, seen, size, enough, budget)
        confirmed = surer(min_score, CONFIRMED)
        found = [sure.take(~is_in_doubt(sure, scale, min_score))]
        for some in (parts[:1], parts[1:]):
            if not some:
                break
            if not budget.allows(len(some) * CLOSER_SIDE**2):
                return merge(Candidates.joined([*found, sure]))
            found.append(self.network.infer_parts(image, area, some, CLOSER_SIDE, confirmed))
            if not len(found[-1]):
                break
        return merge(Candidates.joined(found))

    def _search_crowd(
        self,
        image: Image,
        area: Part,
        min_score: float,
        parts: Sequence[Part],
        seen: Candidates,
        size: int,
        enough: int | None,
        budget: _Budget,
    ) -> Candidates:
        """Look at the likeliest parts and, if they show faces, at all that may be small ones.

        Where they do, or where nothing is a face for sure, the best network searches instead.
        seen: candidates of the whole in this size.
        """
        scale = _scale(area, size)
        sure = merge(seen.take(seen.scores >= min_score))
        probes = parts[: 1 if self._is_video else CROWD_PROBES]
        if not budget.allows(len(probes) * CLOSER_SIDE**2):
            return sure
        confirmed = surer(min_score, CONFIRMED)
        least = min(confirmed, *CROWD_SCORES)
        seen_closer = self.network.infer_parts(image, area, probes, CLOSER_SIDE, least)
        best = merge(seen_closer).scores[: len(CROWD_SCORES)]
        is_crowd = (best >= CROWD_SCORES[: len(best)]).any()
        large = sure.take(~is_in_doubt(sure, scale, min_score))
        # However little is asked for, what may be a face is as sure as in a crowd.
        if self._best is not None and (is_crowd or not (large.scores >= CROWD_SCORES[-1]).any()):
            crowd, least = seen if is_crowd else None, self._best.min_score
            return self._best._search(image, area, least, size, enough, budget, crowd)
        if is_crowd and not self._is_video:
            return self._look_closer(image, area, min_score, seen, scale, budget)
        if (best >= confirmed).any() and budget.allows(_pixels(area, self.size)):
            return self.network.search(image, area, self.size, min_score)
        return large

    def _look_closer(
        self,
        image: Image,
        area: Part,
        min_score: float,
        seen: Candidates,
        scale: float,
        budget: _Budget,
    ) -> Candidates:
        """Look ever closer where small faces may be, until none is left or time is up.

        seen: candidates of the whole at this scale. What is small counts as the two closest looks
        at it say.
        """
        first_scale = scale
        found: list[Candidates] = []
        for heat in (HEAT[0], *[HEAT[1]] * math.ceil(math.log(MOST_ENLARGED / scale, STEP))):
            closer = min(scale * STEP, MOST_ENLARGED)
            small = QUICK_FACE * closer / scale / STEP
            is_hot = (longer_sides(seen) * scale < small) & (seen.scores >= heat)
            found.append(seen.take(~is_hot))
            hot = seen.take(is_hot)
            looks = [hot.take(np.zeros(0, np.int64))]
            places = windows(hot.boxes, WINDOW, LEAST_WINDOW / scale, area)
            left = np.ones(len(hot), np.bool_)
            for sheet in sheets(
                rectangles(places, GAP / closer, SHEETS[-1][0] / closer - 1), closer
            ):
                if not budget.allows(sheet.shape[0] * sheet.shape[1]):
                    break
                looks.append(self.network.infer_sheet(image, area, sheet, min(HEAT), closer))
                left &= ~is_shown(places, sheet.parts)
            found.append(hot.take(left))
            seen, scale = as_both_say(Candidates.joined(looks), before=merge(hot)), closer
            seen = seen.take(longer_sides(seen) * scale < TOO_LARGE)
            if not len(seen):
                break
        found.append(seen)
        return in_company(Candidates.joined(found), min_score, QUICK_FACE / first_scale)


class Searching:
    """The networks of a kit that searches for faces.

    networks: the first one and, where auto may look again, the best one.
    """

    def __init__(self, options: FaceOptions, mode: Mode, model: ModelSource | None) -> None:
        """Open the networks.

        options, mode: the kit's. model: the first network, by an option; None: the shipped one.
        Raises as palmkit.kits.delivered.Current does.
        """
        self._options, self._is_video = options, mode != "image"
        first, best = DETECTORS.opened(
            lambda source, name: Current(source, name, options),
            options.quality,
            model,
            options.best_detector_model,
            of_pictures=not self._is_video and options.budget_ms is None,
        )
        self.networks = (first,) if best is None else (first, best)

    def search(self) -> FaceSearch:
        """Return the search by the models that are current.

        Raises ModelError if they do not fit.
        """
        first, *best = (each.model for each in self.networks)
        return FaceSearch(
            first, self._options, is_video=self._is_video, best=best[0] if best else None
        )


class _Budget:
    """The time that a search may take."""

    def __init__(self, budget_ms: float | None) -> None:
        self._start_s = time.perf_counter()
        self._ends_s = math.inf if budget_ms is None else self._start_s + budget_ms / 1000
        self._pixel_s = 0.0

    def count(self, pixels: float) -> None:
        """Learn from the first look, of so many pixels, how long others take."""
        self._pixel_s = (time.perf_counter() - self._start_s) / pixels

    def allows(self, pixels: float) -> bool:
        """Return whether there is time for a look of so many pixels; if not, it is left out."""
        has_time = time.perf_counter() + pixels * self._pixel_s <= self._ends_s
        if not has_time:
            leave_out("closer looks")
        return has_time


def first_dims() -> list[Mapping[str, int]]:
    """Return the network's input sizes for whole pictures, and for places seen closer."""
    shapes = (rows([(0, 0, 1, 1)] * (n + 1), CLOSER_SIDE, ROW).shape for n in range(MOST_CLOSER))
    closer = [{"height": height, "width": width} for height, width in (*shapes, *SHEETS)]
    # The third of the sizes is seldom seen: only by the usual ratios.
    every = [*picture_dims(SIZES), *picture_dims(SIZES[:2], OTHER_RATIOS), *closer]
    return [dims for place, dims in enumerate(every) if dims not in every[:place]]


def _pixels(area: Part, size: float) -> float:
    """Return how many pixels an area has, its longer side brought to this size."""
    return area[2] * area[3] * (size / max(area[2:])) ** 2


def _scale(area: Part, size: float) -> float:
    """Return the scale at which an area is seen, its longer side brought to this size."""
    return min(size / max(area[2:]), MAX_ENLARGED)
