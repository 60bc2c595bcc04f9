"""The options of the re-ranking kit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palmkit.kits.options import OneOf, Options, option

if TYPE_CHECKING:
    from palmkit.kits.ranking.constraints import Constraints
    from palmkit.kits.ranking.schema import Schema


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RerankerOptions(Options):
    """The options of Reranker; the shipped model was trained on a simulated shop."""

    schema: Schema | None = option(
        None,
        "what the columns mean (that of the model or, if it takes any, what Schema.infer says of"
        " each page)",
    )
    constraints: Constraints | None = option(
        None, "what holds for every page, unless a call has its own"
    )
    cold_start: str = option(
        "server",
        'without any event: "server": its order, with constraints; "model": the network\'s',
        OneOf("server", "model"),
    )
