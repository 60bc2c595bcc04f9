import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palmkit.engine.errors import TableError
from palmkit.kits import Schema
from palmkit.kits.ranking.log import read_pages, read_rows

FLAT = """session,page,time,event,item_id,price,clicked
s1,,1,click,a,3.5,
s1,p1,2,,a,3.5,0
s1,p1,2,,b,,1
s2,p2,2,,c,1,1
s1,,3,skip,c,1,
s1,p3,4,,a,4,0
s1,p3,4,,d,5,0
"""
SCHEMA = Schema(id="item_id", price="price", label="clicked")


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    if name.endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        path.write_text(text)
    return path


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["item_id"] for row in rows]


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.tsv"])
def test_a_table_is_read_page_by_page(tmp_path: Path, name: str) -> None:
    text = FLAT.replace(",", "\t") if name.endswith("tsv") else FLAT
    first, other, last = read_pages(read_rows(written(tmp_path, name, text)), SCHEMA)
    assert ids(first.items) == ["a", "b"] and first.labels == [0, 1]
    assert ids(first.history) == ["a"] and first.items[1]["price"] is None
    assert (other.session, other.history, other.number) == ("s2", [], 3)
    # What was chosen on the first page is an event by now, and so is the skip.
    assert ids(last.history) == ["a", "b", "c"]
    assert [event["event"] for event in last.history] == ["click", "click", "skip"]
    assert last.labels == [0, 0] and last.start == 1


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is in the extra rerank")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = list(read_rows(written(tmp_path, "log.csv", FLAT)))
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "log.parquet")
    assert list(read_rows(tmp_path / "log.parquet")) == rows
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(TableError, match="bad.parquet"):
        list(read_rows(tmp_path / "bad.parquet"))


def test_pages_in_json_with_what_was_chosen(tmp_path: Path) -> None:
    rows = [
        {"session": 1, "time": 1, "items": [{"id": "a"}, {"id": 7}], "chosen": ["7"],
         "context": {"device": "tv"}},
        {"session": 1, "time": 5, "items": [{"id": "b"}], "chosen": [{"id": "b", "event": "buy"}]},
        {"session": 1, "time": 6, "items": [{"id": "c"}], "history": []},
    ]  # fmt: skip
    path = written(tmp_path, "log.jsonl", "\n".join(map(json.dumps, rows)) + "\n\n")
    first, second, third = read_pages(read_rows(path), Schema())
    assert first.labels == [0, 1] and first.context == {"device": "tv", "time": 1}
    assert [(event["id"], event["event"]) for event in second.history] == [(7, "click")]
    assert third.history == [] and third.labels == [0]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("log.jsonl", '{"time": 1}\n{nonsense', "log: row 1: expected JSON"),
        ("log.jsonl", "[1]", "log: row 0: expected an object"),
        ("log.csv", "time,b\n1,2\n1,2,3\n", "log: row 1: expected 2 cells"),
        ("log.csv", "a,b\n1\n", "log: row 0: expected 2 cells"),
        ("log.csv", "id,event,time\na,click,soon\n", "log: row 0, column time: expected a number"),
        ("log.csv", "id,event,time\na,click,\n", "log: row 0, column time: expected a time"),
        ("log.jsonl", '{"items": [], "time": 1}', "log: row 0, column items: expected dicts"),
        ("log.jsonl", '{"items": [{}], "time": 1}', "no column 'id'"),
        ("log.txt", "", "log: expected one of"),
        (
            "log.csv",
            "session,id,event,time\ns,a,click,5\ns,b,click,4\n",
            "log: row 1, column time: expected order of time",
        ),
    ],
)
def test_what_cannot_be_read_names_the_row(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(TableError, match=message):
        list(read_pages(read_rows(written(tmp_path, name, text)), Schema()))


UNKNOWN: list[tuple[list[dict[str, Any]], str]] = [
    ([{"id": "a", "time": 1, "event": "purhcase"}], "row 0, column event: .*did you mean purchase"),
    (
        [
            {"time": 1, "items": [{"id": "a"}]},
            {"time": 2, "items": [{"id": "a"}], "chosen": [{"id": "a", "event": "waved at"}]},
        ],
        "row 1, column event: expected one of exposure, .*, other, got 'waved at'",
    ),
    (
        [
            {"id": "a", "page": 1, "label": 0, "time": 1},
            {"id": "b", "page": 1, "label": 1, "time": 1, "event": "bouhgt"},
        ],
        "row 1, column event: .*did you mean bought",
    ),
]


@pytest.mark.parametrize(("rows", "message"), UNKNOWN)
def test_unknown_kinds_of_events_name_the_row(rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(TableError, match=f"log: {message}"):
        list(read_pages(rows, Schema()))


def kinds_after(row: dict[str, Any], schema: Schema) -> list[str]:
    """Return the kinds of the history that a page after this one has."""
    rows = [{"session": 1, "time": 1, **row}, {"session": 1, "time": 2, "items": [{"id": "z"}]}]
    return [event["event"] for event in list(read_pages(rows, schema))[-1].history]


def test_the_kind_of_a_choice_is_what_the_log_says_of_it() -> None:
    page: dict[str, Any] = {"items": [{"id": "a"}], "chosen": ["a"]}
    assert kinds_after(page, Schema()) == ["click"]
    assert kinds_after({**page, "event": "buy"}, Schema()) == ["buy"]
    # That the page was seen is no choice.
    assert kinds_after({**page, "event": "impression"}, Schema()) == ["click"]
    named = {**page, "chosen": [{"id": "a", "event": "purchase"}]}
    assert kinds_after(named, Schema()) == ["buy"]
    assert kinds_after(named, Schema(events=("view", "purchase"))) == ["purchase"]
    assert kinds_after(page, Schema(events=("view", "purchase"))) == ["other"]


DAMAGE: tuple[Callable[[bytes], bytes], ...] = (
    lambda whole: whole[:-12],
    lambda whole: whole[:20] * 9,
)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_gzip_is_a_typed_error(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = written(tmp_path, "log.csv.gz", FLAT)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(TableError, match="log.csv.gz"):
        list(read_rows(path))


def test_infer_proposes_by_name_and_by_value(tmp_path: Path) -> None:
    rows = [
        {
            "item_id": row,
            "Price": 1.5 * row,
            "brand": "ab"[row % 2],
            "title": f"text {row}",
            "vector": [0.1, 0.2 * row],
            "stars": row / 7,
            "shop_id": row % 3,
            "device": "tv",
            "timestamp": row,
        }
        for row in range(50)
    ]
    found = Schema.infer(rows)
    assert (found.id, found.price, found.time) == ("item_id", "Price", "timestamp")
    assert found.categories == ("brand", "shop_id") and found.numbers == ("stars",)
    assert found.embeddings == {"vector": 2} and found.context == ("device",)
    pages = [{"time": 3, "items": rows[:30], "context": {"country": "is"}, "chosen": [3]}]
    nested = Schema.infer(pages)
    assert nested.price == "Price" and nested.context == ("country", "device")
    path = written(tmp_path, "log.jsonl", "\n".join(map(json.dumps, pages)))
    assert Schema.infer(path) == nested
    with pytest.raises(TableError, match="no column for the id"):
        Schema.infer([{"brand": "a"}])


def test_titles_are_no_categories() -> None:
    """On a page where all items differ, in a log that shows them again and again, by any name."""
    words = ["Red running shoe", "Blue walking boot", "Green rubber sandal", "Soft grey slipper"]
    page: list[dict[str, Any]] = [
        {
            "id": row,
            "name": f"Shoe{row}",
            "product_title": f"Shoe{row}",
            "Description": "short",
            "image_url": f"{row}.jpg",
            "said": words[row % 4] + f" {row}",
            "brand": f"Brand{row}",
            "brand_name": "ab"[row % 2],
            "section": ["Home and Garden Tools", "Shoes for the Whole Family"][row % 2],
        }
        for row in range(8)
    ]
    found = Schema.infer(page)
    assert found.categories == ("brand", "brand_name", "section")
    shown = [{"time": 1, "items": page, "chosen": []}] * 40
    assert Schema.infer(shown).categories == found.categories
    # Of many items each has a value of its own, however often it is shown.
    many = [
        {"id": row % 50, "label text": f"Shoe{row % 50}", "shop": f"s{row % 5}"}
        for row in range(900)
    ]
    assert Schema.infer(many).categories == ("shop",)


def test_kinds_of_events_are_proposed_by_our_names() -> None:
    def events(*kinds: str) -> tuple[str, ...]:
        return Schema.infer([{"id": 1, "time": 1, "event": each} for each in kinds]).events

    assert events("view", "purchase") == Schema().events
    assert events("view", "purchase", "share") == ("buy", "click", "exposure", "share")
    log = [{"id": 1, "time": 1, "event": each} for each in ("view", "share", "purchase")]
    schema = Schema.infer(log)
    list(read_pages(log, schema))


def test_a_schema_survives_its_file(tmp_path: Path) -> None:
    schema = Schema(
        id="sku", categories=("a",), embeddings={"e": 4}, price="p", events=("click", "wave")
    )
    schema.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == schema
    for text, message in (
        ("{", "expected JSON"),
        ("[]", "expected an object"),
        ('{"colour": 1}', "unknown key 'colour'"),
        ('{"id": 5}', "expected the name of a column: 5"),
        ('{"numbers": ["id"]}', "two meanings: 'id'"),
        ('{"numbers": 5}', "schema"),
        ('{"embeddings": {"e": 0}}', "expected a length"),
        ('{"embeddings": {"e": "long"}}', "schema"),
        ('{"events": []}', "expected different names"),
    ):
        with pytest.raises(TableError, match=message):
            Schema.load(written(tmp_path, "bad.json", text))
