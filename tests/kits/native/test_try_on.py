"""Try-on in C puts on what Python's does, on the same pixels.

Meshes differ by thousandths of a pixel, and a region's edge is drawn in sixteenths of one: where
that falls to the other side, a pixel is another by up to LEVELS of 255. Of the pixels that a look
changes hardly one does so, and in the mean they differ by less than MEAN levels.
"""

import ctypes
import dataclasses
import re
from ctypes import byref, pointer
from itertools import islice
from typing import Any

import numpy as np
import pytest

from palmkit import assets, engine, kits
from palmkit.kits.face import topology
from palmkit.kits.face.pose import RIGID
from palmkit.kits.hands.skeleton import POSES
from palmkit.kits.image import Image
from palmkit.kits.kit import shipped_model
from palmkit.kits.tryon.look import Look
from palmkit.kits.tryon.things import plain_skin
from tests.kits.conftest import faces_that_cross
from tests.kits.drawn_hands import scene
from tests.kits.native import library
from tests.kits.native.library import Handle, KitsError, Library
from tests.kits.native.program import SOURCES
from tests.kits.native.test_kits import Networks, camera, frame_of, options

LEVELS, MEAN = 16, 0.05
FINISHES = ("matte", "satin", "gloss", "shimmer")


class TryOn:
    """The kit of C; it gives the picture with a look on."""

    def __init__(self, c: Library, networks: Networks, hands: bool = True, **given: Any) -> None:
        names = ["face_detector", "face_mesh", "hair", "hand_detector", "hand_landmarks"]
        self._kept = [networks(name) for name in (names if hands else names[:3])]
        self._networks = library.TryOnNetworks(*map(pointer, self._kept))
        self._options = options("meshes", **given)
        self._kit: Handle = c.made("try_on", byref(self._networks), byref(self._options))

    def __call__(
        self, picture: Image, look: Look, timestamp_ms: float | None = None, **given: Any
    ) -> Image:
        image, kept = library.image(picture)
        after = np.full((*picture.shape[:2], 4), 7, np.uint8)
        height, width = picture.shape[:2]
        to = library.Canvas(after.ctypes.data, width, height, 0, library.RGBA)
        found, meshes = library.List(0, 32), (library.Mesh * 32)()
        frame = frame_of(timestamp_ms, None)
        worn = worn_of(look, **given)
        self._kit("run", byref(image), None, frame, byref(worn), byref(to), meshes, byref(found))
        assert kept.size and (after[:, :, 3] == 255).all()
        self.faces = list(meshes[: found.count])
        return after[:, :, :3]


def worn_of(look: Look, **given: Any) -> library.Look:
    effects = list[library.Effect]()
    for each in (look.lipstick, look.hair):
        if each is None:
            effects.append(library.Effect(0, 0, 0, 1, 0))
            continue
        rgb = bytes.fromhex(each.colour[1:])
        effects.append(library.Effect(*rgb, FINISHES.index(each.finish), each.opacity))
    worn = library.Look(ctypes.sizeof(library.Look), *effects, -1, 1, 1, 1)
    for name, value in given.items():
        setattr(worn, name, value)
    return worn


def near(found: Image, expected: Image, before: Image) -> None:
    """Check that two pictures with a look on are the same but for few levels."""
    assert levels_off(found, expected, before) < MEAN


def levels_off(found: Image, expected: Image, before: Image) -> float:
    """Check that hardly a pixel is another; return by how much those differ that changed."""
    changed = (expected != before).any(axis=2)
    assert changed.sum() > 100
    off = np.abs(found.astype(int) - expected)
    assert off.max() <= LEVELS, (off.max(), np.unravel_index(off.argmax(), off.shape))
    # What no effect covers stays to the bit; at a region's end one of both may cover a pixel.
    assert ((found != before).any(axis=2) & ~changed).sum() < 0.02 * changed.sum()
    return float(off[changed].mean())


@pytest.fixture(scope="module")
def smiling() -> Image:
    return kits.read_image(assets.path("samples/face.jpg"))


@pytest.fixture(params=["astronaut", "admiral", "group", "smiling"])
def picture(request: pytest.FixtureRequest) -> Image:
    found: Image = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("finish", FINISHES)
def test_lipstick(c: Library, networks: Networks, picture: Image, finish: str) -> None:
    look = Look.of(lipstick={"colour": "#a9142a", "finish": finish})
    with kits.TryOn(look=look, quality="fast") as mirror:
        expected = mirror.wear(picture).after
    near(TryOn(c, networks)(picture, look), expected, picture)


@pytest.mark.parametrize("dye", ["platinum", "burgundy", {"colour": "#27488c", "finish": "matte"}])
@pytest.mark.parametrize("who", ["astronaut", "group", "smiling"])
def test_hair(
    c: Library, networks: Networks, request: pytest.FixtureRequest, who: str, dye: Any
) -> None:
    picture: Image = request.getfixturevalue(who)
    look = Look.of(hair=dye)
    with kits.TryOn(look=look, quality="fast") as mirror:
        expected = mirror.wear(picture).after
    near(TryOn(c, networks)(picture, look), expected, picture)


def test_a_cap_is_not_dyed(c: Library, networks: Networks, admiral: Image) -> None:
    assert np.array_equal(TryOn(c, networks)(admiral, Look.of(hair="platinum")), admiral)


def test_a_video(c: Library, networks: Networks, monkeypatch: pytest.MonkeyPatch) -> None:
    look = Look.of(lipstick="ruby", hair="copper")
    kit, means = TryOn(c, networks, is_video=1, detector_size=320), list[float]()
    with camera(monkeypatch, True), kits.TryOn("video", look=look) as mirror:
        for index, picture in enumerate(islice(faces_that_cross(14), 12)):
            expected = mirror.wear(picture, 40.0 * index)
            found = kit(picture, look, 40.0 * index)
            assert len(kit.faces) == len(expected.faces)
            assert expected.faces.ids is not None
            assert [each.face.id for each in kit.faces] == expected.faces.ids.tolist()
            changed = (expected.after != picture).any(axis=2)
            means.append(float(np.abs(found.astype(int) - expected.after)[changed].mean()))
    assert np.median(means) < MEAN and max(means) < 10 * MEAN


@pytest.mark.parametrize(("face", "number"), [("largest", -2), ("middle", -3), (1, 1), (7, 7)])
def test_one_face_wears_it(
    c: Library, networks: Networks, group: Image, face: Any, number: int
) -> None:
    look = Look.of(lipstick="ruby", hair="copper")
    with kits.TryOn(look=look, face=face, quality="fast") as mirror:
        expected = mirror.wear(group)
    kit = TryOn(c, networks)
    found = kit(group, look, face=number)
    assert len(kit.faces) == len(expected.faces) == (face != 7)
    if face == 7:
        assert np.array_equal(found, group)
        return
    near(found, expected.after, group)
    assert not np.array_equal(found, kit(group, look))


def test_fingers_on_the_lips(c: Library, networks: Networks, astronaut: Image) -> None:
    with kits.FaceMesh(quality="fast") as mesh:
        points = mesh.detect(astronaut).mesh
    assert points is not None
    x, y = points[0][[13, 14], :2].mean(axis=0).tolist()
    palm = 60.0
    tip = POSES["two"][0].landmarks()[8, :2] * palm
    hand = [(x - tip[0], y - tip[1] - 0.15 * palm, "two", "right")]
    drawn, ground = scene(hand, 512, 512, palm), scene([], 512, 512, palm)
    is_hand = (drawn != ground).any(axis=2, keepdims=True)
    below = np.arange(512)[:, None, None] > points[0][152, 1] + 8
    picture = np.where(is_hand, drawn, np.where(below, ground, astronaut))
    look = Look.of(lipstick="classic_red")
    with kits.TryOn(look=look, behind_things=False, quality="fast") as mirror:
        expected = mirror.wear(picture).after
    with kits.TryOn(look=look, behind_things=False, behind_hands=False, quality="fast") as mirror:
        over = mirror.wear(picture).after
    assert not np.array_equal(expected, over)
    kit = TryOn(c, networks)
    near(kit(picture, look, behind_things=0), expected, picture)
    near(kit(picture, look, behind_things=0, behind_hands=0), over, picture)


def test_a_hidden_chin(
    c: Library, networks: Networks, astronaut: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the mirror image of a crop is looked at, too, it is hidden there as well.
    far = np.zeros(478, np.bool_)
    far[:468] = topology.canonical_face()[:468, 1] < -7.2
    real = kits.FaceMesh.detect

    def hidden(mesh: kits.FaceMesh, *given: Any, **named: Any) -> kits.Faces:
        faces: kits.Faces = real(mesh, *given, **named)
        assert faces.visibility is not None
        return dataclasses.replace(
            faces, visibility=np.where(far, np.float32(0.1), faces.visibility)
        )

    monkeypatch.setattr(kits.FaceMesh, "detect", hidden)
    look = Look.of(lipstick="classic_red")
    pictures = [np.ascontiguousarray(astronaut[:, left:]) for left in range(0, 40, 5)]
    with kits.TryOn(look=look, quality="fast") as mirror:
        expected = [mirror.wear(picture).after for picture in pictures]
    model = engine.load(shipped_model("face_mesh"))

    def run(inputs: Any) -> Any:
        found = dict(model.run(inputs))
        found["visibility"] = np.where(far, np.float32(0.1), found["visibility"])
        return found

    side = model.inputs["image"].shape[1]
    assert isinstance(side, int)

    def given(name: str) -> library.Network:
        return library.network(run, [(side, side)]) if name == "face_mesh" else networks(name)

    found = [TryOn(c, given)(picture, look) for picture in pictures]
    # Into which sixteenth of a pixel a corner falls is chance: the mean is that of all places.
    assert np.mean([*map(levels_off, found, expected, pictures)]) < MEAN
    assert not np.array_equal(found[0], TryOn(c, networks)(astronaut, look))


def test_tables() -> None:
    text = (SOURCES / "face_points.cc").read_text()
    rigid = list(RIGID)
    for name, expected in {
        "kRigid": rigid,
        "kRigidFace": topology.canonical_face()[rigid],
        "kPlainSkin": plain_skin(),
        "kTriangles": topology.triangles(),
    }.items():
        found = re.search(rf"\b{name}{{([^;]*)}};", text)
        assert found is not None
        numbers = re.findall(r"-?[0-9.]+", found[1])
        wanted = np.asarray(expected, np.float32).ravel()
        np.testing.assert_array_equal(np.array(numbers, np.float32), wanted)
    header = (SOURCES / "face_points.h").read_text()
    for name, loop in topology.LOOPS.items():
        found = re.search(rf"k{name.title().replace('_', '')}{{([^}}]*)}}", header)
        assert found is not None
        assert [int(each) for each in found[1].split(",")] == list(loop)


def test_nothing_worn(c: Library, networks: Networks, astronaut: Image) -> None:
    kit = TryOn(c, networks, hands=False)
    assert np.array_equal(kit(astronaut, Look()), astronaut) and len(kit.faces) == 1
    empty = np.zeros((40, 50, 3), np.uint8)
    assert np.array_equal(kit(empty, Look.of(lipstick="ruby")), empty) and not kit.faces


def test_looks_that_cannot_be(c: Library, networks: Networks, astronaut: Image) -> None:
    kit, ruby = TryOn(c, networks), Look.of(lipstick="ruby")
    with pytest.raises(KitsError, match="size"):
        kit(astronaut, ruby, size=3)
    with pytest.raises(KitsError, match="hair: expected a finish of 0 to 2, got 3"):
        kit(astronaut, ruby, hair=library.Effect(1, 2, 3, 3, 0.5))
    with pytest.raises(KitsError, match="lipstick: expected"):
        kit(astronaut, ruby, lipstick=library.Effect(1, 2, 3, 1, 1.5))
    with pytest.raises(KitsError, match="face: expected"):
        kit(astronaut, ruby, face=-4)
