"""The page of `palmkit serve`, in a real browser on a real server with a made fleet."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason='needs the extra "server"')

from palmkit.delivery.policy import Candidate
from palmkit.delivery.repository import Repository
from palmkit.delivery.server.app import Server, Settings
from palmkit.delivery.server.database import connect, migrate
from palmkit.delivery.server.start import Place
from tests.delivery.page.browser import Browser, program
from tests.delivery.page.made_fleet import make
from tests.delivery.server.running import TOKEN, Running

SIGNED_IN = "document.querySelector('.overview') !== null"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if (executable := program()) is None:
        pytest.skip("needs Chromium (Debian: chromium)")
    browser = Browser(executable)
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    chromium.size(1280, 900)
    chromium.scheme("light")
    yield chromium
    chromium.send("Storage.clearDataForOrigin", origin="*", storageTypes="all")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("fleet")
    make(folder, devices=600, days=10)
    return Place(folder)


@pytest.fixture(scope="module")
def repository(place: Place) -> Repository:
    return Repository.open(place.repository)


@pytest.fixture(scope="module")
def url(place: Place, repository: Repository) -> Iterator[str]:
    engine = connect(place.database_url)
    with Running(Server(engine, Settings(TOKEN), repository, repository.public)) as running:
        yield f"{running.url}/admin/"
    engine.dispose()


def sign_in(browser: Browser, url: str, token: str = TOKEN) -> None:
    browser.open(url)
    browser.run("sessionStorage.clear()")
    browser.open(url)
    browser.wait("document.activeElement.id === 'token'")
    browser.type(token)
    browser.press("Enter")


def enter(browser: Browser, url: str) -> None:
    sign_in(browser, url)
    browser.wait(SIGNED_IN)


def candidate(repository: Repository, model: str, channel: str, release: str) -> Candidate:
    [found] = [c for c in repository.policy(model).channels[channel] if c.release == release]
    return found


def confirm(browser: Browser, reason: str = "") -> None:
    """Confirm the open dialog with the keyboard and wait for what the page says."""
    browser.run("document.querySelector('#reason').focus()")
    browser.type(reason)
    browser.press("Enter")


def test_only_the_token_opens_it(browser: Browser, url: str) -> None:
    sign_in(browser, url, "not the token at all")
    browser.wait("document.querySelector('#token-problem')?.innerText.includes('does not know')")
    assert browser.focused() == "token"
    assert "face_detector" not in browser.text()
    browser.type(TOKEN)
    browser.press("Enter")
    browser.wait(SIGNED_IN)
    browser.click("#leave")
    browser.wait("document.querySelector('#token') !== null")
    assert "face_detector" not in browser.text()
    assert browser.run("sessionStorage.length") == 0


def test_it_asks_nobody_else_and_complains_of_nothing(browser: Browser, url: str) -> None:
    enter(browser, url)
    assert browser.problems == []
    base = url.removesuffix("/admin/")
    assert browser.requests
    assert [one for one in browser.requests if not one.startswith(base)] == []
    asked = {one.removeprefix(base) for one in browser.requests}
    assert {"/admin/page.js", "/admin/page.css", "/v1/admin/state?days=14"} < asked
    # Nothing from elsewhere would be run even if it came to be on the page.
    browser.run(
        "new Promise(done => {"
        "    const one = document.createElement('script');"
        "    one.textContent = 'window.intruder = 1';"
        "    document.body.append(one);"
        "    setTimeout(done, 50);"
        "})"
    )
    assert browser.run("window.intruder") is None
    assert any("Content Security Policy" in problem for problem in browser.problems)


def test_it_shows_releases_channels_rates_and_what_was_done(browser: Browser, url: str) -> None:
    enter(browser, url)
    channels = browser.text("#model-face_detector .card")
    for expected in ("1.1.0", "20 %", "rolling out", "1.0.0", "100 %", "everywhere"):
        assert expected in channels
    hair = browser.text("#model-hair")
    assert "halted" in hair
    assert "worse than the others" in hair
    assert "The halt rule halted 2.0.0 on stable" in hair
    assert "Nobody takes it any more." in hair
    names = browser.run(
        "[...document.querySelectorAll('#model-face_detector svg[role=img]')]"
        ".map(one => one.getAttribute('aria-label'))"
    )
    assert len(names) == 4
    assert names[0].startswith("Share of loads that fail: 1.1.0: 0.")
    assert browser.run(
        "[...document.querySelectorAll('#model-face_detector svg[role=img] path.line')]"
        ".every(one => !one.getAttribute('d').includes('NaN'))"
    )
    assert "median" in browser.text("#model-face_detector")


def test_small_groups_are_hidden(browser: Browser, url: str) -> None:
    enter(browser, url)
    browser.click("#daily-face_detector summary")
    rows = browser.run(
        "[...document.querySelectorAll('#daily-face_detector tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.innerText))"
    )
    small = [row for row in rows if row[1:3] == ["1.1.0", "candidate"] and "fewer" in row[3]]
    assert small, "six devices of the first days"
    assert all(row[3:] == ["fewer than 20", "", "", ""] for row in small)
    shown = [int(row[3].replace(",", "")) for row in rows if "fewer" not in row[3]]
    assert min(shown) >= 20


def test_the_keyboard_alone_reaches_everything(browser: Browser, url: str) -> None:
    enter(browser, url)
    browser.run("document.querySelector('.skip').focus()")
    wanted = "halt-face_detector-stable-1.1.0"
    seen: list[str] = []
    while wanted not in seen:
        browser.press("Tab")
        seen.append(browser.focused())
        assert len(seen) < 40, seen
    outline = browser.run("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "one sees where the focus is"
    browser.press("Enter")
    browser.wait("document.querySelector('dialog').open")
    assert "Halt face_detector 1.1.0" in browser.text("dialog")
    assert browser.run("document.activeElement.innerText") == "Cancel"
    for _ in range(8):
        browser.press("Tab")
        inside = "document.querySelector('dialog').contains(document.activeElement)"
        assert browser.run(f"{inside} || document.activeElement === document.body")
    browser.press("Escape")
    browser.wait("!document.querySelector('dialog').open")
    assert browser.focused() == wanted, "the focus is where it was"


def test_a_screen_reader_is_told_what_things_are(browser: Browser, url: str) -> None:
    enter(browser, url)
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    roles: dict[str, list[str]] = {}
    for node in browser.nodes():
        if not node.get("ignored"):
            role = node.get("role", {}).get("value", "")
            roles.setdefault(role, []).append(node.get("name", {}).get("value", ""))
    for role in ("button", "link", "combobox", "image", "table", "region", "navigation"):
        assert roles[role], role
        assert all(name.strip() for name in roles[role]), role
    buttons = [name for name in roles["button"] if name.startswith(("Halt", "Promote", "Recall"))]
    assert len(set(buttons)) == len(buttons), "each says of what"
    assert "Halt… face_detector 1.1.0 on stable" in buttons
    assert browser.run("document.documentElement.lang") == "en"
    levels = browser.run("[...document.querySelectorAll('h1,h2,h3')].map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in zip(levels, levels[1:], strict=False))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(browser: Browser, url: str, scheme: str) -> None:
    browser.scheme(scheme)
    enter(browser, url)
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    ratios = browser.contrasts()
    assert len(ratios) > 200
    assert ratios[0][0] >= 4.5, ratios[:5]
    back = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, back[4:-1].split(", "))) > 380) == (scheme == "light")
    # Chosen by hand, it is so whatever the system says.
    other = "dark" if scheme == "light" else "light"
    browser.run(
        f"document.querySelector('#look').value = '{other}';"
        "document.querySelector('#look').dispatchEvent(new Event('change'))"
    )
    assert browser.run("getComputedStyle(document.body).backgroundColor") != back
    assert browser.contrasts()[0][0] >= 4.5
    browser.run("localStorage.clear()")


@pytest.mark.parametrize("width", [360, 820, 1280])
def test_it_fits_the_window(browser: Browser, url: str, width: int) -> None:
    browser.size(width, 800)
    enter(browser, url)
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.run("document.documentElement.scrollWidth") <= width


def test_promote_asks_shows_the_gate_and_can_be_forced(
    browser: Browser, url: str, repository: Repository
) -> None:
    enter(browser, url)
    button = "#promote-face_detector-stable-1\\.1\\.0"
    browser.click(button)
    browser.wait("document.querySelector('dialog').open")
    assert browser.run("document.querySelector('#percent').value") == "50", "the next step"
    assert "in spite of it" not in browser.text("dialog")
    browser.click("dialog button:not(.strong)")
    browser.wait("!document.querySelector('dialog').open")
    assert candidate(repository, "face_detector", "stable", "1.1.0").percent == 20
    browser.click(button)
    confirm(browser, "all is well")
    browser.wait("document.querySelector('#notice').innerText.includes('goes to 50 % of stable')")
    assert candidate(repository, "face_detector", "stable", "1.1.0").percent == 50
    browser.wait("document.querySelector('#model-face_detector .card').innerText.includes('50 %')")
    assert "all is well" in browser.text("#model-face_detector .events")
    browser.click(button)
    confirm(browser)
    browser.wait("document.querySelector('dialog .problem').innerText.includes('next step opens')")
    assert candidate(repository, "face_detector", "stable", "1.1.0").percent == 50
    assert "in spite of it" in browser.text("dialog")
    browser.click("#force")
    confirm(browser)
    browser.wait("document.querySelector('#notice').innerText.includes('goes to 100 % of stable')")
    assert candidate(repository, "face_detector", "stable", "1.1.0").percent == 100


def test_halt_recall_and_roll_back(browser: Browser, url: str, repository: Repository) -> None:
    enter(browser, url)
    markup = "<img src=x onerror=document.title='broken'>"
    browser.click("#halt-portrait-canary-0\\.9\\.0")
    confirm(browser, markup)
    browser.wait("document.querySelector('#notice').innerText.includes('is halted')")
    assert candidate(repository, "portrait", "canary", "0.9.0").halt
    browser.wait("document.querySelector('#model-portrait .events').innerText.includes('<img')")
    assert browser.run("document.querySelectorAll('main img').length") == 0
    assert browser.run("document.title") == "PalmKit models"
    assert browser.problems == []
    browser.click("#recall-portrait-canary-0\\.9\\.0")
    confirm(browser)
    browser.wait("document.querySelector('#notice').innerText.includes('is recalled')")
    assert candidate(repository, "portrait", "canary", "0.9.0").recall
    browser.click("#rollback-hair-stable-2\\.0\\.0")
    browser.wait("document.querySelector('dialog').innerText.includes('back to 1.0.0')")
    confirm(browser)
    browser.wait("document.querySelector('#notice').innerText.includes('is rolled back')")
    running = [c.release for c in repository.policy("hair").channels["stable"] if not c.recall]
    assert running == ["1.0.0"]


def test_two_people_at_once(browser: Browser, url: str, repository: Repository) -> None:
    enter(browser, url)
    repository.promote("hand_landmarks", "1.2.0", "beta", 10)
    before = repository.policy("hand_landmarks")
    browser.click("#recall-hand_landmarks-stable-1\\.2\\.0")
    confirm(browser)
    browser.wait("document.querySelector('dialog .problem').innerText.includes('someone else')")
    assert repository.policy("hand_landmarks") == before
    browser.press("Escape")
    button = "document.getElementById('promote-hand_landmarks-beta-1.2.0')"
    browser.wait(f"{button} !== null")


def test_the_first_release_is_taken_back(
    browser: Browser, url: str, repository: Repository
) -> None:
    repository.promote("hand_landmarks", "1.2.0", "canary")
    enter(browser, url)
    button = "recall-hand_landmarks-canary-1.2.0"
    browser.wait(f"document.getElementById('{button}') !== null")
    # There is nothing to roll back to, and it is not offered.
    rollback = button.replace("recall", "rollback")
    assert browser.run(f"document.getElementById('{rollback}')") is None
    browser.run(f"document.getElementById('{button}').click()")
    browser.wait("document.querySelector('dialog').innerText.includes('came with the app')")
    confirm(browser, "it sees double")
    browser.wait("document.querySelector('#notice').innerText.includes('is recalled')")
    assert candidate(repository, "hand_landmarks", "canary", "1.2.0").recall
    # And not twice, either; it may be promoted again.
    browser.wait(f"document.getElementById('{button}') === null")
    again = button.replace("recall", "promote")
    assert browser.run(f"document.getElementById('{again}') !== null")


def test_a_server_that_is_gone_leaves_what_was_there(browser: Browser, url: str) -> None:
    enter(browser, url)
    offline: dict[str, Any] = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.send("Network.emulateNetworkConditions", offline=True, **offline)
    try:
        browser.run("document.querySelector('#days').dispatchEvent(new Event('change'))")
        browser.wait("document.querySelector('#notice').innerText.includes('cannot be reached')")
        assert "What you see is as it was before." in browser.text("#notice")
        assert "face_detector" in browser.text()
    finally:
        browser.send("Network.emulateNetworkConditions", offline=False, **offline)
    browser.click("#notice button")
    browser.wait("document.querySelector('#notice').innerText === ''")


def test_what_was_opened_stays_open(browser: Browser, url: str) -> None:
    enter(browser, url)
    browser.click("#releases-hair summary")
    browser.run("document.getElementById('offer-hair-stable-1.0.0').focus()")
    browser.run("window.before = document.querySelector('#model-hair')")
    scrolled = browser.run("scrollY")
    browser.run(
        "document.querySelector('#days').value = '7';"
        "document.querySelector('#days').dispatchEvent(new Event('change'))"
    )
    browser.wait("document.querySelector('#model-hair') !== window.before")
    assert browser.run("document.querySelector('#releases-hair').open")
    assert browser.focused() == "offer-hair-stable-1.0.0"
    assert "last 7 days" in browser.text("#numbers-hair")
    assert scrolled > 500
    assert abs(browser.run("scrollY") - scrolled) < 100


def test_empty_states_say_what_to_do(browser: Browser, tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path / 'server.db'}")
    migrate(engine)
    empty = Repository.create(tmp_path / "repository")
    with Running(Server(engine, Settings(TOKEN), empty, empty.public)) as running:
        enter(browser, f"{running.url}/admin/")
        assert "Nothing is published yet" in browser.text()
        assert "palmkit models publish" in browser.text()
        assert "No device has reported" in browser.text()
        assert browser.problems == []
    with Running(Server(engine, Settings(TOKEN))) as running:
        enter(browser, f"{running.url}/admin/")
        assert "This replica only takes reports" in browser.text()
    with Running(Server(engine, Settings("another token, changed"))) as running:
        sign_in(browser, f"{running.url}/admin/")
        browser.wait("document.querySelector('#token-problem')?.innerText !== ''")
    engine.dispose()


def test_it_is_there_at_once(browser: Browser, url: str) -> None:
    began = time.monotonic()
    enter(browser, url)
    assert time.monotonic() - began < 10
