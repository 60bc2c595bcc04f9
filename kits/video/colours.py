"""Colours of video frames, by FFmpeg's swscale: from what a file says to sRGB, and back.

Numbers are those of FFmpeg, which are those of ITU-T H.273.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from palmkit.kits.image import Image
from palmkit.kits.video.pyav_files import scaling, version

if TYPE_CHECKING:
    from av import VideoFrame

BT709, BT601 = 1, 5
SRGB_CURVE = 13
LIMITED, FULL = 1, 2
# The matrices that swscale takes; the last is BT.2020 with constant luminance, taken for the other.
_MATRICES = {
    1: "ITU709",
    4: "FCC",
    5: "ITU601",
    6: "ITU601",
    7: "SMPTE240M",
    9: "BT2020",
    10: "BT2020",
}
# PQ and HLG: HDR.
_HDR_CURVES = (16, 18)
# Players take what says nothing for BT.709 from this height on.
HD_HEIGHT = 720


class ToRgb:
    """Makes uint8[h, w, 3] of the frames of one video, all of the same size."""

    def __init__(self, width: int, height: int) -> None:
        """Set the size of the pictures; frames of another one are scaled."""
        from av.video.reformatter import VideoReformatter

        self._reformatter = VideoReformatter()
        self._size = {"width": width, "height": height}

    def __call__(self, frame: VideoFrame) -> Image:
        """Return a frame's picture, in memory of its own; HDR is brought to the range of sRGB."""
        given: dict[str, Any] = {**self._size, "format": "rgb24", **scaling()}
        if not frame.format.is_rgb:
            guess = "ITU709" if frame.height >= HD_HEIGHT else "ITU601"
            given["src_colorspace"] = _MATRICES.get(frame.colorspace, guess)
        if is_hdr(frame):
            # It takes ten times as long, in as many threads as there are cores.
            given |= {"dst_color_trc": SRGB_CURVE, "dst_color_primaries": BT709, "threads": 0}
        made = self._reformatter.reformat(frame, **given)
        return cast(Image, np.ascontiguousarray(made.to_ndarray()))


def is_hdr(frame: VideoFrame) -> bool:
    """Return whether a frame is of HDR; older versions of PyAV cannot tell."""
    return version() >= 17 and frame.color_trc in _HDR_CURVES


class FromRgb:
    """Makes frames for an encoder: BT.709 in the limited range, or as JPEG has them."""

    def __init__(self, is_jpeg: bool) -> None:
        """Choose the colours."""
        from av.video.reformatter import Interpolation, VideoReformatter

        self._reformatter = VideoReformatter()
        self.pixels = "yuvj420p" if is_jpeg else "yuv420p"
        self.tags = {
            "colorspace": BT601 if is_jpeg else BT709,
            "color_range": FULL if is_jpeg else LIMITED,
            "color_primaries": BT709,
            "color_trc": BT709,
        }
        self._given: dict[str, Any] = {
            **scaling(),
            "format": self.pixels,
            "dst_colorspace": "ITU601" if is_jpeg else "ITU709",
            "dst_color_range": "JPEG" if is_jpeg else "MPEG",
            # The mean of the pixels that share a colour, which also takes the least time.
            "interpolation": Interpolation.AREA | Interpolation.FULL_CHR_H_INP,
        }

    def __call__(self, frame: VideoFrame) -> VideoFrame:
        """Return the frame, rgb24, in the encoder's colours."""
        return self._reformatter.reformat(frame, **self._given)
