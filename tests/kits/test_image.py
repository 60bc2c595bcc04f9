import errno
import io
import os
import struct
import tempfile
import threading
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from numpy.typing import NDArray

from palmkit.engine.errors import ImageError, PalmError
from palmkit.kits.image import (
    BinaryFile,
    Format,
    Image,
    letterbox,
    png,
    read_image,
    resize,
    write_image,
)


def noise(height: int = 12, width: int = 20, seed: int = 0) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def smooth(height: int, width: int) -> Image:
    y, x = np.mgrid[:height, :width]
    return np.stack([x * 255 // width, y * 255 // height, (x + y) % 64 + 96], axis=2).astype(
        np.uint8
    )


def encoded(picture: PIL.Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def test_rgb_array_comes_back_as_it_is() -> None:
    np.testing.assert_array_equal(read_image(noise()), noise())


ORDERS: list[tuple[Format | None, list[int]]] = [
    ("rgb", [0, 1, 2]),
    ("bgr", [2, 1, 0]),
    ("rgba", [0, 1, 2, 0]),
    ("bgra", [2, 1, 0, 0]),
    (None, [0, 1, 2, 2]),
]


@pytest.mark.parametrize(("format", "channels"), ORDERS)
def test_orders_of_channels(format: Format | None, channels: list[int]) -> None:
    np.testing.assert_array_equal(read_image(noise()[:, :, channels], format=format), noise())


@pytest.mark.parametrize("shape", [(12, 20), (12, 20, 1)])
def test_gray_array(shape: tuple[int, ...]) -> None:
    gray = noise()[:, :, 0]
    np.testing.assert_array_equal(read_image(gray.reshape(shape)), np.dstack([gray] * 3))


def nv21(image: Image) -> NDArray[np.uint8]:
    """As a camera does it: BT.601, one pair of chroma values for 2 x 2 pixels, V before U."""
    rgb = image.astype(np.float64)
    red, green, blue = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    luma = 16 + 0.257 * red + 0.504 * green + 0.098 * blue
    u = 128 - 0.148 * red - 0.291 * green + 0.439 * blue
    v = 128 + 0.439 * red - 0.368 * green - 0.071 * blue
    height, width = luma.shape
    pairs = np.stack([v, u], axis=2).reshape(height // 2, 2, width // 2, 2, 2).mean((1, 3))
    return np.round(np.vstack([luma, pairs.reshape(height // 2, width)])).astype(np.uint8)


def test_nv21_round_trip() -> None:
    image = smooth(48, 64)
    image[:, :, 2] = 120
    back = read_image(nv21(image), format="nv21")
    assert back.shape == image.shape
    assert np.abs(back.astype(int) - image).max() <= 6


@pytest.mark.parametrize("shape", [(10, 8), (12, 7), (5, 8)])
def test_nv21_of_odd_size_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(ImageError, match="even h and w for nv21"):
        read_image(np.zeros(shape, np.uint8), format="nv21")


@pytest.mark.parametrize(
    ("array", "format", "message"),
    [
        (np.zeros((4, 5)), None, r"expected uint8\[h, w, 3\], got float64\[4, 5\]"),
        (np.zeros((4, 5, 3), np.float32), None, r"got float32\[4, 5, 3\]"),
        (np.zeros((4, 5, 2), np.uint8), None, r"got uint8\[4, 5, 2\]"),
        (np.zeros((2, 4, 5, 3), np.uint8), None, r"got uint8\[2, 4, 5, 3\]"),
        (np.zeros(7, np.uint8), None, r"got uint8\[7\]"),
        (np.zeros((), np.uint8), None, r"got uint8\[\]"),
        (np.zeros((4, 5, 3), np.uint8), "bgra", r"expected uint8\[h, w, 4\] for bgra"),
        (np.zeros((4, 5, 3), np.uint8), "nv21", r"expected uint8\[h, w\] for nv21"),
        (np.zeros((0, 5, 3), np.uint8), None, r"no pixels in it: uint8\[0, 5, 3\]"),
        (np.zeros((4, 5, 3), object), None, r"got object\[4, 5, 3\]"),
    ],
)
def test_arrays_that_are_no_pictures(array: Any, format: Format | None, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        read_image(array, format=format)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "yuv"}, "format: expected one of rgb, .* got 'yuv'"),
        ({"rotation": 45}, "rotation: expected 0, 90, 180 or 270, got 45"),
        ({"flip": "both"}, "flip: expected 'horizontal', 'vertical' or None, got 'both'"),
    ],
)
def test_wrong_options(options: Any, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        read_image(noise(), **options)


def test_rotation_is_clockwise_and_flip_comes_after() -> None:
    image = noise(2, 3)
    turned = read_image(image, rotation=90)
    assert turned.shape == (3, 2, 3)
    np.testing.assert_array_equal(turned[0, -1], image[0, 0])
    np.testing.assert_array_equal(read_image(image, rotation=180), image[::-1, ::-1])
    np.testing.assert_array_equal(read_image(turned, rotation=270), image)
    np.testing.assert_array_equal(
        read_image(image, rotation=90, flip="horizontal"), turned[:, ::-1]
    )
    np.testing.assert_array_equal(read_image(image, flip="vertical"), image[::-1])


def test_path_bytes_and_pil_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "ein bild 画.png"
    path.write_bytes(encoded(PIL.Image.fromarray(noise())))
    for source in (path, str(path), path.read_bytes(), PIL.Image.open(path)):
        np.testing.assert_array_equal(read_image(source), noise())


# Steps along x and y that store a picture, transposed for 5 and more, in each orientation.
STEPS = {
    1: (1, 1),
    2: (-1, 1),
    3: (-1, -1),
    4: (1, -1),
    5: (1, 1),
    6: (1, -1),
    7: (-1, -1),
    8: (-1, 1),
}


@pytest.mark.parametrize("orientation", STEPS)
def test_exif_orientations(orientation: int) -> None:
    upright = noise(6, 9)
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    # What a camera stores so that `upright` is seen.
    stored: Image = upright.transpose(1, 0, 2) if orientation >= 5 else upright
    across, down = STEPS[orientation]
    picture = PIL.Image.fromarray(np.ascontiguousarray(stored[::down, ::across]))
    np.testing.assert_array_equal(read_image(encoded(picture, exif=exif)), upright)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_damaged_exif_is_no_exif() -> None:
    data = encoded(PIL.Image.fromarray(noise()), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert read_image(data).shape == noise().shape


def test_16_bits_are_scaled_not_clipped() -> None:
    deep = np.array([[0, 255, 256, 32768, 65535]], np.uint16)
    got = read_image(encoded(PIL.Image.fromarray(deep)))
    assert got[0, :, 0].tolist() == [0, 0, 1, 128, 255]


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "HSV", "LAB"])
def test_other_modes(mode: str) -> None:
    image = PIL.Image.fromarray(smooth(32, 40)).convert(mode)
    kind = {"CMYK": "JPEG", "YCbCr": "JPEG", "LAB": "TIFF"}.get(mode, "PNG")
    expected = np.asarray(image.convert("RGB"))
    got = read_image(image if mode == "HSV" else encoded(image, kind))
    assert np.abs(got.astype(int) - expected).mean() <= 3


def test_transparent_pixels_lie_on_white() -> None:
    rgba = np.zeros((2, 2, 4), np.uint8)
    rgba[0, 0] = (200, 10, 10, 255)
    got = read_image(encoded(PIL.Image.fromarray(rgba)))
    assert got[0, 0].tolist() == [200, 10, 10]
    assert got[1, 1].tolist() == [255, 255, 255]
    palette = PIL.Image.new("P", (2, 2), 0)
    palette.putpalette([5, 5, 5, 9, 9, 9])
    assert read_image(encoded(palette, transparency=0)).min() == 255


def test_float_pictures_are_refused() -> None:
    with pytest.raises(ImageError, match="floats"):
        read_image(encoded(PIL.Image.fromarray(np.zeros((2, 2), np.float32)), "TIFF"))


def test_first_frame_of_an_animation() -> None:
    frames = [PIL.Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    got = read_image(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    assert got[0, 0].tolist() == [255, 0, 0]


def png_of_size(width: int, height: int) -> bytes:
    """A PNG whose head promises this size, with hardly any data."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 64)), (b"IEND", b""))
    )
    return b"\x89PNG\r\n\x1a\n" + chunks


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [9500, 12_000, 40_000, 2_000_000_000])
def test_decompression_bombs_are_refused(side: int) -> None:
    with pytest.raises(ImageError, match=r"more than 80000000 pixels \(max_pixels\)"):
        read_image(png_of_size(side, side))


def test_max_pixels_is_an_option() -> None:
    data = encoded(PIL.Image.fromarray(noise(10, 10)))
    assert read_image(data, max_pixels=100).shape == (10, 10, 3)
    with pytest.raises(ImageError, match="10x10 is more than 99 pixels"):
        read_image(data, max_pixels=99)


def test_missing_folder_url_and_other_things(tmp_path: Path) -> None:
    for source, message in [
        (tmp_path / "none.jpg", "no such file: .*none.jpg"),
        (tmp_path, "this is a folder"),
        ("https://example.org/a.jpg", "is a URL, download it first"),
        ("data:image/png;base64,AAAA", "is a URL"),
        ("", "no such file"),
        ("a\0b", "cannot be opened"),
        ("x" * 5000, "cannot be opened"),
        (b"", "empty"),
        (None, "expected a path, bytes, an open binary file, a PIL.Image or .* got NoneType"),
        ([1, 2], "got list"),
        (7, "got int"),
    ]:
        with pytest.raises(ImageError, match=message) as raised:
            read_image(source)  # type: ignore[arg-type]
        assert "\n" not in str(raised.value)


def test_files_that_are_no_pictures(tmp_path: Path) -> None:
    path = tmp_path / "text.jpg"
    path.write_text("this is not a picture\n" * 100)
    with pytest.raises(ImageError, match="not a picture, or a damaged one .*text.jpg"):
        read_image(path)
    path.write_bytes(b"")
    with pytest.raises(ImageError, match="the picture is empty: .*text.jpg"):
        read_image(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(ImageError, match="not a regular file"):
        read_image(tmp_path / "pipe.jpg")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read every file")
def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "secret.png"
    path.write_bytes(encoded(PIL.Image.fromarray(noise())))
    path.chmod(0)
    with pytest.raises(ImageError, match="permission denied"):
        read_image(path)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM"])
def test_truncated_anywhere_is_an_error_or_a_picture(kind: str) -> None:
    data = encoded(PIL.Image.fromarray(smooth(24, 33)), kind)
    for length in range(0, len(data), max(len(data) // 60, 1)):
        try:
            assert read_image(data[:length]).shape == (24, 33, 3)
        except ImageError as error:
            assert "\n" not in str(error)
    with pytest.raises(ImageError):
        read_image(data[: len(data) // 2])


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "PPM"])
def test_flipped_bits_give_an_error_or_a_picture(kind: str) -> None:
    data = encoded(PIL.Image.fromarray(smooth(24, 33)), kind)
    random = np.random.default_rng(7)
    for _ in range(150):
        broken = bytearray(data)
        for index in random.integers(0, min(len(data), 400), 3):
            broken[index] ^= 1 << int(random.integers(8))
        try:
            image = read_image(bytes(broken), max_pixels=1_000_000)
            assert image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3
        except ImageError as error:
            assert "\n" not in str(error)


def test_one_pixel() -> None:
    assert read_image(encoded(PIL.Image.new("RGB", (1, 1), "red"))).tolist() == [[[255, 0, 0]]]


def test_image_error_is_a_palm_error_and_a_value_error() -> None:
    assert issubclass(ImageError, PalmError) and issubclass(ImageError, ValueError)


def test_reading_from_many_threads(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(encoded(PIL.Image.fromarray(noise(64, 64))))
    failed: list[int] = []

    def read(index: int) -> None:
        if not np.array_equal(read_image(path), noise(64, 64)):
            failed.append(index)

    threads = [threading.Thread(target=read, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.parametrize("name", ["a.png", "b.JPG", "c.webp", "d.bmp", "e.tiff", "f.ppm"])
def test_written_pictures_read_back(tmp_path: Path, name: str) -> None:
    image = smooth(40, 60)
    image[:, :, 2] = 128
    write_image(tmp_path / name, image)
    assert np.abs(read_image(tmp_path / name).astype(int) - image).mean() < 3
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", noise())
    with pytest.raises(ImageError, match="picture to write: expected uint8"):
        write_image(tmp_path / "a.png", np.zeros((3, 3, 7), np.uint8))
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), noise())
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(ImageError, match="no picture format has the suffix '.xyz'"):
        write_image(tmp_path / "a.xyz", noise())
    with pytest.raises(ImageError, match="cannot be written, no such file"):
        write_image(tmp_path / "none" / "a.png", noise())


@pytest.mark.parametrize(
    ("height", "width", "part"),
    [
        (480, 640, None),
        (1000, 37, None),
        (1, 1, None),
        (1, 5000, None),
        (333, 777, (100.5, 20.2, 301.7, 250.0)),
        (333, 777, (-50, -50, 200, 200)),
    ],
)
def test_letterbox_maps_there_and_back(height: int, width: int, part: Any) -> None:
    image = noise(height, width)
    canvas, placement = letterbox(image, 320, 352, part=part, max_scale=2)
    assert canvas.shape == (320, 352, 3)
    points = np.random.default_rng(1).uniform(0, 1, (50, 2)) * [width, height]
    back = placement.to_picture(placement.to_input(points))
    np.testing.assert_allclose(back, points, atol=1e-2 + 1e-6 * max(height, width))
    # Undistorted, but for the rounding to whole pixels.
    x_scale, y_scale = placement.matrix[0, 0], placement.matrix[1, 1]
    assert max(x_scale, y_scale) <= 2
    if min(height, width) > 40:
        assert abs(x_scale / y_scale - 1) < 0.03


def test_letterbox_puts_each_pixel_where_the_placement_says() -> None:
    image = np.zeros((200, 400, 3), np.uint8)
    image[60:80, 300:340] = 255
    canvas, placement = letterbox(image, 96, 160)
    ys, xs = np.nonzero(canvas[:, :, 0] > 127)
    found = np.array([[xs.min(), ys.min()], [xs.max() + 1, ys.max() + 1]])
    np.testing.assert_allclose(placement.to_picture(found), [[300, 60], [340, 80]], atol=1.5)
    assert not canvas[80:].any()


def test_letterbox_does_not_enlarge_more_than_asked() -> None:
    canvas, placement = letterbox(noise(10, 10), 64, 64)
    np.testing.assert_array_equal(canvas[:10, :10], noise(10, 10))
    assert placement.matrix[0, 0] == 1
    assert letterbox(noise(10, 10), 64, 64, max_scale=3)[1].matrix[0, 0] == 3


def test_part_outside_the_picture() -> None:
    with pytest.raises(ImageError, match="roi: lies outside the picture of 20x12 pixels"):
        letterbox(noise(), 32, 32, part=(50, 50, 10, 10))
    for part in [(0, 0, 0, 5), (0, 0, -1, 5), (float("nan"), 0, 5, 5), (0, 0, float("inf"), 5)]:
        with pytest.raises(ImageError, match="roi: expected x, y, w, h"):
            letterbox(noise(), 32, 32, part=part)
    parts: list[Any] = ["abcd", ("0", "x", "5", "5"), (0, 0, 5, None), (0, 0, 5), 5]
    for part in parts:
        with pytest.raises(ImageError, match="roi: expected x, y, w, h"):
            letterbox(noise(), 32, 32, part=part)


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((5, 5, 3), np.float32),
        np.zeros((5, 5), np.uint16),
        np.zeros((5, 5, 2), np.uint8),
        np.zeros((5, 5, 1), np.uint8),
        np.zeros((0, 5, 3), np.uint8),
        np.zeros((5, 5, 3), np.bool_),
        np.zeros(5, np.uint8),
        None,
        [[0, 255]],
    ],
)
def test_what_cannot_be_written(image: Any, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="picture to write: expected uint8"):
        write_image(tmp_path / "out.png", image)
    assert not list(tmp_path.iterdir())


def test_shrinking_takes_the_mean_of_the_pixels_it_covers() -> None:
    image = noise(64, 64)
    expected = image.reshape(8, 8, 8, 8, 3).mean((1, 3))
    np.testing.assert_allclose(resize(image, 8, 8), expected, atol=1.5)
    assert resize(image, 64, 64) is image


def test_open_files_are_read_from_their_start_and_stay_open(tmp_path: Path) -> None:
    image = noise()
    data = encoded(PIL.Image.fromarray(image))
    (tmp_path / "a.png").write_bytes(data)
    written = io.BytesIO()
    PIL.Image.fromarray(image).save(written, "PNG")
    with (
        zipfile.ZipFile(tmp_path / "a.zip", "w") as archive,
        tempfile.SpooledTemporaryFile() as spooled,
        (tmp_path / "a.png").open("rb") as opened,
        (tmp_path / "a.png").open("rb", buffering=0) as raw,
    ):
        archive.writestr("a.png", data)
        spooled.write(data)
        with archive.open("a.png") as member:
            files: list[BinaryFile] = [written, spooled, opened, raw, member, OneWay(data)]
            for file in files:
                np.testing.assert_array_equal(read_image(file), image)
        # Where it can seek, it can be read again.
        for file in (written, spooled, opened, raw):
            assert not file.closed
            np.testing.assert_array_equal(read_image(file), image)


class OneWay:
    """A file that cannot seek, and gives what it has bit by bit."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.given: int = 0

    def read(self, size: int = -1, /) -> bytes:
        assert size > 0
        part = self._data[self.given : self.given + min(size, 1000)]
        self.given += len(part)
        return part


class Endless(OneWay):
    def read(self, size: int = -1, /) -> bytes:
        self.given += size
        return bytes(size)


class Broken(OneWay):
    def read(self, size: int = -1, /) -> bytes:
        raise OSError(errno.EIO, "Input/output error")


class Awaited:
    async def read(self, size: int = -1, /) -> bytes:
        return b""


def test_files_that_are_no_open_binary_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some text")
    closed = io.BytesIO(b"x")
    closed.close()
    with (tmp_path / "a.txt").open() as text, (tmp_path / "b").open("wb") as output:
        wrong: list[tuple[Any, str]] = [
            (text, "expected a file opened in binary mode, got str from TextIOWrapper.read"),
            (io.StringIO("x"), "expected a file opened in binary mode, got str from StringIO.read"),
            (Awaited(), "expected a file opened in binary mode, got coroutine from Awaited.read"),
            (closed, "an open file cannot be read, .*closed file.*: BytesIO"),
            (output, "an open file cannot be read, .*: BufferedWriter"),
            (Broken(b""), "an open file cannot be read, input/output error: Broken"),
            (io.BytesIO(), "the picture is empty: a file of 0 bytes"),
            (io.BytesIO(b"no picture"), "not a picture, or a damaged one .*: a file of 10 bytes"),
        ]
        for source, message in wrong:
            with pytest.raises(ImageError, match=message) as raised:
                read_image(source)
            assert "\n" not in str(raised.value)


def test_a_file_without_an_end_is_read_up_to_what_pixels_can_take() -> None:
    file = Endless(b"")
    with pytest.raises(ImageError, match=r"more bytes than 1000 pixels \(max_pixels\) can take"):
        read_image(file, max_pixels=1000)
    assert file.given < 4 << 20


@pytest.mark.parametrize("suffix", [".jpg", ".bmp", ".gif", ".ppm"])
def test_opacity_is_not_lost_in_silence(suffix: str, tmp_path: Path) -> None:
    cutout = np.dstack([noise(), np.full((12, 20), 90, np.uint8)])
    with pytest.raises(ImageError, match=f"a {suffix} picture holds no transparency, .*.png, .tif"):
        write_image(tmp_path / f"a{suffix}", cutout)
    write_image(tmp_path / "a.webp", cutout)
    written = np.asarray(PIL.Image.open(tmp_path / "a.webp"))
    assert written.shape == (12, 20, 4) and (written[..., 3] == 90).all()


@pytest.mark.parametrize("channels", [(), (3,), (4,)])
def test_png_holds_every_kind_of_picture(channels: tuple[int, ...]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (12, 20, *channels), np.uint8)
    np.testing.assert_array_equal(np.asarray(PIL.Image.open(io.BytesIO(png(image)))), image)
