"""Frames from video files and cameras, and frames into video files with the sound of others."""

from palmkit.kits.video.formats import CODECS, FRAMES_PER_S, SUFFIXES
from palmkit.kits.video.reader import VideoReader
from palmkit.kits.video.writer import VideoWriter

__all__ = ["CODECS", "FRAMES_PER_S", "SUFFIXES", "VideoReader", "VideoWriter"]
