"""The benchmark page: the times of models and kits on this machine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QProcess, QRect, Qt
from PySide6.QtGui import QGuiApplication, QPainter, QPalette
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableWidgetItem,
)

from palmkit.demos.app.controls import Box
from palmkit.demos.app.page import Context, Page
from palmkit.demos.app.scrolled import scroll
from palmkit.demos.app.tables import Table
from palmkit.demos.app.texts import head, label
from palmkit.engine.bench.measurement import processor
from palmkit.engine.replacing import replacing

Row: TypeAlias = Mapping[str, Any]
COLUMNS = {
    "What": "A model by itself, or a kit with all that it does",
    "Kind": "model: one run of a network; kit: one frame of 640x480, or one page of 60 goods",
    "Median ms": "Half of the runs take less than this, in milliseconds",
    "95th percentile ms": "Of 100 runs, 95 take less than this, in milliseconds",
    "Fastest ms": "The shortest run, in milliseconds",
    "Runs": "How often it was run for these times",
    "Compared": "The medians as bars: shorter is faster",
}
EMPTY = (
    "Nothing has been timed yet.\n\nPress Run: each model and each kit then runs for about a "
    "second, and its times appear here. Live pictures pause meanwhile."
)
_MEDIAN, _BAR = 2, 6
_SECONDS = 1.0
_END_MS = 1500


class Bars(QStyledItemDelegate):
    """Draws a share, 0..1, as a bar."""

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        """Draw the bar in its cell."""
        share = index.data(Qt.ItemDataRole.UserRole)
        if share is None:
            return
        box: QRect = option.rect.adjusted(6, 0, -6, 0)
        height = min(12, box.height() - 8)
        bar = QRect(
            box.left(), box.center().y() - height // 2, max(2, round(box.width() * share)), height
        )
        colours: QPalette = option.palette
        painter.save()
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colours.color(QPalette.ColorRole.Accent))
        painter.drawRoundedRect(bar, 4, 4)
        painter.restore()


class BenchmarkPage(Page):
    """A table that fills while a separate process times one job after another."""

    name: ClassVar[str] = "benchmark"
    title: ClassVar[str] = "Benchmark"
    icon: ClassVar[str] = "benchmark"
    hint: ClassVar[str] = "How long each model and each kit takes on this machine:"

    def __init__(self, context: Context) -> None:
        """Build the page; nothing runs yet."""
        super().__init__(context)
        self.rows: list[Row] = []
        self._process: QProcess | None = None
        self._rest = b""
        self._is_cancelled = False
        self._seconds = _SECONDS
        self._only: Sequence[str] | None = None
        self._build()

    def _build(self) -> None:
        self._threads = Box()
        self._threads.setObjectName("benchmark_threads")
        self._threads.addItems([str(1 + number) for number in range(os.cpu_count() or 1)])
        self._threads.setAccessibleName("Threads")
        threads = label("&Threads")
        threads.setBuddy(self._threads)
        self._run = self._button("&Run", "benchmark_run", self.start)
        self._run.setProperty("primary", True)
        self._cancel = self._button("&Cancel", "benchmark_cancel", self.cancel)
        self._copy = self._button("C&opy", "benchmark_copy", self._copy_rows)
        self._save = self._button("&Save…", "benchmark_save", self._ask_and_save)
        self._progress = QProgressBar()
        self._progress.setObjectName("benchmark_progress")
        self._progress.setAccessibleName("Progress")
        self._said = label("", "hint", wraps=True)
        self._said.setObjectName("benchmark_said")
        self.table = Table("benchmark_table", "Times", COLUMNS, EMPTY)
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for at in range(_MEDIAN, _BAR):
            if (title := self.table.horizontalHeaderItem(at)) is not None:
                title.setTextAlignment(right)
        self.table.setItemDelegateForColumn(_BAR, Bars(self.table))
        bar = QHBoxLayout()
        bar.addWidget(threads)
        bar.addWidget(self._threads)
        bar.addWidget(self._run)
        bar.addWidget(self._cancel)
        bar.addStretch(1)
        bar.addWidget(self._copy)
        bar.addWidget(self._save)
        column = scroll(self)
        head(column, self.title, f"{self.hint} {processor()}.")
        column.addLayout(bar)
        column.addWidget(self._progress)
        column.addWidget(self._said)
        column.addWidget(self.table, 1)
        self._settle("")

    def _button(self, text: str, name: str, call: Any) -> QPushButton:
        button = QPushButton(text)
        button.setObjectName(name)
        button.clicked.connect(lambda: call())
        return button

    @property
    def is_running(self) -> bool:
        """Return whether jobs are being timed."""
        return self._process is not None

    def start(self, seconds: float = _SECONDS, only: Sequence[str] | None = None) -> None:
        """Time all jobs, or those of some names, each for about `seconds`."""
        if self._process is not None:
            return
        self.rows, self._rest, self._is_cancelled = [], b"", False
        self.table.setRowCount(0)
        self._progress.setRange(0, 0)
        self._said.setText("Starting…")
        self.table.hint.setText("The first times appear here in a moment.")
        arguments = ["-m", "palmkit.demos.app.timing", "--seconds", str(seconds)]
        arguments += ["--threads", self._threads.currentText()]
        arguments += ["--only", *only] if only is not None else []
        process = self._process = QProcess(self)
        process.setProcessChannelMode(QProcess.ProcessChannelMode.SeparateChannels)
        process.readyReadStandardOutput.connect(self._read)
        process.finished.connect(self._finish)
        process.errorOccurred.connect(self._break)
        for button in (self._run, self._copy, self._save, self._threads):
            button.setEnabled(False)
        self._cancel.setEnabled(True)
        self._cancel.setFocus()
        self.context.pause_live.emit(True)
        process.start(sys.executable, arguments)

    def cancel(self) -> None:
        """End the process; finished times stay."""
        if self._process is not None:
            self._is_cancelled = True
            self._process.kill()

    def shutdown(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.blockSignals(True)
            process.kill()
            process.waitForFinished(_END_MS)

    def _read(self) -> None:
        if self._process is None:
            return
        self._rest += bytes(self._process.readAllStandardOutput().data())
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            try:
                facts = json.loads(line)
            except ValueError:  # A line printed by a library.
                continue
            self._take(facts)

    def _take(self, facts: Row) -> None:
        if "jobs" in facts:
            self._progress.setRange(0, len(facts["jobs"]))
            self._progress.setValue(0)
        elif "started" in facts:
            self._said.setText(f"Timing {facts['started']}")
        elif "name" in facts:
            self.rows.append(facts)
            self._progress.setValue(len(self.rows))
            self._show_rows()

    def _finish(self, code: int, status: QProcess.ExitStatus) -> None:
        process = self._process
        if process is None:
            return
        self._read()
        errors = bytes(process.readAllStandardError().data()).decode(errors="replace").strip()
        if self._is_cancelled:
            self._settle(f"Cancelled after {len(self.rows)} of {self._progress.maximum()}.")
        elif code or status is not QProcess.ExitStatus.NormalExit:
            last = errors.splitlines()[-1] if errors else f"exit status {code}"
            self._settle("It ended early.")
            self.context.say(f"benchmark: {last}", "error", ("Try again", self.start))
        else:
            self._settle(f"{len(self.rows)} timed.")

    def _break(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart and self._process is not None:
            reason = self._process.errorString()
            self._settle("It did not start.")
            self.context.say(f"benchmark: {reason}", "error", ("Try again", self.start))

    def _settle(self, said: str) -> None:
        """Show that nothing runs any more."""
        process, self._process = self._process, None
        if process is not None:
            process.deleteLater()
            self.context.pause_live.emit(False)
        self._said.setText(said)
        self.table.hint.setText(EMPTY)
        if self._progress.maximum() == 0:
            self._progress.setRange(0, 1)
            self._progress.reset()
        had_focus = self._cancel.hasFocus()
        self._cancel.setEnabled(False)
        for button in (self._run, self._threads):
            button.setEnabled(True)
        for button in (self._copy, self._save):
            button.setEnabled(bool(self.rows))
        if had_focus:
            self._run.setFocus()

    def _show_rows(self) -> None:
        most = max((row["median_ms"] for row in self.rows if "median_ms" in row), default=1.0)
        self.table.setRowCount(len(self.rows))
        for at, row in enumerate(self.rows):
            for column, text in enumerate(texts(row)):
                item = QTableWidgetItem(text)
                item.setToolTip(row.get("error", ""))
                if column >= _MEDIAN:
                    item.setTextAlignment(
                        Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
                    )
                self.table.setItem(at, column, item)
            bar = QTableWidgetItem()
            if "median_ms" in row:
                bar.setData(Qt.ItemDataRole.UserRole, row["median_ms"] / most)
            self.table.setItem(at, _BAR, bar)
        self.table.scrollToBottom()

    def _copy_rows(self) -> None:
        QGuiApplication.clipboard().setText(markdown(self.rows))
        self._said.setText("Copied as a table.")

    def _ask_and_save(self) -> None:
        chosen, _ = QFileDialog.getSaveFileName(
            self, "Save times", "palmkit-times.md", "Table (*.md);;JSON (*.json)"
        )
        if chosen:
            self.save(Path(chosen))

    def save(self, path: Path) -> None:
        """Write the rows: as JSON if the suffix says so, else as a table."""
        facts = {"machine": processor(), "rows": self.rows}
        text = json.dumps(facts, indent=1) if path.suffix == ".json" else markdown(self.rows)
        try:
            with replacing(path) as part:
                part.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            self.context.say(f"{path}: {error.strerror or error}", "error")
            return
        self._said.setText(f"Saved: {path}")


def texts(row: Row) -> tuple[str, ...]:
    """Return the first columns of a row, in words."""
    if "error" in row:
        return row["name"], row["kind"], "failed", "", "", ""
    times = (f"{row[name]:.2f}" for name in ("median_ms", "p95_ms", "min_ms"))
    return row["name"], row["kind"], *times, str(row["runs"])


def markdown(rows: Sequence[Row]) -> str:
    """Return a table of all rows, and the machine."""
    names = list(COLUMNS)[:-1]
    lines = [processor(), "", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(texts(row))} |" for row in rows)])
