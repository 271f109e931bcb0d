"""Agents at work: the frozen sets of a build, and the only way to call what is in them.

A runtime is one generation.  Nothing in it changes while it lives, so that a run has the same tools from its first call
to its last; the only thing that can happen to a tool is that its server drifts, and it is withheld.
"""

import asyncio
import json
import logging
import os
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from apcore import ACL, Context, Executor, Identity, Registry
from apcore.policy import ExecutionPolicy

from apcore_agents.approvals import AgentApprovals, ApprovalLedger, Ask, PendingApproval, approving
from apcore_agents.coordination import AgentRunner, ListAvailableAgents, SpawnAgents
from apcore_agents.emit import INDEX, INDEX_VERSION, role_of
from apcore_agents.events import Event, Events, EventStream, event, tool_error
from apcore_agents.external import ExternalTool
from apcore_agents.failures import ToolError, failure_of
from apcore_agents.http_tools import HttpTool, ServiceClient
from apcore_agents.pool import COORDINATION, Pool, build_pool
from apcore_agents.profiles import Limits
from apcore_agents.project import Project, read_project
from apcore_agents.resolve import AgentTools
from apcore_agents.rules import Notes
from apcore_agents.runs import Run, current_run, running
from apcore_agents.scrubbing import Scrubber, scrubbed_logging
from apcore_agents.secrets import Secrets
from apcore_agents.settings import BadProject, ServerPolicy
from apcore_agents.supervision import Link, open_connection
from apcore_mcp.helpers import MCP_ELICIT_KEY, MCP_PROGRESS_KEY

__all__ = ["Agent", "AgentRuntime", "AgentSession", "StaleBuild", "load_runtime"]

logger = logging.getLogger("apcore_mcp.agents")

DEPTHS = ("root", "sub", "leaf")


class StaleBuild(BadProject):
    """What was built is not what is configured."""


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
    """Made by `load_runtime`; an async context, within which the external servers are connected."""

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
        facts = _facts(run) | {"tool": name, "module_id": agent.table(run.depth).get(name), "call_id": uuid.uuid4().hex}
        facts["trace_id"] = context.trace_id
        started = time.monotonic()
        self.events.publish(event("tool_call", **facts))
        try:
            if facts["module_id"] is None:
                raise ToolError("TOOL_NOT_FOUND", f"Module not found: {name}")
            output = await self._execute(run, facts["module_id"], arguments, context, ask)
        except asyncio.CancelledError:
            self._failed(ToolError("EXECUTION_CANCELLED", "The call was cancelled"), agent, facts, started)
            raise
        except Exception as error:
            self._failed(error, agent, facts, started)
            raise self._scrubbed(error) from None
        self.events.publish(event("tool_result", **facts, duration_ms=_since(started)))
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
        self.events.publish(self.scrubber.value(tool_error(failure, **facts, duration_ms=_since(started))))

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
        self._steps = 0
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
        self._steps += 1
        if self._steps > self.agent.limits.max_steps:
            raise ToolError("STEP_LIMIT_REACHED", f"the run has had its {self.agent.limits.max_steps} calls")
        context: Context[Any] = Context.create(identity=self._identity)
        return await self._runtime.call(self.run, name, arguments or {}, context, ask)

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


# --- Loading ---


def load_runtime(
    generated: Path,
    registry: Registry,
    *,
    runner: AgentRunner | None = None,
    ledger: ApprovalLedger | None = None,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> AgentRuntime:
    """Open what a build wrote about agents; HTTP and external tools are added to `registry`, which has the modules.

    Refuses a build that is older than the configuration: what was reviewed is what runs.
    """
    index = _read_index(generated)
    project = read_project(config or (generated / index["config"]).resolve())
    if project.fingerprint != index["fingerprint"]:
        raise StaleBuild(f"{project.config.name}, the agents or the lock have changed; run `apcore-mcp build`")
    environment = os.environ if environment is None else environment
    secrets = Secrets(project.tables.secrets, project.root, environment)
    agents = {name: _agent(name, entry, generated, index, project, runner) for name, entry in index["agents"].items()}
    runtime = AgentRuntime(project, MappingProxyType(agents), secrets, ledger)
    _register(runtime, registry, index["modules"], runner)
    for name in agents:
        runtime.executors[name] = _executor(generated / "agents" / name, registry, runtime)
    return runtime


def _read_index(generated: Path) -> dict[str, Any]:
    try:
        index: dict[str, Any] = json.loads((generated / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StaleBuild(f"{generated} holds no agents; run `apcore-mcp build`") from error
    if index.get("version") != INDEX_VERSION:
        raise StaleBuild(f"{generated} was built by another version; run `apcore-mcp build`")
    return index


def _check_sets(name: str, entry: dict[str, Any]) -> None:
    root, sub, leaf = (tuple(entry[depth]) for depth in DEPTHS)
    if AgentTools(name, root, sub, leaf, entry["maxDepth"]).digest != entry["digest"]:
        raise StaleBuild(f"the tools of agent {name!r} do not agree with their digest; run `apcore-mcp build`")


def _agent(
    name: str, entry: dict[str, Any], generated: Path, index: dict[str, Any], project: Project, runner: Any
) -> Agent:
    _check_sets(name, entry)
    profile = next(profile for profile in project.profiles if profile.name == name)
    listed = json.loads((generated / "agents" / name / "mcp_tools.json").read_text(encoding="utf-8"))["tools"]
    missing = () if runner is not None else COORDINATION
    tables = {
        depth: MappingProxyType({tool: index["modules"][tool] for tool in entry[depth] if tool not in missing})
        for depth in DEPTHS
    }
    return Agent(
        name=name,
        description=entry["description"],
        prompt=profile.prompt,
        limits=profile.limits,
        spawn=tuple(entry["spawn"]),
        max_depth=entry["maxDepth"],
        tables=MappingProxyType(tables),
        entries=MappingProxyType({tool["name"]: tool for tool in listed}),
        digest=entry["digest"],
    )


def _register(runtime: AgentRuntime, registry: Registry, modules: dict[str, str], runner: AgentRunner | None) -> None:
    """Add what is not a module of the project's own to the registry: only what some agent has."""
    project = runtime.project
    pool = build_pool(project, [], Notes(strict=False))
    for name in modules:
        tool = pool.tools.get(name)
        if tool is None:
            continue
        if tool.origin == "http":
            _, service, operation = tool.module_id.split(".")
            client = _client(runtime, service)
            registry.register(tool.module_id, HttpTool(client, client.service.operations[operation]))
        elif tool.origin == "mcp" and tool.server is not None and tool.upstream is not None:
            policy = project.tables.mcp.servers.get(tool.server, ServerPolicy())
            link = _link(runtime, pool, tool.server, policy)
            runtime.upstream[name] = (tool.server, tool.upstream.name)
            registry.register(tool.module_id, ExternalTool(tool, link, policy, runtime.scrubber))
    if runner is not None and "spawn_agents" in modules:
        registry.register("spawn_agents", SpawnAgents(runtime, runner))
    if runner is not None and "list_available_agents" in modules:
        registry.register("list_available_agents", ListAvailableAgents(runtime))


def _client(runtime: AgentRuntime, service: str) -> ServiceClient:
    if service not in runtime.clients:
        settings = runtime.project.tables.http[service]
        runtime.clients[service] = ServiceClient(service, settings, runtime.secrets)
    return runtime.clients[service]


def _link(runtime: AgentRuntime, pool: Pool, alias: str, policy: ServerPolicy) -> Link:
    if alias not in runtime.links:
        server = runtime.project.servers[alias]
        watched = {t.upstream.name: t.upstream for t in pool.tools.values() if t.server == alias and t.upstream}
        opening = open_connection(server, runtime.secrets)
        runtime.links[alias] = Link(server, watched, opening, recheck=policy.recheck, notice=runtime.withheld)
    return runtime.links[alias]


def _executor(folder: Path, registry: Registry, runtime: AgentRuntime) -> Executor:
    acl = ACL.load(str(folder / "acl.yaml"))
    policy = ExecutionPolicy.from_dict(yaml.safe_load((folder / "policy.yaml").read_text(encoding="utf-8")))
    if not policy.strict:
        raise StaleBuild(f"{folder / 'policy.yaml'} is not strict; run `apcore-mcp build`")
    handler = AgentApprovals(runtime.scrubber, runtime.ledger, runtime.pending)
    return Executor(registry, acl=acl, policy=policy, approval_handler=handler)
