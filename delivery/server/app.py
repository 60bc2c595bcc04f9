"""The server's app: its routes, and the jobs that run beside them."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.to_thread import run_sync
from sqlalchemy import Engine
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from palmkit.delivery.reports.schema import MOST_BYTES, parse
from palmkit.delivery.server.admin import Admin
from palmkit.delivery.server.counting import Vocabulary, forget
from palmkit.delivery.server.database import lock, writing
from palmkit.delivery.server.ingest import Busy, Ingest, TooLarge, unpack
from palmkit.delivery.server.metrics import CONTENT_TYPE, Metrics
from palmkit.delivery.server.rollouts import Gates, Releases, Rollout, rollouts, watch
from palmkit.delivery.server.static import Page, Static
from palmkit.engine.errors import DeliveryError, PalmError

BODY_S, STORE_S = 15.0, 20.0
# Devices that are turned away come back spread over this time.
RETRY_S = (30, 180)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """Settings of a server.

    token: of the admin API. gates: conditions of a rollout's steps. kept_days: how long counts are
    kept. watch_s, resign_s, forget_s: seconds between runs of the regular jobs.
    """

    token: str
    gates: Gates = Gates()
    kept_days: int = 400
    watch_s: float = 60.0
    resign_s: float = 900.0
    forget_s: float = 3600.0


class Server:
    """One replica."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        repository: Releases | None = None,
        public: Path | None = None,
    ) -> None:
        """Set up a replica.

        engine: a database that has the tables. repository: the repository whose rollout this
        replica signs; None if another one does. public: its static part, to serve; None if that is
        elsewhere.
        """
        self._engine, self._settings, self._repository = engine, settings, repository
        self._known: Mapping[str, frozenset[str]] = {}
        self.metrics = Metrics()
        self._ingest = Ingest(engine, Vocabulary(lambda: self._known), self.metrics)
        self.metrics.count_waiting(lambda: self._ingest.waiting)
        self._admin = Admin(engine, repository, settings.token, settings.gates)
        self._static = Static(public) if public else None

    def app(self) -> Starlette:
        """Return the ASGI app."""
        routes: list[BaseRoute] = [
            Route("/", _show_page, methods=["GET"]),
            Route("/admin", _show_page, methods=["GET"]),
            Route("/v1/reports", self._report, methods=["POST"]),
            Route("/v1/admin/state", self._admin.state, methods=["GET"]),
            Route("/v1/admin/{action}", self._admin.change, methods=["POST"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/healthz", self._health, methods=["GET"]),
            Mount("/admin", Page()),
        ]
        if self._static:
            routes += [
                Route("/metadata/{name}", self._static.metadata),
                Route("/targets/{path:path}", self._static.target),
            ]
        app = Starlette(
            routes=routes,
            lifespan=self._lifespan,
            exception_handlers={
                HTTPException: _say,
                ClientDisconnect: _drop,
                Exception: _apologise,
            },
        )
        # It would redirect people to whatever host the request names.
        app.router.redirect_slashes = False
        return app

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncGenerator[None]:
        self._ingest.start()
        # A cancelled job of a task group still finishes what its thread is doing.
        async with anyio.create_task_group() as jobs:
            for name, period_s, job in (
                ("watch", self._settings.watch_s, self._watch),
                ("resign", self._settings.resign_s, self._resign),
                ("forget", self._settings.forget_s, self._forget),
            ):
                jobs.start_soon(self._every, period_s, job, name)
            yield
            jobs.cancel_scope.cancel()
        await run_sync(self._ingest.stop)

    async def _every(self, period_s: float, job: Callable[[], None], name: str) -> None:
        while True:
            try:
                await run_sync(job)
            except Exception as error:
                # Our errors describe the problem in one line.
                unknown = not isinstance(error, PalmError)
                _log.error("job failed: %s: %s", name, error, exc_info=unknown)
                self.metrics.job_failures.labels(name).inc()
            await anyio.sleep(period_s * random.uniform(0.9, 1.1))

    def _watch(self) -> None:
        repository = self._repository
        if repository is None:
            return
        models = repository.models()
        self._known = {model: frozenset(repository.releases(model)) for model in models}
        now = time.time()
        watch(self._engine, repository, now)
        found: list[Rollout] = []
        with self._engine.connect() as connection:
            for model in models:
                found += rollouts(connection, repository.policy(model), now)
        self.metrics.show(found, repository.expires())

    def _resign(self) -> None:
        if self._repository is None:
            return
        with lock(self._engine, "resign", wait=False) as held:
            if held and (renewed := self._repository.resign()):
                _log.info("signed again: %s", ", ".join(renewed))

    def _forget(self) -> None:
        with lock(self._engine, "forget", wait=False) as held:
            if held:
                with writing(self._engine) as connection:
                    forget(connection, time.time(), self._settings.kept_days)

    async def _report(self, request: Request) -> Response:
        packed = request.headers.get("content-encoding", "identity").strip().lower()
        if packed not in ("identity", "gzip"):
            raise HTTPException(415, "content-encoding: expected gzip or none")
        try:
            with anyio.fail_after(BODY_S):
                body = await _body(request, MOST_BYTES)
            content = unpack(body, MOST_BYTES) if packed == "gzip" else body
            report = parse(content)
        except TimeoutError:
            raise HTTPException(408, f"expected the whole report within {BODY_S:g} s") from None
        except TooLarge as error:
            self.metrics.reports.labels("too_large").inc()
            raise HTTPException(413, str(error)) from None
        except (DeliveryError, ValueError) as error:
            self.metrics.reports.labels("invalid").inc()
            raise HTTPException(400, str(error)) from None
        try:
            # The report is stored even if it takes longer; sent again, it is not counted again.
            with anyio.fail_after(STORE_S):
                await self._ingest.take(report)
        except (Busy, TimeoutError):
            self.metrics.reports.labels("busy").inc()
            retry = {"retry-after": str(random.randint(*RETRY_S))}
            raise HTTPException(503, "busy, send it again later", headers=retry) from None
        return Response(status_code=202)

    async def _metrics(self, _request: Request) -> Response:
        return Response(await run_sync(self.metrics.text), headers={"content-type": CONTENT_TYPE})

    async def _health(self, _request: Request) -> Response:
        problems = await run_sync(self._problems_of_files)
        if problem := await self._ingest.problem():
            problems.append(problem)
        content = {"status": "failing" if problems else "ok", "problems": problems}
        headers = {"cache-control": "no-store"}
        return JSONResponse(content, 503 if problems else 200, headers)

    def _problems_of_files(self) -> list[str]:
        found: list[str] = []
        file = self._engine.url.database
        if self._engine.dialect.name == "sqlite" and file and not Path(file).exists():
            found.append(f"{Path(file).name} is gone: what is stored now is lost")
        try:
            left_s = self._static.timestamp_left_s(time.time()) if self._static else None
        except (OSError, ValueError, KeyError, TypeError):
            return [*found, "timestamp.json cannot be read"]
        if left_s is not None and left_s < 0:
            found.append("timestamp.json has expired")
        return found


async def _show_page(_request: Request) -> Response:
    return RedirectResponse("admin/")


async def _body(request: Request, most_bytes: int) -> bytes:
    """Return the raw body; raise TooLarge as soon as it is."""
    if request.headers.get("content-length", "0").isdecimal():
        announced = int(request.headers.get("content-length", "0")[:12])
        if announced > most_bytes:
            raise TooLarge(f"expected at most {most_bytes} bytes, got {announced}")
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most_bytes:
            raise TooLarge(f"expected at most {most_bytes} bytes")
        parts.append(part)
    return b"".join(parts)


async def _say(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _drop(_request: Request, _error: Exception) -> Response:
    """Answer nothing, as nobody is there to read it."""
    return Response(status_code=400)


async def _apologise(_request: Request, _error: Exception) -> Response:
    return JSONResponse({"error": "failed, see the server's log"}, 500)
