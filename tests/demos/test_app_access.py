"""The window without eyes or a mouse: what screen readers are told, and where Tab leads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmkit.demos.app import PAGES
from tests.demos.driving import NEEDS_MODELS, OpenWindow, Wait, find, press, tab_order

if TYPE_CHECKING:
    from PySide6.QtGui import QAccessibleInterface
    from PySide6.QtWidgets import QWidget

    from palmkit.demos.app.window import Window

pytestmark = NEEDS_MODELS


def seen(top: QAccessibleInterface) -> Iterator[QAccessibleInterface]:
    """What lies below something, as screen readers go through it."""
    for index in range(top.childCount()):
        child = top.child(index)
        if child is not None and not child.state().invisible:  # type: ignore[attr-defined]
            yield child
            yield from seen(child)


def known(widget: QWidget) -> QAccessibleInterface:
    from PySide6.QtGui import QAccessible

    found = QAccessible.queryAccessibleInterface(widget)
    assert found is not None
    return found


def said(widget: QWidget, what: str = "Name") -> str:
    from PySide6.QtGui import QAccessible

    return known(widget).text(QAccessible.Text[what])


def show(window: Window, name: str, wait: Wait) -> None:
    window.select(name)
    page: Any = window.pages[name]
    if name == "feed":
        wait(lambda: len(page.grid.order) == 60 and not page.is_busy, "the feed")


def test_screen_readers_are_told_of_every_control(open_window: OpenWindow, wait: Wait) -> None:
    from PySide6.QtGui import QAccessible

    role, text = QAccessible.Role, QAccessible.Text
    controls = {
        role.Button, role.ButtonMenu, role.CheckBox, role.RadioButton, role.ComboBox, role.Slider,
        role.EditableText, role.List, role.ListItem, role.Table, role.ColumnHeader, role.Cell,
    }  # fmt: skip
    window = open_window("--page", "face", "--source", "drawing")
    window.worker.pause(True)
    wrong: list[str] = []
    for name in PAGES:
        show(window, name, wait)
        found = list(seen(known(window)))
        assert len(found) > 30, name
        for each in found:
            about = f"{name}: {each.role().name} {each.text(text.Name)!r}"
            is_control = each.role() in controls
            is_focusable = each.state().focusable  # type: ignore[attr-defined]
            if is_focusable and not is_control and each.role() != role.Graphic:
                wrong.append(f"{about}: focus on what is no control")
            # A cell of a table may be empty.
            is_named = each.text(text.Name).strip() or each.role() == role.Cell
            if (is_focusable or is_control) and not is_named:
                wrong.append(f"{about}: no name")
            if each.role() == role.ComboBox:
                labels = [
                    other.text(text.Name)
                    for other, relation in each.relations(QAccessible.RelationFlag.AllRelations)
                    if relation & QAccessible.RelationFlag.Label
                ]
                if not any(labels):
                    wrong.append(f"{about}: no label")
            if each.role() == role.Slider and not each.text(text.Description):
                wrong.append(f"{about}: no unit")
    assert not wrong


def test_numbers_are_said_as_they_are_shown(open_window: OpenWindow) -> None:
    from PySide6.QtWidgets import QSlider

    window = open_window("--page", "face", "--source", "drawing")
    sliders = [
        slider for page in window.pages.values() for slider in page.findChildren(QSlider)
    ]  # fmt: skip
    assert len(sliders) > 10
    for slider in sliders:
        number = re.match(r"[\d.]*\d", said(slider, "Description"))
        assert number is not None, slider.accessibleName()
        assert float(number[0]) in (slider.value(), slider.value() / 10), slider.accessibleName()
    (least,) = [each for each in sliders if each.accessibleName() == "Minimum confidence"]
    least.setValue(63)
    assert least.value() == 65 and said(least, "Description").startswith("65 %.")


def test_what_is_found_and_measured_is_said(open_window: OpenWindow, wait: Wait) -> None:
    from PySide6.QtWidgets import QLabel

    window = open_window("--page", "face", "--source", "drawing")
    wait(lambda: window.live.shown_picture() is not None, "a frame", limit_s=60)
    names = ("summary", "status_rate", "status_stages", "status_models", "status_source")
    fields = [find(window, QLabel, name) for name in names]
    wait(lambda: all(field.text() for field in fields), "all fields")
    window.worker.pause(True)
    for field in fields:
        before, text = said(field).split(": ", 1)
        assert before and text == field.text()
    window.live.compare_button.click()
    assert "50%" in said(window.live.view, "Description")
    window.live.view.set_split(0.3)
    assert "30%" in said(window.live.view, "Description")


def test_messages_interrupt_nothing_and_are_said(open_window: OpenWindow) -> None:
    window = open_window("--page", "face", "--source", "drawing")
    focus = window.focusWidget()
    window.context.say("the camera is gone", "warning")
    assert window.focusWidget() is focus
    assert said(window.banner) == "warning: the camera is gone"


def test_tab_leads_through_every_page_and_back(open_window: OpenWindow, wait: Wait) -> None:
    window = open_window("--page", "face", "--source", "drawing")
    for name in PAGES:
        show(window, name, wait)
        page = window.pages[name]
        reached = tab_order(window.navigation)
        inside = [widget for widget in reached if page.isAncestorOf(widget)]
        assert inside, name
        names = [widget.objectName() for widget in reached]
        assert names[0] == "navigation" and names[-1] == "theme"
        assert reached[-1 - len(inside) : -1] == inside
        if name in PAGES[:4]:
            tools = ["source", "pause", "compare", "save", "record", "view"]
            tools = [each for each in tools if each != "compare" or page.has_before]  # type: ignore[attr-defined]
            assert names[1 : 1 + len(tools)] == tools


def test_keys_alone_choose_a_look(open_window: OpenWindow, wait: Wait) -> None:
    from PySide6.QtCore import Qt

    from palmkit.kits import Look

    window = open_window("--page", "try_on", "--source", "drawing")
    page: Any = window.pages["try_on"]
    page.use("")
    for widget in tab_order(window.navigation):
        if widget.objectName() == "look_none":
            widget.setFocus()
    here = window.focusWidget()
    assert here is not None and here.objectName() == "look_none"
    press(here, Qt.Key.Key_Right)
    press(window.focusWidget() or here, Qt.Key.Key_Space)
    assert page.worn == Look.load("natural")


def test_the_system_s_colours_are_followed(real_screen: str, tmp_path: Path) -> None:
    """Qt's API says "dark" as the desktop does; what was chosen in the window stays."""
    program = """
        import time
        from PySide6.QtCore import QSettings, Qt
        from PySide6.QtGui import QGuiApplication
        from PySide6.QtWidgets import QApplication
        from palmkit.demos.app.theme import DARK, LIGHT, Theme
        application = QApplication([])
        theme = Theme(application, QSettings(SETTINGS, QSettings.Format.IniFormat))
        system = QGuiApplication.styleHints()
        changes = []
        theme.changed.connect(lambda: changes.append(theme.colours))
        # Newer versions of Qt change with the next events.
        def until(is_so):
            end = time.monotonic() + 30
            while not is_so():
                assert time.monotonic() < end, (system.colorScheme(), theme.colours)
                application.processEvents()
        for scheme, colours in ((Qt.ColorScheme.Dark, DARK), (Qt.ColorScheme.Light, LIGHT)) * 2:
            system.setColorScheme(scheme)
            until(lambda: system.colorScheme() == scheme)
            assert theme.colours == colours and changes[-1] == colours
            assert application.palette().window().color().name() == colours.window
        theme.choose("light")
        system.setColorScheme(Qt.ColorScheme.Dark)
        until(lambda: system.colorScheme() == Qt.ColorScheme.Dark)
        assert theme.colours == LIGHT
        theme.choose("system")
        until(lambda: system.colorScheme() != Qt.ColorScheme.Dark)
        assert theme.colours == LIGHT
    """
    text = f"SETTINGS = {str(tmp_path / 's.ini')!r}\n{textwrap.dedent(program)}"
    # Without a desktop Qt has no scheme of the system's.
    desktop = {"XDG_CURRENT_DESKTOP": "GNOME", "QT_QPA_PLATFORM": "xcb", "DISPLAY": real_screen}
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, **desktop},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
