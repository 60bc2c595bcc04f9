"""The controls of the panels, each with a label, a tooltip and a text for screen readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractButton,
    QButtonGroup,
    QCheckBox,
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QSlider,
    QStyle,
    QStyleOptionToolButton,
    QStylePainter,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from palmkit.demos.app.icons import paint
from palmkit.demos.app.texts import label, spoken

SWATCH = 30
# How many letters a button shows that may be narrower than its words.
LEAST_LETTERS = 3


class OneOf(QWidget):
    """Parts of which one is shown: as high as that one, as wide as the widest."""

    def __init__(self) -> None:
        """Start without parts."""
        super().__init__()
        self._parts: list[QWidget] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)

    def add(self, part: QWidget) -> None:
        """Add a part, which is not shown yet."""
        part.hide()
        self._parts.append(part)
        self._column.addWidget(part)

    def show_part(self, shown: QWidget) -> None:
        """Show one of the parts, and no other."""
        for part in self._parts:
            part.setVisible(part is shown)

    def minimumSizeHint(self) -> QSize:
        """Return the least size."""
        return self._as_wide_as_all(super().minimumSizeHint())

    def sizeHint(self) -> QSize:
        """Return the size of what is shown."""
        return self._as_wide_as_all(super().sizeHint())

    def _as_wide_as_all(self, size: QSize) -> QSize:
        widths = [part.minimumSizeHint().width() for part in self._parts]
        return QSize(max([size.width(), *widths]), size.height())


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
        name = label(text, wraps=True)
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
        top.addWidget(name, 1)
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
    name = label(text, wraps=True)
    name.setBuddy(box)
    whole = QWidget()
    column = QVBoxLayout(whole)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(4)
    column.addWidget(name)
    column.addWidget(box)
    whole.setFocusProxy(box)
    return whole, box


class Elided(QToolButton):
    """A tool button with an icon and words, which are elided where there is no room for them."""

    def minimumSizeHint(self) -> QSize:
        """Return room for the icon and the first letters."""
        whole = self.sizeHint()
        metrics = self.fontMetrics()
        words = self.text()
        short = min(len(words), LEAST_LETTERS) * metrics.averageCharWidth()
        spare = metrics.horizontalAdvance(words) - metrics.horizontalAdvance("…") - short
        return QSize(whole.width() - max(spare, 0), whole.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw as much as fits."""
        option = QStyleOptionToolButton()
        self.initStyleOption(option)
        spare = self.sizeHint().width() - self.width()
        if spare > 0:
            metrics = self.fontMetrics()
            room = metrics.horizontalAdvance(self.text()) - spare
            option.text = metrics.elidedText(self.text(), Qt.TextElideMode.ElideRight, room)
        QStylePainter(self).drawComplexControl(QStyle.ComplexControl.CC_ToolButton, option)


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
