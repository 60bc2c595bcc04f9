"""The sound of a file, taken over into another one, by PyAV."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from palmkit.kits.video.formats import Format
from palmkit.kits.video.messages import say
from palmkit.kits.video.pyav_files import (
    US,
    Packets,
    fraction,
    has_encoder,
    open_input,
    start_of,
    video_of,
)
from palmkit.kits.video.pyav_reading import Timeline

if TYPE_CHECKING:
    from av import AudioFrame, AudioStream
    from av.filter import Graph

# What decoders hear before 0 to begin right; of what was cut off at the front no more is kept.
LEAD_S = 0.1
# How much silence is made at once; a gap that is longer than the other is not filled.
SILENCE_S = 1.0
MOST_FILLED_S = 60.0
# By how much sound may go on behind the stated end of its file.
MOST_LATE_S = 1.0
# By the number of channels; what encoders take in any case is stereo.
LAYOUTS = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}
STEREO_AT_MOST = ("libmp3lame",)
USUAL_RATE = 48_000
BITS_A_CHANNEL = 80_000
# Sound that is off by less than this many seconds is not cut or filled.
JITTER_S = 0.02
# Clocks of files are rounded to this.
NEARLY_S = 1e-3


def timeline_of(path: str) -> Timeline:
    """Return the clock of a file with sound, with a video or without.

    Raises ImageError if it is neither.
    """
    with open_input(path) as container:
        video = video_of(container)
        tick = None if video is None else fraction(video.time_base)
        return Timeline(path, start_of(container), tick)


class Sound:
    """All tracks of a file, written into another one as its frames are."""

    def __init__(self, source: Timeline, to: Any, form: Format, is_copied: bool) -> None:
        """Add the tracks to a file whose header is not written.

        is_copied: whether tracks that the format takes are to be taken over as they are; others are
        encoded anew.
        Raises ImageError if the source cannot be read, FFmpeg's errors for what cannot be written.
        """
        self._source = source
        self._container = open_input(source.path)
        self._broken = 0
        try:
            self._tracks = self._added(to, form, is_copied)
        except BaseException:
            self._container.close()
            raise
        self._packets = self._read()
        self._next: tuple[Any, float] | None = next(self._packets, None)

    def _added(self, to: Any, form: Format, is_copied: bool) -> dict[int, _Track]:
        tracks: dict[int, _Track] = {}
        for stream in self._container.streams.audio:
            # PyAV says that they are there in any case.
            context = getattr(stream, "codec_context", None)
            if context is None or context.sample_rate < 1 or context.channels < 1:
                say(f"a track of the sound cannot be read: {self._source.path}")
                continue
            if is_copied and context.codec.canonical_name in form.copied:
                tracks[stream.index] = _Copied(stream, to, form, self._source.start)
            else:
                tracks[stream.index] = _Encoded(stream, to, form, self._source.start)
        return tracks

    def _read(self) -> Iterator[tuple[Any, float]]:
        """Yield the packets of the tracks and their times in seconds."""
        streams = [self._container.streams[index] for index in self._tracks]
        if not streams:
            return
        packets = Packets(self._container, *streams)
        time_s = 0.0
        for packet in packets:
            tick = fraction(packet.time_base)
            if packet.pts is not None and tick is not None:
                time_s = float(packet.pts * tick - self._source.start)
            yield packet, time_s
        self._broken += bool(packets.failure)

    def until(self, end_s: float) -> None:
        """Write what begins before a time, in seconds from the start of the source."""
        while self._next is not None and self._next[1] < end_s:
            packet, time_s = self._next
            self._broken += not self._tracks[packet.stream.index].take(packet, time_s)
            self._next = next(self._packets, None)

    def finish(self, end_s: float, is_whole: bool) -> None:
        """Write what is left up to a time; if it is to be whole, up to the stated end of the file.

        What is later by its times is damaged.
        """
        if is_whole:
            stated_s = (self._container.duration or 0) / US
            end_s = max(end_s, stated_s) + MOST_LATE_S
        self.until(end_s)
        self._broken += is_whole and self._next is not None
        for track in self._tracks.values():
            track.finish()
        if self._broken:
            say(f"the sound is damaged, some of it is left out: {self._source.path}")

    def close(self) -> None:
        """Release the source."""
        self._container.close()


class _Track(Protocol):
    def take(self, packet: Any, time_s: float) -> bool:
        """Write a packet of the source, which begins at a time; return whether it is sound."""
        ...

    def finish(self) -> None:
        """Write what is still held."""
        ...


class _Copied:
    def __init__(self, stream: AudioStream, to: Any, form: Format, start: Fraction) -> None:
        self._to = to
        self._out = to.add_stream_from_template(stream, True)
        _describe(self._out, stream)
        self._tick = fraction(stream.time_base) or Fraction(1, USUAL_RATE)
        self._shift = round(start / self._tick)
        # Ticks of the file that is written may be longer, and no two packets may share one.
        self._step = max(round(NEARLY_S / self._tick), 1)
        codec = stream.codec_context.codec.canonical_name
        self._lead_s = LEAD_S if codec in form.lead else 0.0
        self._last: int | None = None

    def take(self, packet: Any, time_s: float) -> bool:
        import av

        lasts_s = float((packet.duration or 0) * self._tick)
        kept_s = -NEARLY_S if self._lead_s == 0 else -self._lead_s - lasts_s
        is_before = time_s < kept_s
        if is_before or (packet.is_discard and time_s >= 0):
            return True
        at = packet.dts if packet.pts is None else packet.pts
        if at is None:
            return False
        at -= self._shift
        if self._last is not None:
            at = max(at, self._last + self._step)
        # Sound is stored in the order in which it is heard.
        self._last = packet.pts = packet.dts = at
        packet.stream = self._out
        try:
            self._to.mux(packet)
        except av.InvalidDataError:
            return False
        return True

    def finish(self) -> None:
        pass


class _Encoded:
    def __init__(self, stream: AudioStream, to: Any, form: Format, start: Fraction) -> None:
        import av

        source = stream.codec_context.codec.canonical_name
        names = (source, *form.audio) if source in form.filled else form.audio
        codec = next((name for name in names if has_encoder(name)), None)
        if codec is None:
            raise ValueError(f"this PyAV has no encoder for it ({', '.join(names)})")
        rates = av.Codec(codec, "w").audio_rates or [USUAL_RATE]
        rate = stream.codec_context.sample_rate
        self._rate = rate if rate in rates else USUAL_RATE if USUAL_RATE in rates else rates[0]
        channels = stream.codec_context.channels
        if channels not in LAYOUTS or codec in STEREO_AT_MOST:
            channels = min(channels, 2)
        self._layout = LAYOUTS[channels]
        self._to, self._start = to, start
        self._in: Any = stream
        self._has_lead = av.Codec(codec, "w").canonical_name in form.lead
        self._out = to.add_stream(codec, self._rate)
        self._out.codec_context.layout = self._layout
        self._out.codec_context.time_base = Fraction(1, self._rate)
        if codec != source and not codec.startswith("pcm"):
            self._out.codec_context.bit_rate = BITS_A_CHANNEL * channels
        _describe(self._out, stream)
        self._graph: Graph | None = None
        self._kind: tuple[object, ...] = ()
        # Until when there is sound, in seconds.
        self._end_s = 0.0

    def take(self, packet: Any, time_s: float) -> bool:
        return self._decode(packet)

    def _decode(self, packet: Any) -> bool:
        import av

        try:
            frames = self._in.decode(packet)
        except av.FFmpegError:
            return False
        return all([self._hear(frame) for frame in frames])

    def _hear(self, frame: AudioFrame) -> bool:
        """Encode a frame of the source; return whether it is sound."""
        tick = fraction(frame.time_base) or Fraction(1, frame.sample_rate)
        begin_s = self._end_s if frame.pts is None else float(frame.pts * tick - self._start)
        if begin_s - self._end_s > MOST_FILLED_S:
            self._flush()
            self._end_s = begin_s
        while begin_s - self._end_s > 2 * SILENCE_S:
            self._push(_silence(frame), self._end_s)
        return self._push(frame, begin_s)

    def _push(self, frame: AudioFrame, begin_s: float) -> bool:
        """Encode a frame of the source or silence, which begins at a time."""
        import av

        kind = (frame.format.name, frame.layout.name, frame.sample_rate)
        if kind != self._kind:
            self._flush()
            self._kind = kind
        frame.time_base = Fraction(1, frame.sample_rate)
        frame.pts = round(begin_s * frame.sample_rate)
        try:
            if self._graph is None:
                self._graph = self._new_graph(frame)
            self._graph.push(frame)
        except (av.FFmpegError, ValueError):
            # Of a kind that cannot be made another one.
            self._graph = None
            is_sound = False
        else:
            self._pull(self._graph)
            is_sound = True
        self._end_s = max(begin_s + frame.samples / frame.sample_rate, self._end_s)
        return is_sound

    def _new_graph(self, frame: AudioFrame) -> Graph:
        """Return what makes frames for the encoder: from 0 on, without gaps."""
        from av.filter import Graph

        graph = Graph()
        source = graph.add_abuffer(
            sample_rate=frame.sample_rate,
            format=frame.format.name,
            layout=frame.layout.name,
            time_base=Fraction(1, frame.sample_rate),
        )
        first = round(self._end_s * self._rate)
        even = f"async=1:first_pts={first}:min_hard_comp={JITTER_S}"
        wanted = (
            f"sample_rates={self._rate}:channel_layouts={self._layout}"
            f":sample_fmts={self._out.codec_context.format.name}"
        )
        nodes = [graph.add("aresample", even), graph.add("aformat", wanted)]
        graph.link_nodes(source, *nodes, graph.add("abuffersink")).configure()
        return graph

    def _pull(self, graph: Any) -> None:
        import av

        while True:
            try:
                frame = graph.pull()
            except (av.BlockingIOError, av.EOFError):
                return
            self._encode(frame)

    def _encode(self, frame: AudioFrame | None) -> None:
        for packet in self._out.encode(frame):
            if self._has_lead or packet.pts is None or packet.pts >= 0:
                self._to.mux(packet)

    def _flush(self) -> None:
        if self._graph is not None:
            self._graph.push(None)
            self._pull(self._graph)
            self._graph = None

    def finish(self) -> None:
        # What the decoder still holds.
        self._decode(None)
        self._flush()
        self._encode(None)


def _silence(like: AudioFrame) -> AudioFrame:
    """Return SILENCE_S of nothing in the format of a frame."""
    import av

    frame = av.AudioFrame(like.format.name, like.layout.name, round(SILENCE_S * like.sample_rate))
    frame.sample_rate = like.sample_rate
    for plane in frame.planes:
        # Unsigned samples are in the middle of their range.
        plane.update(bytes([0x80 if like.format.name.startswith("u8") else 0]) * plane.buffer_size)
    return frame


def _describe(out: Any, stream: AudioStream) -> None:
    """Note the language and title of a track, and which one is played; nothing else is told."""
    kept = {
        name: stream.metadata[name] for name in ("language", "title") if name in stream.metadata
    }
    out.metadata.update(kept)
    out.disposition = stream.disposition
