"""What try-on says of a frame's stages, and what it keeps of faces that are gone."""

from typing import Any

import numpy as np
import pytest

from palmkit.kits import Look, TryOn
from palmkit.kits.image import Image


@pytest.fixture(scope="module")
def astronaut() -> Image:
    image: Image = pytest.importorskip("skimage.data").astronaut()
    return np.ascontiguousarray(image[:300, 60:400])


@pytest.mark.parametrize(
    ("effects", "options", "stages"),
    [
        ({"lipstick": "ruby"}, {}, "mesh hair hands things draw"),
        ({"lipstick": "ruby", "hair": "violet"}, {}, "mesh hair hands things draw"),
        ({"hair": "violet"}, {}, "mesh hair hands draw"),
        ({"lipstick": "ruby"}, {"behind_hair": False}, "mesh hands things draw"),
        ({"lipstick": "ruby"}, {"behind_hands": False}, "mesh hair things draw"),
        ({"lipstick": "ruby"}, {"behind_things": False}, "mesh hair hands draw"),
        ({}, {}, "mesh"),
    ],
)
def test_the_stages_are_those_that_were_needed(
    astronaut: Image, effects: dict[str, Any], options: dict[str, Any], stages: str
) -> None:
    with TryOn(look=Look.of(**effects), **options) as kit:
        taken = kit.wear(astronaut).stages_ms
        assert list(taken) == stages.split() and all(ms > 0 for ms in taken.values())
        assert list(kit.wear(np.zeros_like(astronaut)).stages_ms) == ["mesh"]


def test_faces_that_are_gone_are_forgotten(astronaut: Image) -> None:
    nothing = np.zeros_like(astronaut)
    with TryOn("video", look=Look.of(lipstick="ruby", hair="violet")) as kit:
        ids: set[int] = set()
        for visit in range(5):
            for frame, later_ms in (
                (astronaut, 0),
                (astronaut, 33),
                (nothing, 66),
                (nothing, 2000),
            ):
                found = kit.wear(frame, visit * 4000 + later_ms).faces.ids
                assert found is not None
                ids.update(found.tolist())
        assert len(ids) == 5
        kept = kit._memories  # pyright: ignore[reportPrivateUsage]
        assert set(kept) == {("face", max(ids)), ("hair", max(ids))}
