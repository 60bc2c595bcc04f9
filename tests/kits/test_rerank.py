import json
import math
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.engine.errors import ModelError, TableError
from palmkit.kits.ranking.features import Layout
from palmkit.kits.ranking.kit import Reranker
from palmkit.kits.ranking.schema import Schema
from tests.kits.ranking_probe import Probe

SCHEMA = Schema(
    categories=("brand", "shop"),
    numbers=("stars",),
    embeddings={"title": 3},
    price="price",
    score="score",
    context=("device",),
)
Row = dict[str, Any]


def page(count: int = 12) -> list[Row]:
    random = np.random.default_rng(0)
    return [
        {
            "id": row,
            "brand": "abc"[row % 3],
            "shop": "xy"[row % 2],
            "stars": float(random.integers(1, 6)),
            "title": random.standard_normal(3).tolist(),
            "price": float(random.uniform(1, 100)),
            "score": 1 - row / count,
        }
        for row in range(count)
    ]


def click(item: Any, time: float = 1.0, **more: Any) -> Row:
    return {"event": "click", "id": item, "time": time, **more}


def reranker(feature: str = "touches: order", **options: Any) -> Reranker:
    return Reranker(Probe(Layout(SCHEMA), feature), **options)


def test_what_was_touched_last_comes_first_then_the_servers_order() -> None:
    history = [click(7, 1), click(3, 2), {"event": "exposure", "id": 9, "time": 3}]
    ranking = reranker().rerank(page(), history)
    assert ranking.ids == [3, 7, 0, 1, 2, 4, 5, 6, 8, 9, 10, 11]
    assert ranking.rows.tolist() == ranking.ids
    assert ranking.scores[:3].tolist() == [1, 0.5, 0]
    assert not ranking.cold and ranking.model == "probe 1"
    assert json.loads(json.dumps(ranking.to_dict()))["order"] == ranking.ids


def test_history_may_come_in_any_order_and_only_the_latest_counts() -> None:
    history = [click(3, 2), click(7, 1)]
    assert reranker().rerank(page(), history).ids[:2] == [3, 7]
    many = [click(3, 0.5), *(click(5, 1 + at) for at in range(200))]
    assert reranker().rerank(page(), many).scores[1] == 0


def test_without_history_the_order_is_the_servers() -> None:
    items = page()
    cold = reranker().rerank(items)
    assert cold.cold and cold.ids == [*range(12)]
    assert (np.diff(cold.scores) < 0).all()
    by_model = reranker("price: log", cold_start="model").rerank(items)
    assert not by_model.cold
    assert by_model.rows[0] == max(range(12), key=lambda row: items[row]["price"])


def test_a_position_column_is_the_servers_order() -> None:
    schema = Schema(position="place")
    items = [{"id": "a", "place": 3}, {"id": "b", "place": 1}, {"id": "c", "place": 2}]
    found = Reranker(Probe(Layout(schema), "touches: order")).rerank(items)
    assert found.ids == ["b", "c", "a"] and found.rows.tolist() == [1, 2, 0]
    warm = Reranker(Probe(Layout(schema), "touches: order")).rerank(items, [click("a")])
    assert warm.ids == ["a", "b", "c"]


def columns(rows: list[Row]) -> Row:
    return {name: [row[name] for row in rows] for name in rows[0]}


def arrays(rows: list[Row]) -> Row:
    return {name: np.array(values) for name, values in columns(rows).items()}


def frame(rows: list[Row]) -> Any:
    pandas = pytest.importorskip("pandas", reason="pandas is no dependency")
    return pandas.DataFrame(rows)


def arrow(rows: list[Row]) -> Any:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is in the extra rerank")
    return arrow.Table.from_pylist(rows)


@pytest.mark.parametrize("form", [columns, arrays, frame, arrow])
def test_every_form_of_table_gives_the_same(form: Callable[[list[Row]], Any]) -> None:
    items = page()
    history = [click(7, 1, brand="a", price=9.5), click(3, 2, brand="b", price=3.0)]
    for feature in ("price: to touched", "categories: mean wanted", "embeddings: wanted"):
        expected = reranker(feature).rerank(items, history)
        found = reranker(feature).rerank(form(items), form(history))
        assert found.ids == expected.ids
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)


def test_a_session_gives_what_the_whole_history_gives() -> None:
    items = page()
    history = [click(row % 5, float(row), brand="a", price=5.0) for row in range(130)]
    kit = reranker("touches: by order")
    session = kit.session()
    for event in history[:60]:
        session.observe(event)
    session.observe(history[60:])
    assert len(session) == 100
    expected, found = kit.rerank(items, history), session.rerank(items)
    assert found.ids == expected.ids
    np.testing.assert_array_equal(found.scores, expected.scores)
    session.reset()
    assert len(session) == 0 and session.rerank(items).cold


def test_a_session_knows_the_items_that_it_showed() -> None:
    items = page()
    session = reranker("categories: mean wanted").session()
    session.rerank(items)
    session.observe(click(3))
    others = [{**item, "id": f"new {item['id']}"} for item in items]
    found = session.rerank(others)
    # Item 3 is of brand a and shop y.
    assert set(found.ids[:2]) == {"new 3", "new 9"}
    assert found.scores[0] == 1


def test_why_names_the_groups_of_features_strongest_first() -> None:
    found = reranker("price: log").rerank(page(), [click(3)], why=True)
    assert found.why is not None
    for reasons in found.why:
        assert next(iter(reasons)) == "price"
        assert reasons["touches"] == 0 and "sequence" in reasons
    assert found.why[0]["price"] > 0 > found.why[-1]["price"]
    cold = reranker().rerank(page(), why=True)
    assert cold.why == [{}] * 12


def test_context_reaches_the_network_by_code() -> None:
    words = [{"a": 1, "b": 2}, {}, {"mobile": 3}]
    probe = Probe(Layout(SCHEMA), "price: log", words)
    Reranker(probe).rerank(page(), [click(3)], {"device": "mobile"})
    codes = probe.seen["item_codes"][0, :12]
    assert codes[:, 2].tolist() == [3] * 12
    assert codes[:, 0].tolist() == [1, 2, 0] * 4
    Reranker(probe).rerank(page(), [click(3)], {"device": "watch"})
    assert not probe.seen["item_codes"][0, :, 2].any()


def test_missing_values_are_unknown_and_not_an_error() -> None:
    items = page()
    items[2] = {"id": 2}
    items[4].update(price=None, stars=math.nan, brand=None, title=None)
    for feature in ("price: to touched", "stars: value", "brand: wanted", "embeddings: wanted"):
        found = reranker(feature).rerank(items, [click(3), click(2), {**click(4), "price": None}])
        assert sorted(found.rows.tolist()) == list(range(12))
        assert np.isfinite(found.scores).all()


def test_ids_go_out_as_they_came_in() -> None:
    ids: list[Any] = ["a", 7, 8.0, np.int64(9), "10", -3]
    items = [{"id": each, "price": 1.0} for each in ids]
    found = reranker_of(Schema(price="price")).rerank(items, [click("9"), click(8, 2)])
    assert found.ids == [8.0, np.int64(9), "a", 7, "10", -3]
    assert [type(each) for each in found.ids] == [float, np.int64, str, int, str, int]
    assert json.dumps(found.to_dict()["order"]) == '[8.0, 9, "a", 7, "10", -3]'
    columns = {"id": np.arange(3), "price": np.ones(3)}
    assert json.dumps(kits.rerank(columns, [click(2)]).to_dict()["order"])[1:-1].count('"') == 0
    # Two names of one item are still refused.
    with pytest.raises(TableError, match="row 1, column id: also the id of row 0: '7'"):
        kits.rerank([{"id": 7}, {"id": "7"}], [click(7)])


def reranker_of(schema: Schema, feature: str = "touches: order") -> Reranker:
    return Reranker(Probe(Layout(schema), feature))


def test_unseen_categories_count_as_one_more() -> None:
    items = [{**item, "brand": "never seen"} for item in page()]
    found = reranker("touches: count of others").rerank(items, [{**click(5), "event": "other"}])
    assert found.ids[0] == 5


def test_kinds_of_events_have_other_names() -> None:
    for name, kind in {
        "purchase": "buy",
        "View": "exposure",
        "impression": "exposure",
        "add to cart": "cart",
        "AddToCart": "cart",
        "favourite": "like",
        "dislike": "skip",
        "CLICK": "click",
        "Others": "others",
    }.items():
        kit = reranker(f"touches: count of {kind}")
        assert kit.rerank(page(), [{**click(5), "event": name}]).ids[0] == 5, name
    # A model that knows another name of a kind takes all of them for that one.
    own = reranker_of(Schema(events=("view", "purchase")), "touches: count of purchase")
    assert own.rerank(page(), [{**click(5), "event": "buy"}]).ids[0] == 5


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("purhcase", "got 'purhcase', did you mean purchase?"),
        ("clik", "got 'clik', did you mean click?"),
        ("waved at", "got 'waved at'"),
    ],
)
def test_unknown_kinds_of_events_are_refused(kind: str, end: str) -> None:
    known = "expected one of exposure, click, dwell, skip, like, cart, buy, other"
    message = re.escape(f"history: row 1, column event: {known}, {end}") + "$"
    history = [click(3), {**click(5), "event": kind}]
    with pytest.raises(TableError, match=message):
        reranker().rerank(page(), history)
    for kit in (reranker(), kits.Reranker()):
        session = kit.session()
        with pytest.raises(TableError, match=message):
            session.observe(history)
        assert len(session) == 0


def test_a_kind_that_this_model_lacks_is_unknown_to_it() -> None:
    own = reranker_of(Schema(events=("view", "purchase")))
    with pytest.raises(TableError, match="expected one of view, purchase, other, got 'cart'"):
        own.rerank(page(), [{**click(5), "event": "cart"}])


@pytest.mark.parametrize("count", [1, 10_000])
def test_one_item_and_ten_thousand(count: int) -> None:
    found = reranker().rerank(page(count), [click(count - 1)])
    assert found.ids[0] == count - 1 and len(found) == count


def test_no_items_give_an_empty_ranking() -> None:
    tables: list[Any] = [[], {}, {"id": []}]
    for empty in tables:
        found = reranker().rerank(empty, [click(3)])
        assert found.ids == [] and found.scores.shape == (0,)
    assert reranker().session().rerank([]).ids == []


def change(row: int, **values: Any) -> list[Row]:
    items = page()
    items[row].update(values)
    return items


@pytest.mark.parametrize(
    ("items", "history", "message"),
    [
        (change(7, id=3), [], "items: row 7, column id: also the id of row 3: '3'"),
        (change(7, id=None), [], "items: row 7, column id: expected an id, got nothing"),
        (change(7, id=[1]), [], r"items: row 7, column id: expected text or a number: \[1\]"),
        (change(4, price="dear"), [], "items: row 4, column price: expected a number: 'dear'"),
        (change(4, stars=math.inf), [], "items: row 4, column stars: expected a finite number"),
        (change(4, brand=["a"]), [], "items: row 4, column brand: expected text or a number"),
        (change(4, title=[1.0]), [], "items: row 4, column title: expected 3 finite numbers"),
        (change(4, title=[1e300, 0, 0]), [], "items: row 4, column title: expected 3 finite"),
        (change(4, price=1e30), [], r"items: row 4, column price: expected a number from -1e\+15"),
        (page(), [{**click(1), "value": -1e99}], "history: row 0, column value: expected a number"),
        ([{"id": 1}], [], "items: row 0: no column 'price'"),
        ([{"price": 1}], [], "items: row 0: no column 'id'"),
        ([5], [], "items: row 0: expected a dict, got int"),
        ("page", [], "items: expected a list of dicts"),
        ({"id": [1, 2], "price": [1]}, [], "items: column price: expected 2 rows, got 1"),
        (page(), [{"event": "click", "id": 1}], "history: row 0: no column 'time'"),
        (page(), [click(1), click(1, math.nan)], "history: row 1, column time: expected seconds"),
        (page(), [{"id": 1, "time": 1}], "history: row 0: no column 'event'"),
        (page(), [click(1), {**click(2), "event": None}], "history: row 1, column event"),
        (page(), [click(1), click(2, 9e9)], "history: row 1, column time: expected no event later"),
    ],
)
def test_bad_input_names_row_and_column(items: Any, history: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        reranker().rerank(items, history, {"time": 100.0})


@pytest.mark.parametrize("place", [None, math.nan, -1])
def test_a_place_that_cannot_be_is_refused(place: Any) -> None:
    items = [{"id": 1, "place": 0}, {"id": 2, "place": place}]
    with pytest.raises(TableError, match="items: row 1, column place: expected a place, 0 or more"):
        Reranker(schema=Schema(position="place")).rerank(items, [click(1)])


@pytest.mark.parametrize("context", [["mobile"], "mobile", 3])
def test_a_context_that_is_no_dict_is_refused(context: Any) -> None:
    kit = reranker()
    with pytest.raises(TableError, match="context: expected a dict, got"):
        kit.rerank(page(), [click(1)], context)
    with pytest.raises(TableError, match="context: expected a dict, got"):
        kit.session(context).rerank(page())


@pytest.mark.parametrize("items", ["log.jsonl", b"log", 5, None])
def test_what_is_no_table_is_refused_also_where_the_schema_is_inferred(items: Any) -> None:
    with pytest.raises(TableError, match="items: expected a list of dicts"):
        kits.rerank(items, [click(1)])


def test_a_session_refuses_what_is_no_event_and_goes_on() -> None:
    session = reranker().session({"time": 100.0})
    with pytest.raises(TableError, match="history: row 0: no column 'time'"):
        session.observe({"event": "click", "id": 1})
    session.observe(click(3))
    assert len(session) == 1 and session.rerank(page()).ids[0] == 3
    session.observe(click(4, 200.0))
    with pytest.raises(TableError, match="session: row 1, column time: expected no event later"):
        session.rerank(page())


def test_a_model_that_is_no_reranker_is_refused() -> None:
    probe = Probe(Layout(SCHEMA), "price: log")
    for metadata in ({}, {"kit": "rerank"}, {"kit": "rerank", "layout": "{}"}):
        probe.metadata = metadata
        with pytest.raises(ModelError):
            Reranker(probe)


def test_a_schema_must_be_the_models_but_for_names() -> None:
    probe = Probe(Layout(SCHEMA), "touches: order")
    with pytest.raises(ValueError, match="trained with categories"):
        Reranker(probe, Schema(price="price", score="score"))
    from dataclasses import replace

    with pytest.raises(ValueError, match="trained with a price"):
        Reranker(probe, replace(SCHEMA, price=None))
    renamed = replace(SCHEMA, price="cost", id="sku")
    items = [{**item, "cost": item["price"], "sku": item["id"]} for item in page()]
    found = Reranker(probe, renamed).rerank(items, [{**click(0), "sku": 4}])
    assert found.ids[0] == 4


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="cold_start"):
        reranker(cold_start="never")


def test_one_reranker_serves_many_threads() -> None:
    kit, failures = reranker("touches: by order"), list[str]()

    def work(item: int) -> None:
        for _ in range(20):
            if kit.rerank(page(), [click(item)]).ids[0] != item:
                failures.append(str(item))

    threads = [threading.Thread(target=work, args=(item,)) for item in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_shipped_model_takes_any_page() -> None:
    items = [
        {"sku": f"s{row}", "cost": 10.0 + row, "brand": "ab"[row % 2], "colour": "red"}
        for row in range(20)
    ]
    history = [{"event": "click", "sku": "s13", "time": 5.0, "brand": "b", "cost": 23.0}]
    found = kits.rerank(items, history)
    assert sorted(found.rows.tolist()) == list(range(20)) and not found.cold
    # Of two neighbours the one of the brand that was clicked goes first, mostly.
    place = {name: at for at, name in enumerate(found.ids)}
    lifted = sum(place[f"s{row + 1}"] < place[f"s{row}"] for row in range(0, 20, 2))
    assert lifted >= 5
    assert kits.rerank(items).ids == [f"s{row}" for row in range(20)]


def test_padding_and_batch_do_not_change_scores() -> None:
    kit = kits.Reranker(schema=Schema(price="price", categories=("brand",)), cold_start="model")
    items = [{"id": row, "price": row + 1.0, "brand": "ab"[row % 2]} for row in range(9)]
    history = [click(3, 1.0, brand="b"), click(5, 4.0)]
    alone = kit.rerank(items, history)
    explained = kit.rerank(items, history, why=True)
    np.testing.assert_allclose(alone.scores, explained.scores, atol=1e-5)
    shuffled = kit.rerank(
        {name: [item[name] for item in items] for name in items[0]}, list(reversed(history))
    )
    np.testing.assert_allclose(alone.scores, shuffled.scores, atol=1e-5)
