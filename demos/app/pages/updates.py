"""The models page: running versions, their sources, and checks for updates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QTableWidgetItem,
)

from palmkit.delivery.client import Client
from palmkit.delivery.embedded import shipped
from palmkit.demos.app.background import Background
from palmkit.demos.app.controls import Box
from palmkit.demos.app.page import Context, Page
from palmkit.demos.app.scrolled import GAP, scroll
from palmkit.demos.app.tables import Table
from palmkit.demos.app.texts import head, label
from palmkit.demos.app.updates import (
    Checked,
    Standing,
    check,
    delivered_looks,
    offered_looks,
    standing,
    told,
)

COLUMNS = {
    "Model": "What the model is called, here and on a server",
    "Version": "The release that runs",
    "From": "shipped: it came with PalmKit; else the channel of the server that sent it",
    "State": "Whether it has proved itself here",
    "Last check": "What the server answered, and releases that were refused here",
}
# What each field asks for.
FIELDS = {
    "&Address": "Where the server is: the address that palmkit serve prints",
    "T&rusted root": "The file root.json of the server, which says whose releases are trusted",
    "C&hannel": "Which releases to follow: stable ones, or earlier ones for trial",
}
CHANNELS = ("stable", "beta", "canary")
WATCH_MS = 1000
AGAIN_MS = 15_000
_OUTCOMES = {
    "new": "new release",
    "same": "up to date",
    "absent": "not in the repository",
}
_STATES = {
    "EMBEDDED": "came with PalmKit",
    "ACTIVE": "works here",
    "TRIAL": "on trial",
    "STAGED": "ready, not used yet",
}


class UpdatesPage(Page):
    """The models in a table, and the repository to check."""

    name: ClassVar[str] = "updates"
    title: ClassVar[str] = "Models"
    icon: ClassVar[str] = "updates"
    hint: ClassVar[str] = (
        "The models that the other pages run. A server of yours (palmkit serve) can send newer "
        "ones, and looks for Try-on, while the application runs."
    )

    def __init__(self, context: Context) -> None:
        """Build the page; no server is asked before the user says so."""
        super().__init__(context)
        self._background = Background("palmkit demo models", self)
        self._is_over = False
        self._standings: list[Standing] = []
        self._outcomes: dict[str, str] = {}
        self._watch = QTimer(self)
        self._watch.setInterval(WATCH_MS)
        self._watch.timeout.connect(self._look)
        self._again = QTimer(self)
        self._again.setInterval(AGAIN_MS)
        self._again.timeout.connect(lambda: self.check() if self._is_idle else None)
        self._build()
        self._show(self._shipped())
        context.check_wanted.connect(self._check_for_others)
        self._begin(context)

    def _build(self) -> None:
        settings = self.context.settings
        self._url = QLineEdit(str(settings.value("updates/url", "http://127.0.0.1:8080")))
        self._url.setObjectName("updates_url")
        self._root = QLineEdit(str(settings.value("updates/root", "")))
        self._root.setObjectName("updates_root")
        self._root.setPlaceholderText("root.json, from whoever runs the server")
        self._channel = Box()
        self._channel.setObjectName("updates_channel")
        self._channel.setEditable(True)
        self._channel.addItems(CHANNELS)
        self._channel.setCurrentText(str(settings.value("updates/channel", CHANNELS[0])))
        browse = self._button("&Browse…", "updates_browse", self._browse)
        self._connect = self._button("&Connect", "updates_connect", self._toggle)
        self._check = self._button("Check for &updates", "updates_check", self.check)
        self._check.setProperty("primary", True)
        self._often = QCheckBox("Check &every 15 seconds")
        self._often.setObjectName("updates_often")
        self._often.toggled.connect(self._ask_often)
        form = QGridLayout()
        form.setHorizontalSpacing(GAP)
        fields = (self._url, self._root, self._channel)
        for row, ((text, tip), field) in enumerate(zip(FIELDS.items(), fields, strict=True)):
            name = label(text)
            name.setBuddy(field)
            name.setToolTip(tip)
            field.setToolTip(tip)
            field.setAccessibleName(text.replace("&", ""))
            if isinstance(field, QComboBox) and (line := field.lineEdit()) is not None:
                line.setAccessibleName(text.replace("&", ""))
            form.addWidget(name, row, 0)
            form.addWidget(field, row, 1)
        form.addWidget(browse, 1, 2)
        form.addWidget(self._connect, 2, 2)
        asks = QHBoxLayout()
        asks.addWidget(self._check)
        asks.addWidget(self._often)
        asks.addStretch(1)
        self._progress = QProgressBar()
        self._progress.setObjectName("updates_progress")
        self._progress.setAccessibleName("Progress")
        self._said = label("Not connected: the models are those that came with PalmKit.", "hint")
        self._said.setObjectName("updates_said")
        self._said.setWordWrap(True)
        self.table = Table("updates_table", "Models", COLUMNS)
        column = scroll(self)
        head(column, self.title, self.hint)
        column.addLayout(form)
        column.addLayout(asks)
        column.addWidget(self._progress)
        column.addWidget(self._said)
        column.addWidget(self.table, 1)
        self._settle()

    def _button(self, text: str, name: str, call: Any) -> QPushButton:
        button = QPushButton(text)
        button.setObjectName(name)
        button.clicked.connect(lambda: call())
        return button

    def _begin(self, context: Context) -> None:
        """Connect to the repository that the command line names."""
        url, root = (getattr(context.options, each, None) for each in ("repository", "root"))
        if url:
            self._url.setText(url)
            self._root.setText(root or "")
            self._toggle()

    @staticmethod
    def _shipped() -> list[Standing]:
        return [
            Standing(name, each.version, "shipped", "EMBEDDED") for name, each in shipped().items()
        ]

    @property
    def is_busy(self) -> bool:
        """Return whether a check or lookup runs or waits."""
        return self._background.is_busy

    @property
    def _is_idle(self) -> bool:
        return self._check.isEnabled()

    def drop(self, path: Path) -> bool:
        """Take a root.json."""
        if path.name != "root.json":
            return False
        self._root.setText(str(path))
        return True

    def shutdown(self) -> None:
        """Stop checking; an unfinished download is resumed the next time."""
        self._is_over = True
        self._watch.stop()
        self._again.stop()
        self._background.close()

    def _browse(self) -> None:
        chosen, _ = QFileDialog.getOpenFileName(self, "Trusted root", self._root.text(), "*.json")
        if chosen:
            self._root.setText(chosen)

    def _toggle(self) -> None:
        catalogue = self.context.catalogue
        if catalogue.client is not None:
            self._watch.stop()
            self._often.setChecked(False)
            catalogue.disconnect_from()
            self._outcomes.clear()
            self._show(self._shipped())
            self._said.setText("Not connected: the models are those that came with PalmKit.")
            self._settle()
            return
        url, root = self._url.text().strip(), self._root.text().strip()
        channel = self._channel.currentText().strip()
        try:
            catalogue.connect_to(url, Path(root), channel)
        except (OSError, ValueError) as error:
            what = f"{root}: {error.strerror}" if isinstance(error, OSError) else f"{error}"
            self.context.say(f"models: {what}", "error")
            return
        for name, value in (("url", url), ("root", root), ("channel", channel)):
            self.context.settings.setValue(f"updates/{name}", value)
        self._said.setText(
            f"Connected to {url}, channel {channel}. Press “Check for updates” to ask it."
        )
        self._watch.start()
        self._settle()
        self._look()

    def _settle(self) -> None:
        """Enable the actions that are possible."""
        is_connected = self.context.catalogue.client is not None
        self._connect.setText("&Disconnect" if is_connected else "&Connect")
        self._connect.setEnabled(True)
        for field in (self._url, self._root, self._channel):
            field.setEnabled(not is_connected)
        self._check.setEnabled(is_connected)
        self._often.setEnabled(is_connected)
        self._progress.setRange(0, 1)
        self._progress.reset()

    def _ask_often(self, is_on: bool) -> None:
        if is_on:
            self._again.start()
            if self._is_idle:
                self.check()
        else:
            self._again.stop()

    def _check_for_others(self) -> None:
        """Check because another page asks."""
        if self.context.catalogue.client is None:
            self.context.say(
                "newer looks and models come from a server: connect to one first",
                "info",
                ("Connect…", lambda: self.context.page_wanted.emit(self.name)),
            )
        elif self._is_idle:
            self.check()

    def check(self) -> None:
        """Check all models and looks now, in the background."""
        client = self.context.catalogue.client
        if client is None:
            return
        self._check.setEnabled(False)
        self._connect.setEnabled(False)
        self._progress.setRange(0, 0)
        self._said.setText("Asking the server…")

        def on_progress(name: str, have: int, size: int) -> None:
            self._background.report(lambda: self._show_progress(name, have, size))

        def on_checked(checked: Checked) -> None:
            self._background.report(lambda: self._show_checked(checked))

        channel = self.context.catalogue.channel

        def ask(names: Iterable[str]) -> list[Checked]:
            return check(client, names, on_progress, on_checked, lambda: self._is_over)

        def job() -> list[Checked]:
            found = ask(shipped())
            is_reached = not any(each.code.startswith("check_fail") for each in found)
            return found + ask(offered_looks(client, channel)) if is_reached else found

        self._background.run(job, self._finish, self._fail)

    def _show_progress(self, name: str, have: int, size: int) -> None:
        self._progress.setRange(0, max(1, size))
        self._progress.setValue(have)
        self._said.setText(f"Fetching {name}")

    def _show_checked(self, checked: Checked) -> None:
        words = _OUTCOMES.get(checked.outcome, checked.error)
        self._outcomes[checked.standing.model] = words
        self._progress.setRange(0, 0)

    def _finish(self, found: Sequence[Checked]) -> None:
        self._settle()
        failed = [each for each in found if each.outcome == "failed"]
        new = [each.standing.model for each in found if each.outcome == "new"]
        if failed:
            first = failed[0]
            self._said.setText(f"The check failed: {first.error}")
            self.context.say(
                f"The update failed; the models that are here go on running: {first.error}",
                "warning",
                ("Try again", self.check),
            )
        else:
            self._said.setText(f"New: {', '.join(new)}." if new else "Nothing new.")
            if not new and not self.isVisible():
                self.context.say("nothing new")
        self._look()

    def _fail(self, error: Exception) -> None:
        self._settle()
        self._said.setText(f"The check failed: {error}")
        self.context.say(
            f"The update failed; the models that are here go on running: {error}", "error"
        )

    def _look(self) -> None:
        """Look up the models' state in the background, as it reads a disk."""
        client = self.context.catalogue.client
        if client is None or self._background.is_busy:
            return

        channel = self.context.catalogue.channel

        def job() -> tuple[Client, list[Standing]]:
            names = (*shipped(), *delivered_looks(client, channel))
            return client, [standing(client, name) for name in names]

        self._background.run(job, self._see, lambda error: self._said.setText(str(error)))

    def _see(self, seen: tuple[Client, list[Standing]]) -> None:
        client, found = seen
        if client is not self.context.catalogue.client:
            return
        for words, is_bad in told(self._standings, found):
            self.context.say(words, "warning" if is_bad else "info")
        self._show(found)

    def _show(self, found: list[Standing]) -> None:
        self._standings = found
        looks = [each for each in found if each.model not in shipped() and each.version]
        self.context.catalogue.show_looks({each.model: each.version for each in looks})
        self.table.setRowCount(len(found))
        for row, each in enumerate(found):
            state = _STATES.get(each.state, each.state.lower()) if each.version else "not here"
            refused = ", ".join(f"{release} refused ({code})" for release, code in each.refused)
            last = "; ".join(
                words for words in (self._outcomes.get(each.model, ""), refused) if words
            )
            for column, text in enumerate((each.model, each.version, each.source, state, last)):
                item = self.table.item(row, column)
                if item is None:
                    item = QTableWidgetItem()
                    item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable)
                    self.table.setItem(row, column, item)
                if item.text() != text:
                    item.setText(text)
                    item.setToolTip(text)
