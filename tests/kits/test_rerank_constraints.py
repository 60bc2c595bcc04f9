import math

import numpy as np
import pytest

from palmkit.engine.errors import TableError
from palmkit.kits.ranking.constraints import (
    Boost,
    Constraints,
    Diversity,
    Exploration,
    Freshness,
)
from palmkit.kits.ranking.features import Layout
from palmkit.kits.ranking.kit import Reranker
from palmkit.kits.ranking.schema import Schema
from tests.kits.ranking_probe import Probe

SCHEMA = Schema(categories=("brand",), embeddings={"title": 2}, price="price")
# The probe scores by the price's place between the least and the largest: here 1, .9, .8, ...
ITEMS = [
    {
        "id": name,
        "price": 110.0 - 10 * row,
        "brand": "aaabbbcccdd"[row],
        "title": [math.cos(row / 4), math.sin(row / 4)],
        "made": 1000.0 * row,
    }
    for row, name in enumerate("abcdefghijk")
]
CLICK = [{"event": "click", "id": "k", "time": 10_000.0}]


def ordered(constraints: Constraints, seed: int | None = None) -> tuple[str, list[float]]:
    session = Reranker(Probe(Layout(SCHEMA), "price: rank")).session(seed=seed)
    session.observe(CLICK)
    found = session.rerank(ITEMS, constraints=constraints)
    chances = () if found.propensities is None else found.propensities
    return "".join(found.ids), [float(chance) for chance in chances]


def test_pins_hold_and_the_others_close_up() -> None:
    assert ordered(Constraints(pinned={"j": 1, "b": 3, "none": 2}))[0] == "jabcdefghik"
    assert ordered(Constraints(pinned={"a": 400}))[0] == "bcdefghijka"
    with pytest.raises(ValueError, match="both at place 2"):
        Constraints(pinned={"a": 2, "b": 2})
    with pytest.raises(ValueError, match="at least 1"):
        Constraints(pinned={"a": 0})


def test_boosts_add_to_the_score() -> None:
    assert ordered(Constraints(boosts=(Boost("brand", "d", 0.85),)))[0] == "ajbkcdefghi"
    assert ordered(Constraints(boosts=(Boost("id", "a", -9),)))[0] == "bcdefghijka"
    with pytest.raises(TableError, match="no column 'shop'"):
        ordered(Constraints(boosts=(Boost("shop", "x", 1),)))


def test_freshness_lifts_what_is_new() -> None:
    fresh = Constraints(freshness=Freshness("made", half_life_s=1000, weight=2))
    assert ordered(fresh)[0].startswith("kj")
    faint = Constraints(freshness=Freshness("made", half_life_s=1e-3, weight=0.05))
    assert ordered(faint)[0] == "abcdefghijk"
    with pytest.raises(ValueError, match="half_life_s"):
        Freshness("made", 0)


@pytest.mark.parametrize("method", ["mmr", "dpp"])
def test_diversity_mixes_categories(method: str) -> None:
    def brands(strength: float) -> str:
        rules = Constraints(diversity=Diversity(method, strength, ("brand",)))  # type: ignore[arg-type]
        return "".join("aaabbbcccdd"["abcdefghijk".index(name)] for name in ordered(rules)[0])

    assert brands(0) == "aaabbbcccdd"
    assert brands(0.9)[:4] in ("abcd", "abdc")
    # Each order is one of all items.
    assert sorted(brands(0.5)) == sorted("aaabbbcccdd")
    assert len(set(brands(0.5)[:4])) >= len(set(brands(0)[:4]))


def test_diversity_by_embedding_and_by_all() -> None:
    by_title = ordered(Constraints(diversity=Diversity("mmr", 0.95, ("title",))))[0]
    # What lies farthest round the circle from a is next.
    assert by_title.startswith("ak") and by_title.index("b") > 4
    assert sorted(ordered(Constraints(diversity=Diversity("dpp", 0.5)))[0]) == sorted("abcdefghijk")
    with pytest.raises(ValueError, match="no column 'size'"):
        ordered(Constraints(diversity=Diversity(columns=("size",))))


def test_dpp_is_greedy_by_determinant() -> None:
    """Against determinants computed one by one."""
    strength = 0.6
    found = ordered(Constraints(diversity=Diversity("dpp", strength, ("title",))))[0]
    vectors = np.array([item["title"] for item in ITEMS])
    kernel = 0.95 * (1 + vectors @ vectors.T) / 2
    np.fill_diagonal(kernel, 1)
    worth = np.array([1 - row / 10 for row in range(11)])
    chosen: list[int] = []
    for _ in range(5):
        gains: dict[int, float] = {}
        for row in set(range(11)) - set(chosen):
            some = [*chosen, row]
            volume = np.linalg.det(kernel[np.ix_(some, some)])
            before = np.linalg.det(kernel[np.ix_(chosen, chosen)]) if chosen else 1.0
            gains[row] = (1 - strength) * worth[row] + strength * math.log(volume / before)
        chosen.append(max(gains, key=lambda row: gains[row]))
    assert found[:5] == "".join("abcdefghijk"[row] for row in chosen)


def test_epsilon_says_how_likely_each_choice_was() -> None:
    rules = Constraints(exploration=Exploration("epsilon", 0.5, places=3, seed=1))
    first: dict[str, int] = {}
    session = Reranker(Probe(Layout(SCHEMA), "price: rank")).session(seed=7)
    session.observe(CLICK)
    for _ in range(3000):
        found = session.rerank(ITEMS, constraints=rules)
        assert found.propensities is not None
        best = 0.5 + 0.5 / 11 if found.ids[0] == "a" else 0.5 / 11
        assert found.propensities[0] == pytest.approx(best)
        assert (found.propensities[3:] == 1).all()
        first[found.ids[0]] = first.get(found.ids[0], 0) + 1
    # Three standard deviations of 3000 draws.
    assert first["a"] / 3000 == pytest.approx(0.5 + 0.5 / 11, abs=0.028)
    assert first["k"] / 3000 == pytest.approx(0.5 / 11, abs=0.012)


def test_thompson_says_how_likely_each_choice_was() -> None:
    rules = Constraints(exploration=Exploration("thompson", 0.3, places=2))
    session = Reranker(Probe(Layout(SCHEMA), "price: rank")).session(seed=3)
    session.observe(CLICK)
    said: dict[str, float] = {}
    counts: dict[str, int] = {}
    for _ in range(3000):
        found = session.rerank(ITEMS, constraints=rules)
        assert found.propensities is not None
        said[found.ids[0]] = float(found.propensities[0])
        counts[found.ids[0]] = counts.get(found.ids[0], 0) + 1
    for name in "abcd":
        assert counts[name] / 3000 == pytest.approx(said[name], abs=0.028)


def test_thompson_explores_less_what_was_often_seen() -> None:
    kit = Reranker(Probe(Layout(SCHEMA), "price: rank"))
    rules = Constraints(exploration=Exploration("thompson", 0.5, places=1, seed=2))
    seen = [
        {"event": "exposure", "id": name, "time": 1.0} for name in "abcdefghijk" for _ in range(9)
    ]
    draws = {
        len(history): [kit.rerank(ITEMS, history, constraints=_seeded(rules, at)).ids[0]
                       for at in range(200)]
        for history in (CLICK, seen)
    }  # fmt: skip
    assert draws[1].count("a") < draws[99].count("a")


def _seeded(rules: Constraints, seed: int) -> Constraints:
    from dataclasses import replace

    assert rules.exploration is not None
    return replace(rules, exploration=replace(rules.exploration, seed=seed))


def test_a_seed_repeats_and_pins_are_certain() -> None:
    rules = Constraints(pinned={"k": 1}, exploration=Exploration("epsilon", 0.9))
    assert ordered(rules, 5) == ordered(rules, 5)
    order, chances = ordered(rules, 5)
    assert order[0] == "k" and chances[0] == 1
    assert ordered(Constraints(exploration=Exploration("thompson", 0)))[0] == "abcdefghijk"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Exploration("greedy"),  # type: ignore[arg-type]
        lambda: Exploration("epsilon", 2),
        lambda: Exploration(places=0),
        lambda: Diversity("random"),  # type: ignore[arg-type]
        lambda: Diversity(strength=2),
        lambda: Diversity(places=0),
    ],
)
def test_options_that_cannot_be(make: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        make()  # type: ignore[operator]


def test_constraints_hold_in_a_cold_start() -> None:
    kit = Reranker(Probe(Layout(SCHEMA), "price: rank"))
    found = kit.rerank(ITEMS, constraints=Constraints(pinned={"k": 1}))
    assert found.cold and "".join(found.ids) == "kabcdefghij"
