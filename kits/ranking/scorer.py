"""The network on the engine: from features to scores."""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import ModelError, PalmError
from palmkit.engine.forks import renewed_in_children
from palmkit.kits.kit import Runnable
from palmkit.kits.ranking.features import Inputs, Layout
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.table import Floats

if TYPE_CHECKING:
    from palmkit.kits.ranking.head import Head

# Pages are filled up to these sizes, so that few plans serve all; beyond, to the next power of 2.
SIZES = (8, 16, 24, 32, 40, 50, 64, 80, 100, 128, 192, 256, 384, 512, 768, 1024)
# What Layout.build makes of a page, then which rows of it there are.
INPUTS = ("items", "item_codes", "events", "event_codes", "links", "present", "happened")
_OF_EVENTS = frozenset(("events", "event_codes", "links", "happened"))
# From what the model knows of each item, float32[b, n, channels], to other scores, float32[b, n].
Last: TypeAlias = "Callable[[Floats], Floats]"


@dataclass(frozen=True)
class Description:
    """The re-ranker that a model file's metadata describes.

    vocabulary: of the schema's categories, then of its context: text to code.
    """

    name: str
    version: str
    layout: Layout
    vocabulary: list[dict[str, int]]

    @classmethod
    def of(cls, model: Runnable) -> Description:
        """Read the metadata of a model.

        Raises ModelError if the model is not a re-ranker.
        """
        said = model.metadata
        if said.get("kit") != "rerank":
            raise ModelError(f"expected a model of the rerank kit: {said.get('kit', '')!r}")
        try:
            facts = json.loads(said["layout"])
            schema = Schema.from_json(json.dumps(facts["schema"]))
            if facts["scope"] not in ("any", "own") or not 1 <= int(facts["length"]) <= 10_000:
                raise ValueError(f"scope {facts['scope']!r}, length {facts['length']!r}")
            layout = Layout(
                schema, facts["scope"], bool(facts["with_position"]), int(facts["length"])
            )
            vocabulary = [
                {str(word): int(code) for word, code in words.items()}
                for words in facts["vocabulary"]
            ]
            if facts["scope"] == "own" and len(vocabulary) != len(schema.categories) + len(
                schema.context
            ):
                raise ValueError("vocabulary: not one for each category and context")
        except (KeyError, TypeError, ValueError, AttributeError, PalmError) as error:
            raise ModelError(f"metadata layout: not that of a re-ranker: {error}") from None
        return cls(said.get("name", "reranker"), said.get("version", ""), layout, vocabulary)

    def metadata(self) -> dict[str, str]:
        """Return the metadata that `of` reads."""
        layout = self.layout
        facts: dict[str, Any] = {
            "schema": json.loads(layout.schema.to_json()),
            "scope": layout.scope,
            "with_position": layout.with_position,
            "length": layout.length,
            "vocabulary": self.vocabulary,
        }
        return {
            "kit": "rerank",
            "name": self.name,
            "version": self.version,
            "layout": json.dumps(facts),
        }

    def fitted(self, schema: Schema | None) -> Layout | None:
        """Return the layout for a schema; None: it is inferred from each page.

        Raises ValueError if the model was trained on another schema.
        """
        own = self.layout.schema
        if self.layout.scope == "any":
            if schema is None:
                return None
            return replace(self.layout, schema=replace(schema, events=own.events))
        if schema is None:
            return self.layout
        for name in ("categories", "numbers", "embeddings", "context", "events"):
            if getattr(schema, name) != getattr(own, name):
                raise ValueError(
                    f"schema: the model was trained with {name} {getattr(own, name)}, "
                    f"got {getattr(schema, name)}"
                )
        for name in ("position", "price", "score"):
            if (getattr(schema, name) is None) != (getattr(own, name) is None):
                raise ValueError(f"schema: the model was trained {_with(own, name)}")
        return replace(self.layout, schema=schema)


def _with(schema: Schema, name: str) -> str:
    return f"without a {name}" if getattr(schema, name) is None else f"with a {name}"


class Scorer:
    """Runs a model on pages; may be used by many threads at a time."""

    def __init__(self, model: Runnable) -> None:
        """Wrap a model; raise ModelError if its inputs are not those of a re-ranker."""
        self._model = model
        self._heads: dict[int, Head] = {}
        renewed_in_children(self, Scorer._renew)
        self.description = Description.of(model)
        inputs = getattr(model, "inputs", {})
        self._wanted = [name for name in INPUTS if name in inputs] or list(INPUTS)
        # Trees see of the events what the items tell of them.
        self.sees_events = not _OF_EVENTS.isdisjoint(self._wanted)
        layout = self.description.layout
        for name, width in (("items", len(layout.features)), ("events", len(layout.traits))):
            type = inputs.get(name)
            if type is not None and type.shape[-1] != width:
                raise ModelError(f"input {name}: expected float32[b, n, {width}], got {type}")

    def _renew(self) -> None:
        """Make new locks in a forked child."""
        self._lock = threading.Lock()

    def head(self, width: int) -> Head:
        """Return the model's last layers for learning.

        width: columns of an item's own features.
        Raises UnsupportedError if the model does not expose them.
        """
        from palmkit.kits.ranking.head import Head

        with self._lock:
            if width not in self._heads:
                self._heads[width] = Head(self._model, width)
            return self._heads[width]

    def score(self, inputs: Inputs, length: int) -> Floats:
        """Return the score of each item, float32[n].

        length: number of events, see Layout.
        """
        return cast(Floats, self._run(inputs, length, inputs.items[None])[0][0])

    def infer(self, inputs: Inputs, length: int) -> tuple[Floats, Floats]:
        """Return scores float32[n], and the model's features of each item, float32[n, channels]."""
        scores, hidden = self._run(inputs, length, inputs.items[None])
        if hidden is None or hidden.ndim != 3:
            raise ModelError("output hidden: expected float32[b, n, channels]")
        return scores[0], hidden[0]

    def contributions(
        self,
        inputs: Inputs,
        length: int,
        groups: dict[str, NDArray[np.int64]],
        last: Last | None = None,
        taste: Floats | None = None,
    ) -> list[dict[str, float]]:
        """Return each item's loss of score if a group of features were the page's mean.

        Leave-one-covariate-out (Lei et al., 2018): one run for each group, in one batch; "sequence"
        is what attention to the events adds, of a model that sees them. last: makes the scores, if
        not the model's last layers. taste: float32[n], what of the scores is the user's taste, if
        any is known. Strongest first.
        """

        def scored(inputs: Inputs, items: Floats) -> Floats:
            scores, hidden = self._run(inputs, length, items)
            return scores if last is None or hidden is None else last(hidden)

        items = np.repeat(inputs.items[None], 1 + len(groups), axis=0)
        for row, columns in enumerate(groups.values(), 1):
            items[row][:, columns] = inputs.items[:, columns].mean(axis=0)
        scores = scored(inputs, items)
        others, names = [scores[1:]], [*groups]
        if self.sees_events:
            nothing = replace(
                inputs,
                events=inputs.events[:1],
                event_codes=inputs.event_codes[:1],
                links=inputs.links[:, :, :1],
            )
            others.append(scored(nothing, inputs.items[None]))
            names.append("sequence")
        # Only differences within a page have a meaning.
        lost = scores[0] - np.concatenate(others)
        if taste is not None:
            lost, names = np.concatenate([lost, taste[None]]), [*names, "taste"]
        lost = lost - lost.mean(axis=1, keepdims=True)
        found: list[dict[str, float]] = []
        for each in lost.T:
            strongest = np.argsort(-np.abs(each), kind="stable")
            found.append({names[at]: float(each[at]) for at in strongest})
        return found

    def _run(self, inputs: Inputs, length: int, items: Floats) -> tuple[Floats, Floats | None]:
        """Return scores for float32[b, n, features] of one page and history, and hidden.

        The scores are float32[b, n].
        """
        size, count = items.shape[:2]
        room = room_for(count)
        codes, events, event_codes = inputs.item_codes, inputs.events, inputs.event_codes
        wanted: dict[str, tuple[NDArray[Any], tuple[int, ...]]] = {
            "items": (items, (size, room, items.shape[2])),
            "item_codes": (codes[None], (size, room, codes.shape[1])),
            "events": (events[None], (size, 1 + length, events.shape[1])),
            "event_codes": (event_codes[None], (size, 1 + length, event_codes.shape[1])),
            "links": (inputs.links[None], (size, len(inputs.links), room, 1 + length)),
        }
        arrays = {name: _filled(*wanted[name]) for name in self._wanted if name in wanted}
        for name, places, there in (
            ("present", room, count),
            ("happened", 1 + length, len(inputs.events)),
        ):
            if name in self._wanted:
                arrays[name] = _first(size, places, there)
        outputs = self._model.run(arrays)
        found, hidden = outputs.get("scores"), outputs.get("hidden")
        if found is None or found.shape != (size, room) or not np.isfinite(found).all():
            got = "nothing" if found is None else f"{found.dtype}{list(found.shape)}"
            raise ModelError(f"output scores: expected finite float32[{size}, {room}], got {got}")
        shown = None if hidden is None else cast(Floats, hidden[:, :count])
        return cast(Floats, found[:, :count]), shown


def room_for(count: int) -> int:
    """Return the size to which a page of `count` items is padded."""
    if count <= SIZES[-1]:
        return SIZES[bisect_left(SIZES, count)]
    return 1 << (count - 1).bit_length()


def _filled(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return zeros of a shape with the array at their beginning, for each of the batch."""
    if array.shape == shape:
        return array
    found = np.zeros(shape, array.dtype)
    found[(slice(None), *(slice(size) for size in array.shape[1:]))] = array
    return found


def _first(size: int, room: int, count: int) -> Floats:
    """Return float32[size, room]: ones for the first `count`."""
    found = np.zeros((size, room), np.float32)
    found[:, :count] = 1
    return found
