"""Sending the reports of the spool, at the server's pace."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from palmkit.delivery.reports.schema import Report
from palmkit.delivery.reports.spool import LONGEST_WAIT_S, Spool

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

BETWEEN_S = 0.1
CONNECT_S, READ_S = 5.0, 15.0
BACKOFF_S = 60.0
LONGEST_BACKOFF_S = 6 * 3600.0
# The server read the report and rejects it for good; other errors may be a wrong configuration.
REFUSED = frozenset({400, 413, 415, 422})

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sender:
    """Sends reports to one address.

    facts: a report with the facts of this device.
    """

    spool: Spool
    url: str | None
    facts: Report
    interval_s: float

    def __post_init__(self) -> None:
        """Check the app's arguments."""
        if self.url is not None:
            parts = urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"url: expected one of http or https, got {self.url!r}")
        if not 1 <= self.interval_s < math.inf:
            raise ValueError(f"interval_s: expected at least 1, got {self.interval_s!r}")

    def headers(self) -> dict[str, str]:
        """Return the headers of each report, beside its length and the host's name."""
        return {
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            "User-Agent": f"palmkit/{self.facts.sdk}",
        }

    def seal(self) -> None:
        """Turn all counts so far into reports that wait to be sent."""
        self.spool.seal(self.facts, self.spool.shares())

    def send_all(self, anyhow: bool) -> bool:
        """Send what waits, if it is due and no other process sends; return whether all was sent.

        anyhow: whether to send before it is due, though never before the server allows.
        Raises sqlite3.Error or OSError if the spool cannot be used.
        """
        if self.url is None or not self.spool.take_turn(anyhow):
            return False
        self.seal()
        waiting = self.spool.waiting()
        pause_s = self.interval_s * random.uniform(0.75, 1.25)
        if not waiting:
            self.spool.end_turn(pause_s, 0)
            return True
        from requests import RequestException

        from palmkit.delivery.http_session import TooLate, make_session

        with make_session() as session:
            session.headers.clear()
            for place, sealed in enumerate(waiting):
                if place:
                    time.sleep(BETWEEN_S)
                self.spool.trying(sealed.report_id)
                try:
                    status, asked_s = self._post(session, self.url, sealed.body)
                except (RequestException, TooLate) as error:
                    _log.debug("reports: not sent: %s", error)
                    if _never_left(error):
                        self.spool.not_taken(sealed.report_id)
                    status, asked_s = 0, None
                if 200 <= status < 300 or status in REFUSED:
                    self.spool.remove(sealed.report_id, None if status < 300 else "rejected")
                    pause_s = max(pause_s, asked_s or 0.0)
                    continue
                if status:
                    self.spool.not_taken(sealed.report_id)
                self._give_up(asked_s)
                return False
        self.spool.end_turn(pause_s, 0)
        return True

    def _give_up(self, asked_s: float | None) -> None:
        failures = self.spool.failures()
        if asked_s is None:
            most = min(BACKOFF_S * 2 ** min(failures, 16), LONGEST_BACKOFF_S)
            wait_s = random.uniform(1.0, most)
        else:
            wait_s = asked_s + random.uniform(0.0, 1.0 + asked_s / 10)
        wait_s = min(wait_s, LONGEST_WAIT_S)
        self.spool.end_turn(wait_s, failures + 1, not_before_s=wait_s)

    def _post(self, session: Session, url: str, body: bytes) -> tuple[int, float | None]:
        from palmkit.delivery.http_session import Watch

        with ExitStack() as opened:
            watch = opened.enter_context(Watch(CONNECT_S, READ_S))
            # Nothing of the answer's body is read, however long it is.
            with watch.asking():
                response = session.post(
                    url,
                    data=body,
                    headers=self.headers(),
                    auth=_nobody,
                    timeout=(CONNECT_S, READ_S),
                    allow_redirects=False,
                    stream=True,
                )
                opened.enter_context(response)
            return response.status_code, _retry_after(response)


def _nobody(request: PreparedRequest) -> PreparedRequest:
    """Leave out the names and passwords that requests looks for in the user's .netrc."""
    return request


def _retry_after(response: Response) -> float | None:
    """Return the seconds that the server asks to wait, at most a day."""
    headers: Mapping[str, str] = response.headers
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_WAIT_S)
    try:
        wait_s = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError, OSError):
        return None
    return min(max(wait_s, 0.0), LONGEST_WAIT_S)


def _never_left(error: Exception) -> bool:
    """Return whether the server cannot have read the request."""
    from requests.exceptions import ConnectTimeout, ProxyError, SSLError
    from urllib3.exceptions import NewConnectionError

    if isinstance(error, ConnectTimeout | ProxyError | SSLError):
        return True
    cause = error.args[0] if error.args else None
    return isinstance(getattr(cause, "reason", None), NewConnectionError)
