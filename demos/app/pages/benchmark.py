"""The benchmark page."""

from __future__ import annotations

from typing import ClassVar

from palmkit.demos.app.page import Page


class BenchmarkPage(Page):
    """Empty for now."""

    name: ClassVar[str] = "benchmark"
    title: ClassVar[str] = "Benchmark"
    icon: ClassVar[str] = "benchmark"
    hint: ClassVar[str] = ""
