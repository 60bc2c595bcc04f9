"""Drawing results on pictures: a new uint8[h, w, 3] RGB, lines and text scaled to its size."""

from __future__ import annotations

import colorsys
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import ImageError
from palmkit.engine.forks import finished
from palmkit.kits.face import topology
from palmkit.kits.face.pose import rotation_of
from palmkit.kits.hands.skeleton import FINGER_BONES, PALM_BONES
from palmkit.kits.image import Image
from palmkit.kits.results import ACTIONS, Face, Faces, Hand, Handedness, Hands, Mask

Colour: TypeAlias = tuple[int, int, int]

ACCENT: Colour = (38, 198, 218)
LIGHT: Colour = (255, 255, 255)
DARK: Colour = (16, 24, 32)
# Axis colours: to the subject's left, up, forward.
AXES: tuple[Colour, Colour, Colour] = ((239, 83, 80), (102, 187, 106), (66, 165, 245))
SIDES: dict[Handedness, Colour] = {"left": (255, 179, 71), "right": ACCENT}
_BONES = np.array(PALM_BONES + FINGER_BONES)
# Positions are given to OpenCV in 1/16 pixel.
SHIFT = 4


@finished
def faces(image: Image, result: Faces, *, keypoints: bool = True, labels: bool = True) -> Image:
    """Draw each face's box, its key points, and its id and score.

    image: the upright picture of the result, uint8[h, w, 3].
    Faces with an id keep their colour from frame to frame.
    Raises ImageError if the result is not of a picture of this size.
    """
    _check(image, result)
    canvas = image.copy()
    line = max(1.0, min(canvas.shape[:2]) / 320)
    for face in result:
        colour, side = colour_of(face.id), float(face.box[2:].min())
        _box(canvas, face.box, colour, min(line, side / 24))
        if keypoints:
            for point in face.keypoints:
                _dot(canvas, point, min(side / 36, 3 * line), colour)
    if labels and len(result):
        return _labels(canvas, result, line)
    return canvas


@finished
def mesh(
    image: Image,
    result: Faces,
    *,
    tessellation: bool = True,
    contours: bool = True,
    axes: bool = True,
    labels: bool = True,
) -> Image:
    """Draw each face's mesh, its pose, and its id and what it does.

    image: the upright picture of the result of a FaceMesh, uint8[h, w, 3].
    tessellation: all triangles, thin. contours: face, brows, eyes, irises and lips.
    axes: from the tip of the nose to the subject's left red, up green, forward blue.
    Raises ImageError if the result is not of a picture of this size, or has no meshes.
    """
    import cv2

    _check(image, result)
    if result.mesh is None or result.pose is None:
        raise ImageError("draw mesh: expected the result of a FaceMesh, got one without meshes")
    canvas = image.copy()
    line = max(1.0, min(canvas.shape[:2]) / 480)
    if tessellation:
        shaded = canvas.copy()
        for points in result.mesh:
            ends = _fixed_all(points[topology.edges()])
            cv2.polylines(shaded, list(ends), False, LIGHT, 1, cv2.LINE_AA, SHIFT)
        canvas = cast(Image, cv2.addWeighted(shaded, 0.4, canvas, 0.6, 0))
    for face in result:
        assert face.mesh is not None and face.pose is not None
        size = float(face.box[2:].max())
        thick = round(max(1.0, min(size / 170, 2 * line)))
        if contours:
            for loop in topology.LOOPS.values():
                shape = [_fixed_all(face.mesh[list(loop)])]
                cv2.polylines(canvas, shape, True, colour_of(face.id), thick, cv2.LINE_AA, SHIFT)
            for iris in (topology.RIGHT_IRIS, topology.LEFT_IRIS):
                centre, *rim = face.mesh[list(iris), :2]
                radius = float(np.hypot(*(np.array(rim) - centre).T).mean())
                radius_fixed = round(min(radius, 1e5) * 2**SHIFT)
                cv2.circle(canvas, _fixed(centre), radius_fixed, LIGHT, thick, cv2.LINE_AA, SHIFT)
        if axes:
            start = face.mesh[topology.NOSE_RIDGE[-1]]
            turn = rotation_of(*(float(angle) for angle in face.pose)).T * (0.45 * size)
            for axis, fill in zip(turn, AXES, strict=True):
                low, high = _fixed(start[:2]), _fixed(start[:2] + axis[:2])
                cv2.line(canvas, low, high, DARK, thick + 2, cv2.LINE_AA, SHIFT)
                cv2.line(canvas, low, high, fill, thick + 1, cv2.LINE_AA, SHIFT)
    if labels and len(result):
        return _labels(canvas, result, line)
    return canvas


@finished
def points(image: Image, positions: NDArray[np.float32], *, numbers: bool = False) -> Image:
    """Draw points[n, 2 or more] of x, y in pixels, such as a face's points_106.

    image: uint8[h, w, 3]. numbers: write its index at each.
    """
    import PIL.Image
    import PIL.ImageDraw
    import PIL.ImageFont

    canvas = image.copy()
    radius = max(1.5, min(canvas.shape[:2]) / 300)
    for point in positions:
        _dot(canvas, point[:2], radius, ACCENT)
    if not numbers:
        return canvas
    picture = PIL.Image.fromarray(canvas)
    pen = PIL.ImageDraw.Draw(picture)
    font = PIL.ImageFont.load_default(max(9.0, 3.5 * radius))
    for index, (x, y) in enumerate(np.clip(positions[:, :2], -1e5, 1e5).tolist()):
        pen.text(
            (x + 1.6 * radius, y - 4 * radius),
            str(index),
            LIGHT,
            font,
            stroke_width=1,
            stroke_fill=DARK,
        )
    return cast(Image, np.asarray(picture))


@finished
def hands(image: Image, result: Hands, *, labels: bool = True) -> Image:
    """Draw each hand's bones and joints, and what it shows.

    image: the upright picture of the result, uint8[h, w, 3].
    Hands with an id keep their colour from frame to frame; else left and right differ.
    Raises ImageError if the result is not of a picture of this size.
    """
    import cv2

    _check(image, result)
    canvas = image.copy()
    line = max(1.0, min(canvas.shape[:2]) / 320)
    for hand in result:
        colour, size = _hand_colour(hand), float(hand.box[2:].max())
        wide = max(1, round(min(line * 1.5, size / 50)))
        ends = _fixed_all(hand.landmarks[_BONES])
        cv2.polylines(canvas, list(ends), False, DARK, wide + 2, cv2.LINE_AA, SHIFT)
        cv2.polylines(canvas, list(ends), False, colour, wide, cv2.LINE_AA, SHIFT)
        for point in hand.landmarks[:, :2]:
            _dot(canvas, point, min(size / 60, 2.2 * line), colour)
    if not labels:
        return canvas
    plates = [(hand.box, _hand_label(hand), _hand_colour(hand)) for hand in result]
    return _plates(canvas, plates, line)


def _hand_colour(hand: Hand) -> Colour:
    return colour_of(hand.id) if hand.id is not None else SIDES[hand.handedness]


def _hand_label(hand: Hand) -> str:
    words = f"{hand.handedness} {hand.gesture}".replace("_", " ")
    return words if hand.id is None else f"#{hand.id}  {words}"


@finished
def mask(image: Image, result: Mask, *, colour: Colour = ACCENT, outline: bool = True) -> Image:
    """Tint what a mask covers, and draw its outline.

    image: the upright picture of the result, uint8[h, w, 3].
    Raises ImageError if the result is not of a picture of this size.
    """
    import cv2

    _check(image, result)
    canvas = image.copy()
    tint = np.array(colour, np.float32)
    for top in range(0, len(canvas), 128):
        part = slice(top, top + 128)
        share = result.mask[part, :, None] * np.float32(0.5)
        mixed = canvas[part] * (1 - share) + tint * share
        canvas[part] = np.rint(mixed, out=mixed)
    if outline:
        line = max(1, round(min(canvas.shape[:2]) / 320))
        inside = (result.mask > 0.5).view(np.uint8)
        curves, _ = cv2.findContours(inside, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
        for width, ink in ((line + 2, DARK), (line, colour)):
            cv2.drawContours(canvas, curves, -1, ink, width, cv2.LINE_AA)
    return canvas


def colour_of(id: int | None) -> Colour:
    """Return a colour for each id; neighbouring ids differ much."""
    if id is None:
        return ACCENT
    red, green, blue = colorsys.hsv_to_rgb((0.52 + id * 0.618034) % 1, 0.72, 0.98)
    return round(red * 255), round(green * 255), round(blue * 255)


def _check(image: Image, result: Faces | Hands | Mask) -> None:
    if image.dtype != np.uint8 or image.shape != (result.height, result.width, 3):
        kind = type(result).__name__.lower()
        got = f"{image.dtype.name}[{', '.join(map(str, image.shape))}]"
        expected = f"uint8[{result.height}, {result.width}, 3]"
        raise ImageError(f"draw {kind}: expected {expected}, got {got}")


def _box(canvas: Image, box: NDArray[np.float32], colour: Colour, line: float) -> None:
    """Draw a thin rectangle with strong corners, on a dark edge that keeps it visible anywhere."""
    import cv2

    low, high = _fixed(box[:2]), _fixed(box[:2] + box[2:])
    thin, strong = max(1, round(line)), max(1, round(line * 2.2))
    arm = int(min(box[2], box[3]) * 0.22 * 2**SHIFT)
    cv2.rectangle(canvas, low, high, DARK, thin + 1, cv2.LINE_AA, SHIFT)
    cv2.rectangle(canvas, low, high, colour, thin, cv2.LINE_AA, SHIFT)
    for x, inward in ((low[0], arm), (high[0], -arm)):
        for y, down in ((low[1], arm), (high[1], -arm)):
            bend = np.array([[x + inward, y], [x, y], [x, y + down]], np.int32)
            cv2.polylines(canvas, [bend], False, colour, strong, cv2.LINE_AA, SHIFT)


def _dot(canvas: Image, point: NDArray[np.float32], radius: float, colour: Colour) -> None:
    import cv2

    centre = _fixed(point)
    rings = ((radius * 1.6, DARK), (radius * 1.3, LIGHT), (radius * 0.85, colour))
    # Rings of less than a pixel are only a blot.
    for size, fill in rings if radius >= 1 else ((max(radius, 0.8), LIGHT),):
        cv2.circle(canvas, centre, round(size * 2**SHIFT), fill, -1, cv2.LINE_AA, SHIFT)


def _fixed(point: NDArray[np.float32]) -> tuple[int, int]:
    """Return a point for OpenCV; far outside points are pulled in, where 32 bits hold them."""
    x, y = np.clip(point, -1e5, 1e5) * 2**SHIFT
    return round(float(x)), round(float(y))


def _fixed_all(points: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return the x, y of points[..., 2 or more] for OpenCV, likewise."""
    fixed = np.round(np.clip(points[..., :2], -1e5, 1e5) * 2**SHIFT)
    return np.asarray(fixed, np.int32)


Plate: TypeAlias = tuple[NDArray[np.float32], str, Colour]


def _plates(canvas: Image, plates: list[Plate], line: float) -> Image:
    """Draw words above boxes of x, y, w, h, on a ground of their colour."""
    import PIL.Image
    import PIL.ImageDraw
    import PIL.ImageFont

    picture = PIL.Image.fromarray(canvas)
    pen = PIL.ImageDraw.Draw(picture)
    for box, text, colour in plates:
        # Readable in proportion to the picture, but hardly wider than a small thing.
        size = float(np.clip(box[3] / 7, 5 * line, 11 * line))
        size = max(8.0, min(size, float(box[2]) / 2.2))
        font = PIL.ImageFont.load_default(size)
        left, top, right, bottom = pen.textbbox((0, 0), text, font)
        pad = size * 0.3
        width, height = right - left + 2 * pad, bottom - top + 2 * pad
        x = float(np.clip(box[0], 0, max(picture.width - width, 0)))
        above = float(box[1]) - height - line
        y = above if above >= 0 else min(float(box[1]) + line, picture.height - height)
        pen.rounded_rectangle((x, y, x + width, y + height), size * 0.3, colour)
        pen.text((x + pad - left, y + pad - top), text, DARK, font)
    return cast(Image, np.asarray(picture))


def _labels(canvas: Image, result: Faces, line: float) -> Image:
    plates = [(face.box, _label(face), colour_of(face.id)) for face in result]
    return _plates(canvas, plates, line)


def _label(face: Face) -> str:
    words = [] if face.id is None else [f"#{face.id}"]
    words.append(f"{face.score:.2f}")
    if face.actions is not None:
        does = zip(ACTIONS, face.actions, strict=True)
        words += [name.replace("_", " ") for name, done in does if done]
    return "  ".join(words)
