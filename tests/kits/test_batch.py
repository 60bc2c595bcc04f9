"""Batches of every kit: one process and two workers of Ray give the same."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.engine.errors import TableError
from palmkit.kits import batch
from palmkit.kits.cli import main
from palmkit.models.reranker import simulator

parquet: Any = pytest.importorskip("pyarrow.parquet", reason="pyarrow is in the extra rerank")
arrow: Any = pytest.importorskip("pyarrow")


def picture(folder: Path, name: str, seed: int) -> None:
    levels = np.random.default_rng(seed).integers(0, 255, (60, 80, 3), np.uint8)
    kits.write_image(folder / name, levels)


def photos(folder: Path) -> Path:
    """Five pictures, one of which is none."""
    folder.mkdir()
    for seed, name in enumerate(("a.png", "b.png", "d.png", "e.png")):
        picture(folder, name, seed)
    (folder / "c.png").write_bytes(b"no picture")
    return folder


def pages(path: Path, count: int = 30) -> list[dict[str, Any]]:
    """Pages of the simulated shop; one lacks its ids."""
    rows: list[dict[str, Any]] = []
    for row in simulator.simulate(count, 3):
        if "items" in row and len(rows) < count:
            items = [{**item, "embedding": item["embedding"] or [0.0] * 8} for item in row["items"]]
            click = {"event": "click", "id": items[3]["id"], "time": 1.0}
            rows.append({"id": f"p{len(rows)}", "items": items, "history": [click]})
    for item in rows[7]["items"]:
        item["id"] = None
    parquet.write_table(arrow.Table.from_pylist(rows), path, row_group_size=7)
    return rows


def read(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return found


@pytest.mark.parametrize("kit", ["face", "mesh", "portrait", "hair", "gesture"])
def test_a_folder_gives_what_the_kit_gives_and_a_failed_row_is_listed(
    kit: str, tmp_path: Path
) -> None:
    folder = photos(tmp_path / "photos")
    told: list[int] = []
    failures = batch.run(kit, folder, tmp_path / "out.parquet", rows=2, report=told.append)
    rows = read(tmp_path / "out.parquet")
    assert told == [2, 4, 5] and [row["row"] for row in rows] == [0, 1, 2, 3, 4]
    assert [Path(row["name"]).name for row in rows] == [f"{x}.png" for x in "abcde"]
    assert [failure.row for failure in failures] == [2]
    assert failures[0].error == rows[2]["error"] and "ImageError" in failures[0].error
    assert rows[2]["result"] is None
    alone: dict[str, Any] = {
        "face": kits.detect_faces,
        "mesh": kits.face_mesh,
        "portrait": kits.segment_portrait,
        "hair": kits.segment_hair,
        "gesture": kits.recognize_gestures,
    }
    expected = alone[kit](folder / "b.png")
    assert json.loads(rows[1]["result"]) == json.loads(json.dumps(expected.to_dict()))
    if kit in ("portrait", "hair"):
        assert kits.read_image(rows[1]["mask"]).shape == (60, 80, 3)


def test_try_on_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = photos(tmp_path / "photos"), tmp_path / "out.parquet"
    command = ["batch", "tryon", str(folder), "-o", str(out), "-q"]
    assert main([*command, "--option", "look=evening", "--option", "behind_hair=false"]) == 1
    assert "c.png: ImageError" in capsys.readouterr().err
    good = read(out)[1]
    assert np.array_equal(kits.read_image(good["picture"]), kits.read_image(folder / "b.png"))
    assert json.loads(good["result"])["look"]
    for wrong in ("look", "hat=red", "behind_hair=perhaps", "max_faces=many"):
        with pytest.raises(SystemExit, match="2"):
            main([*command, "--option", wrong])


def test_pictures_in_parquet_by_path_or_as_bytes(tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos")
    files = [folder / f"{name}.png" for name in "abc"]
    table = arrow.table({"id": ["x", "y", "z"], "picture": [file.read_bytes() for file in files]})
    parquet.write_table(table, tmp_path / "in.parquet")
    failures = batch.run("face", tmp_path / "in.parquet", tmp_path / "out.parquet")
    rows = read(tmp_path / "out.parquet")
    assert [row["name"] for row in rows] == ["x", "y", "z"]
    assert [failure.name for failure in failures] == ["z"]


def test_a_missing_folder_is_told_of_by_the_name_of_the_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    photos(tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    for out, told in (
        ("missing/x.parquet", "the folder does not exist: missing/x.parquet"),
        (f"{'x' * 300}.parquet", f"file name too long: {'x' * 300}.parquet"),
        ("photos/a.png/x.parquet", "the folder does not exist: photos/a.png/x.parquet"),
    ):
        assert main(["batch", "face", "photos", "-o", out, "-q"]) == 1
        assert capsys.readouterr().err == f"palmkit: {told}\n"
    assert not [*tmp_path.rglob("*.parquet")]


def test_an_output_that_cannot_be_written_is_told_of_by_its_name(tmp_path: Path) -> None:
    def fail(*arguments: Any) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", str(arguments[0]))

    photos(tmp_path / "photos")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", fail)
        with pytest.raises(PermissionError) as raised:
            batch.run("face", tmp_path / "photos", tmp_path / "out.parquet")
    assert raised.value.filename == os.fspath(tmp_path / "out.parquet")


def test_rerank_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    shown = pages(source)
    simulator.SCHEMA.save(tmp_path / "schema.json")
    command = ["rerank", "score", str(source), "-o", str(out), "-q"]
    assert main([*command, "--schema", str(tmp_path / "schema.json")]) == 1
    assert "row 7, p7: TableError: items: row 0, column id" in capsys.readouterr().err
    rows = read(out)
    assert [row["name"] for row in rows] == [page["id"] for page in shown]
    kit = kits.Reranker(schema=simulator.SCHEMA)
    for row, page in zip(rows, shown, strict=True):
        if row["error"] is None:
            expected = kit.rerank(page["items"], page["history"]).to_dict()
            assert json.loads(row["result"]) == json.loads(json.dumps(expected))


# Ray warns of its own settings.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_two_workers_of_ray_give_what_one_process_gives(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is in the extra ray")
    source = tmp_path / "in.parquet"
    pages(source)
    folder = photos(tmp_path / "photos")
    options = {"schema": simulator.SCHEMA}
    told: list[int] = []
    jobs: list[tuple[str, Path, dict[str, Any]]] = [
        ("rerank", source, options),
        ("hair", folder, {}),
    ]
    for kit, given, made in jobs:
        one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
        alone = batch.run(kit, given, one, options=made)
        told.clear()
        both = batch.run(kit, given, two, options=made, workers=2, rows=4, report=told.append)
        assert both == alone and len(both) == 1
        assert read(two) == read(one)
        assert len(told) > 1 and told == sorted(told)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_ray_leaves_the_terminal_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray", reason="ray is in the extra ray")
    folder = photos(tmp_path / "photos")
    command = ["batch", "hair", str(folder), "-o", str(tmp_path / "out.parquet")]
    assert main([*command, "--workers", "2"]) == 1
    said = capfd.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("palmkit") and "row" in line


def test_what_cannot_be_is_said_and_leaves_no_file(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    (tmp_path / "empty").mkdir()
    parquet.write_table(arrow.table({"x": [1]}), tmp_path / "other.parquet")
    wrong: list[tuple[str, str, dict[str, Any], str]] = [
        ("face", "empty", {}, "expected rows, got none"),
        ("face", "other.parquet", {}, "expected a column path or picture"),
        ("rerank", "empty", {}, "expected Parquet"),
        ("face", "x.txt", {}, "a name that ends with .parquet"),
    ]
    for kit, source, options, message in wrong:
        with pytest.raises(TableError, match=message):
            batch.run(kit, tmp_path / source, out, **options)
    with pytest.raises(ValueError, match="kit: expected one of face, mesh"):
        batch.run("cat", tmp_path, out)
    with pytest.raises(ValueError, match="workers: expected at least 1, got 0"):
        batch.run("face", tmp_path, out, workers=0)
    with pytest.raises(FileNotFoundError):
        batch.run("face", tmp_path / "none.parquet", out)
    with pytest.raises(SystemExit, match="2"):
        main(["batch", "face", str(tmp_path), "-o", "x.csv"])
    assert not out.exists() and list(tmp_path.glob(".*")) == []


def test_the_worker_takes_a_dict_of_columns() -> None:
    worker = batch.Worker("rerank")
    items = json.dumps([{"id": 1, "price": 3.0}, {"id": 2, "price": 4.0}])
    found = worker({"id": ["a", "b", "c"], "items": [items, "{", None]})
    assert json.loads(found["result"][0])["order"] == [1, 2]
    assert found["error"][0] is None and "expected JSON" in found["error"][1]
    assert json.loads(found["result"][2])["order"] == []
