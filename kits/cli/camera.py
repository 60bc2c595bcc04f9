"""A kit on the frames of a camera: shown in a window, drawn in a video, told as JSON."""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmkit.engine.errors import ImageError, PalmError
from palmkit.kits import live
from palmkit.kits.cli.command import UsageError, check_writable
from palmkit.kits.cli.inputs import check_name
from palmkit.kits.cli.job import Frames, Job, open_kit, print_line
from palmkit.kits.cli.process import complain, until_interrupted
from palmkit.kits.image import read_image
from palmkit.kits.video import VideoReader, VideoWriter

if TYPE_CHECKING:
    from palmkit.kits.live import Window

OTHERWISE = "-o clip.mp4 writes a video instead, --json prints what is found"


def run(options: argparse.Namespace, job: Job[Any]) -> int:
    """Do the job for the frames of a camera until its window is closed or Ctrl-C comes.

    A video of them is whole then. Returns 1 if it is the camera that ended.
    """
    target = _target(options, job)
    with until_interrupted() as is_over, ExitStack() as stack:
        kit = open_kit(options, job, "video", stack)
        window = _window(options, stack)
        reader = stack.enter_context(_camera(options.camera))
        writer = None
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            writer = stack.enter_context(VideoWriter(target, reader.frames_per_s))
        if sys.stderr.isatty():
            complain("Ctrl-C ends it" if window is None else "Ctrl-C, or q in the window, ends it")
        told = Frames(job, f"camera {options.camera}", {"camera": options.camera}, target)
        start_s = time.perf_counter()
        for raw, _ in reader:
            now_s = time.perf_counter()
            timestamp_ms = (now_s - start_s) * 1e3
            frame = read_image(raw, rotation=options.rotation, flip=options.flip)
            result = kit(frame, timestamp_ms)
            told.add(result, time.perf_counter() - now_s)
            if options.json:
                print_line(told.json(result, timestamp_ms))
            if window is not None or writer is not None:
                drawn = job.draw(frame, result)
                if writer is not None:
                    writer.write(drawn, timestamp_ms)
                if window is not None and not window.show(read_image(drawn)):
                    break
            if is_over():
                break
        else:
            complain(f"the camera gives no more frames: {options.camera}")
            return 1
    if not options.json:
        for line in told.summary():
            print_line(line)
    return 0


def _target(options: argparse.Namespace, job: Job[Any]) -> Path | None:
    """Return where the video goes; raise UsageError if it cannot."""
    if job.is_transparent:
        raise UsageError(f"{job.effect}: frames of a camera hold no transparency")
    if options.output is None:
        return None
    target = Path(options.output)
    check_name(target, is_video=True)
    check_writable(target)
    return target


def _window(options: argparse.Namespace, stack: ExitStack) -> Window | None:
    """Return a window, which is closed with the stack; None where none is needed."""
    if options.json:
        return None
    title = f"palmkit, camera {options.camera}"
    try:
        window = live.require_window(title)
    except PalmError as error:
        if options.output is not None:
            return None
        raise PalmError(f"{error}; {OTHERWISE}") from None
    stack.callback(window.close)
    return window


def _camera(number: int) -> VideoReader:
    try:
        return VideoReader(number)
    except ImageError as error:
        raise ImageError(f"{error}{_advice(number)}") from None


def _advice(number: int) -> str:
    """Return the end of a message: why a camera may not be there; "" where nothing is known."""
    if not sys.platform.startswith("linux"):
        return ""
    device, devices = f"/dev/video{number}", sorted(glob("/dev/video*"))
    if not devices:
        return ", there is no /dev/video* here"
    if device not in devices:
        return f", there are {', '.join(devices)}"
    if not is_readable(device):
        return f", {device} may not be read: is this user in the group video?"
    return f", does another program use {device}?"


def is_readable(device: str) -> bool:
    """Return whether this user may use a device."""
    return os.access(device, os.R_OK | os.W_OK)
