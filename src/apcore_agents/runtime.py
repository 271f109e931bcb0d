"""Agents at work: the frozen sets of a build, and the only way to call what is in them.

A runtime is one generation.  Nothing in it changes while it lives, so that a run has the same tools from its first call
to its last; the only thing that can happen to a tool is that its server drifts, and it is withheld.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from apcore import Context, Executor, Identity

from apcore_agents.approvals import ApprovalLedger, Ask, PendingApproval, approving
from apcore_agents.emit import role_of
from apcore_agents.events import Event, Events, EventStream, event, tool_error
from apcore_agents.failures import ToolError, failure_of
from apcore_agents.http_tools import ServiceClient
from apcore_agents.profiles import Limits
from apcore_agents.project import Project
from apcore_agents.runs import Run, current_run, running
from apcore_agents.scrubbing import Scrubber, scrubbed_logging
from apcore_agents.secrets import Secrets
from apcore_agents.supervision import Link
from apcore_mcp.helpers import MCP_ELICIT_KEY, MCP_PROGRESS_KEY

__all__ = ["Agent", "AgentRuntime", "AgentSession"]

LONGEST_NAME = 128


@dataclass(frozen=True)
class Agent:
    """One agent of a build; `tables` lead from names to module ids, for each depth."""

    name: str
    description: str
    prompt: str
    limits: Limits
    spawn: tuple[str, ...]
    max_depth: int
    tables: Mapping[str, Mapping[str, str]]
    entries: Mapping[str, Mapping[str, Any]]
    digest: str

    def is_readonly(self, name: str) -> bool:
        return bool(self.entries.get(name, {}).get("annotations", {}).get("readOnlyHint"))

    def table(self, depth: int) -> Mapping[str, str]:
        if depth >= self.max_depth:
            return self.tables["leaf"]
        return self.tables["root" if depth == 0 else "sub"]


class AgentRuntime:
    """Made by `loading.load_runtime`; an async context, within which the external servers are connected."""

    def __init__(
        self, project: Project, agents: Mapping[str, Agent], secrets: Secrets, ledger: ApprovalLedger | None
    ) -> None:
        self.project, self.agents, self.secrets, self.ledger = project, agents, secrets, ledger
        self.events = Events()
        self.executors: dict[str, Executor] = {}
        self.links: dict[str, Link] = {}
        self.clients: dict[str, ServiceClient] = {}
        # Exposed name of each external tool, to its server and its name there.
        self.upstream: dict[str, tuple[str, str]] = {}
        self._stack: AsyncExitStack | None = None

    @property
    def scrubber(self) -> Scrubber:
        return self.secrets.scrubber

    async def __aenter__(self) -> "AgentRuntime":
        async with AsyncExitStack() as stack:
            stack.enter_context(scrubbed_logging(self.scrubber))
            for client in self.clients.values():
                stack.push_async_callback(client.close)
            for link in self.links.values():
                await link.start()
                stack.push_async_callback(link.stop)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            await stack.aclose()

    async def ready(self) -> None:
        """Wait until every server was tried once; one that is absent withholds its tools and no others."""
        await asyncio.gather(*(link.first_attempt() for link in self.links.values()))

    def is_withheld(self, name: str) -> bool:
        if name not in self.upstream:
            return False
        alias, tool = self.upstream[name]
        return tool in self.links[alias].withheld

    def available(self, agent: str, depth: int = 0) -> dict[str, Mapping[str, Any]]:
        """The tools to list for a request: the frozen set, without what is withheld at this moment."""
        known = self.agents[agent]
        return {name: known.entries[name] for name in known.table(depth) if not self.is_withheld(name)}

    @asynccontextmanager
    async def session(
        self, agent: str, *, run: Run | None = None, identity: Identity | None = None
    ) -> AsyncIterator["AgentSession"]:
        """One run of an agent."""
        if agent not in self.agents:
            raise ToolError("AGENT_NOT_FOUND", f"there is no agent {agent!r}")
        session = AgentSession(self, run or Run(agent), identity)
        try:
            yield session
        finally:
            session.close()

    async def call(
        self, run: Run, name: str, arguments: dict[str, Any], context: Context[Any], ask: Ask | None = None
    ) -> Any:
        """Run one tool of an agent through its Executor; whatever comes out has no secrets in it."""
        agent = self.agents[run.agent]
        module_id = agent.table(run.depth).get(name)
        facts = _facts(run) | {"tool": name[:LONGEST_NAME], "module_id": module_id, "call_id": uuid.uuid4().hex}
        facts["trace_id"] = context.trace_id
        started = time.monotonic()
        self._publish(event("tool_call", **facts))
        try:
            if module_id is None:
                raise ToolError("TOOL_NOT_FOUND", f"Module not found: {name}")
            output = await self._execute(run, module_id, arguments, context, ask)
        except asyncio.CancelledError:
            self._failed(ToolError("EXECUTION_CANCELLED", "The call was cancelled"), agent, facts, started)
            raise
        except Exception as error:
            self._failed(error, agent, facts, started)
            raise self._scrubbed(error) from None
        self._publish(event("tool_result", **facts, duration_ms=_since(started)))
        return output

    async def _execute(
        self, run: Run, module_id: str, arguments: dict[str, Any], context: Context[Any], ask: Ask | None
    ) -> Any:
        own = self._as_agent(run, context)
        principal = own.identity.id if own.identity else None
        with running(run), approving(run.agent, module_id, arguments, principal, ask):
            output = await self.executors[run.agent].call_async(module_id, arguments, own)
        return self.scrubber.value(output)

    def _as_agent(self, run: Run, context: Context[Any]) -> Context[Any]:
        """The context as the modules get it: the caller in the role of this agent and of no other."""
        data = dict(context.data)
        if MCP_PROGRESS_KEY in data:
            data[MCP_PROGRESS_KEY] = self._scrubbed_progress(data[MCP_PROGRESS_KEY])
        if MCP_ELICIT_KEY in data:
            data[MCP_ELICIT_KEY] = self._scrubbed_elicit(data[MCP_ELICIT_KEY])
        return replace(context, identity=as_agent(context.identity, run.agent), data=data)

    def _scrubbed_progress(self, report: Any) -> Any:
        messages = self.scrubber.stream()

        async def scrubbed(value: float, total: float | None = None, message: str | None = None) -> None:
            await report(value, total, message and messages.push(message))

        return scrubbed

    def _scrubbed_elicit(self, elicit: Any) -> Any:
        async def scrubbed(message: str, schema: dict[str, Any] | None = None) -> Any:
            return await elicit(self.scrubber.text(message), self.scrubber.value(schema))

        return scrubbed

    def _scrubbed(self, error: Exception) -> Exception:
        """The same error without secrets; its cause goes nowhere but into the log, which is scrubbed."""
        if hasattr(error, "message") and hasattr(error, "details"):
            error.message = self.scrubber.text(str(error.message))
            error.details = self.scrubber.value(error.details)
        error.args = tuple(self.scrubber.value(list(error.args)))
        return error

    def _failed(self, error: Exception, agent: Agent, facts: Mapping[str, Any], started: float) -> None:
        failure = failure_of(error, readonly=agent.is_readonly(facts["tool"]))
        self._publish(tool_error(failure, **facts, duration_ms=_since(started)))

    def _publish(self, record: Event) -> None:
        # A model can put anything into the name of a tool.
        self.events.publish(self.scrubber.value(record))

    def withheld(self, alias: str, tool: str, reason: str | None) -> None:
        kind = "tool_withheld" if reason else "tool_restored"
        self.events.publish(event(kind, server=alias, tool=tool, reason=reason))

    def pending(self, entry: PendingApproval) -> None:
        run = current_run()
        facts = _facts(run) if run is not None else {"agent": entry.agent}
        self.events.publish(event("approval_required", **facts, approval_id=entry.id, text=entry.text))


class AgentSession:
    """What a loop around a model needs: the tools to show it, a way to call them, and what happens meanwhile."""

    def __init__(self, runtime: AgentRuntime, run: Run, identity: Identity | None) -> None:
        self.run, self._runtime, self._identity = run, runtime, identity
        self._steps, self._started = 0, time.monotonic()
        self._family = {run.id}
        self._streams: list[EventStream] = []
        self._unlisten = runtime.events.listen(self._relay)

    @property
    def agent(self) -> Agent:
        return self._runtime.agents[self.run.agent]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._runtime.available(self.run.agent, self.run.depth))

    def tools(self) -> list[Mapping[str, Any]]:
        """The tools as MCP lists them."""
        return list(self._runtime.available(self.run.agent, self.run.depth).values())

    async def call(self, name: str, arguments: dict[str, Any] | None = None, *, ask: Ask | None = None) -> Any:
        """Call a tool; a name that is not in the set is not found, whether or not such a tool exists."""
        self._count_step()
        context: Context[Any] = Context.create(identity=self._identity)
        return await self._runtime.call(self.run, name, arguments or {}, context, ask)

    def _count_step(self) -> None:
        limits = self.agent.limits
        self._steps += 1
        if self._steps > limits.max_steps:
            raise ToolError("STEP_LIMIT_REACHED", f"the run has had its {limits.max_steps} calls")
        if time.monotonic() - self._started > limits.timeout:
            raise ToolError("RUN_EXPIRED", f"the run has had its {limits.timeout:g} seconds")

    def events(self) -> EventStream:
        """What happens in this run and the runs it starts, from now on."""
        stream = EventStream()
        self._streams.append(stream)
        return stream

    def _relay(self, record: Event) -> None:
        # A run is known from the call that started it, which its parent has made.
        if record.get("parent_run_id") in self._family:
            self._family.add(record["run_id"])
        if record.get("run_id", self.run.id) in self._family:
            for stream in self._streams:
                stream.put(record)

    def close(self) -> None:
        self._unlisten()
        for stream in self._streams:
            stream.close()


def as_agent(identity: Identity | None, agent: str) -> Identity:
    role = role_of(agent)
    if identity is None:
        return Identity(id=role, type="agent", roles=(role,))
    others = tuple(name for name in identity.roles if not name.startswith("agent:"))
    return replace(identity, roles=(*others, role))


def _facts(run: Run) -> dict[str, Any]:
    parent = run.parent.id if run.parent is not None else None
    return {"run_id": run.id, "parent_run_id": parent, "agent": run.agent, "depth": run.depth}


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
