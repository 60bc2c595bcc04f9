"""The status bar: frame rate, stage times, running models, and the source."""

from __future__ import annotations

from PySide6.QtWidgets import QStatusBar

from palmkit.demos.app.catalogue import Catalogue
from palmkit.demos.app.page import LivePage, Page
from palmkit.demos.app.texts import Line, spoken
from palmkit.demos.app.worker import Shown

# The weight of each new frame in the shown times, and how many frames pass before they show.
SHARE, EVERY = 0.15, 8
MODELS = "Models in use, and where they are from"


class Status(QStatusBar):
    """Numbers for interested users; they change only a few times a second."""

    def __init__(self, catalogue: Catalogue) -> None:
        """Start empty."""
        super().__init__()
        self._catalogue = catalogue
        self._page: Page | None = None
        self._stages: dict[str, float] = {}
        self._releases: dict[str, str] = {}
        self._used: tuple[str, ...] = ()
        self._count = 0
        self.setSizeGripEnabled(False)
        self._rate = Line("status_rate", "Frame rate", "Frames shown in a second")
        self._times = Line("status_stages", "Time per stage", "Milliseconds a frame, by stage")
        self._models = Line("status_models", "Models", MODELS)
        self._source = Line("status_source", "Source", "What is shown")
        self._rate.setMinimumWidth(72)
        self.addWidget(self._rate)
        self.addWidget(self._times)
        self.addWidget(self._models, 1)
        self.addPermanentWidget(self._source)
        catalogue.changed.connect(self._show_models)

    def text(self, name: str) -> str:
        """Return a field's text, by its object name."""
        fields = (self._rate, self._times, self._models, self._source)
        return next(each.text() for each in fields if each.objectName() == name)

    def show_page(self, page: Page) -> None:
        """Show the fields of another page."""
        self._page, self._stages, self._releases, self._used, self._count = page, {}, {}, (), 0
        for each in (self._rate, self._times, self._models):
            each.say("")
        self._models.setToolTip(MODELS)
        self._source.setVisible(isinstance(page, LivePage))

    def show_source(self, title: str) -> None:
        """Show the source of the frames."""
        self._source.say(title)

    def show_rate(self, frames_per_s: float) -> None:
        """Show the frame rate; 0: none."""
        is_live = isinstance(self._page, LivePage) and frames_per_s > 0
        self._rate.say(f"{frames_per_s:.0f} fps" if is_live else "")

    def show_outcome(self, shown: Shown) -> None:
        """Show a frame's time, and its models."""
        if shown.page is not self._page:
            return
        # The first frame opens models, so its time does not count for others; a still picture is
        # one frame.
        is_alone = self._count < 2 or shown.shot.is_still
        means = {} if is_alone else self._stages
        self._stages = {}
        for name, spent_ms in shown.outcome.stages_ms.items():
            before = means.get(name, spent_ms)
            self._stages[name] = before + SHARE * (spent_ms - before)
        releases, used = dict(shown.outcome.releases), shown.outcome.models or shown.page.models
        if self._count % EVERY == 0 or shown.shot.is_still:
            times = "   ".join(f"{name} {ms:.1f} ms" for name, ms in self._stages.items())
            self._times.say(times)
        if (releases, used) != (self._releases, self._used):
            self._releases, self._used = releases, used
            self._show_models()
        self._count += 1

    def _show_models(self) -> None:
        words = [
            f"{spoken(model)} {self._catalogue.version(model, self._releases)}"
            for model in self._used
        ]
        self._models.say("   ".join(words))
        self._models.setToolTip("\n".join((f"{MODELS}:", *words)))
