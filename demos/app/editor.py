"""The editor of a try-on effect: shades, opacity, finish and its other options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from palmkit.demos.app.controls import Slider, Swatches, choice
from palmkit.demos.app.texts import spoken
from palmkit.kits.tryon import palettes
from palmkit.kits.tryon.effect import Effect

WORDS = {"wing": "Length of the wing", "smoothing": "Smoother skin", "tint": "Tint of the lenses"}


class Editor(QWidget):
    """Edits one effect; None means that it is not worn."""

    def __init__(
        self, kind: type[Effect], words: str, act: Callable[[Effect | None], None]
    ) -> None:
        """Set up the editor.

        words: the effect's name. act: called with each change.
        """
        super().__init__()
        self._kind, self._act = kind, act
        self._worn: Effect | None = None
        self._shades = {
            name: kind.of(options) for name, options in palettes.shades(kind.name).items()
        }
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(10)
        self._swatches = Swatches(
            words.lower(),
            {name: (each.colour, _finish(each)) for name, each in self._shades.items()},
            self._choose,
        )
        column.addWidget(self._swatches)
        self._sliders: dict[str, Slider] = {}
        for each in fields(kind):
            if isinstance(each.default, float):
                text = WORDS.get(each.name, each.name.capitalize())
                slider = Slider(text, each.default, self._changer(each.name))
                self._sliders[each.name] = slider
                column.addWidget(slider)
        self._box = None
        if len(kind.finishes) > 1:
            finishes = {str(name): name.capitalize() for name in kind.finishes}
            tip = "How it shines"
            line, self._box = choice("Finish", finishes, "satin", self._changer("finish"), tip)
            column.addWidget(line)
        self._off = QPushButton(f"No {words.lower()}")
        self._off.clicked.connect(self._take_off)
        column.addWidget(self._off)
        self.show_effect(None)

    def show_effect(self, worn: Effect | None) -> None:
        """Show what is worn without calling `act`."""
        self._worn = worn
        self._swatches.select("" if worn is None else self._shade_of(worn))
        for name, slider in self._sliders.items():
            slider.setEnabled(worn is not None)
            if worn is not None:
                slider.set_value(getattr(worn, name))
        if self._box is not None:
            self._box.setEnabled(worn is not None)
            self._box.blockSignals(True)
            if worn is not None:
                self._box.setCurrentIndex(max(self._box.findData(worn.finish), 0))
            self._box.blockSignals(False)
        self._off.setEnabled(worn is not None)

    def _shade_of(self, worn: Effect) -> str | None:
        """Return the shade whose colour, and for glasses whose shape, it has."""

        def looks(effect: Effect) -> tuple[object, ...]:
            return effect.colour, getattr(effect, "style", ""), getattr(effect, "lens", "")

        for name, shade in self._shades.items():
            if looks(shade) == looks(worn):
                return name
        return None

    def _choose(self, name: str) -> None:
        self.show_effect(self._shades[name] if name else None)
        self._act(self._worn)

    def _take_off(self) -> None:
        self._choose("")

    def _changer(self, name: str) -> Callable[[Any], None]:
        def change(value: Any) -> None:
            if self._worn is not None:
                changes: dict[str, Any] = {name: value}
                self._worn = replace(self._worn, **changes)
                self._act(self._worn)

        return change


def _finish(effect: Effect) -> str:
    style = getattr(effect, "style", None)
    return effect.finish if style is None else spoken(str(style))
