"""Every tool a project has, under one name each: its own modules, its HTTP tools and the external tools it has locked.

What is left out is remembered with the reason, so that `explain` can give it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from apcore_agents import rules
from apcore_agents.canonical import digest
from apcore_agents.lockfile import LockedServer, LockedTool
from apcore_agents.names import EXTERNAL_PREFIX, exposed_name, is_pattern, is_tool_name, matches, skeleton
from apcore_agents.project import Project
from apcore_agents.rules import Notes
from apcore_agents.settings import HttpOperation, HttpService, ServerPolicy
from apcore_mcp.adapters.annotations import AnnotationMapper

__all__ = ["COORDINATION", "LocalTool", "Pool", "PoolCache", "PoolTool", "build_pool"]

Origin = Literal["module", "coordination", "http", "mcp"]

COORDINATION = ("spawn_agents", "list_available_agents")


@dataclass(frozen=True, slots=True)
class LocalTool:
    """A tool of the build: its entry of tools/list, and the modules that its module says it calls."""

    entry: Mapping[str, Any]
    module_id: str
    dependencies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolTool:
    """`entry` is what tools/list shows, under the name by which agents know the tool."""

    name: str
    module_id: str
    origin: Origin
    entry: Mapping[str, Any]
    dependencies: tuple[str, ...] = ()
    # Of an external tool: where it comes from, and what was locked.
    server: str | None = None
    upstream: LockedTool | None = None

    @property
    def needs_approval(self) -> bool:
        return bool(self.entry.get("_meta", {}).get("apcore/requiresApproval"))

    @property
    def is_readonly(self) -> bool:
        return bool(self.entry.get("annotations", {}).get("readOnlyHint"))


@dataclass(frozen=True)
class Pool:
    """The tools by name, in the order in which they are listed; `absent` has the reasons for those left out."""

    tools: Mapping[str, PoolTool]
    absent: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def order(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.tools)}

    @cached_property
    def digest(self) -> str:
        return digest([[tool.name, tool.module_id, dict(tool.entry)] for tool in self.tools.values()])

    def matching(self, pattern: str) -> list[str]:
        return [name for name in self.tools if matches(pattern, name)]


def build_pool(project: Project, local: Iterable[LocalTool], notes: Notes, *, runner: bool = True) -> Pool:
    """Assemble the pool; `runner` tells whether there is anyone to run a spawned agent."""
    absent: dict[str, str] = {}
    found = [
        *(PoolTool(str(t.entry["name"]), t.module_id, "module", t.entry, t.dependencies) for t in local),
        *_http_tools(project, notes),
        *(_coordination_tools(project) if runner else ()),
        *_external_tools(project, notes, absent),
    ]
    tools = _distinct(sorted(found, key=lambda tool: (tool.origin == "mcp", tool.name)), notes)
    masked = _masked(tools, project, notes)
    absent |= masked
    kept = {tool.name: tool for tool in tools if tool.name not in masked}
    return Pool(MappingProxyType(kept), MappingProxyType(absent))


class PoolCache:
    """One pool a project, made anew when its configuration or its own modules have changed."""

    def __init__(self) -> None:
        self._pools: dict[str, tuple[str, Pool, Notes]] = {}

    def pool(self, project: Project, local: Iterable[LocalTool]) -> tuple[Pool, Notes]:
        tools = list(local)
        key = digest([project.fingerprint, [[t.module_id, dict(t.entry), list(t.dependencies)] for t in tools]])
        place = str(project.config)
        if place not in self._pools or self._pools[place][0] != key:
            notes = Notes(strict=project.tables.agents.strict)
            self._pools[place] = (key, build_pool(project, tools, notes), notes)
        return self._pools[place][1:]


def _distinct(tools: list[PoolTool], notes: Notes) -> list[PoolTool]:
    """Without the tools whose names cannot be told apart, or are not theirs to have; the first keeps its name."""
    names: dict[str, PoolTool] = {}
    ids: dict[str, PoolTool] = {}
    for tool in tools:
        problem = _name_problem(tool)
        other = names.get(skeleton(tool.name)) or ids.get(tool.module_id)
        if other is not None:
            problem = f"cannot be told from {other.name} ({other.origin} {other.module_id})"
        if problem:
            notes.add(rules.NAME_COLLISION, f"{tool.name!r} ({tool.origin} {tool.module_id}) {problem}")
        else:
            names[skeleton(tool.name)] = ids[tool.module_id] = tool
    return list(names.values())


def _name_problem(tool: PoolTool) -> str | None:
    if not is_tool_name(tool.name):
        return "is not a name of 1 to 64 of A-Z, a-z, 0-9, _, - and ."
    if tool.origin == "mcp":
        return None if tool.name.startswith(f"{EXTERNAL_PREFIX}{tool.server}__") else "is outside of its server's names"
    if tool.name.startswith(EXTERNAL_PREFIX):
        return f"begins with {EXTERNAL_PREFIX}, which external tools do"
    if tool.origin != "coordination" and tool.name in COORDINATION:
        return "is the name of a tool that starts agents"
    return None


def _masked(tools: list[PoolTool], project: Project, notes: Notes) -> dict[str, str]:
    masked: dict[str, str] = {}
    for pattern in project.tables.mcp.mask:
        hit = [tool.name for tool in tools if _accepted(pattern, notes, project) and matches(pattern, tool.name)]
        if not hit and is_pattern(pattern):
            notes.add(rules.MASK_INERT, f"mcp.mask: {pattern!r} matches no tool", file=project.config.name)
        masked |= dict.fromkeys(hit, f"masked for every agent by {pattern!r} in mcp.mask")
    return masked


def _accepted(pattern: str, notes: Notes, project: Project) -> bool:
    if not is_pattern(pattern):
        notes.add(rules.PATTERN_REFUSED, f"{pattern!r}", file=project.config.name)
    return is_pattern(pattern)


# --- HTTP tools ---


def _http_tools(project: Project, notes: Notes) -> Iterator[PoolTool]:
    for service_name, service in project.tables.http.items():
        if service.allow_private:
            message = f"http.{service_name} may reach {', '.join(service.allow_private)}"
            notes.add(rules.PRIVATE_NETWORK, message, file=project.config.name)
        for name, operation in service.operations.items():
            module_id = f"http.{service_name}.{name}"
            if not operation.is_safe and not operation.needs_approval:
                notes.add(rules.WRITE_UNAPPROVED, f"{module_id}: {operation.method}", file=project.config.name)
            yield PoolTool(module_id, module_id, "http", http_entry(module_id, service, operation))


def http_annotations(operation: HttpOperation) -> dict[str, Any]:
    return {
        "readonly": operation.is_safe and not operation.needs_approval,
        "destructive": operation.method == "DELETE",
        "idempotent": operation.is_safe or operation.method in ("PUT", "DELETE"),
        "requires_approval": operation.needs_approval,
        "open_world": True,
    }


HTTP_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ok": {"type": "boolean", "description": "Whether the status is below 400."},
        "status": {"type": "integer"},
        "data": {"description": "The body: parsed when it is JSON, else text."},
        "truncated": {"type": "boolean", "description": "Whether the body was longer than what is given."},
    },
    "required": ["ok", "status", "data", "truncated"],
}


def http_entry(module_id: str, service: HttpService, operation: HttpOperation) -> dict[str, Any]:
    return _entry(
        module_id, None, operation.description, operation.input_schema, HTTP_OUTPUT, http_annotations(operation)
    )


def _entry(
    name: str,
    title: str | None,
    description: str,
    input_schema: Mapping[str, Any],
    output_schema: Mapping[str, Any] | None,
    annotations: Mapping[str, bool],
) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, **({"title": title} if title else {}), "description": description}
    entry["inputSchema"] = dict(input_schema)
    if output_schema is not None:
        entry["outputSchema"] = dict(output_schema)
    entry["annotations"] = AnnotationMapper().to_mcp_annotations(annotations).to_wire()
    return entry | ({"_meta": {"apcore/requiresApproval": True}} if annotations.get("requires_approval") else {})


# --- Tools that start agents ---

SPAWN_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "agents": {
            "type": "array",
            "minItems": 1,
            "maxItems": 8,
            "items": {
                "type": "object",
                "properties": {
                    "agent_name": {"type": "string", "description": "As list_available_agents gives it."},
                    "task": {"type": "string", "description": "What the agent is to do, complete in itself."},
                    "context": {"type": "string", "description": "What it should know beforehand."},
                    "timeout": {"type": "number", "exclusiveMinimum": 0, "description": "Seconds."},
                },
                "required": ["agent_name", "task"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["agents"],
    "additionalProperties": False,
}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
COORDINATION_TEXTS = {
    "spawn_agents": ("Start other agents at the same time, and wait for what they report.", SPAWN_INPUT),
    "list_available_agents": ("List the agents that this one may start.", NOTHING),
}


def _coordination_tools(project: Project) -> Iterator[PoolTool]:
    if not any(profile.spawn for profile in project.profiles):
        return
    for name, (description, schema) in COORDINATION_TEXTS.items():
        annotations = {"readonly": name == "list_available_agents", "open_world": name == "spawn_agents"}
        yield PoolTool(name, name, "coordination", _entry(name, None, description, schema, None, annotations))


# --- External tools ---


def _external_tools(project: Project, notes: Notes, absent: dict[str, str]) -> Iterator[PoolTool]:
    if isinstance(project.lock, str):
        notes.add(rules.LOCK_CORRUPT, project.lock, file=project.tables.mcp.lock)
    for alias in project.servers:
        locked = _believed(alias, project, notes)
        if locked is not None:
            yield from _selected(alias, locked, project, notes, absent)


def _believed(alias: str, project: Project, notes: Notes) -> LockedServer | None:
    """What was locked of a server, if it is still configured the same."""
    place = project.tables.mcp.lock
    if isinstance(project.lock, str):
        return None
    locked = project.lock.servers.get(alias) if project.lock is not None else None
    if locked is None:
        # A server that nobody selects tools from need not be locked.
        if alias in project.tables.mcp.servers:
            notes.add(rules.LOCK_MISSING, f"server {alias!r} is not in {place}", file=place)
        return None
    if locked.source_digest != project.servers[alias].source_digest:
        notes.add(rules.LOCK_STALE, f"server {alias!r} is configured otherwise than in {place}", file=place)
        return None
    return locked


def _selected(
    alias: str, locked: LockedServer, project: Project, notes: Notes, absent: dict[str, str]
) -> Iterator[PoolTool]:
    policy = project.tables.mcp.servers.get(alias, ServerPolicy())
    _check_patterns(alias, policy, locked, notes, project)
    if policy.trust_annotations:
        notes.add(rules.HINTS_TRUSTED, f"server {alias!r}", file=project.config.name)
    for name, tool in sorted(locked.tools.items()):
        reason = _left_out(name, tool, alias, policy)
        if reason:
            absent[exposed_name(alias, name)] = reason
            continue
        _report(tool, alias, policy, notes, project)
        yield _pool_tool(alias, tool, policy)


def _left_out(name: str, tool: LockedTool, alias: str, policy: ServerPolicy) -> str | None:
    if tool.is_refused:
        codes = ", ".join(flaw.code for flaw in tool.flaws if flaw.level == "error")
        return f"refused by screening: {codes}"
    if pattern := next((p for p in policy.mask if matches(p, name)), None):
        return f"masked by {pattern!r} in mcp.servers.{alias}.mask"
    if not any(matches(pattern, name) for pattern in policy.tools):
        return f"not selected by mcp.servers.{alias}.tools"
    return None


def _check_patterns(alias: str, policy: ServerPolicy, locked: LockedServer, notes: Notes, project: Project) -> None:
    for key in ("tools", "mask", "readonly"):
        for pattern in getattr(policy, key):
            if _accepted(pattern, notes, project) and not any(matches(pattern, name) for name in locked.tools):
                message = f"mcp.servers.{alias}.{key}: {pattern!r} matches no locked tool"
                notes.add(rules.MASK_INERT, message, file=project.config.name)


def _report(tool: LockedTool, alias: str, policy: ServerPolicy, notes: Notes, project: Project) -> None:
    for flaw in tool.flaws:
        if flaw.code == "text-instructs":
            notes.add(rules.TEXT_INSTRUCTS, f"{tool.exposed_as}: {flaw.text!r}", file=project.tables.mcp.lock)
    annotations = external_annotations(tool, policy)
    if not annotations["readonly"] and not annotations["requires_approval"]:
        notes.add(rules.WRITE_UNAPPROVED, f"{tool.exposed_as} of server {alias!r}", file=project.config.name)


def external_annotations(tool: LockedTool, policy: ServerPolicy) -> dict[str, bool]:
    """Our own claims about a tool; what its server claims counts only where it is trusted."""
    hints = tool.definition.get("annotations") or {}
    trusted = policy.trust_annotations and hints.get("readOnlyHint") is True
    readonly = trusted or any(matches(pattern, tool.name) for pattern in policy.readonly)
    return {
        "readonly": readonly,
        "destructive": not readonly,
        "idempotent": readonly,
        "requires_approval": policy.approval == "always" or (policy.approval == "writes" and not readonly),
        "open_world": True,
    }


def _pool_tool(alias: str, tool: LockedTool, policy: ServerPolicy) -> PoolTool:
    definition = tool.definition
    entry = _entry(
        tool.exposed_as,
        definition.get("title"),
        definition.get("description", ""),
        definition["inputSchema"],
        definition.get("outputSchema"),
        external_annotations(tool, policy),
    )
    return PoolTool(tool.exposed_as, tool.module_id, "mcp", entry, server=alias, upstream=tool)
