"""HTTP for delivery: one session, deadlines that a hostile server cannot stretch, plain errors."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urljoin

from palmkit.delivery import deadline
from palmkit.engine.errors import DeliveryError

if TYPE_CHECKING:
    import requests

    from palmkit.delivery.http_session import Watch

LONGEST_RETRY_AFTER_S = 86400.0
CHUNK_BYTES = 1 << 16
MOST_REDIRECTS = 5
# Answers after which the same request may well succeed.
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Limits:
    """How long a server may take.

    connect_timeout_s: to find its address and connect, including TLS and a proxy's tunnel.
    read_timeout_s: for one piece of a body. headers_timeout_s: from the request to the end of the
    answer's headers. least_bytes_per_s: the least rate of a body over each window_s of waiting; a
    slower server holds the line. attempts: of one request where the failure may pass. first_wait_s,
    longest_wait_s: between attempts; a server that asks for a longer wait by Retry-After is not
    asked again at all. All of it is within what palmkit.delivery.deadline leaves.
    """

    connect_timeout_s: float = 5.0
    read_timeout_s: float = 10.0
    headers_timeout_s: float = 10.0
    least_bytes_per_s: float = 8192.0
    window_s: float = 10.0
    attempts: int = 3
    first_wait_s: float = 0.5
    longest_wait_s: float = 5.0


class HttpError(DeliveryError):
    """A request failed.

    status: the status of the answer, None without one. retry_after_s: the wait that the server
    asked for, at most a day; None if it did not.
    """

    def __init__(
        self,
        code: str,
        message: str,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        """Make the error; the class describes the parameters."""
        super().__init__(code, message)
        self.status, self.retry_after_s = status, retry_after_s

    @property
    def may_pass(self) -> bool:
        """Return whether the same request may succeed a moment later."""
        if self.status is not None:
            return self.status in PASSING
        return self.code == "check_fail_connect"


def backoff_s(attempt: int, first_s: float = 1.0, longest_s: float = 3600.0) -> float:
    """Return how long to wait after failure number `attempt` (from 0): full jitter, doubling.

    AWS Architecture Blog, "Exponential Backoff And Jitter".
    """
    return random.uniform(0.0, min(longest_s, first_s * 2.0 ** min(attempt, 30)))


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return an answer's Retry-After in seconds, 0 to a day; None without a legible one."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:10])
    else:
        try:
            until = parsedate_to_datetime(text)
        except ValueError:
            return None
        until = until if until.tzinfo else until.replace(tzinfo=timezone.utc)
        seconds = (until - (now or datetime.now(timezone.utc))).total_seconds()
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S)


class Response:
    """An answer whose body has not been read yet."""

    def __init__(self, response: requests.Response, watch: Watch, limits: Limits, url: str) -> None:
        """Wrap an answer.

        response: opened with stream=True. watch: the watch of the request.
        """
        self._raw, self._watch, self._limits, self._url = response.raw, watch, limits, url
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    def chunks(self, is_large: bool = False) -> Iterator[bytes]:
        """Yield the body as it comes; raise HttpError if it breaks off or comes too slowly.

        is_large: whether data at least_bytes_per_s or faster takes none of the deadline's time.
        """
        limits, waited, received = self._limits, 0.0, 0
        while True:
            began = time.monotonic()
            try:
                with self._watch.waiting(limits.read_timeout_s):
                    # Not read(), which waits for the whole piece, however slowly it comes.
                    chunk: bytes = self._raw.read1(CHUNK_BYTES, decode_content=False)
            except Exception as error:
                _raise(error, self._url)
            if not chunk:
                return
            took_s = time.monotonic() - began
            if is_large:
                deadline.spend(-min(took_s, len(chunk) / limits.least_bytes_per_s))
            waited += took_s
            received += len(chunk)
            if waited >= limits.window_s:
                if received < limits.least_bytes_per_s * waited:
                    speed = f"{received / waited:.0f} bytes/s"
                    least = f"at least {limits.least_bytes_per_s:.0f}"
                    message = f"{self._url}: too slow: expected {least}, got {speed}"
                    raise HttpError("check_fail_timeout", message)
                waited, received = 0.0, 0
            yield chunk

    def refuse(self) -> NoReturn:
        """Raise the error of an unexpected answer."""
        code = "check_fail_http5xx" if self.status >= 500 else "check_fail_http4xx"
        after = retry_after_s(self.headers)
        raise HttpError(code, f"{self._url}: answered {self.status}", self.status, after)


class Http:
    """Requests over one pool of connections, safe for threads.

    It keeps no cookies, which would tell devices apart. Proxies and certificates are those of the
    environment, as in `requests`.
    """

    def __init__(
        self,
        limits: Limits = Limits(),  # noqa: B008
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Set up the session.

        sleep: waits the seconds between attempts.
        """
        self.limits, self._sleep = limits, sleep
        self._session: requests.Session | None = None
        self._process = 0

    def _get_session(self) -> requests.Session:
        # Data of a forked child over its parent's connections would mix with the parent's.
        if self._session is None or self._process != os.getpid():
            from palmkit.delivery.http_session import make_session

            self._session, self._process = make_session(), os.getpid()
        return self._session

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        if self._session is not None:
            self._session.close()
            self._session = None

    @contextlib.contextmanager
    def open(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        body: bytes | None = None,
    ) -> Generator[Response]:
        """Make one request, following redirects; return the answer whatever its status.

        Raises HttpError.
        """
        from palmkit.delivery.http_session import Watch

        session, limits = self._get_session(), self.limits
        for _ in range(MOST_REDIRECTS + 1):
            with contextlib.ExitStack() as opened:
                try:
                    watch = Watch(limits.connect_timeout_s, limits.headers_timeout_s)
                    opened.enter_context(watch)
                    with watch.asking():
                        response = session.request(
                            method,
                            url,
                            data=body,
                            headers={"Accept-Encoding": "identity", **(headers or {})},
                            stream=True,
                            # requests would read the whole body of a redirect, however long it is.
                            allow_redirects=False,
                            timeout=(limits.connect_timeout_s, limits.read_timeout_s),
                        )
                        opened.enter_context(contextlib.closing(response))
                    target = session.get_redirect_target(response) if method == "GET" else None
                    following = None if target is None else urljoin(url, target)
                except Exception as error:
                    _raise(error, url)
                if following is None:
                    yield Response(response, watch, limits, url)
                    return
                url = following
        raise HttpError("check_fail_connect", f"{url}: more than {MOST_REDIRECTS} redirects")

    def get_bytes(self, url: str, most_bytes: int) -> bytes:
        """Return the body of a small file, retrying failures that may pass.

        Raises HttpError; hash_mismatch for a body of more than most_bytes.
        """
        return self.retry(lambda: self._get_once(url, most_bytes))

    def _get_once(self, url: str, most_bytes: int) -> bytes:
        body = bytearray()
        with self.open(url) as response:
            if response.status != 200:
                response.refuse()
            for chunk in response.chunks():
                body += chunk
                if len(body) > most_bytes:
                    message = f"{url}: expected at most {most_bytes} bytes, got more"
                    raise HttpError("hash_mismatch", message)
        return bytes(body)

    def retry(self, request: Callable[[], bytes]) -> bytes:
        """Return what request returns, retrying after an HttpError that may pass."""
        for attempt in range(self.limits.attempts - 1):
            try:
                return request()
            except HttpError as error:
                if not self.wait(error, attempt):
                    raise
        return request()

    def wait(self, error: HttpError, attempt: int) -> bool:
        """Wait before the next attempt, as the server asks; return False to stop trying."""
        if not error.may_pass or (error.retry_after_s or 0.0) > self.limits.longest_wait_s:
            return False
        jitter = backoff_s(attempt, self.limits.first_wait_s, self.limits.longest_wait_s)
        pause_s = max(jitter, error.retry_after_s or 0.0)
        if pause_s >= deadline.left_s():
            return False
        self._sleep(pause_s)
        deadline.spend(pause_s)
        return True

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], most_bytes: int = 1 << 16
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a body once; return the answer's status, headers and body (at most most_bytes)."""
        answer = bytearray()
        with self.open(url, headers, "POST", body) as response:
            for chunk in response.chunks():
                answer += chunk[: most_bytes - len(answer)]
                if len(answer) >= most_bytes:
                    break
            return response.status, response.headers, bytes(answer)


def _raise(error: Exception, url: str) -> NoReturn:
    """Raise the HttpError that says why a request got no complete answer."""
    from http.client import HTTPException

    from requests.exceptions import RequestException, SSLError, Timeout
    from urllib3.exceptions import HTTPError as Urllib3Error
    from urllib3.exceptions import NameResolutionError, NewConnectionError, TimeoutError
    from urllib3.exceptions import SSLError as Urllib3SSLError

    from palmkit.delivery.http_session import TooLate

    if isinstance(error, HttpError) or not isinstance(
        error,
        RequestException | Urllib3Error | HTTPException | OSError | ValueError | AttributeError,
    ):
        raise error
    causes = list(_causes(error))
    if isinstance(error, TooLate):
        kind = "timeout"
    elif any(isinstance(cause, NameResolutionError) for cause in causes):
        kind = "dns"
    elif any(isinstance(cause, SSLError | Urllib3SSLError) for cause in causes):
        kind = "tls"
    elif any(isinstance(cause, NewConnectionError) for cause in causes):
        # Checked before timeouts, as urllib3 derives it from one.
        kind = "connect"
    elif any(isinstance(cause, Timeout | TimeoutError | TooLate) for cause in causes):
        kind = "timeout"
    else:
        kind = "connect"
    code = f"check_fail_{kind}"
    raise HttpError(code, f"{url}: {type(causes[-1]).__name__}: {causes[-1]}") from error


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and those it was made from, as urllib3 and requests wrap them."""
    seen: list[BaseException] = [error]
    for cause in seen:
        reason = getattr(cause, "reason", None)
        for inner in (cause.__cause__, cause.__context__, reason, *cause.args):
            if isinstance(inner, BaseException) and inner not in seen and len(seen) < 16:
                seen.append(inner)
    return iter(seen)
