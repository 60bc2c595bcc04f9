"""Looking for the faces of a whole picture: in few pixels first, in more where faces are small."""

from __future__ import annotations

import math

import numpy as np

from palmkit.kits.detector import Detector
from palmkit.kits.face.decode import SIDE_MULTIPLE, Candidates
from palmkit.kits.image import Image, Part, clip_part
from palmkit.kits.kit import Runnable, between, whole
from palmkit.kits.results import KEYPOINTS

# Without a size the whole picture is seen in few of these pixels first; in the next, if that shows
# no face, one of fewer pixels than QUICK_FACE (smaller ones may then be missed), or what may be
# one, at DOUBT of the least score; unless it shows as many faces as are wanted. The first is only
# for who wants so many: beside a large face, small ones do not show in it.
SIZES = (160, 320, 640)
# On the validation part anything from 16 to 28 is as good.
QUICK_FACE = 24
DOUBT = 0.35
# Small faces in small pictures are found better when these are enlarged, up to about this.
MAX_ENLARGED = 2.0


def check_sizes(size: int | None, tile: int | None) -> None:
    """Raise ValueError if they cannot be options of FaceSearch."""
    if size is not None:
        between("size", size, SIDE_MULTIPLE, 4096)
    if tile is not None:
        whole("tile", tile, SIDE_MULTIPLE)


class FaceSearch:
    """Finds the faces of a picture; any thread may use it."""

    def __init__(self, model: Runnable, size: int | None, tile: int | None) -> None:
        """model: with the contract of palmkit.kits.face.decode.

        size: longest side of what it sees; None: as many pixels as it takes. tile: look also at
        overlapping squares of this side; None: not.
        """
        self.network = Detector(model, len(KEYPOINTS), MAX_ENLARGED)
        # Who wants tiles is after small faces.
        self.size = SIZES[-1] if size is None else int(size)
        self._quick = SIZES[:-1] if size is None and tile is None else ()
        self._tile = tile

    def find(
        self,
        image: Image,
        roi: Part | None,
        min_score: float,
        *,
        enough: int | None = None,
        smallest: float = math.inf,
    ) -> Candidates:
        """One row a face that scores at least `min_score`, best first, in pixels.

        enough: so many faces are all that are wanted; None: there may be any number.
        smallest: the longer side of the smallest face known to be there, in pixels.
        Raises ImageError if `roi` lies outside the picture.
        """
        left, top, right, bottom = clip_part(image, roi)
        longest = max(right - left, bottom - top)
        for size in self._quick if enough is not None else self._quick[1:]:
            least = QUICK_FACE / min(size / longest, MAX_ENLARGED)
            if smallest < least:
                continue
            found = self.network.search(image, roi, size, min_score * DOUBT)
            sure = found.scores >= min_score
            sides = (found.boxes[:, 2:] - found.boxes[:, :2]).max(axis=1)
            if len(found) and sides.min() >= least and sure.all():
                return found
            if enough is not None and np.count_nonzero(sure) >= enough:
                return found.take(sure)
        return self.network.search(image, roi, self.size, min_score, self._tile)
