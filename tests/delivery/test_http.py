"""Our HTTP against servers that fail in every way a network has."""

import time
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest

from palmkit.delivery.http import Http, HttpError, Limits, backoff_s, retry_after_s
from tests.delivery.fault_server import Fault, FaultServer, serving
from tests.delivery.network_devices import QUICK


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serving() as server:
        server.files["/a"] = b"content"
        yield server


def get(server: FaultServer, fault: Fault | None = None, limits: Limits = QUICK) -> bytes:
    if fault is not None:
        server.faults["/a"] = fault
    http = Http(limits)
    try:
        return http.get_bytes(f"{server.url}/a", 1000)
    finally:
        http.close()


def error_of(server: FaultServer, fault: Fault | None = None, limits: Limits = QUICK) -> HttpError:
    began = time.monotonic()
    with pytest.raises(HttpError) as caught:
        get(server, fault, limits)
    assert time.monotonic() - began < 10
    return caught.value


def test_a_body_comes_and_the_connection_is_kept(server: FaultServer) -> None:
    http = Http(QUICK)
    assert [http.get_bytes(f"{server.url}/a", 7) for _ in range(3)] == [b"content"] * 3
    assert server.requests[0].headers["Accept-Encoding"] == "identity"
    http.close()


@pytest.mark.parametrize("kind", ["truncated", "refuse"])
def test_a_connection_that_breaks_is_tried_again(server: FaultServer, kind: str) -> None:
    assert get(server, Fault(kind, times=2, at=3)) == b"content"
    assert len(server.requests) == 3
    error = error_of(server, Fault(kind, at=3))
    assert (error.code, error.status) == ("check_fail_connect", None)
    assert len(server.requests) == 6


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_in_trouble_is_tried_again_and_then_left(server: FaultServer, status: int) -> None:
    assert get(server, Fault("status", times=2, status=status)) == b"content"
    error = error_of(server, Fault("status", status=status))
    assert error.code == f"check_fail_http{status // 100}xx"
    assert (error.status, len(server.requests)) == (status, 6)


def test_what_is_not_there_is_not_asked_for_again(server: FaultServer) -> None:
    error = error_of(server, Fault("status", status=404))
    assert (error.code, error.status, len(server.requests)) == ("check_fail_http4xx", 404, 1)


def test_a_short_retry_after_is_waited(server: FaultServer) -> None:
    waits: list[float] = []
    server.faults["/a"] = Fault("status", times=1, status=503, headers={"Retry-After": "1"})
    http = Http(Limits(), waits.append)
    assert http.get_bytes(f"{server.url}/a", 10) == b"content"
    assert waits == [1.0]
    http.close()


def test_a_long_retry_after_ends_it_and_is_told_clamped_to_a_day(server: FaultServer) -> None:
    headers = {"Retry-After": "99999999999999999999"}
    error = error_of(server, Fault("status", status=503, headers=headers))
    assert (error.retry_after_s, len(server.requests)) == (86400.0, 1)


def test_retry_after_in_its_forms() -> None:
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    for text, seconds in (
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Thu, 01 Jan 2026 00:01:00 GMT", 60.0),
        ("Wed, 31 Dec 2025 00:00:00 GMT", 0.0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 86400.0),
        ("soon", None),
        ("-5", None),
        ("²", None),
        ("", None),
    ):
        assert retry_after_s({"Retry-After": text}, now) == seconds
    assert retry_after_s({}, now) is None


def test_backoff_is_jitter_below_a_doubling_bound() -> None:
    waits = [[backoff_s(attempt) for _ in range(200)] for attempt in (0, 3, 500)]
    for drawn, bound in zip(waits, (1.0, 8.0, 3600.0), strict=True):
        assert 0 <= min(drawn) < bound / 4 and bound * 3 / 4 < max(drawn) <= bound


def test_a_server_that_hangs_costs_one_timeout(server: FaultServer) -> None:
    assert error_of(server, Fault("hang")).code == "check_fail_timeout"
    assert len(server.requests) == 1


def test_a_body_that_drips_is_given_up(server: FaultServer) -> None:
    server.files["/a"] = bytes(900)
    error = error_of(server, Fault("drip", every_s=0.02))
    assert error.code == "check_fail_timeout" and "too slow" in str(error)


def test_headers_that_drip_are_given_up(server: FaultServer) -> None:
    error = error_of(server, Fault("drip_headers", every_s=0.02))
    assert error.code == "check_fail_timeout"


def test_a_body_without_end_is_cut_off(server: FaultServer) -> None:
    assert error_of(server, Fault("endless")).code == "hash_mismatch"


def test_redirects_end(server: FaultServer) -> None:
    error_of(server, Fault("redirects"))
    assert len(server.requests) == 18, "6 in each of 3 attempts"


def test_a_redirect_is_followed(server: FaultServer) -> None:
    headers = {"Location": "/b"}
    server.files["/b"] = b"moved"
    assert get(server, Fault("status", status=302, headers=headers)) == b"moved"


def test_nobody_there(server: FaultServer) -> None:
    server.stop()
    assert error_of(server).code == "check_fail_connect"


def test_no_such_name() -> None:
    http = Http(QUICK)
    with pytest.raises(HttpError) as caught:
        http.get_bytes("http://nobody.invalid/a", 10)
    assert caught.value.code == "check_fail_dns"


def test_a_server_that_does_not_speak_tls(server: FaultServer) -> None:
    http = Http(QUICK)
    with pytest.raises(HttpError) as caught:
        http.get_bytes(server.url.replace("http:", "https:") + "/a", 10)
    assert caught.value.code == "check_fail_tls"


def test_what_is_no_url_is_refused() -> None:
    for url in ("nothing", "ftp://a/b", "http://", "http://a:b/"):
        with pytest.raises(HttpError):
            Http(QUICK).get_bytes(url, 10)


def test_no_cookie_is_kept(server: FaultServer) -> None:
    http = Http(QUICK)
    headers = {"Set-Cookie": "device=1", "Location": "/b"}
    server.files["/b"] = b"moved"
    server.faults["/a"] = Fault("status", status=302, headers=headers)
    for _ in range(2):
        http.get_bytes(f"{server.url}/a", 10)
    assert not any("Cookie" in request.headers for request in server.requests)
    http.close()


def test_post_sends_once_and_gives_the_answer(server: FaultServer) -> None:
    http = Http(QUICK)
    assert http.post(f"{server.url}/a", b"report", {"X-A": "b"})[::2] == (200, b"content")
    sent = server.requests[0]
    assert (sent.method, sent.body, sent.headers["X-A"]) == ("POST", b"report", "b")
    server.faults["/a"] = Fault("status", status=503, headers={"Retry-After": "7"})
    status, headers, body = http.post(f"{server.url}/a", b"", {}, most_bytes=1)
    assert (status, retry_after_s(headers), body) == (503, 7.0, b"n")
    assert len(server.requests) == 2
    http.close()
