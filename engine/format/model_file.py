"""A .palm file in use: its metadata is read at once, its graph on demand."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from palmkit.engine.cached import cached
from palmkit.engine.errors import ModelError
from palmkit.engine.forks import finished
from palmkit.engine.format import OLDEST_PLAN_VERSION, PLAN_FOOTER, PLAN_MARK, PLAN_VERSION
from palmkit.engine.format.sections import inflated, opened, reading
from palmkit.engine.ir import Graph, Type

if TYPE_CHECKING:
    from palmkit.engine import _native

Shapes: TypeAlias = tuple[tuple[int, ...], ...]

# Imported here and not by the first load, which should take no longer than the second.
try:
    import_module("palmkit.engine._native")
    _has_native = True
except ImportError:
    _has_native = False


class ModelFile:
    """A whole file, with the plans in it that this engine can use.

    inputs, outputs, metadata: as the graph has them.
    plans: the number of each plan, by the name of a backend and the shapes of the inputs.
    """

    def __init__(self, path: Path, key: bytes | None = None) -> None:
        """Open the file, with its key if it is encrypted.

        Raises what `reader.load` raises; errors in the graph show when `graph` is called.
        """
        self._path = path
        self.plans: dict[tuple[str, Shapes], int] = {}
        with reading(path):
            self._sections = opened(path, key)
            native = self._native_plans()
            if native is not None:
                self._plans = native
                self._describe(native)
        if not self.plans:
            self.inputs: Mapping[str, Type] = self.graph.inputs
            self.outputs: Mapping[str, Type] = self.graph.outputs
            self.metadata: Mapping[str, str] = self.graph.metadata

    def _native_plans(self) -> _native.Plans | None:
        sections = self._sections
        footer = sections.data_end - PLAN_FOOTER.size
        if footer < sections.data_begin:
            return None
        mark, size, version, inflated_size = PLAN_FOOTER.unpack_from(sections.file, footer)
        is_known = OLDEST_PLAN_VERSION <= version <= PLAN_VERSION
        if mark != PLAN_MARK or not is_known or not _has_native:
            return None
        begin = footer - size
        if begin < sections.data_begin:
            raise ModelError("damaged: the plans do not fit")
        from palmkit.engine import _native

        data: Any = np.frombuffer(sections.file[sections.data_begin : begin], np.uint8)
        section = sections.file[begin:footer]
        packed = inflated(section, inflated_size) if inflated_size else section
        plans: Any = np.frombuffer(packed, np.uint8)
        return _native.Plans(plans, data)

    def _describe(self, plans: _native.Plans) -> None:
        self.inputs = {name: Type(dtype, tuple(dims)) for name, dtype, dims in plans.inputs}
        self.outputs = {name: Type(dtype, tuple(dims)) for name, dtype, dims in plans.outputs}
        self.metadata = dict(plans.metadata)
        shapes = (tuple(map(tuple, each)) for each in plans.shapes)
        self.plans = {key: i for i, key in enumerate(zip(plans.backends, shapes, strict=True))}

    @cached
    @finished
    def graph(self) -> Graph:
        """Read and return the graph; raise what `reader.load` raises."""
        from palmkit.engine.format import reader

        with reading(self._path):
            return reader.read(self._sections)

    def program(self, number: int, threads: int) -> tuple[_native.Packed, dict[str, Type]]:
        """Return a plan as a program, and the types of its outputs.

        Pages of the file that the program does not read are released; a later read brings them
        back.
        threads: how many threads pack weights.
        Raises ModelError if the plan is damaged.
        """
        program, outputs, read = self._plans.program(number, threads=threads)
        if self._sections.is_file:
            self._release(read)
        types = (Type(dtype, tuple(dims)) for dtype, dims in outputs)
        return program, dict(zip(self.outputs, types, strict=True))

    def steps(self, number: int) -> list[tuple[str, str]]:
        """Return for each step of a plan the node it came from, and its kernel."""
        return self._plans.steps(number)

    def _release(self, read: list[tuple[int, int]]) -> None:
        """Release all pages but those where the data has these bytes."""
        if sys.platform == "win32" or not hasattr(mmap, "MADV_DONTNEED"):
            return
        sections, begin = self._sections, 0
        for first, end in [*read, (len(sections.file), 0)]:
            size = first + sections.data_begin - begin
            sections.pages.madvise(mmap.MADV_DONTNEED, begin, min(size, len(sections.file) - begin))
            begin = (end + sections.data_begin) // mmap.PAGESIZE * mmap.PAGESIZE
