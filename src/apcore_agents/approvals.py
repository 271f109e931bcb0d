"""Approval of one call: by one person, for these arguments, once, and not for long.

apcore hands a handler nothing but a token when a call is repeated with one, so a token for one call would open another.
Here the dispatcher says which call it is that is running, and a token fits only the call it was made for.
"""

import asyncio
import hashlib
import inspect
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from apcore.approval import ApprovalRequest, ApprovalResult

from apcore_agents.canonical import digest
from apcore_agents.scrubbing import Scrubber
from apcore_host.sensitive import mask

__all__ = ["AgentApprovals", "ApprovalLedger", "Ask", "PendingApproval", "approving"]

LIFETIME = 600.0
PATIENCE = 300.0
MOST_PENDING = 1_000
TOKEN = "_approval_token"
QUESTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean", "title": "Approve", "description": "Run this call once, exactly as shown."}
    },
    "required": ["approve"],
}

# Asks whoever is behind the call: (text, schema of the answer) to the answer, or None.
Ask = Callable[[str, dict[str, Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _Call:
    """The call that is running, where no module can reach it."""

    agent: str
    fingerprint: str | None
    principal: str | None
    ask: Ask | None


_call: ContextVar[_Call | None] = ContextVar("apcore_agents_call", default=None)


@contextmanager
def approving(
    agent: str, module_id: str, arguments: dict[str, Any], principal: str | None, ask: Ask | None
) -> Iterator[None]:
    """Say which call is about to be made, for as long as it runs."""
    reset = _call.set(_Call(agent, _fingerprint(module_id, arguments, principal), principal, ask))
    try:
        yield
    finally:
        _call.reset(reset)


def _fingerprint(module_id: str, arguments: dict[str, Any], principal: str | None) -> str | None:
    given = {name: value for name, value in arguments.items() if name != TOKEN}
    try:
        return digest([module_id, given, principal])
    except (TypeError, ValueError):
        # What cannot be written down cannot be approved.
        return None


@dataclass(slots=True)
class PendingApproval:
    """`id` is what an approver is told; the token itself only the caller knows."""

    id: str
    fingerprint: str
    principal: str | None
    agent: str
    text: str
    expires: float
    state: Literal["pending", "approved", "rejected"] = "pending"


class ApprovalLedger:
    """Calls that wait for somebody else to agree; tokens are kept as digests only."""

    def __init__(self, lifetime: float = LIFETIME, clock: Callable[[], float] = time.monotonic) -> None:
        self._lifetime, self._clock = lifetime, clock
        self._entries: dict[str, PendingApproval] = {}

    def open(self, fingerprint: str, principal: str | None, agent: str, text: str) -> tuple[str, PendingApproval]:
        self._forget_expired()
        if len(self._entries) >= MOST_PENDING:
            raise RuntimeError("too many calls wait for approval")
        token = secrets.token_urlsafe(32)
        expires = self._clock() + self._lifetime
        entry = PendingApproval(_id_of(token), fingerprint, principal, agent, text, expires)
        self._entries[entry.id] = entry
        return token, entry

    def pending(self) -> list[PendingApproval]:
        self._forget_expired()
        return [entry for entry in self._entries.values() if entry.state == "pending"]

    def decide(self, approval_id: str, approver: str | None, *, approve: bool) -> bool:
        """Record an answer; False when there is nothing to answer, or the approver is the one who asks."""
        self._forget_expired()
        entry = self._entries.get(approval_id)
        if entry is None or entry.state != "pending" or approver is None or approver == entry.principal:
            return False
        entry.state = "approved" if approve else "rejected"
        return True

    def redeem(self, token: str, fingerprint: str | None) -> ApprovalResult:
        self._forget_expired()
        entry = self._entries.get(_id_of(token))
        if entry is None:
            return ApprovalResult(status="rejected", reason="The approval is unknown, used or expired")
        if fingerprint is None or not secrets.compare_digest(entry.fingerprint, fingerprint):
            return ApprovalResult(status="rejected", reason="The approval is for another call")
        if entry.state == "pending":
            return ApprovalResult(status="pending", approval_id=token)
        del self._entries[entry.id]
        if entry.state == "approved":
            return ApprovalResult(status="approved", approved_by="ledger")
        return ApprovalResult(status="rejected", reason="Not approved")

    def _forget_expired(self) -> None:
        now = self._clock()
        self._entries = {key: entry for key, entry in self._entries.items() if entry.expires > now}


def _id_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class AgentApprovals:
    """apcore's handler.  The caller's own client is asked if it can be; else the ledger, if there is one; else no."""

    def __init__(
        self,
        scrubber: Scrubber,
        ledger: ApprovalLedger | None = None,
        on_pending: Callable[[PendingApproval], None] = lambda _: None,
        patience: float = PATIENCE,
    ) -> None:
        self._scrubber, self._ledger, self._on_pending, self._patience = scrubber, ledger, on_pending, patience

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResult:
        call = _call.get()
        if call is None:
            return _refused("Nobody can be asked")
        text = await self._question(call.agent, request)
        if call.ask is not None:
            return await self._asked(call.ask, text)
        return self._put_down(call, request, text)

    async def check_approval(self, approval_id: str) -> ApprovalResult:
        call = _call.get()
        if call is None or self._ledger is None:
            return _refused("Approvals cannot be carried over from another call")
        return self._ledger.redeem(approval_id, call.fingerprint)

    async def _asked(self, ask: Ask, text: str) -> ApprovalResult:
        try:
            answer = await asyncio.wait_for(ask(text, QUESTION), self._patience)
        except TimeoutError:
            return ApprovalResult(status="timeout", reason="Nobody answered in time")
        except Exception:
            return _refused("The question could not be asked")
        if isinstance(answer, dict) and answer.get("approve") is True:
            return ApprovalResult(status="approved", approved_by="elicitation")
        return _refused("Not approved by the user")

    def _put_down(self, call: _Call, request: ApprovalRequest, text: str) -> ApprovalResult:
        fingerprint = _fingerprint(request.module_id, request.arguments, call.principal)
        # A call that a module makes further down could not be repeated with a token.
        if self._ledger is None or fingerprint is None or fingerprint != call.fingerprint:
            return _refused("Nobody can be asked")
        token, entry = self._ledger.open(fingerprint, call.principal, call.agent, text)
        self._on_pending(entry)
        return ApprovalResult(status="pending", approval_id=token)

    async def _question(self, agent: str, request: ApprovalRequest) -> str:
        module = request.context.executor.registry.get(request.module_id)
        schema = getattr(module, "input_schema", None)
        arguments = mask(request.arguments, schema.model_json_schema()) if schema is not None else request.arguments
        shown = json.dumps(self._scrubber.value(arguments), indent=2, ensure_ascii=False, default=str)
        heading = [f"Agent {agent} wants to call {request.module_id}", *_destination(request)]
        return self._scrubber.text("\n".join([*heading, *await _predicted(module, request), "", shown]))


async def _predicted(module: Any, request: ApprovalRequest) -> list[str]:
    """What the module says it would change; none when it cannot say, which is no reason not to ask."""
    preview = getattr(module, "preview", None)
    if preview is None:
        return []
    try:
        # The gate comes before validation, and a preview may count on it.
        module.input_schema.model_validate(request.arguments)
        predicted = preview(request.arguments, request.context)
        result = await predicted if inspect.isawaitable(predicted) else predicted
        return [f"- {change.summary}" for change in result.changes] if result is not None else []
    except Exception:
        return []


def _destination(request: ApprovalRequest) -> list[str]:
    extra = request.annotations.extra or {}
    if http := extra.get("http"):
        return [f"{http['method']} {http['host']}"]
    if server := extra.get("mcp"):
        return [f"on server {server['server']}"]
    return []


def _refused(reason: str) -> ApprovalResult:
    return ApprovalResult(status="rejected", reason=reason)
