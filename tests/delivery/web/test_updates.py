"""Releases in browsers come from the repository that Python's come from, and are chosen alike."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import tomllib
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from palmkit.delivery.policy import Condition, bucket
from palmkit.delivery.repository import Options, Repository
from palmkit.engine.format import VERSION as PALM_FORMAT
from tests.delivery.fault_server import Fault, FaultServer, serving
from tests.delivery.releases import make_repository, write_model
from tests.delivery.web.package import needs_delivery
from tests.engine.web.package import PACKAGE, ROOT, node

pytestmark = needs_delivery

PROGRAM = "../../delivery/web/updates.mjs"
MODEL = "doubler"


def done(folder: object, **script: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(node(PROGRAM, folder, json.dumps(script)))
    return found


class Page:
    """A page of an app, opened anew for each list of things to do."""

    def __init__(self, folder: Path, repository: Repository, server: FaultServer) -> None:
        self.folder, self.repository, self.server = folder, repository, server
        self.root = folder / "root.json"
        folder.mkdir()
        self.root.write_bytes(repository.root())
        self.options: dict[str, Any] = {"urls": [server.url]}
        self.serve()

    def serve(self) -> None:
        """Serve what is published now."""
        public = self.repository.public
        self.server.files = {
            f"/{path.relative_to(public).as_posix()}": path.read_bytes()
            for path in public.rglob("*")
            if path.is_file()
        }

    def do(self, *script: tuple[Any, ...]) -> list[Any]:
        """Return the values that things came to, or the codes of their errors."""
        store = self.folder / "store"
        found = done(store, root=str(self.root), options=self.options, script=script)
        return [each.get("code", each.get("value")) for each in found]

    def version(self) -> Any:
        return self.do(("version", MODEL))[0]


@pytest.fixture
def page(tmp_path: Path) -> Any:
    repository = make_repository(tmp_path, MODEL, "1.0.0", "2.0.0", "3.0.0")
    repository.promote(MODEL, "1.0.0")
    with serving() as server:
        yield Page(tmp_path / "page", repository, server)


def promote(page: Page, release: str, **options: Any) -> None:
    page.repository.promote(MODEL, release, **options)
    page.serve()


def content_of(page: Page, release: str) -> str:
    found: bytes = (page.folder.parent / release / "model.palm").read_bytes()
    return found.hex()


def test_a_release_arrives_and_stays(page: Page) -> None:
    assert page.do(("version", MODEL), ("isDue", MODEL), ("refresh", MODEL)) == [None, True, None]
    assert page.do(("version", MODEL), ("bytes", MODEL), ("isDue", MODEL)) == [
        "1.0.0",
        content_of(page, "1.0.0"),
        False,
    ]
    page.server.requests.clear()
    # Offline.
    page.server.faults["*"] = Fault("refuse")
    assert page.do(("refresh", MODEL), ("version", MODEL)) == ["check_fail_connect", "1.0.0"]
    page.server.faults.clear()
    promote(page, "2.0.0")
    assert page.do(("refresh", MODEL), ("version", MODEL)) == [None, "2.0.0"]
    kept = page.do(("kept",))[0]
    # The one before is there to go back to.
    assert len([name for name in kept if name.startswith("files/")]) == 2
    promote(page, "3.0.0")
    assert page.do(("refresh", MODEL), ("bytes", MODEL))[1] == content_of(page, "3.0.0")
    assert len([name for name in page.do(("kept",))[0] if name.startswith("files/")]) == 2


def test_what_failed_goes_back_and_is_not_taken_again(page: Page) -> None:
    page.do(("refresh", MODEL))
    promote(page, "2.0.0")
    assert page.do(("refresh", MODEL), ("failed", MODEL), ("version", MODEL))[2] == "1.0.0"
    assert page.do(("refresh", MODEL), ("version", MODEL))[1] == "1.0.0"
    page.repository.retry(MODEL)
    page.serve()
    assert page.do(("refresh", MODEL), ("version", MODEL))[1] == "2.0.0"


@pytest.mark.parametrize("how", ["recall", "revoke", "floor", "shipped"])
def test_what_is_taken_back_no_longer_runs(page: Page, how: str) -> None:
    page.do(("refresh", MODEL))
    promote(page, "2.0.0")
    page.do(("refresh", MODEL))
    expected: str | None = "1.0.0"
    if how == "recall":
        page.repository.recall(MODEL, "2.0.0")
    elif how == "revoke":
        page.repository.revoke(MODEL, "2.0.0")
    elif how == "floor":
        page.repository.set_floor(MODEL, "2.5.0")
        expected = None
    else:
        page.options["shipped"] = {MODEL: "2.1.0"}
        expected = "2.1.0"
    page.serve()
    assert page.do(("refresh", MODEL), ("version", MODEL)) == [None, expected]


def test_shares_and_conditions_are_those_of_python(page: Page) -> None:
    promote(page, "2.0.0", when=[Condition("tag", "has", ["kiosk"])])
    assert page.do(("refresh", MODEL), ("version", MODEL))[1] == "1.0.0"
    page.options["tags"] = ["kiosk"]
    assert page.do(("refresh", MODEL), ("version", MODEL))[1] == "2.0.0"
    promote(page, "3.0.0", when=[Condition("sdk", "in", ">=99")])
    assert page.do(("refresh", MODEL), ("version", MODEL))[1] == "2.0.0"
    promote(page, "3.0.0", when=[Condition("arch", "in", ["wasm"])], percent=0)
    assert page.do(("refresh", MODEL), ("version", MODEL))[1] == "2.0.0"
    promote(page, "3.0.0", percent=100)
    assert page.do(("refresh", MODEL), ("version", MODEL))[1] == "3.0.0"
    seeds = [bytes([i]) * 32 for i in range(5)]
    asked = [("bucket", seed.hex(), MODEL, "1.0.0", "salt") for seed in seeds]
    places = [each["value"] for each in done("memory", script=asked)]
    assert places == [bucket(seed, MODEL, "1.0.0", "salt") for seed in seeds]


def test_another_channel(page: Page) -> None:
    promote(page, "2.0.0", channel="beta")
    assert page.do(("refresh", MODEL), ("version", MODEL))[1] == "1.0.0"
    page.options["channel"] = "beta"
    assert page.do(("refresh", MODEL), ("version", MODEL))[1] == "2.0.0"
    page.options["channel"] = "gamma"
    assert page.do(("refresh", MODEL), ("version", MODEL)) == ["policy_invalid", "2.0.0"]


@pytest.mark.parametrize("kind", ["flipped", "truncated", "other", "endless", "status"])
def test_a_damaged_release_is_refused_and_comes_later(page: Page, kind: str) -> None:
    page.do(("refresh", MODEL))
    promote(page, "2.0.0")
    (file,) = (path for path in page.server.files if path.endswith(".doubler-2.0.0.palm"))
    page.server.faults[file] = Fault(kind)
    code, version = page.do(("refresh", MODEL), ("version", MODEL))
    assert code in ("hash_mismatch", "check_fail_connect", "check_fail_http5xx")
    assert version == "1.0.0"
    page.server.faults.clear()
    assert page.do(("refresh", MODEL), ("version", MODEL)) == [None, "2.0.0"]


def test_a_file_that_rotted_is_noticed(page: Page) -> None:
    page.do(("refresh", MODEL))
    promote(page, "2.0.0")
    page.do(("refresh", MODEL))
    newest = bytes.fromhex(content_of(page, "2.0.0"))
    (file,) = (f for f in (page.folder / "store/files").iterdir() if f.read_bytes() == newest)
    file.write_bytes(b"rot" + newest[3:])
    assert page.do(("version", MODEL), ("bytes", MODEL)) == ["1.0.0", content_of(page, "1.0.0")]
    assert page.do(("refresh", MODEL), ("version", MODEL)) == [None, "2.0.0"]


def test_nobody_can_serve_what_was_before(page: Page) -> None:
    before = dict(page.server.files)
    promote(page, "2.0.0")
    page.do(("refresh", MODEL))
    page.server.files = before
    assert page.do(("refresh", MODEL), ("version", MODEL)) == ["rollback_attack", "2.0.0"]


def test_another_mirror_answers(page: Page) -> None:
    page.options["urls"] = ["http://127.0.0.1:1", page.server.url]
    assert page.do(("refresh", MODEL), ("version", MODEL)) == [None, "1.0.0"]


def test_a_server_that_never_answers(page: Page) -> None:
    page.server.faults["*"] = Fault("hang")
    page.options["limitMs"] = 200
    assert page.do(("refresh", MODEL)) == ["check_fail_timeout"]


def test_a_root_of_others_is_not_believed(page: Page, tmp_path: Path) -> None:
    page.root.write_bytes(Repository.create(tmp_path / "others").root())
    assert page.do(("refresh", MODEL), ("version", MODEL)) == ["sig_fail", None]


def test_data_files(page: Page, tmp_path: Path) -> None:
    look = tmp_path / "look.json"
    look.write_text(json.dumps({"palmkit_look": 1, "lipstick": {"colour": "#b3202a"}}))
    page.repository.publish("evening", "1.0.0", [look], Options(golden=0))
    page.repository.promote("evening", "1.0.0")
    page.serve()
    found = page.do(("refresh", "evening"), ("data", "evening"), ("data", "morning"))
    assert found == [None, json.loads(look.read_text()), None]


def test_a_name_that_is_none(page: Page) -> None:
    assert page.do(("refresh", "../x"), ("version", "X")) == ["policy_invalid"] * 2


def test_a_release_that_needs_more_is_left_out(page: Page, tmp_path: Path) -> None:
    file = write_model(tmp_path / "4" / "model.palm", 9.0)
    page.repository.publish(MODEL, "4.0.0", [file], Options(golden=1, sdk=">=99"))
    promote(page, "4.0.0")
    assert page.do(("refresh", MODEL), ("version", MODEL)) == [None, "1.0.0"]


def test_versions_are_those_of_pep_440() -> None:
    ends = ["", ".0", ".dev1", "a1", "a1.dev2", "b2", "rc3", ".post1", ".post1.dev2", "+local.1"]
    texts = [f"{start}{end}" for start in ("1", "1.0.1", "1!0.5", "v2", "10") for end in ends]
    pairs = list(itertools.product(texts, texts))
    signs = [
        (Version(a) > Version(b)) - (Version(a) < Version(b))  # -1, 0, 1
        for a, b in pairs
    ]
    operators = [">=", "<=", "<", ">", "==", "!=", "~="]
    wanted = [
        *(f"{op}{text}" for op in operators for text in ("1.0", "1.0.1", "2.0rc3", "1.0.post1")),
        *("==1.*", "!=1.0.*", ">=0.1,<2", " >=1 , !=1.0.1"),
    ]
    asked = list(itertools.product(wanted, texts))
    fits = [SpecifierSet(s).contains(v, prereleases=True) for s, v in asked]
    found = done("memory", script=[("compare", pairs), ("fits", asked)])
    assert found[0]["value"] == signs
    wrong = [p for p, got, ok in zip(asked, found[1]["value"], fits, strict=True) if got != ok]
    assert not wrong
    strange = [("=>1", "1"), (">=x", "1"), (">=1", "x"), ("~=1", "1"), ("===1", "1")]
    assert done("memory", script=[("fits", strange)])[0]["value"] == [False] * len(strange)


def test_the_package_knows_its_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    script = (PACKAGE / "delivery" / "web" / "updates.js").read_text()
    assert f'VERSION = "{project["version"]}"' in script
    assert f"PALM_FORMAT = {PALM_FORMAT};" in script
