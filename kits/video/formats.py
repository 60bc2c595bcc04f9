"""The formats that videos are read from and written in, and what their files hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# What OpenCV alone writes, by suffix.
CODECS = {
    ".mp4": "mp4v", ".m4v": "mp4v", ".mov": "mp4v", ".avi": "MJPG", ".mkv": "mp4v", ".webm": "VP80"
}  # fmt: skip
SUFFIXES = frozenset((*CODECS, ".mpg", ".mpeg", ".wmv", ".3gp", ".ts"))
FRAMES_PER_S = 30.0
LEAST_FRAMES_PER_S, MOST_FRAMES_PER_S = 0.001, 1000
# How long a file is, or how many frames it has, may be an estimate: a few less are no damage.
COUNT_TRUST = 0.95


@dataclass(frozen=True)
class Encoder:
    """An encoder of FFmpeg, and how it is used.

    title: its format, for people. options: of the encoder. bits_a_pixel: of one that is told no
    quality, only a bit rate. ticks_a_s: the most that a time may be told by. plays: whether
    browsers play the format. is_jpeg: whether its colours are those of JPEG, BT.601 over the full
    range, and not BT.709 over the limited one.
    """

    title: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    bits_a_pixel: float = 0.0
    ticks_a_s: int = 1 << 31
    plays: bool = True
    is_jpeg: bool = False


# Quality 3 of 1 to 31, times FF_QP2LAMBDA.
_FINE = {"flags": "+qscale", "global_quality": "354"}
# x264's fastest preset takes about as long as FFmpeg's MPEG-4. What is on again of what it leaves
# out takes a tenth longer and halves the file.
_X264 = "cabac=1:deblock=0,0:mbtree=1:rc-lookahead=10"
_VP9 = {"deadline": "realtime", "cpu-used": "8", "row-mt": "1", "crf": "28", "b": "0"}
ENCODERS = {
    "libx264": Encoder("H.264", {"preset": "ultrafast", "crf": "20", "x264-params": _X264}),
    "libopenh264": Encoder("H.264", bits_a_pixel=0.15),
    "libvpx-vp9": Encoder("VP9", _VP9),
    "libvpx": Encoder("VP8", {"deadline": "realtime", "cpu-used": "8"}, bits_a_pixel=0.15),
    "mpeg4": Encoder("MPEG-4", _FINE, ticks_a_s=65_535, plays=False),
    "mjpeg": Encoder("Motion JPEG", _FINE, plays=False, is_jpeg=True),
}
_H264 = ("libx264", "libopenh264")


@dataclass(frozen=True)
class Format:
    """What a file of some suffix holds.

    muxer: FFmpeg's name. video: encoders of the video, the best first. copied: formats of sound
    that are taken over as they are. audio: encoders of other sound, the best first. lead: formats
    of sound that may begin before 0 with what is not heard. filled: formats of sound that stay what
    they are, but are written anew, with silence in gaps, as they have no times there. options: of
    the muxer. has_one_rate: whether all frames last equally long.
    """

    muxer: str
    video: tuple[str, ...]
    copied: frozenset[str]
    audio: tuple[str, ...]
    lead: frozenset[str] = frozenset()
    filled: frozenset[str] = frozenset()
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    has_one_rate: bool = False


# The index stands first, so that a browser plays while it loads; beginnings are noted finely.
_MOVIE = {"movflags": "+faststart", "movie_timescale": "90000"}
# In .mp4 and .webm, what browsers play.
_BY_MP4 = frozenset(("aac", "mp3", "opus", "flac"))
_BY_WEBM = frozenset(("opus", "vorbis"))
_BY_MOV = frozenset(("aac", "mp3", "alac", "ac3", "eac3"))
_PCM = frozenset(
    ("pcm_s16le", "pcm_s16be", "pcm_s24le", "pcm_s24be", "pcm_s32le", "pcm_s32be", "pcm_f32le")
)
_BY_MKV = _BY_MP4 | _BY_WEBM | _BY_MOV | _PCM | {"mp2", "dts", "truehd"}
_OPUS = frozenset(("opus",))

_MP4 = Format(
    "mp4", (*_H264, "libvpx-vp9", "mpeg4"), _BY_MP4, ("aac",), lead=_BY_MP4, options=_MOVIE
)
_MOV = Format(
    "mov", (*_H264, "mpeg4"), _BY_MOV, ("aac",), lead=_BY_MOV, filled=_PCM, options=_MOVIE
)
_MKV = Format("matroska", (*_H264, "libvpx-vp9", "mpeg4"), _BY_MKV, ("libopus", "aac"), lead=_OPUS)
_WEBM = Format("webm", ("libvpx-vp9", "libvpx"), _BY_WEBM, ("libopus",), lead=_OPUS)
_AVI = Format(
    "avi", ("mjpeg",), frozenset(), ("libmp3lame", "pcm_s16le"),
    filled=frozenset(("pcm_s16le",)), has_one_rate=True,
)  # fmt: skip
FORMATS = {
    ".mp4": _MP4, ".m4v": _MP4, ".mov": _MOV, ".mkv": _MKV, ".webm": _WEBM, ".avi": _AVI
}  # fmt: skip
