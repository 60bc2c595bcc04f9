"""Every kit on whatever machine this is: what it found on x86-64, and from many threads at once."""

import json
import threading
from typing import Any

import numpy as np
import pytest

from palmkit import assets, kits
from palmkit.kits.doctor import checks
from tests.platforms.recorded import FILE, of_kits
from tests.platforms.test_engine import at_once

RECORDED: dict[str, dict[str, Any]] = json.loads(FILE.read_text())["kits"]
FOUND = dict(of_kits())
# Networks differ by 1e-4 (test_engine.py). Where one network's places cut the next one's picture,
# its pixels are interpolated by OpenCV and rounded to bytes anew: on arm64 a point of a hand moved
# by .8 of 220 pixels, on AVX2 by .04, and opacity at edges by .004.
TOLERANCES = {"alpha": 1e-2, "after": 1.0, "scores": 1e-3}
PIXELS = 1.0


@pytest.mark.parametrize("name", RECORDED)
def test_a_kit_finds_what_it_finds_elsewhere(name: str) -> None:
    found, wanted = FOUND[name], RECORDED[name]
    assert found.keys() == wanted.keys()
    for what, value in found.items():
        if what in ("count", "names"):
            assert value == wanted[what]
        else:
            far = TOLERANCES.get(what, PIXELS)
            np.testing.assert_allclose(value, wanted[what], 0, far, err_msg=what)


def test_the_doctor_is_content() -> None:
    assert not [check for check in checks() if not check.works]


def test_one_kit_serves_many_threads() -> None:
    picture = kits.read_image(assets.path("samples/hands.jpg"))
    parts = [np.ascontiguousarray(picture[:, 40 * n :]) for n in range(4)]
    with kits.GestureRecognizer() as hands, kits.HairSegmenter() as hair:
        found = [hands.recognize(part) for part in parts]
        wanted = [[hand.landmarks for hand in each] for each in found]
        masks = [hair.segment(part).alpha for part in parts]
        seen: set[int] = set()

        def work(number: int) -> None:
            seen.add(threading.get_ident())
            each = hands.recognize(parts[number % 4])
            np.testing.assert_array_equal([hand.landmarks for hand in each], wanted[number % 4])
            if number % 3 == 0:
                mask = hair.segment(parts[number % 4]).alpha
                np.testing.assert_array_equal(mask, masks[number % 4])

        at_once(work)
    assert len(seen) > 1
