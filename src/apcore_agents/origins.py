"""Where the tools of a pool come from, besides the project's own modules."""

from collections.abc import Iterator

from apcore_agents import rules
from apcore_agents.lockfile import LockedServer, LockedTool
from apcore_agents.names import exposed_name, is_pattern, matches
from apcore_agents.project import Project
from apcore_agents.rules import Notes
from apcore_agents.settings import ServerPolicy
from apcore_agents.tools import COORDINATION_TEXTS, PoolTool, entry_of, external_annotations, http_entry

__all__ = ["accepted", "coordination_tools", "external_tools", "http_tools"]


def http_tools(project: Project, notes: Notes) -> Iterator[PoolTool]:
    for service_name, service in project.tables.http.items():
        if service.allow_private:
            message = f"http.{service_name} may reach {', '.join(service.allow_private)}"
            notes.add(rules.PRIVATE_NETWORK, message, file=project.config.name)
        for name, operation in service.operations.items():
            module_id = f"http.{service_name}.{name}"
            if not operation.is_safe and not operation.needs_approval:
                notes.add(rules.WRITE_UNAPPROVED, f"{module_id}: {operation.method}", file=project.config.name)
            yield PoolTool(module_id, module_id, "http", http_entry(module_id, operation))


def coordination_tools(project: Project) -> Iterator[PoolTool]:
    if not any(profile.spawn for profile in project.profiles):
        return
    for name, (description, schema) in COORDINATION_TEXTS.items():
        annotations = {"readonly": name == "list_available_agents", "open_world": name == "spawn_agents"}
        yield PoolTool(name, name, "coordination", entry_of(name, None, description, schema, None, annotations))


def external_tools(project: Project, notes: Notes, absent: dict[str, str]) -> Iterator[PoolTool]:
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
            if tool.is_refused and any(matches(pattern, name) for pattern in policy.tools):
                notes.add(rules.TOOL_REFUSED, f"{tool.exposed_as}: {reason}", file=project.tables.mcp.lock)
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
            if accepted(pattern, notes, project) and not any(matches(pattern, name) for name in locked.tools):
                message = f"mcp.servers.{alias}.{key}: {pattern!r} matches no locked tool"
                notes.add(rules.MASK_INERT, message, file=project.config.name)


def _report(tool: LockedTool, alias: str, policy: ServerPolicy, notes: Notes, project: Project) -> None:
    for flaw in tool.flaws:
        if flaw.code == "text-instructs":
            notes.add(rules.TEXT_INSTRUCTS, f"{tool.exposed_as}: {flaw.text!r}", file=project.tables.mcp.lock)
    annotations = external_annotations(tool, policy)
    if not annotations["readonly"] and not annotations["requires_approval"]:
        notes.add(rules.WRITE_UNAPPROVED, f"{tool.exposed_as} of server {alias!r}", file=project.config.name)


def _pool_tool(alias: str, tool: LockedTool, policy: ServerPolicy) -> PoolTool:
    definition = tool.definition
    entry = entry_of(
        tool.exposed_as,
        definition.get("title"),
        definition.get("description", ""),
        definition["inputSchema"],
        definition.get("outputSchema"),
        external_annotations(tool, policy),
    )
    return PoolTool(tool.exposed_as, tool.module_id, "mcp", entry, server=alias, upstream=tool)


def accepted(pattern: str, notes: Notes, project: Project) -> bool:
    """Whether a pattern of the settings can be taken as meant."""
    if not is_pattern(pattern):
        notes.add(rules.PATTERN_REFUSED, f"{pattern!r}", file=project.config.name)
    return is_pattern(pattern)
