"""Every tool a project has, under one name each: its own modules, its HTTP tools and the external tools it has locked.

What is left out is remembered with the reason, so that `explain` can give it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from apcore_agents import rules
from apcore_agents.canonical import digest
from apcore_agents.names import EXTERNAL_PREFIX, is_pattern, is_tool_name, matches, matching, skeleton
from apcore_agents.origins import accepted, coordination_tools, external_tools, http_tools
from apcore_agents.project import Project
from apcore_agents.rules import Notes
from apcore_agents.tools import COORDINATION, LocalTool, PoolTool

__all__ = ["Pool", "PoolCache", "build_pool"]


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

    @cached_property
    def _matched(self) -> dict[str, list[str]]:
        return {}

    def matching(self, pattern: str) -> list[str]:
        """The names that a pattern matches, found once however many agents use it."""
        if pattern not in self._matched:
            self._matched[pattern] = matching(pattern, self.tools)
        return self._matched[pattern]


def build_pool(project: Project, local: Iterable[LocalTool], notes: Notes, *, runner: bool = True) -> Pool:
    """Assemble the pool; `runner` tells whether there is anyone to run a spawned agent."""
    absent: dict[str, str] = {}
    found = [
        *(PoolTool(str(t.entry["name"]), t.module_id, "module", t.entry, t.dependencies) for t in local),
        *http_tools(project, notes),
        *(coordination_tools(project) if runner else ()),
        *external_tools(project, notes, absent),
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
        hit = [tool.name for tool in tools if accepted(pattern, notes, project) and matches(pattern, tool.name)]
        if not hit and is_pattern(pattern):
            notes.add(rules.MASK_INERT, f"mcp.mask: {pattern!r} matches no tool", file=project.config.name)
        masked |= dict.fromkeys(hit, f"masked for every agent by {pattern!r} in mcp.mask")
    return masked
