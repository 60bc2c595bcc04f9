import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.kits.kit import shipped_model
from palmkit.kits.ranking.features import Layout
from palmkit.kits.ranking.kit import Reranker
from palmkit.kits.ranking.learning import LEAST_PAGES
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.session import Session
from palmkit.kits.ranking.taste import taste_width
from tests.kits.ranking_probe import Probe

SCHEMA = Schema(categories=("brand", "shop"), numbers=("stars",), price="price")
KEY = bytes(range(32))
Row = dict[str, Any]


def page(random: np.random.Generator, count: int = 12) -> list[Row]:
    return [
        {
            "id": f"{random.integers(1 << 40)}",
            "brand": f"b{random.integers(6)}",
            "shop": f"s{random.integers(3)}",
            "stars": float(random.integers(1, 6)),
            "price": float(random.uniform(1, 100)),
        }
        for _ in range(count)
    ]


def live(session: Session, pages: int, liked: str = "b1", seed: int = 0) -> None:
    """A user who clicks the first item of a brand on every page, whatever the order."""
    random = np.random.default_rng(seed)
    for turn in range(pages):
        items = page(random)
        items[0]["brand"] = liked
        random.shuffle(items)
        session.rerank(items)
        chosen = next(row for row in items if row["brand"] == liked)
        session.observe({"event": "click", "id": chosen["id"], "time": float(turn)})


def learner(pages: int = 40, **options: Any) -> Session:
    session = Reranker(None, SCHEMA).session(learns=True, **options)
    live(session, pages)
    return session


def rank_of_liked(session: Session, liked: str = "b1") -> float:
    random = np.random.default_rng(99)
    found: list[int] = []
    for _ in range(20):
        items = page(random)
        order = session.rerank(items, {"time": 1000.0}).rows.tolist()
        found += [order.index(at) for at, row in enumerate(items) if row["brand"] == liked]
    return float(np.mean(found))


def test_what_a_user_likes_rises_and_undo_takes_it_back() -> None:
    session = learner()
    before = rank_of_liked(session)
    said = session.learn(10.0)
    assert said.kept and not said.reason and said.steps > 20
    assert said.loss and said.loss[1] < said.loss[0]
    assert said.ndcg10 and said.ndcg10[1] >= said.ndcg10[0]
    assert said.held_back == 10 and said.pages == 30
    after = rank_of_liked(session)
    assert after < before - 1
    assert session.undo() and not session.undo()
    assert rank_of_liked(session) == before


def test_learning_again_goes_on_and_undo_goes_back_one_step() -> None:
    session = learner()
    before = rank_of_liked(session)
    assert session.learn(10.0).kept
    live(session, 20, seed=1)
    once = rank_of_liked(session)
    assert session.learn(10.0).kept
    again = rank_of_liked(session)
    assert again != once and max(once, again) < before - 1
    assert session.undo()
    assert rank_of_liked(session) == once
    assert session.learn(10.0).steps


def test_what_is_not_better_on_held_back_pages_is_not_kept() -> None:
    """A taste that is gone in the latest quarter of the pages."""
    session = Reranker(None, SCHEMA).session(learns=True)
    live(session, 30, "b1")
    live(session, 14, "b2", seed=5)
    # Forget what the events say, so that only the taste counts.
    said = session.learn(10.0)
    assert not said.kept and said.reason == "not better on held-back pages"
    assert not session.undo()


def test_with_few_pages_nothing_is_tried() -> None:
    session = learner(LEAST_PAGES - 1)
    said = session.learn()
    assert not said.kept and said.reason == "expected 12 pages with a choice, got 11"
    assert said.steps == 0 and said.loss is None
    fresh = Reranker().session(learns=True)
    assert fresh.learn().reason == "expected 12 pages with a choice, got 0"


def test_the_time_is_kept() -> None:
    session = learner(60)
    session.learn()
    # Another process may have the core for a while: once in five is enough.
    times: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        said = session.learn(0.05)
        times.append(time.perf_counter() - start)
        assert said.seconds == pytest.approx(times[-1], abs=0.01)
    assert min(times) < 0.055
    assert session.learn(1e-6).reason == "no time for a step"


def test_the_memory_is_kept_and_the_latest_pages_stay() -> None:
    kit = Reranker(None, SCHEMA)
    room = kit.scorer.head(taste_width(SCHEMA)).memory_bytes + 300_000
    session = kit.session(learns=True, memory_bytes=room)
    live(session, 100)
    said = session.learn()
    assert said.memory_bytes <= room < 5_000_000
    few = said.pages + said.held_back
    assert LEAST_PAGES <= few < 100
    with pytest.raises(ValueError, match="memory_bytes: expected at least"):
        Reranker(None, SCHEMA).session(learns=True, memory_bytes=100_000)


def test_only_what_was_looked_at_counts_where_that_is_known() -> None:
    session = Reranker(None, SCHEMA).session(learns=True)
    items = page(np.random.default_rng(0))
    session.rerank(items)
    session.observe({"event": "exposure", "id": items[1]["id"], "time": 1.0})
    session.observe({"event": "click", "id": items[4]["id"], "time": 2.0})
    assert session._learner is not None  # pyright: ignore[reportPrivateUsage]
    (shown,) = session._learner.pages  # pyright: ignore[reportPrivateUsage]
    assert np.flatnonzero(shown.counts).tolist() == [1, 4]
    assert np.flatnonzero(shown.wanted).tolist() == [4]


def test_reasons_name_the_taste() -> None:
    session = learner()
    assert session.learn(10.0).kept
    found = session.rerank(page(np.random.default_rng(3)), {"time": 1e4}, why=True)
    assert found.why is not None and all(
        np.isfinite(list(each.values())).all() for each in found.why
    )


def test_a_learned_model_ranks_without_events() -> None:
    session = learner()
    assert session.learn(10.0).kept
    again = Reranker(None, SCHEMA).session(learns=True)
    assert again.rerank(page(np.random.default_rng(0))).cold


@pytest.mark.parametrize("key", [None, KEY])
def test_what_was_learned_is_saved_and_loaded(tmp_path: Path, key: bytes | None) -> None:
    session = learner()
    assert session.learn(10.0).kept
    file = tmp_path / "me.learned"
    session.save(file, key)
    other = Reranker(None, SCHEMA).session(learns=True)
    other.load(file, key)
    items = page(np.random.default_rng(4))
    # Nothing was observed in the other session: without events, by what was learned.
    found = other.rerank(items)
    assert not found.cold
    liked = [row for row, item in enumerate(items) if item["brand"] == "b1"]
    assert not liked or found.rows.tolist().index(liked[0]) < 6
    said = other.learn(10.0)
    assert said.pages + said.held_back == 40 and said.steps
    plain = file.read_bytes()
    if key is not None:
        assert b"hidden" not in plain


def test_another_key_and_a_changed_file_are_refused(tmp_path: Path) -> None:
    session = learner(LEAST_PAGES)
    file = tmp_path / "me.learned"
    session.save(file, KEY)
    before = file.read_bytes()
    for wrong in (bytes(32), None):
        with pytest.raises(ModelError, match="what was learned: "):
            session.load(file, wrong)
    for at in (10, 100, len(before) - 3):
        file.write_bytes(before[:at] + bytes([before[at] ^ 1]) + before[at + 1 :])
        with pytest.raises(ModelError, match="cannot be decrypted"):
            session.load(file, KEY)
    file.write_bytes(before[:-20])
    with pytest.raises(ModelError, match="cannot be decrypted"):
        session.load(file, KEY)
    with pytest.raises(ValueError, match="key: expected 32 bytes, got 5"):
        session.save(file, b"short")
    assert file.read_bytes() == before[:-20]
    with pytest.raises(FileNotFoundError):
        session.load(tmp_path / "none", KEY)


def test_a_hostile_file_changes_nothing(tmp_path: Path) -> None:
    session = learner(LEAST_PAGES)
    file = tmp_path / "me.learned"
    session.save(file)
    whole = file.read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        at = int(random.integers(len(whole)))
        file.write_bytes(whole[:at] + random.bytes(8) + whole[at + 8 :])
        try:
            session.load(file)
        except ModelError:
            refused += 1
        session.rerank(page(random))
    # The archive's own checksums see nearly all of it.
    assert refused > 50
    file.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(ModelError):
        session.load(file)


def test_what_another_model_learned_is_refused(tmp_path: Path) -> None:
    session = learner(LEAST_PAGES)
    file = tmp_path / "me.learned"
    session.save(file)
    other = Reranker(None, Schema(categories=("brand",), price="price")).session(learns=True)
    with pytest.raises(ModelError, match="expected that of this model and schema"):
        other.load(file)


def test_what_cannot_learn_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="the model has no output hidden"):
        Reranker(Probe(Layout(SCHEMA), "touches: order")).session(learns=True)
    session = Reranker(None, SCHEMA).session()
    with pytest.raises(UnsupportedError, match="learn: expected a session of"):
        session.learn()
    with pytest.raises(UnsupportedError, match="save: expected a session of"):
        session.save(tmp_path / "x")
    assert not session.undo()
    with pytest.raises(ValueError, match="time_s: expected more than 0, got 0"):
        learner(1).learn(0)


def test_reset_forgets_what_was_learned() -> None:
    session = learner()
    assert session.learn(10.0).kept
    session.reset()
    assert session.rerank(page(np.random.default_rng(0))).cold
    assert session.learn().reason == "expected 12 pages with a choice, got 0"


def test_long_pages_and_pages_of_one_item() -> None:
    session = Reranker(None, SCHEMA).session(learns=True)
    random = np.random.default_rng(0)
    for turn in range(16):
        items = page(random, 200 if turn % 2 else 1)
        session.rerank(items)
        last = items[-1]["id"]
        session.observe({"event": "click", "id": last, "time": float(turn)})
    # A page of one item says nothing.
    assert session.learn(10.0).reason == "expected 12 pages with a choice, got 8"
    assert shipped_model("reranker").exists()
