"""Actions of people on the page: viewing the state, promoting, halting, recalling, rolling back."""

from __future__ import annotations

import hmac
import json
import time
from functools import partial
from typing import Any

from anyio.to_thread import run_sync
from sqlalchemy import Engine
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from palmkit.delivery.document import MODEL, RELEASE, Fields
from palmkit.delivery.policy import Policy
from palmkit.delivery.repository.storage import Conflict, Missing
from palmkit.delivery.server.database import lock, writing
from palmkit.delivery.server.rollouts import (
    STEPS,
    Event,
    Gates,
    Releases,
    Rollout,
    observe,
    rollouts,
)
from palmkit.delivery.server.state import gate, state
from palmkit.engine.errors import PalmError

ACTIONS = ("promote", "halt", "recall", "rollback")
# Only this channel advances in steps; the others are for trying things.
GATED = "stable"
FIRST_PERCENT = STEPS[1]
MOST_BODY_BYTES = 1 << 14
MOST_DAYS = 400


class Refused(Exception):
    """Raised when a change does not fit the state; content is the answer's JSON."""

    def __init__(self, **content: Any) -> None:
        """Make the error.

        content: error, and what else the page can use.
        """
        super().__init__(content["error"])
        self.content = content


class Admin:
    """The API behind the token."""

    def __init__(
        self, engine: Engine, repository: Releases | None, token: str, gates: Gates
    ) -> None:
        """Set up the API.

        repository: None if this replica has none and can only show.
        """
        self._engine, self._repository, self._gates = engine, repository, gates
        self._token = token.encode()

    def check(self, request: Request) -> None:
        """Raise 401 unless the request carries the token."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(token.strip().encode(), self._token)
        if scheme.lower() != "bearer" or not same:
            raise HTTPException(
                401, "expected the admin token", headers={"www-authenticate": "Bearer"}
            )

    async def state(self, request: Request) -> Response:
        """Answer GET with everything that the page shows."""
        self.check(request)
        days = request.query_params.get("days", "14")
        if not days.isascii() or not days.isdigit() or not 1 <= int(days[:9]) <= MOST_DAYS:
            raise HTTPException(400, f"days: expected 1 to {MOST_DAYS}, got {days[:20]!r}")
        call = partial(state, self._engine, self._repository, self._gates, time.time(), int(days))
        return JSONResponse(await run_sync(call), headers={"cache-control": "no-store"})

    async def change(self, request: Request) -> Response:
        """Answer POST by doing one of ACTIONS."""
        self.check(request)
        if (action := request.path_params["action"]) not in ACTIONS:
            raise HTTPException(404)
        if self._repository is None:
            raise HTTPException(503, "this replica has no repository: use one that signs")
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BODY_BYTES:
                raise HTTPException(413, f"expected at most {MOST_BODY_BYTES} bytes")
        try:
            fields = Fields(json.loads(body), "request", "policy_invalid")
            call = partial(self._change, self._repository, action, fields)
            policy = await run_sync(call)
        except Refused as refused:
            return JSONResponse(refused.content, 409)
        except Missing as error:
            raise HTTPException(404, str(error)) from None
        except Conflict as error:
            raise HTTPException(409, str(error)) from None
        except (PalmError, ValueError, RecursionError) as error:
            raise HTTPException(400, str(error)) from None
        return JSONResponse({"epoch": policy.epoch})

    def _change(self, repository: Releases, action: str, fields: Fields) -> Policy:
        model = fields.text("model", MODEL)
        channel = fields.text("channel", MODEL)
        release = fields.text("release", RELEASE) if action != "rollback" else ""
        percent = fields.number("percent", 0, 100) if action == "promote" else None
        reason = fields.text("reason", most=500) if fields.has("reason") else ""
        # The rule must not read a policy that is about to change.
        with lock(self._engine, "watch"):
            before = repository.policy(model)
            if fields.has("epoch") and fields.whole("epoch", 0) != before.epoch:
                raise Refused(
                    error=f"changed meanwhile by someone else: epoch {before.epoch}",
                    epoch=before.epoch,
                )
            if percent is not None:
                if not (fields.has("force") and fields.flag("force")):
                    self._check_gate(before, channel, release, percent)
                repository.promote(model, release, channel, percent)
            elif action == "halt":
                repository.halt(model, release, channel)
            elif action == "recall":
                repository.recall(model, release, channel)
            else:
                repository.rollback(model, channel)
            policy = repository.policy(model)
            event = Event("person", action, model, channel, release, percent, reason)
            with writing(self._engine) as connection:
                observe(connection, policy, time.time(), done=event)
        return policy

    def _check_gate(self, policy: Policy, channel: str, release: str, percent: float) -> None:
        """Raise Refused if a release would go further than its gate allows."""
        there = policy.channels.get(channel, ())
        if channel != GATED or not there:
            return
        now = time.time()
        with writing(self._engine) as connection:
            observe(connection, policy, now)
            found = rollouts(connection, policy, now)
        of = {each.candidate.release: each for each in found if each.channel == channel}
        if (rollout := of.get(release)) is None:
            if percent > FIRST_PERCENT:
                raise Refused(error=f"expected at most {FIRST_PERCENT:g} % to begin with")
            return
        self._check_step(rollout, percent, now)

    def _check_step(self, rollout: Rollout, percent: float, now: float) -> None:
        step = rollout.next_percent
        if step is None or percent <= rollout.candidate.percent:
            return
        missing = gate(rollout, self._gates, now)
        if not missing["open"]:
            raise Refused(
                error=f"the next step opens at {missing['opens']}, after {missing['needs_reports']}"
                f" reports: {missing['reports']} so far",
                gate=missing,
            )
        if percent > step:
            raise Refused(error=f"expected at most {step:g} % as the next step", gate=missing)
