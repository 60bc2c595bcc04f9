"""Old names give what the new ones do, and warn; names that never were are refused as ever."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from palmkit.engine import deprecated


def test_a_moved_name_warns_and_is_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = deprecated.names("some.module", {"Old": "pathlib:Path"})
    with pytest.warns(DeprecationWarning, match=r"some.module.Old is deprecated: .* pathlib.Path"):
        assert found("Old") is Path
    with pytest.raises(AttributeError, match="module 'some.module' has no attribute 'Other'"):
        found("Other")


def test_a_moved_module_gives_all_its_names() -> None:
    found = deprecated.module("some.module", "pathlib")
    with pytest.warns(DeprecationWarning, match="some.module.Path"):
        assert found("Path") is Path
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        found("Other")
    with pytest.raises(AttributeError, match="no attribute '__path__'"):
        found("__path__")


def test_keywords_get_their_new_names() -> None:
    with pytest.warns(DeprecationWarning, match="call: old is deprecated: it is new now"):
        assert deprecated.keywords({"old": 1, "x": 2}, {"old": "new"}, "call") == {"new": 1, "x": 2}
    with pytest.raises(TypeError, match="call: expected new, got new and old"):
        deprecated.keywords({"old": 1, "new": 2}, {"old": "new"}, "call")


class Thing:
    after = 3
    picture = deprecated.attribute("after")

    @deprecated.path_argument("path", "file")
    def to_dict(self) -> dict[str, Any]:
        """What it is."""
        return {"file": None}


def test_attributes_and_arguments_that_are_gone() -> None:
    thing: Any = Thing()
    with pytest.warns(DeprecationWarning, match="Thing.picture is deprecated: it is after now"):
        assert thing.picture == 3
    assert thing.to_dict() == {"file": None}
    for given in ((Path("a.png"),), {"path": "a.png"}):
        with pytest.warns(DeprecationWarning, match="Thing.to_dict: path"):
            found = thing.to_dict(*given) if isinstance(given, tuple) else thing.to_dict(**given)
        assert found == {"file": "a.png"}
    for wrong in ({"other": 1}, {"path": 1, "other": 2}):
        with pytest.raises(TypeError, match="expected no arguments"):
            thing.to_dict(**wrong)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("palmkit.engine.errors:LookError", "palmkit.engine.errors:TryOnError"),
        ("palmkit.kits.face.decode:Candidates", "palmkit.kits.detection:Candidates"),
        ("palmkit.kits.portrait.result:Mask", "palmkit.kits.results:Mask"),
        ("palmkit.kits.tryon.result:TriedOn", "palmkit.kits.results:TriedOn"),
        ("palmkit.kits.ranking.result:Ranking", "palmkit.kits.results:Ranking"),
    ],
)
def test_names_that_have_moved(old: str, new: str) -> None:
    (former, name), (home, now) = (each.split(":") for each in (old, new))
    with pytest.warns(DeprecationWarning, match=f"{former}.{name} is deprecated: it is {home}"):
        found = getattr(importlib.import_module(former), name)
    assert found is getattr(importlib.import_module(home), now)
