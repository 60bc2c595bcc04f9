"""Looks in files: what is written is read, and what is no look is refused."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palmkit.engine.errors import ImageError, TryOnError
from palmkit.kits import Look, TryOn, try_on
from palmkit.kits.image import Image
from palmkit.kits.tryon import palettes
from palmkit.kits.tryon.colour import read_shade
from palmkit.kits.tryon.glasses import Glasses
from palmkit.kits.tryon.hair import HairDye
from palmkit.kits.tryon.makeup import Blush, Lipstick

GREY = np.full((64, 64, 3), 128, np.uint8)


def test_a_look_survives_its_file(tmp_path: Path) -> None:
    look = Look.of(
        lipstick="cherry",
        blush={"colour": "#d0606c", "opacity": 0.2},
        hair=HairDye("#5b2e8c", finish="gloss"),
        glasses=Glasses(style="round", tint=0.5),
    )
    path = tmp_path / "look.json"
    look.save(path)
    assert Look.load(path) == look
    assert json.loads(path.read_text())["palmkit_look"] == 1
    assert [each.name for each in tmp_path.iterdir()] == ["look.json"]


def test_every_preset_and_shade_can_be_worn() -> None:
    for name in palettes.presets():
        assert Look.load(name)
    for effect in Look.KINDS:
        shades = palettes.shades(effect)
        assert shades
        for shade in shades:
            assert Look.of(**{effect: shade})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected JSON"),
        ("[1]", "palmkit_look"),
        ("{}", "palmkit_look"),
        ('{"palmkit_look": 2}', "palmkit_look"),
        ('{"palmkit_look": 1, "hat": {}}', "expected one of foundation, .*, got 'hat'"),
        ('{"palmkit_look": 1, "lipstick": {}}', "lipstick: expected a colour"),
        ('{"palmkit_look": 1, "lipstick": 3}', "lipstick: expected a colour"),
        ('{"palmkit_look": 1, "lipstick": [1, 2]}', "lipstick: expected a colour"),
        ('{"palmkit_look": 1, "lipstick": {"colour": "red"}}', "like #b3202a"),
        ('{"palmkit_look": 1, "lipstick": {"colour": "#aa0000", "shine": 1}}', "got 'shine'"),
        ('{"palmkit_look": 1, "lipstick": {"colour": "#aa0000", "opacity": 7}}', "from 0 to 1"),
        ('{"palmkit_look": 1, "lipstick": {"colour": "#aa0000", "opacity": NaN}}', "from 0 to 1"),
        ('{"palmkit_look": 1, "lipstick": {"colour": "#aa0000", "finish": []}}', "one of 'matte'"),
        ('{"palmkit_look": 1, "glasses": {"style": "pilot"}}', "one of 'round'"),
        ('{"palmkit_look": 1, "lipstick": "reddish"}', "like #b3202a or one of classic_red"),
        ('{"palmkit_look": 1, "lipstick": {"colour": "#aa0000", "opacity": "1"}}', "from 0 to 1"),
        ('{"palmkit_look": 1, "lipstick": {"colour": "#aa0000", "opacity": 1e999}}', "from 0 to 1"),
        ('{"palmkit_look": 1, "lipstick": "ruby", "lipstick": "nude"}', "'lipstick' stands twice"),
        ('{"palmkit_look": 1, "cls": {}}', "expected one of foundation, .*, got 'cls'"),
        ("[" * 5000, "expected JSON"),
        (" " * 70000, "at most 65536 bytes"),
    ],
)
def test_a_file_that_is_no_look_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "look.json"
    path.write_text(text)
    with pytest.raises(TryOnError, match=message) as error:
        Look.load(path)
    assert "look.json" in str(error.value)


def test_a_damaged_look_never_does_anything_else(tmp_path: Path) -> None:
    path = tmp_path / "look.json"
    Look.load("party").save(path)
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for at in random.integers(len(damaged), size=int(random.integers(1, 6))):
            damaged[at] = int(random.integers(256))
        path.write_bytes(bytes(damaged[: int(random.integers(1, len(damaged) + 1))]))
        with contextlib.suppress(TryOnError):
            assert isinstance(Look.load(path), Look)


def test_no_such_look_names_the_presets() -> None:
    with pytest.raises(TryOnError, match="natural, office, evening"):
        Look.load("nothing_like_it")


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="lipstick: expected a colour like #b3202a or one of"):
        try_on(GREY, lipstick="reddish")
    with pytest.raises(ValueError, match="opacity: expected a number from 0 to 1, got -1"):
        Lipstick("#aa0000", opacity=-1)
    with pytest.raises(ValueError, match="blush finish: expected one of"):
        Blush("#aa0000", finish="gloss")
    with pytest.raises(ValueError, match="glasses lens"):
        Glasses(lens="dark")
    with pytest.raises(ImageError):
        try_on(np.zeros((3, 3), np.float32), lipstick="ruby")
    for value in ("#12345", (1, 2), (1, 2, 300), ("a", "b", "c"), None, 5):
        with pytest.raises(ValueError, match="expected a colour"):
            read_shade("hair", value)  # type: ignore[arg-type]


def test_adding_takes_the_place_of_the_look_s_own() -> None:
    look = Look.load("evening").adding(lipstick="nude", hair=None)
    assert look.lipstick is not None and look.lipstick.colour == "#b57a66"
    assert look.hair is None and look.eyeliner == Look.load("evening").eyeliner
    assert replace(look, lipstick=None) == replace(Look.load("evening"), lipstick=None)


WORDS = (
    *Look.KINDS,
    *("palmkit_look", "colour", "opacity", "finish", "width", "style", "lens", "tint", "cls"),
    *("#aa0000", "ruby", "matte", "gloss", "round", "self", "", "\ud800", "red"),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner),
    max_leaves=12,
)
OPTIONS = st.dictionaries(st.sampled_from(WORDS) | st.text(), VALUES, max_size=6)


def refused_or_worn(path: Path, content: bytes) -> None:
    """A look that can be written again, or TryOnError, which says where."""
    path.write_bytes(content)
    try:
        look = Look.load(path)
    except TryOnError as error:
        assert path.name in str(error)
        str(error).encode()
    else:
        look.save(path)
        assert Look.load(path) == look


@given(options=st.dictionaries(st.sampled_from(tuple(Look.KINDS)), OPTIONS | VALUES), more=OPTIONS)
@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_json_is_a_look_or_is_refused(
    tmp_path: Path, options: dict[str, Any], more: dict[str, Any]
) -> None:
    for content in ({"palmkit_look": 1, **options}, {"palmkit_look": 1, **options, **more}, more):
        refused_or_worn(tmp_path / "look.json", json.dumps(content).encode())


@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode()))
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_bytes_are_refused(tmp_path: Path, content: bytes) -> None:
    refused_or_worn(tmp_path / "look.json", content)
    refused_or_worn(tmp_path / "look.json", b'{"palmkit_look": 1, ' + content)


@pytest.mark.parametrize("shape", [(0, 0, 3), (0, 5, 3), (5, 0, 3)])
def test_a_picture_without_pixels_is_refused(shape: tuple[int, ...]) -> None:
    wearers: tuple[Callable[[Image], Any], ...] = (
        lambda image: try_on(image, "party"),
        TryOn("video", look="party").wear,
    )
    for wear in wearers:
        with pytest.raises(ImageError, match="no pixels in it"):
            wear(np.zeros(shape, np.uint8))
        for least in ((1, 1, 3), (1, 900, 3), (2, 3, 3)):
            assert wear(np.zeros(least, np.uint8)).before_after().shape == (
                least[0],
                2 * least[1],
                3,
            )
