"""Which tools each agent has, decided once.

Only three depths make a difference: the agent that was asked (root), one that it started (sub), and one that may start
no other (leaf).  So each agent becomes three frozen tuples, and nothing is left to be matched when a call arrives.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apcore_agents import rules
from apcore_agents.canonical import digest
from apcore_agents.names import is_glob, is_pattern
from apcore_agents.pool import Pool
from apcore_agents.profiles import AgentProfile
from apcore_agents.project import Project
from apcore_agents.rules import Notes
from apcore_agents.tools import COORDINATION

__all__ = ["AgentTools", "Decision", "explain", "resolve", "resolve_all"]

# Names by which Claude Code knows its own tools; an imported agent that lists them means nothing of ours.
CLAUDE_TOOLS = frozenset(
    {
        "Agent", "Bash", "BashOutput", "Edit", "Glob", "Grep", "KillShell", "LS", "MultiEdit", "NotebookEdit",
        "NotebookRead", "Read", "Skill", "SlashCommand", "Task", "TodoWrite", "WebFetch", "WebSearch", "Write",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AgentTools:
    """The names of an agent's tools at each depth, in the pool's order."""

    agent: str
    root: tuple[str, ...]
    sub: tuple[str, ...]
    leaf: tuple[str, ...]
    max_depth: int

    def at(self, depth: int) -> tuple[str, ...]:
        if depth >= self.max_depth:
            return self.leaf
        return self.root if depth == 0 else self.sub

    @property
    def digest(self) -> str:
        return digest([self.root, self.sub, self.leaf, self.max_depth])

    def as_dict(self) -> dict[str, Any]:
        return {
            "root": list(self.root),
            "sub": list(self.sub),
            "leaf": list(self.leaf),
            "maxDepth": self.max_depth,
            "digest": self.digest,
        }


def resolve_all(project: Project, pool: Pool, notes: Notes) -> dict[str, AgentTools]:
    """The tools of every agent that may be built, by its name."""
    resolved = {profile.name: resolve(profile, pool, project.max_depth(profile), notes) for profile in project.profiles}
    faulty = set(_exceeding(project.profiles, resolved, notes))
    return {name: tools for name, tools in resolved.items() if name not in faulty}


def resolve(profile: AgentProfile, pool: Pool, max_depth: int, notes: Notes) -> AgentTools:
    """Whatever denies wins: the order of entries does not matter, nor on which level they stand."""
    allowed = _expand(profile.tools, pool, profile, notes, rules.TOOL_UNKNOWN)
    denied = _expand(profile.deny, pool, profile, notes, rules.DENY_INERT)
    held = allowed - denied
    # The name itself is consent to start agents from below; `*` or `spawn_*` is not.
    asked_for = {name for name in COORDINATION if name in profile.tools}
    sub = {name for name in held if name not in COORDINATION or name in asked_for}
    leaf = {name for name in held if name not in COORDINATION}
    if sub - leaf:
        message = f"{', '.join(sorted(sub - leaf))} not available from depth {max_depth} on"
        notes.add(rules.SPAWN_LIMIT, message, file=profile.file, agent=profile.name)
    return AgentTools(
        profile.name,
        _ordered(held if max_depth > 0 else leaf, pool),
        _ordered(sub if max_depth > 1 else leaf, pool),
        _ordered(leaf, pool),
        max_depth,
    )


def _ordered(names: set[str], pool: Pool) -> tuple[str, ...]:
    return tuple(sorted(names, key=pool.order.__getitem__))


def _expand(patterns: Iterable[str], pool: Pool, profile: AgentProfile, notes: Notes, inert: rules.Rule) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        if not is_pattern(pattern):
            notes.add(rules.PATTERN_REFUSED, repr(pattern), file=profile.file, agent=profile.name)
        elif names := _matching(pattern, pool):
            found.update(names)
        elif not (profile.imported and pattern in CLAUDE_TOOLS):
            notes.add(inert, _why_nothing(pattern, pool), file=profile.file, agent=profile.name)
    if profile.inherits_tools and inert is rules.TOOL_UNKNOWN:
        notes.add(rules.TOOLS_INHERITED, "has no list of tools", file=profile.file, agent=profile.name)
    return found


def _matching(pattern: str, pool: Pool) -> Iterable[str]:
    if is_glob(pattern):
        return pool.matching(pattern)
    return (pattern,) if pattern in pool.tools else ()


def _why_nothing(pattern: str, pool: Pool) -> str:
    if is_glob(pattern):
        return f"{pattern!r} matches no tool"
    if pattern in pool.absent:
        return f"{pattern!r} is {pool.absent[pattern]}"
    near = difflib.get_close_matches(pattern, pool.tools, 1)
    return f"{pattern!r} is not in the pool" + (f"; did you mean {near[0]!r}?" if near else "")


def _exceeding(profiles: Iterable[AgentProfile], resolved: Mapping[str, AgentTools], notes: Notes) -> Iterable[str]:
    """The agents that could start one which holds more than they do, or one that does not exist."""
    for profile in profiles:
        for child in sorted(set(profile.spawn)):
            if child not in resolved:
                message = f"may start {child!r}, which does not exist"
                notes.add(rules.SPAWN_UNKNOWN, message, file=profile.file, agent=profile.name)
                yield profile.name
            elif more := _more_than(resolved[profile.name], resolved[child]):
                message = f"may start {child!r}, which also has {', '.join(more)}"
                notes.add(rules.SUB_AGENT_EXCEEDS, message, file=profile.file, agent=profile.name)
                yield profile.name


def _more_than(parent: AgentTools, child: AgentTools) -> list[str]:
    more = set(child.sub) - set(parent.root)
    if "spawn_agents" in parent.sub:
        more |= set(child.sub) - set(parent.sub)
    return sorted(more)


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether an agent has a tool, at which depths, and the rule that decided."""

    agent: str
    tool: str
    depths: tuple[str, ...]
    because: str

    @property
    def is_allowed(self) -> bool:
        return bool(self.depths)

    def __str__(self) -> str:
        verdict = f"yes ({', '.join(self.depths)})" if self.depths else "no"
        return f"{self.agent} {self.tool}: {verdict}\n  {self.because}"


def explain(project: Project, pool: Pool, agent: str, tool: str) -> Decision:
    """Name the rule that decides; `LookupError` when there is no such agent."""
    profile = next((profile for profile in project.profiles if profile.name == agent), None)
    if profile is None:
        raise LookupError(f"there is no agent {agent!r}; there are {', '.join(p.name for p in project.profiles)}")
    tools = resolve(profile, pool, project.max_depth(profile), Notes())
    depths = tuple(depth for depth in ("root", "sub", "leaf") if tool in getattr(tools, depth))
    return Decision(agent, tool, depths, _because(profile, pool, tool, depths))


def _because(profile: AgentProfile, pool: Pool, tool: str, depths: tuple[str, ...]) -> str:
    if tool not in pool.tools:
        return _why_nothing(tool, pool)
    if pattern := _first_match(profile.deny, tool, pool):
        return f"denied by {pattern!r} in deny of {profile.file}"
    pattern = _first_match(profile.tools, tool, pool)
    if pattern is None:
        return f"no entry in tools of {profile.file} matches it"
    if not depths:
        return f"max_depth is 0, and nobody may start agents ({profile.file})"
    allowed = f"allowed by {pattern!r} in tools of {profile.file}"
    if tool in COORDINATION and len(depths) < 3:
        return f"{allowed}; deeper down it must be named itself, and the limit is max_depth"
    return allowed


def _first_match(patterns: Iterable[str], tool: str, pool: Pool) -> str | None:
    exact_first = sorted((p for p in patterns if is_pattern(p)), key=is_glob)
    return next((pattern for pattern in exact_first if tool in _matching(pattern, pool)), None)
