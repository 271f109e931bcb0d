"""Agents over plain HTTP: one call with what happens as server-sent events, and the approvals that calls wait for."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from apcore import Identity
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from apcore_agents.endpoint import AgentEndpoint
from apcore_agents.events import event, sse
from apcore_agents.failures import failure_of
from apcore_agents.runtime import AgentRuntime

__all__ = ["Gateway"]

APPROVER = "approver"
# Answers are short; nobody needs to send more to make one call.
LARGEST_BODY = 1024 * 1024


class Gateway:
    """One call over plain HTTP, with what happens as server-sent events; and the approvals that calls wait for."""

    def __init__(self, runtime: AgentRuntime, one: AgentEndpoint) -> None:
        self._runtime, self._agent, self._service = runtime, one.agent, one.service

    def routes(self, *, approvals: bool) -> list[Route]:
        calls = [Route("/calls", self.call, methods=["POST"])]
        if not approvals or self._runtime.ledger is None:
            # Without authentication nobody can be told from the one who asks.
            return calls
        return [
            *calls,
            Route("/approvals", self.list_approvals, methods=["GET"]),
            Route("/approvals/{id}", self.decide, methods=["POST"]),
        ]

    async def call(self, request: Request) -> Response:
        body = await _json_body(request)
        if not isinstance(body, dict) or not isinstance(body.get("tool"), str):
            return JSONResponse({"error": "Expected {tool, arguments} as application/json"}, status_code=400)
        arguments = body.get("arguments") or {}
        if not isinstance(arguments, dict):
            return JSONResponse({"error": "arguments must be an object"}, status_code=400)
        stream = self._happenings(body["tool"], arguments, self._service._caller(request))
        return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    async def _happenings(
        self, tool: str, arguments: dict[str, Any], identity: Identity | None
    ) -> AsyncIterator[bytes]:
        async with self._runtime.session(self._agent, identity=identity) as session:
            happenings = session.events()
            calling = asyncio.create_task(_finished(session.call(tool, arguments), happenings.close))
            try:
                async for record in happenings:
                    yield sse(record)
                yield sse(event("final", run_id=session.run.id, agent=self._agent, tool=tool, **await calling))
            finally:
                calling.cancel()

    async def list_approvals(self, request: Request) -> Response:
        if not self._may_approve(request) or self._runtime.ledger is None:
            return JSONResponse({"error": "Forbidden"}, status_code=403)
        waiting = [entry for entry in self._runtime.ledger.pending() if entry.agent == self._agent]
        return JSONResponse({"approvals": [{"id": entry.id, "text": entry.text} for entry in waiting]})

    async def decide(self, request: Request) -> Response:
        body = await _json_body(request)
        if not self._may_approve(request) or self._runtime.ledger is None:
            return JSONResponse({"error": "Forbidden"}, status_code=403)
        if not isinstance(body, dict) or not isinstance(body.get("approve"), bool):
            return JSONResponse({"error": "Expected {approve: true or false} as application/json"}, status_code=400)
        identity = self._service._caller(request)
        approver = identity.id if identity is not None else None
        known = self._runtime.ledger.decide(request.path_params["id"], approver, approve=body["approve"])
        return JSONResponse({"ok": True}) if known else JSONResponse({"error": "Not found"}, status_code=404)

    def _may_approve(self, request: Request) -> bool:
        identity = self._service._caller(request)
        return identity is not None and APPROVER in identity.roles


async def _finished(call: Any, done: Callable[[], None]) -> dict[str, Any]:
    """How a call ended; never raises."""
    try:
        return {"ok": True, "output": await call}
    except Exception as error:
        token = getattr(error, "approval_id", None)
        waiting = {"approval_token": token} if token else {}
        return {"ok": False, "error": failure_of(error).as_dict(), **waiting}
    finally:
        done()


async def _json_body(request: Request) -> Any:
    """The body, if it is JSON and says so: a browser sends any other kind to foreign places without asking."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            return None
    try:
        return json.loads(body)
    except ValueError:
        return None
