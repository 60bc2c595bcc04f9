"""The controls of the panels, each with a label, a tooltip and a text for screen readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import (
    QAbstractButton,
    QButtonGroup,
    QCheckBox,
    QComboBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QSlider,
    QVBoxLayout,
    QWidget,
)

from palmkit.demos.app.icons import paint

GAP, MARGIN = 10, 18
SWATCH = 30


def label(text: str, role: str = "", wraps: bool = False) -> QLabel:
    """Return a label.

    role: "title", "section", "hint", "value", "big" or "pill".
    """
    made = QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setWordWrap(wraps)
    if role:
        made.setProperty("role", role)
    return made


def head(column: QVBoxLayout, title: str, hint: str) -> None:
    """Add a title, and a hint on its use, at the end of a column."""
    column.addWidget(label(title, "title"))
    column.addWidget(label(hint, "hint", wraps=True))


class Drawing(QLabel):
    """A widget that draws itself, which screen readers know as a picture with a name."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        nothing = QPixmap(1, 1)
        nothing.fill(Qt.GlobalColor.transparent)
        self.setPixmap(nothing)


class Line(QLabel):
    """A text of one line, elided where there is no room for it."""

    def __init__(self, name: str, says: str = "", tip: str = "") -> None:
        """Set up the line.

        name: the object's name. says: what screen readers say before the text.
        """
        super().__init__()
        self._says, self._tip = says, tip
        self.setObjectName(name)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setMinimumWidth(24)
        self.say("")

    def say(self, text: str) -> None:
        """Show a text from now on."""
        name = f"{self._says}: {text or 'nothing'}"
        # Screen readers announce each call, so it is made for changes only.
        if name != self.accessibleName():
            self.setText(text)
            self.setAccessibleName(name)
            self.setToolTip(self._tip or text)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw as much as fits."""
        painter = QPainter(self)
        place = self.contentsRect()
        dots = Qt.TextElideMode.ElideRight
        text = self.fontMetrics().elidedText(self.text(), dots, place.width())
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)


class Panel(QWidget):
    """Controls in a column, which scrolls where there is no room."""

    def __init__(self, title: str, hint: str) -> None:
        """Set up the panel with a title and a hint at its top."""
        super().__init__()
        inner = QWidget()
        self.column = QVBoxLayout(inner)
        self.column.setContentsMargins(MARGIN, MARGIN, MARGIN, MARGIN)
        self.column.setSpacing(GAP)
        head(self.column, title, hint)
        self.column.addStretch(1)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(inner)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(area)

    def add(self, widget: QWidget) -> None:
        """Add a control below the others."""
        self.column.insertWidget(self.column.count() - 1, widget)

    def section(self, text: str) -> None:
        """Add a heading below the others."""
        self.column.insertSpacing(self.column.count() - 1, 6)
        self.add(label(text, "section"))


class Slider(QWidget):
    """A number chosen on a slider."""

    def __init__(
        self,
        text: str,
        value: float,
        act: Callable[[float], None],
        low: float = 0.0,
        high: float = 1.0,
        step: float = 0.01,
        show: Callable[[float], str] | None = None,
        tip: str = "",
    ) -> None:
        """Set up the slider.

        act: called with each change. show: formats the number; by default as percents.
        """
        super().__init__()
        self._act = act
        self._show = show or percent
        # Screen readers say the numbers of the line: percents, or so many steps.
        self._step = step if show else step / round(step * 100)
        self._stride = 1 if show else round(step * 100)
        name = label(text)
        self._value = label("", "value")
        self._line = QSlider(Qt.Orientation.Horizontal)
        # Numbers grow to the right also in right-to-left layouts.
        self._line.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        self._line.setRange(round(low / self._step), round(high / self._step))
        tenth = (self._line.maximum() - self._line.minimum()) // (10 * self._stride)
        self._line.setSingleStep(self._stride)
        self._line.setPageStep(max(1, tenth) * self._stride)
        self._line.setAccessibleName(text)
        self._tip = tip
        self.setToolTip(tip)
        name.setBuddy(self._line)
        self.setFocusProxy(self._line)
        top = QHBoxLayout()
        top.addWidget(name)
        top.addStretch(1)
        top.addWidget(self._value)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(top)
        column.addWidget(self._line)
        self.set_value(value)
        self._write()
        self._line.valueChanged.connect(self._moved)

    @property
    def value(self) -> float:
        """Return the number."""
        return self._line.value() * self._step

    def set_value(self, value: float) -> None:
        """Set the number without calling `act`."""
        self._line.blockSignals(True)
        self._line.setValue(round(value / self._step))
        self._line.blockSignals(False)
        self._write()

    def _moved(self, place: int) -> None:
        least = self._line.minimum()
        on_step = least + round((place - least) / self._stride) * self._stride
        if on_step != place:
            self._line.setValue(on_step)
            return
        self._write()
        self._act(self.value)

    def _write(self) -> None:
        text = self._show(self.value)
        self._value.setText(text)
        self._line.setToolTip(f"{self._line.accessibleName()}: {text}")
        self._line.setAccessibleDescription(f"{text}. {self._tip}" if self._tip else text)


def check(text: str, is_on: bool, act: Callable[[bool], None], tip: str = "") -> QCheckBox:
    """Return a check box.

    act: called with each change.
    """
    made = QCheckBox(text)
    made.setChecked(is_on)
    made.setToolTip(tip)
    made.setAccessibleDescription(tip)
    made.toggled.connect(act)
    return made


def percent(share: float) -> str:
    """Return a share as text."""
    return f"{100 * share:.0f} %"


class Box(QComboBox):
    """A combo box with a visible arrow."""

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the box, and the arrow on it."""
        super().paintEvent(event)
        colour = self.palette().text().color().name()
        is_mirrored = self.layoutDirection() == Qt.LayoutDirection.RightToLeft
        left = 12 if is_mirrored else self.width() - 28
        place = QRectF(left, self.height() / 2 - 8, 16, 16)
        painter = QPainter(self)
        paint(painter, "chevron", colour, place)


def choice(
    text: str, options: Mapping[str, str], chosen: str, act: Callable[[str], None], tip: str = ""
) -> tuple[QWidget, QComboBox]:
    """Return a combo box with the texts of some values.

    act: called with the chosen value.
    """
    box = Box()
    for value, words in options.items():
        box.addItem(words, value)
    box.setCurrentIndex(max(box.findData(chosen), 0))
    box.setAccessibleName(text)
    box.setAccessibleDescription(tip)
    box.setToolTip(tip)
    box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def changed() -> None:
        act(str(box.currentData()))

    box.currentIndexChanged.connect(changed)
    name = label(text)
    name.setBuddy(box)
    whole = QWidget()
    column = QVBoxLayout(whole)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(4)
    column.addWidget(name)
    column.addWidget(box)
    whole.setFocusProxy(box)
    return whole, box


class Swatch(QAbstractButton):
    """A round button of a colour; no colour means "none"."""

    def __init__(self, name: str, colour: str | None, finish: str = "") -> None:
        """Set up the button.

        name: the shade's name in words.
        """
        super().__init__()
        words = name if not finish else f"{name}, {finish}"
        self.colour = colour
        self.setCheckable(True)
        self.setToolTip(words)
        self.setAccessibleName(words)
        self.setFixedSize(SWATCH + 6, SWATCH + 6)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def sizeHint(self) -> QSize:
        """Return a size large enough to hit."""
        return QSize(SWATCH + 6, SWATCH + 6)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the disc, and a ring where it is chosen or has the focus."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colours = self.palette()
        accent, soft = colours.highlight().color(), colours.mid().color()
        middle = self.rect().toRectF().center()
        radius = SWATCH / 2 - 2.5
        if self.colour is None:
            painter.setPen(QPen(soft, 1.5))
            painter.drawEllipse(middle, radius, radius)
            offset = radius * 0.7
            painter.drawLine(
                int(middle.x() - offset),
                int(middle.y() + offset),
                int(middle.x() + offset),
                int(middle.y() - offset),
            )
        else:
            edge = QColor(self.colour)
            painter.setPen(QPen(edge.darker(135) if self.underMouse() else soft, 1))
            painter.setBrush(edge)
            painter.drawEllipse(middle, radius, radius)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if self.isChecked():
            painter.setPen(QPen(accent, 2.2))
            painter.drawEllipse(middle, radius + 3, radius + 3)
        if self.hasFocus():
            painter.setPen(QPen(colours.text().color(), 1.4, Qt.PenStyle.DotLine))
            painter.drawEllipse(middle, radius + 5, radius + 5)

    def enterEvent(self, event: object) -> None:
        """Show that it can be pressed."""
        self.update()

    def leaveEvent(self, event: object) -> None:
        """Restore the normal look."""
        self.update()


class Swatches(QWidget):
    """Shades of which one, or none, is chosen."""

    def __init__(
        self,
        text: str,
        shades: Mapping[str, tuple[str, str]],
        act: Callable[[str], None],
        none: bool = True,
        columns: int = 7,
    ) -> None:
        """Set up the shades.

        shades: colour and finish by name. text: what is chosen, for screen readers. act: called
        with the chosen name, "" for none. none: whether none is a choice.
        """
        super().__init__()
        self.setAccessibleName(text)
        self._group = QButtonGroup(self)
        self._names: list[str] = ["", *shades] if none else list(shades)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(3)
        for index, name in enumerate(self._names):
            colour, finish = shades[name] if name else (None, "")
            swatch = Swatch(spoken(name) if name else f"no {text}", colour, finish)
            swatch.setObjectName(f"swatch_{name or 'none'}")
            # Set for its role only, as the group decides what is chosen.
            swatch.setAutoExclusive(True)
            self._group.addButton(swatch, index)
            grid.addWidget(swatch, index // columns, index % columns)
        grid.setColumnStretch(columns, 1)
        self._group.button(0).setChecked(True)
        self._act = act
        self._group.idClicked.connect(self._clicked)

    def _clicked(self, index: int) -> None:
        self._act(self._names[index])

    def select(self, name: str | None) -> None:
        """Mark a shade as chosen without calling `act`; None: a colour that is none of them."""
        if name is not None and name in self._names:
            self._group.button(self._names.index(name)).setChecked(True)
            return
        self._group.setExclusive(False)
        for button in self._group.buttons():
            button.setChecked(False)
        self._group.setExclusive(True)


def row(widgets: Sequence[QWidget]) -> QWidget:
    """Return widgets side by side, of equal width."""
    whole = QWidget()
    line = QHBoxLayout(whole)
    line.setContentsMargins(0, 0, 0, 0)
    line.setSpacing(8)
    for widget in widgets:
        line.addWidget(widget, 1)
    return whole


def spoken(name: str) -> str:
    """Return the name of a shade or look in words."""
    return name.replace("_", " ")
