"""The feed: what it makes of clicks, with and without a window."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from palmkit.demos.app.pages import feed_visit
from palmkit.demos.app.pages.feed_goods import Good, make_goods
from palmkit.demos.app.pages.feed_visit import Shown, Visit, told_why
from tests.demos.driving import NEEDS_MODELS, Said, Wait, click, discard, find, pause, press

if TYPE_CHECKING:
    from palmkit.demos.app.page import Context
    from palmkit.demos.app.pages.feed import FeedPage
    from palmkit.demos.app.pages.feed_grid import Card

pytestmark = NEEDS_MODELS
TOP = 8


@pytest.fixture(autouse=True)
def time_to_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give learning enough time on a busy machine."""
    monkeypatch.setattr(feed_visit, "LEARN_S", 30.0)


@pytest.fixture
def visit() -> Visit:
    clock = count(1_700_000_000, 3)
    return Visit(now=lambda: float(next(clock)))


def share(goods: list[Good], category: str) -> int:
    return sum(good.category == category for good in goods[:TOP])


def open_some(visit: Visit, category: str, times: int, pages: int = 1) -> Shown:
    shown = visit.show(False)
    for _ in range(pages):
        for number in range(times):
            some = [good for good in shown.goods if good.category == category]
            visit.did("click", [some[number]])
            shown = visit.show(False)
        visit.turn_page()
        shown = visit.show(False)
    return shown


def test_goods_are_the_same_for_the_same_seed() -> None:
    assert make_goods(60, 3) == make_goods(60, 3)
    assert make_goods(60, 3) != make_goods(60, 4)
    kinds = [good.category for good in make_goods(64, 1)]
    assert {kinds.count(kind) for kind in kinds} == {8}


@pytest.mark.parametrize("category", ["shoe", "lamp", "plant", "watch"])
def test_what_is_opened_brings_its_like_to_the_top(visit: Visit, category: str) -> None:
    first = visit.show(True)
    assert first.cold and first.goods == visit.goods
    before = share(first.goods, category)
    for good in [good for good in first.goods if good.category == category][:2]:
        visit.did("click", [good])
    after = visit.show(True)
    assert not after.cold and share(after.goods, category) >= max(4, before + 1)
    assert after.milliseconds > 0 and after.why is not None
    at = next(at for at, good in enumerate(after.goods) if good.category == category)
    assert told_why(after.why[at])
    assert any("like the" in words or words == "you looked at it" for words in after.common[:TOP])
    # Other goods profit from it at once.
    visit.turn_page()
    assert share(visit.show(False).goods, category) >= 3


def test_what_is_not_wanted_goes_down(visit: Visit) -> None:
    shown = visit.show(False)
    liked, not_wanted = (
        shown.goods[0],
        next(good for good in shown.goods if good.category != shown.goods[0].category),
    )
    visit.did("like", [liked])
    place = [good.id for good in visit.show(False).goods].index(not_wanted.id)
    for good in [good for good in shown.goods if good.category == not_wanted.category][:3]:
        visit.did("skip", [good])
    assert [good.id for good in visit.show(False).goods].index(not_wanted.id) > place


def test_a_good_can_keep_its_place(visit: Visit) -> None:
    shown = visit.show(False)
    kept = shown.goods[6]
    visit.did("click", [kept])
    after = visit.show(False, (kept.id, 7))
    assert after.goods[6] == kept
    assert sorted(good.id for good in after.goods) == sorted(good.id for good in shown.goods)


def test_it_can_be_reset(visit: Visit) -> None:
    first = visit.show(False)
    open_some(visit, "hat", 3, pages=2)
    visit.reset()
    again = visit.show(False)
    assert again.cold and again.goods == first.goods and not again.deeds and again.events == 0


def test_it_learns_and_forgets(visit: Visit) -> None:
    assert not visit.learn().kept
    open_some(visit, "shoe", 3, pages=6)
    learned = visit.learn()
    assert learned.pages + learned.held_back >= 12 and learned.ndcg10 is not None
    assert visit.is_learned == learned.kept
    if learned.kept:
        shown = visit.show(True)
        assert shown.why is not None and any("taste" in parts for parts in shown.why)
    assert visit.undo() == learned.kept
    assert not visit.is_learned and not visit.undo()


@pytest.fixture
def page(context: Context, wait: Wait, complaints: list[str]) -> Iterator[FeedPage]:
    from palmkit.demos.app.pages.feed import FeedPage

    page = FeedPage(context)
    page.resize(1000, 700)
    page.show()
    page.activateWindow()
    page.entered()
    wait(lambda: len(page.grid.order) == 60 and not page.is_busy, "the feed")
    yield page
    page.shutdown()
    discard(page)


def cards(page: FeedPage) -> list[Card]:
    """In their order."""
    return [card for id in page.grid.order if (card := page.grid.card(id)) is not None]


def first(page: FeedPage, category: str) -> Card:
    return next(card for card in cards(page) if card.good.category == category)


def deeds(page: FeedPage) -> list[str]:
    assert page.shown is not None
    return [deed.words for deed in page.shown.deeds]


def test_clicks_move_cards(page: FeedPage, wait: Wait) -> None:
    before = page.grid.order
    assert 0 < len(page.grid.seen()) < 60
    opened: list[str] = []
    for _ in range(3):
        card = next(
            each
            for each in cards(page)
            if each.good.category == "bag" and each.good.id not in opened
        )
        opened.append(card.good.id)
        page.grid.finish()
        page.grid.ensureWidgetVisible(card)
        place = page.grid.order.index(card.good.id)
        click(card)
        wait(lambda: deeds(page)[-1:] == [f"opened the {card.good.title}"], "an answer")  # noqa: B023
        # It stays under the pointer.
        assert page.grid.order.index(card.good.id) == place
    assert page.grid.order != before and sorted(page.grid.order) == sorted(before)
    assert sum(card.good.category == "bag" for card in cards(page)[:TOP]) >= 4
    page.grid.finish()
    places = [(card.y(), card.x()) for card in cards(page)]
    assert places == sorted(places) and len(set(places)) == 60


def test_all_of_it_by_keys(page: FeedPage, wait: Wait) -> None:
    from PySide6.QtCore import Qt
    from PySide6.QtWidgets import QApplication, QCheckBox, QPushButton

    wait(page.isActiveWindow, "the focus")
    start, second = cards(page)[:2]
    start.setFocus(Qt.FocusReason.TabFocusReason)
    press(start, Qt.Key.Key_Right)
    assert QApplication.focusWidget() is second
    press(second, Qt.Key.Key_Return)
    wait(lambda: deeds(page), "an answer to Return")
    assert deeds(page)[-1] == f"opened the {second.good.title}"
    assert QApplication.focusWidget() is second
    press(second, Qt.Key.Key_L)
    wait(lambda: deeds(page)[-1].startswith("liked"), "an answer to L")
    press(second, Qt.Key.Key_X)
    wait(lambda: deeds(page)[-1].startswith("did not want"), "an answer to X")
    # Tab goes on in the order that is seen.
    press(second, Qt.Key.Key_Tab)
    assert QApplication.focusWidget() is cards(page)[cards(page).index(second) + 1]
    press(find(page, QCheckBox, "feed_explain"), Qt.Key.Key_Space)
    wait(lambda: page.shown is not None and page.shown.why is None, "no reasons")
    press(find(page, QPushButton, "feed_reset"), Qt.Key.Key_Space)
    wait(lambda: page.shown is not None and page.shown.cold and not page.is_busy, "a reset")
    assert deeds(page) == []


def test_what_a_screen_reader_says(page: FeedPage, wait: Wait) -> None:
    from PySide6.QtWidgets import QAbstractButton, QListWidget, QWidget

    card = cards(page)[2]
    assert card.accessibleName().startswith(f"{card.good.title}, {card.good.maker}")
    assert card.accessibleName().endswith("place 3 of 60")
    card.click()
    wait(lambda: deeds(page), "an answer")
    reasons = find(page, QWidget, "feed_reasons")
    assert reasons.accessibleName().startswith("why: ")
    assert all(
        button.accessibleName() or button.text() for button in page.findChildren(QAbstractButton)
    )
    known = find(page, QListWidget, "feed_deeds")
    assert known.item(0).text() == f"opened the {card.good.title}"


def test_looking_counts_when_it_lasts(
    page: FeedPage, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PySide6.QtCore import Qt

    from palmkit.demos.app.pages import feed_grid

    wait(page.isActiveWindow, "the focus")
    monkeypatch.setattr(feed_grid, "LEAST_DWELL_S", 0.2)
    looked_at, other = cards(page)[:2]
    looked_at.setFocus(Qt.FocusReason.TabFocusReason)
    pause(wait, 0.3)
    other.setFocus(Qt.FocusReason.TabFocusReason)
    wait(lambda: deeds(page), "an answer to a look")
    assert deeds(page)[-1].startswith(f"looked at the {looked_at.good.title} for 0.")
    # However slow the machine is, the look at the other one was too short.
    monkeypatch.setattr(feed_grid, "LEAST_DWELL_S", 3600)
    other.clearFocus()
    wait(lambda: not page.is_busy)
    assert len([words for words in deeds(page) if words.startswith("looked")]) == 1


@pytest.mark.parametrize("button", ["more", "reset"])
def test_a_look_ends_with_its_card(
    page: FeedPage, wait: Wait, monkeypatch: pytest.MonkeyPatch, button: str
) -> None:
    """It also counts while the focus stays on it, as when Alt and a letter press the button."""
    from PySide6.QtCore import Qt
    from PySide6.QtWidgets import QPushButton

    from palmkit.demos.app.pages import feed_grid

    wait(page.isActiveWindow, "the focus")
    find(page, QPushButton, "feed_more").click()
    wait(lambda: page.grid.order[0].startswith("1-") and not page.is_busy, "other goods")
    monkeypatch.setattr(feed_grid, "LEAST_DWELL_S", 0.2)
    looked_at = cards(page)[0]
    title = looked_at.good.title
    looked_at.setFocus(Qt.FocusReason.TabFocusReason)
    pause(wait, 0.3)
    assert looked_at.hasFocus()
    find(page, QPushButton, f"feed_{button}").click()
    number = {"more": "2-", "reset": "0-"}[button]
    wait(lambda: page.grid.order[0].startswith(number) and not page.is_busy, "other goods")
    looks = [words for words in deeds(page) if words.startswith(f"looked at the {title} for ")]
    assert len(looks) == (button == "more")


def test_goods_that_went_are_not_kept(page: FeedPage, wait: Wait) -> None:
    from PySide6.QtWidgets import QPushButton

    goods = [weakref.ref(card.good) for card in cards(page)]
    assert page.grid.seen()
    for number in (1, 2):
        find(page, QPushButton, "feed_more").click()
        wait(lambda: page.grid.order[0].startswith(f"{number}-") and not page.is_busy, "goods")  # noqa: B023
    gc.collect()
    assert not [good for each in goods if (good := each()) is not None]


def test_learning_says_what_came_of_it(page: FeedPage, wait: Wait) -> None:
    from PySide6.QtWidgets import QLabel, QPushButton

    learn, more, undo = (
        find(page, QPushButton, f"feed_{name}") for name in ("learn", "more", "undo")
    )
    said = find(page, QLabel, "feed_learned")
    learn.click()
    wait(said.text, "what came of learning")
    assert said.text() == "Learning takes 12 choices; there were 0 so far."
    assert not undo.isEnabled()
    for _ in range(13):
        first(page, "shoe").click()
        more.click()
        wait(lambda: not page.is_busy)
    learn.click()
    wait(lambda: "choices;" not in said.text() and not page.is_busy, "learning")
    assert said.text().startswith(("Learned: on ", "Not kept", "Nothing was learned"))
    assert undo.isEnabled() == said.text().startswith("Learned")


def test_a_model_that_cannot_be_opened_is_said(
    context: Context, wait: Wait, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from palmkit.demos.app.pages.feed import FeedPage

    broken = tmp_path / "broken.palm"
    broken.write_bytes(b"none")
    said = Said(context)
    model: str | None = str(broken)

    def source(name: str) -> str | None:
        return model

    monkeypatch.setattr(context.catalogue, "source", source)
    page = FeedPage(context)
    page.show()
    page.entered()
    wait(lambda: said.all, "a message")
    assert "broken.palm" in said.of("error")[0]
    model = None
    context.catalogue.generation += 1
    page.entered()
    wait(lambda: len(page.grid.order) == 60, "the feed after all")
    page.shutdown()
    page.close()


def test_cards_look_like_their_goods(page: FeedPage) -> None:
    """Not a golden picture: each kind is drawn, in its colour, and no two kinds alike."""
    import numpy as np
    from PySide6.QtGui import QColor, QImage

    from palmkit.demos.app.pages.feed_drawing import draw_good
    from palmkit.demos.app.pages.feed_goods import COLOURS, PRICES

    seen: dict[str, np.ndarray[Any, Any]] = {}
    for good in make_goods(120, 5):
        image = draw_good(good, 64).toImage().convertToFormat(QImage.Format.Format_RGB888)
        pixels = np.frombuffer(image.constBits(), np.uint8).reshape(64, -1)[:, : 64 * 3]
        pixels = pixels.reshape(64, 64, 3).astype(np.int32)
        wanted = QColor(COLOURS[good.colour])
        off = pixels - (wanted.red(), wanted.green(), wanted.blue())
        assert (np.abs(off).max(axis=2) < 60).mean() > 0.02, good.title
        seen.setdefault(good.category, pixels)
    kinds = list(PRICES)
    for at, kind in enumerate(kinds):
        for other in kinds[:at]:
            assert np.abs(seen[kind] - seen[other]).mean() > 4, (kind, other)
