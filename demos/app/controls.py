"""The controls of the panels, each with a label, a tooltip and a text for screen readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import QEvent, QObject, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QButtonGroup,
    QCheckBox,
    QComboBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QListWidget,
    QScrollArea,
    QSlider,
    QStyle,
    QStyleOptionToolButton,
    QStylePainter,
    QTableWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from palmkit.demos.app.icons import paint

GAP, MARGIN = 10, 18
SWATCH = 30
# In pixels; contents that are higher are scrolled.
LEAST_HEIGHT = 120
LEAST_ROWS = 4
# How many letters a button shows that may be narrower than its words.
LEAST_LETTERS = 3


class Label(QLabel):
    """A plain text that asks for the room of its ink.

    Qt counts the advance, which cuts letters that reach beyond it, as after a kerned mnemonic.
    """

    def sizeHint(self) -> QSize:
        """Return the size that shows the whole text."""
        return self._with_ink(super().sizeHint())

    def minimumSizeHint(self) -> QSize:
        """Return the least size; a text that wraps can be narrower than its line."""
        return self._with_ink(super().minimumSizeHint())

    def _with_ink(self, size: QSize) -> QSize:
        if self.wordWrap():
            return size
        margins = self.contentsMargins()
        ink = ink_width(self) + margins.left() + margins.right()
        return QSize(max(size.width(), ink), size.height())


def ink_width(widget: QLabel) -> int:
    """Return the width in pixels of a label's line of text, as it is drawn."""
    words = widget.text()
    if widget.buddy():
        words = words.replace("&", "")
    return widget.fontMetrics().boundingRect(words).width()


def label(text: str, role: str = "", wraps: bool = False) -> QLabel:
    """Return a label.

    role: "title", "section", "hint", "value", "big" or "pill".
    """
    made = Label(text)
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
            self.setToolTip("\n".join(filter(None, (self._tip, text))))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw as much as fits."""
        painter = QPainter(self)
        place = self.contentsRect()
        dots = Qt.TextElideMode.ElideRight
        text = self.fontMetrics().elidedText(self.text(), dots, place.width())
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)


class Scrolled(QScrollArea):
    """Contents in a column: never narrower than they ask for, scrolled where they are too high."""

    def __init__(self, margin: int = MARGIN) -> None:
        """Set up an empty column.

        margin: in pixels, around the contents.
        """
        super().__init__()
        inside = self._inside = QWidget()
        self.column = QVBoxLayout(inside)
        self.column.setContentsMargins(margin, margin, margin, margin)
        self.column.setSpacing(GAP)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(inside)
        inside.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Ask for another size when the contents do."""
        if event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().eventFilter(watched, event)

    def minimumSizeHint(self) -> QSize:
        """Return the width of the contents and of a scroll bar, and a height that can be used."""
        least = self._inside.minimumSizeHint()
        bar = self.verticalScrollBar().sizeHint().width()
        return QSize(least.width() + bar, min(least.height(), LEAST_HEIGHT))

    def sizeHint(self) -> QSize:
        """Return the least width, and the height of the contents."""
        least = self.minimumSizeHint()
        return QSize(least.width(), max(least.height(), self._inside.sizeHint().height()))


def scroll(page: QWidget) -> QVBoxLayout:
    """Fill a page with a column that scrolls, and return the column."""
    area = Scrolled()
    outer = QVBoxLayout(page)
    outer.setContentsMargins(0, 0, 0, 0)
    outer.addWidget(area)
    return area.column


class Panel(Scrolled):
    """Controls in a column."""

    def __init__(self, title: str, hint: str) -> None:
        """Set up the panel with a title and a hint at its top."""
        super().__init__()
        head(self.column, title, hint)
        self.column.addStretch(1)

    def add(self, widget: QWidget) -> None:
        """Add a control below the others."""
        self.column.insertWidget(self.column.count() - 1, widget)

    def section(self, text: str) -> None:
        """Add a heading below the others."""
        self.column.insertSpacing(self.column.count() - 1, 6)
        self.add(label(text, "section", wraps=True))


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


class Table(QTableWidget):
    """A table of texts that are read, not edited; without rows it says what to do."""

    def __init__(self, name: str, says: str, columns: Mapping[str, str], empty: str = "") -> None:
        """Set up a table without rows.

        name: the object's name. says: what it holds, for screen readers. columns: what each holds,
        by its title; the last one takes the room that is left. empty: shown while there are no
        rows.
        """
        super().__init__(0, len(columns))
        self.setObjectName(name)
        self.setAccessibleName(says)
        self.setHorizontalHeaderLabels(list(columns))
        for at, tip in enumerate(columns.values()):
            item = self.horizontalHeaderItem(at)
            assert item is not None
            item.setToolTip(tip)
        self.verticalHeader().hide()
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(len(columns) - 1, QHeaderView.ResizeMode.Stretch)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.hint = EmptyHint(self, empty)

    def updateGeometries(self) -> None:
        """Have the last column take the room that is left, if that is enough for its contents."""
        header, last = self.horizontalHeader(), self.columnCount() - 1
        need = max(header.sectionSizeHint(last), self.sizeHintForColumn(last))
        fits = header.length() - header.sectionSize(last) + need <= self.viewport().width()
        mode = QHeaderView.ResizeMode
        wanted = mode.Stretch if fits else mode.ResizeToContents
        if header.sectionResizeMode(last) != wanted:
            header.setSectionResizeMode(last, wanted)
        super().updateGeometries()

    def minimumSizeHint(self) -> QSize:
        """Return room for the titles and a few rows."""
        least = super().minimumSizeHint()
        row = self.verticalHeader().defaultSectionSize()
        high = self.horizontalHeader().sizeHint().height() + LEAST_ROWS * row
        return QSize(least.width(), max(least.height(), high))

    def sizeHint(self) -> QSize:
        """Ask for no more than that, as a table takes what is left."""
        return self.minimumSizeHint()


class Listing(QListWidget):
    """A list of texts that are read; without any it says so."""

    def __init__(self, name: str, says: str, empty: str) -> None:
        """Set up an empty list.

        name: the object's name. says: what it holds, for screen readers. empty: shown while there
        is nothing.
        """
        super().__init__()
        self.setObjectName(name)
        self.setAccessibleName(says)
        self.setWordWrap(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.hint = EmptyHint(self, empty)

    def minimumSizeHint(self) -> QSize:
        """Return room for a few texts."""
        return QSize(LEAST_HEIGHT, round(1.5 * LEAST_ROWS * self.fontMetrics().height()))

    def sizeHint(self) -> QSize:
        """Ask for no more than that, as a list takes what is left."""
        return self.minimumSizeHint()


class EmptyHint(Label):
    """Words in the middle of a list or table, for as long as that is empty."""

    def __init__(self, view: QAbstractItemView, text: str) -> None:
        """Lay the words over a view, which may get rows later."""
        super().__init__(text, view.viewport())
        self._view = view
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setObjectName("empty_hint")
        self.setProperty("role", "hint")
        self.setWordWrap(True)
        self.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setMargin(GAP)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        view.viewport().installEventFilter(self)
        model = view.model()
        for changed in (model.rowsInserted, model.rowsRemoved, model.modelReset):
            changed.connect(self._settle)
        self._settle()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the view."""
        if event.type() == QEvent.Type.Resize:
            self.setGeometry(self._view.viewport().rect())
        return False

    def _settle(self) -> None:
        self.setVisible(bool(self.text()) and not self._view.model().rowCount())


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
