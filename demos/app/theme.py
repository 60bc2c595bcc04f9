"""The colour themes, dark and light, and their styles; by default the system's choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from PySide6.QtCore import QObject, QSettings, Qt, Signal
from PySide6.QtGui import QColor, QFontInfo, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

Choice: TypeAlias = Literal["system", "dark", "light"]
CHOICES: tuple[Choice, ...] = get_args(Choice)


@dataclass(frozen=True)
class Colours:
    """The colours of a theme, "#rrggbb".

    window: the background. surface: panels. raised: fields and buttons. line: separators. text,
    soft: text, and less important text; faint: disabled text. accent, on_accent: selections, and
    text on them. stage: behind pictures. good, warning, error: messages.
    """

    window: str
    surface: str
    raised: str
    hover: str
    line: str
    text: str
    soft: str
    faint: str
    accent: str
    on_accent: str
    tint: str
    stage: str
    good: str
    warning: str
    error: str


DARK = Colours(
    window="#14181d",
    surface="#1b2127",
    raised="#262e36",
    hover="#303a44",
    line="#333d47",
    text="#edf1f4",
    soft="#a3b0bb",
    faint="#66737f",
    accent="#26c6da",
    on_accent="#06262b",
    tint="#123a42",
    stage="#0d1013",
    good="#66bb6a",
    warning="#ffb74d",
    error="#ef7b78",
)
LIGHT = Colours(
    window="#f3f5f7",
    surface="#ffffff",
    raised="#f1f4f6",
    hover="#e4eaee",
    line="#d5dce1",
    text="#18212a",
    soft="#566472",
    faint="#97a3ad",
    accent="#00788a",
    on_accent="#ffffff",
    tint="#d7eff2",
    stage="#e3e8ec",
    good="#2e7d32",
    warning="#a85b00",
    error="#b3261e",
)


class Theme(QObject):
    """The current theme.

    changed: emitted when the colours change.
    """

    changed = Signal()

    def __init__(self, application: QApplication, settings: QSettings) -> None:
        """Apply the theme to the application."""
        super().__init__()
        self._application = application
        self._settings = settings
        application.setStyle("Fusion")
        kept = str(settings.value("theme", "system"))
        self._choice: Choice = (
            "dark" if kept == "dark" else "light" if kept == "light" else "system"
        )
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._follow)
        self.colours = LIGHT
        self._ask_for_frames()
        self._apply()

    @property
    def choice(self) -> Choice:
        """Return the user's choice."""
        return self._choice

    def choose(self, choice: Choice, keep: bool = True) -> None:
        """Use a theme from now on.

        keep: at the next start, too.
        """
        self._choice = choice
        if keep:
            self._settings.setValue("theme", choice)
        self._ask_for_frames()
        self._apply()

    def follow_font(self) -> None:
        """Have titles and small print keep their proportion to the application's font."""
        if QFontInfo(self._application.font()).pixelSize() != self._letter_px:
            self._apply()

    def _ask_for_frames(self) -> None:
        """Have the system draw title bars and the like in the same style where it can."""
        hints = QGuiApplication.styleHints()
        if self._choice == "system":
            hints.unsetColorScheme()
        else:
            is_dark = self._choice == "dark"
            hints.setColorScheme(Qt.ColorScheme.Dark if is_dark else Qt.ColorScheme.Light)

    def _follow(self) -> None:
        if self._choice == "system":
            self._apply()

    def _apply(self) -> None:
        dark = self._choice == "dark" or (
            self._choice == "system"
            and QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark
        )
        self.colours = DARK if dark else LIGHT
        self._application.setPalette(palette(self.colours))
        self._letter_px = QFontInfo(self._application.font()).pixelSize()
        self._application.setStyleSheet(style_sheet(self.colours, self._letter_px))
        self.changed.emit()


def palette(colours: Colours) -> QPalette:
    """Return the colours for widgets without a style."""
    made = QPalette()
    roles = QPalette.ColorRole
    for role, name in (
        (roles.Window, colours.window),
        (roles.Base, colours.raised),
        (roles.AlternateBase, colours.surface),
        (roles.Button, colours.raised),
        (roles.WindowText, colours.text),
        (roles.Text, colours.text),
        (roles.ButtonText, colours.text),
        (roles.BrightText, colours.error),
        (roles.ToolTipBase, colours.surface),
        (roles.ToolTipText, colours.text),
        (roles.PlaceholderText, colours.faint),
        (roles.Highlight, colours.accent),
        (roles.HighlightedText, colours.on_accent),
        (roles.Link, colours.accent),
        (roles.Light, colours.hover),
        (roles.Midlight, colours.line),
        (roles.Mid, colours.line),
        (roles.Dark, colours.faint),
        (roles.Accent, colours.accent),
    ):
        made.setColor(role, QColor(name))
    for role in (roles.WindowText, roles.Text, roles.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, role, QColor(colours.faint))
    return made


def style_sheet(colours: Colours, letter_px: int) -> str:
    """Return the style of the widgets.

    letter_px: the size of the application's font.
    """
    sizes = {name: f"{round(share * letter_px)}px" for name, share in _LETTERS.items()}
    values = {**vars(colours), **sizes}
    text = _STYLE
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f"@{name}", values[name])
    return text


# The sizes of letters, as shares of the application's font.
_LETTERS = {"brand_size": 1.4, "title_size": 1.65, "section_size": 1.0, "big_size": 2.15}
_STYLE = """
QMainWindow, QDialog { background: @window; }
QToolTip { background: @surface; color: @text; border: 1px solid @line; padding: 5px 7px; }
QFrame#sidebar { background: @surface; border: none; border-right: 1px solid @line; }
QFrame#panel { background: @surface; border: none; border-left: 1px solid @line; }
QFrame#bar { background: @surface; border: none; border-bottom: 1px solid @line; }
QFrame[card="true"] { background: @surface; border: 1px solid @line; border-radius: 10px; }
QLabel[role="brand"] { font-size: @brand_size; font-weight: 700; }
QLabel[role="title"] { font-size: @title_size; font-weight: 650; }
QLabel[role="section"] { color: @soft; font-size: @section_size; font-weight: 650; }
QLabel[role="hint"] { color: @soft; }
QLabel[role="value"] { color: @soft; }
QLabel[role="big"] { font-size: @big_size; font-weight: 700; }
QLabel[role="pill"] {
  background: @tint; color: @accent; border-radius: 9px; padding: 2px 9px; font-weight: 600;
}
QListWidget {
  background: @raised; color: @text; border: 1px solid @line; border-radius: 8px; padding: 4px;
}
QListWidget#navigation { background: transparent; border: none; outline: none; padding: 0; }
QListWidget#navigation::item {
  border-radius: 8px; padding: 6px 8px; margin: 1px 8px; color: @soft;
  border: 2px solid transparent;
}
QListWidget#navigation::item:hover { background: @hover; color: @text; }
QListWidget#navigation::item:selected { background: @tint; color: @accent; }
QListWidget#navigation::item:selected:focus { border-color: @accent; }
QPushButton, QToolButton, QComboBox {
  background: @raised; color: @text; border: 1px solid @line; border-radius: 8px;
  padding: 6px 12px; min-height: 20px;
}
QToolButton { padding: 6px 8px; }
QPushButton:hover, QToolButton:hover, QComboBox:hover { background: @hover; }
QPushButton:pressed, QToolButton:pressed { background: @line; }
QPushButton:checked, QToolButton:checked {
  background: @tint; color: @accent; border-color: @accent;
}
QPushButton:focus, QToolButton:focus, QComboBox:focus, QLineEdit:focus {
  border: 2px solid @accent; padding: 5px 11px;
}
QToolButton:focus { padding: 5px 7px; }
QPushButton:disabled, QToolButton:disabled, QComboBox:disabled { color: @faint; }
QPushButton[primary="true"] { background: @accent; color: @on_accent; border-color: @accent; }
QPushButton[primary="true"]:focus { border: 2px solid @text; }
QPushButton[primary="true"]:disabled { background: @raised; color: @faint; border-color: @line; }
QPushButton[flat="true"], QToolButton[flat="true"] {
  background: transparent; border-color: transparent;
}
QPushButton[flat="true"]:hover, QToolButton[flat="true"]:hover { background: @hover; }
QPushButton[flat="true"]:focus, QToolButton[flat="true"]:focus { border-color: @accent; }
QToolButton::menu-indicator { image: none; width: 0; }
QComboBox::drop-down { border: none; width: 26px; }
QComboBox QAbstractItemView {
  background: @surface; color: @text; border: 1px solid @line; outline: none;
  selection-background-color: @tint; selection-color: @accent; padding: 4px;
}
QLineEdit, QSpinBox, QPlainTextEdit {
  background: @raised; color: @text; border: 1px solid @line; border-radius: 8px;
  padding: 6px 11px; selection-background-color: @accent; selection-color: @on_accent;
}
QComboBox QLineEdit { background: transparent; border: none; border-radius: 0; padding: 0; }
QComboBox QLineEdit:focus { border: none; padding: 0; }
QCheckBox { spacing: 9px; padding: 3px; border: 1px solid transparent; border-radius: 6px; }
QCheckBox:focus { border-color: @accent; }
QSlider { min-height: 24px; border: 1px solid transparent; border-radius: 6px; }
QSlider:focus { border-color: @accent; }
QSlider::groove:horizontal { height: 4px; border-radius: 2px; background: @line; }
QSlider::sub-page:horizontal { background: @accent; border-radius: 2px; }
QSlider::handle:horizontal {
  width: 16px; height: 16px; margin: -7px 0; border-radius: 9px; background: @surface;
  border: 2px solid @accent;
}
QSlider::handle:horizontal:hover { background: @tint; }
QSlider::sub-page:horizontal:disabled { background: @line; }
QSlider::handle:horizontal:disabled { border-color: @faint; }
QMenu { background: @surface; color: @text; border: 1px solid @line; padding: 5px; }
QMenu::item { padding: 6px 26px 6px 12px; border-radius: 6px; }
QMenu::item:selected { background: @tint; color: @accent; }
QMenu::item:disabled { color: @faint; }
QMenu::separator { height: 1px; background: @line; margin: 5px 8px; }
QScrollArea, QScrollArea > QWidget > QWidget { background: transparent; border: none; }
QScrollBar:vertical { background: transparent; width: 10px; margin: 2px; }
QScrollBar::handle:vertical { background: @line; border-radius: 3px; min-height: 32px; }
QScrollBar::handle:vertical:hover { background: @faint; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 2px; }
QScrollBar::handle:horizontal { background: @line; border-radius: 3px; min-width: 32px; }
QScrollBar::handle:horizontal:hover { background: @faint; }
QScrollBar::add-line, QScrollBar::sub-line { height: 0; width: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QStatusBar { background: @surface; color: @soft; border-top: 1px solid @line; }
QStatusBar::item { border: none; }
QStatusBar QLabel { color: @soft; padding: 2px 9px; }
QProgressBar {
  background: @line; border: none; border-radius: 3px; max-height: 6px; color: transparent;
}
QProgressBar::chunk { background: @accent; border-radius: 3px; }
QTableView, QTableWidget {
  background: @surface; color: @text; border: 1px solid @line; border-radius: 8px;
  gridline-color: @line; selection-background-color: @tint; selection-color: @accent;
}
QTableView::item { padding: 0 8px; }
QHeaderView::section {
  background: @surface; color: @soft; border: none; border-bottom: 1px solid @line;
  padding: 6px 8px; font-weight: 600;
}
QFrame#banner { border-radius: 10px; border: 1px solid @line; background: @surface; }
QFrame#banner[level="info"] { border-color: @accent; }
QFrame#banner[level="warning"] { border-color: @warning; }
QFrame#banner[level="error"] { border-color: @error; }
"""
