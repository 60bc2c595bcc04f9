"""What the command says of words that it does not know: one line, and what was probably meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palmkit import kits
from palmkit.kits.nearest import did_you_mean, nearest
from palmkit.kits.options import one_of
from tests.docs.examples import lines, why_wrong
from tests.kits.conftest import picture


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    kits.write_image("group.png", picture(64, 96))
    Path("pictures").mkdir()
    kits.write_image("pictures/beach.png", picture(64, 96))
    Path("net.palm").touch()
    return "group.png"


def test_alone_it_shows_what_it_does(run: Any) -> None:
    result = run()
    assert (result.code, result.err) == (0, "")
    examples = [line for line in lines(result.out) if line.startswith("palmkit")]
    assert len(examples) > 10
    assert not [why for line in examples if "COMMAND" not in line and (why := why_wrong(line))]
    assert "palmkit --help" in result.out and len(result.out.splitlines()) < 30


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("fase group.png", "palmkit: no command fase, did you mean face?"),
        ("Portrait group.png", "palmkit: no command Portrait, did you mean portrait?"),
        ("try-on group.png", "palmkit: no command try-on, did you mean tryon?"),
        ("abacus", "palmkit: no command abacus; see palmkit --help"),
        ("models lsit", "palmkit models: no command lsit, did you mean list?"),
        ("--versoin", "palmkit: no option --versoin, did you mean --version?"),
        ("face group.png --jsn", "palmkit face: no option --jsn, did you mean --json?"),
        ("face group.png --minscore=1", "palmkit face: no option --minscore, did you mean --min"),
        ("face --abacus group.png", "palmkit face: no option --abacus; see palmkit face --help"),
        # Former names work, and are not what is proposed.
        ("face group.png --detectr x", "palmkit face: no option --detectr, did you mean --detect"),
        ("info a.palm b.palm", "palmkit info: expected no more arguments, got 'b.palm'"),
        ("info", "palmkit info: the following arguments are required: FILE"),
        (
            "face group.png --precision hgih",
            "palmkit face: --precision: expected one of high, normal, low, got 'hgih', did you"
            " mean high?",
        ),
        (
            "face group.png --rotation 45",
            "palmkit face: --rotation: expected one of 0, 90, 180, 270, got 45",
        ),
        ("tryon group.png -o a.png --lipstick rubby", "got 'rubby', did you mean ruby?"),
        ("tryon group.png -o a.png --eye-shadow smoky", "palmkit tryon: --eye-shadow: expected"),
        ("tryon group.png -o a.png --look evning", "beach, did you mean evening?"),
        ("face groop.png", "palmkit: no such file: groop.png, did you mean group.png?"),
        ("face group.jpg", "palmkit: no such file: group.jpg, did you mean group.png?"),
        ("face pictures/beech.png", "beech.png, did you mean pictures/beach.png?"),
        ("face none/beach.png", "palmkit: no such file: none/beach.png"),
        ("info nett.palm", "No such file or directory, did you mean net.palm?"),
        ("convert nett.palm -o a.palm", "did you mean net.palm?"),
        ("rerank gruop.json", "no such file or directory: gruop.json"),
        ("portrait group.png -o a.png --background pictures/baech.png", "mean pictures/beach.png?"),
    ],
)
def test_what_was_meant(run: Any, source: str, arguments: str, told: str) -> None:
    result = run(*arguments.split(" "))
    assert result.code in (1, 2) and result.out == ""
    assert result.err.count("\n") == 1 and told in result.err
    if told.startswith("palmkit") and not told.endswith(("min", "detect", "expected")):
        assert result.err == f"{told}\n"


def test_files_stand_between_options(run: Any, source: str, red_model: Path) -> None:
    options = ("--size", "640", "--model", str(red_model))
    result = run("face", source, *options, "pictures", "--json", "pictures/beach.png")
    assert [line["file"] for line in result.lines] == [
        source,
        "pictures/beach.png",
        "pictures/beach.png",
    ]
    result = run("face", "--json", *options, source, "--", "-a.png")
    assert result.err.splitlines()[0] == "palmkit: no such file: -a.png"
    kits.write_image("-a.png", picture(64, 96))
    result = run("face", source, "-a.png")
    assert result.err == "palmkit face: no option -a.png; write ./-a.png for the file\n"
    assert run("face", source, *options, "--json", "--", "-a.png").lines[1]["file"] == "-a.png"


def test_nearest() -> None:
    assert nearest("blu", ("blur", "blue_sky", "black")) == "blur"
    assert nearest("MIN_SCORE", ("--max-score", "--min-score")) == "--min-score"
    assert nearest("background", ("backend", "roi")) is None
    assert nearest("", ("face",)) is None and nearest("face", ()) is None
    assert did_you_mean("hgih", ("high", "low")) == ", did you mean high?"
    assert did_you_mean("zz", ("high", "low")) == ""


def test_options_in_python_say_what_was_meant() -> None:
    with pytest.raises(ValueError, match=r"got 'hgih', did you mean high\?$"):
        kits.FaceDetector(precision="hgih")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got 3$"):
        one_of("style", 3, ("a", "b"))


def test_every_command_has_an_error_of_its_own(run: Any) -> None:
    for name in ("face", "convert", "rerank", "serve", "doctor"):
        result = run(name, "--no-such-option")
        assert result.code == 2
        assert result.err.startswith(f"palmkit {name}: ") and result.err.count("\n") == 1
