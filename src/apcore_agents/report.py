"""A page per agent for whoever reviews it: what each entry came to, what runs unasked, and what was left out."""

from collections.abc import Iterator

from apcore_agents.names import is_pattern
from apcore_agents.pool import Pool
from apcore_agents.profiles import AgentProfile
from apcore_agents.project import Project
from apcore_agents.resolve import AgentTools
from apcore_agents.rules import Notes

__all__ = ["report"]


def report(profile: AgentProfile, project: Project, pool: Pool, tools: AgentTools, notes: Notes) -> str:
    return "\n".join(_lines(profile, project, pool, tools, notes)) + "\n"


def _lines(profile: AgentProfile, project: Project, pool: Pool, tools: AgentTools, notes: Notes) -> Iterator[str]:
    yield f"# {profile.name}"
    yield ""
    yield f"{len(tools.root)} tools, from `{profile.file}`; set `{tools.digest}`."
    yield from _section("Entries", _entries(profile, pool))
    yield from _section("Asks before it runs", _named(pool, tools, approval=True))
    yield from _section("Changes things without asking", _named(pool, tools, approval=False))
    yield from _section("Below the root", _depths(tools))
    yield from _section("May start", [f"- {name}" for name in sorted(set(profile.spawn))])
    yield from _section("Reaches outside", _outside(project, pool, tools))
    yield from _section(
        "Findings", [f"- {n.severity} {n.rule.slug}: {n.message}" for n in notes if _concerns(n.agent, profile)]
    )


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield from ("", f"## {title}", "", *lines)


def _entries(profile: AgentProfile, pool: Pool) -> list[str]:
    allowed = [f"- `{pattern}` → {_expansion(pattern, pool)}" for pattern in sorted(set(profile.tools))]
    denied = [f"- not `{pattern}` → {_expansion(pattern, pool)}" for pattern in sorted(set(profile.deny))]
    return [*allowed, *denied]


def _expansion(pattern: str, pool: Pool) -> str:
    return ", ".join(pool.matching(pattern) if is_pattern(pattern) else ()) or "nothing"


def _named(pool: Pool, tools: AgentTools, *, approval: bool) -> list[str]:
    held = [pool.tools[name] for name in tools.root]
    return [f"- {tool.name}" for tool in held if tool.needs_approval == approval and (approval or not tool.is_readonly)]


def _depths(tools: AgentTools) -> list[str]:
    started = [name for name in tools.root if name not in tools.sub]
    deepest = [name for name in tools.sub if name not in tools.leaf]
    return [
        *(f"- without {name} when it was started by another agent" for name in started),
        *(f"- without {name} from depth {tools.max_depth} on" for name in deepest),
    ]


def _outside(project: Project, pool: Pool, tools: AgentTools) -> list[str]:
    held = [pool.tools[name] for name in tools.root]
    servers = sorted({tool.server for tool in held if tool.server})
    services = sorted({tool.module_id.split(".")[1] for tool in held if tool.origin == "http"})
    return [
        *(f"- {name}: {project.tables.http[name].base_url}" for name in services),
        *(f"- server {alias}: `{project.servers[alias].described()}`" for alias in servers),
    ]


def _concerns(agent: str, profile: AgentProfile) -> bool:
    return agent in ("", profile.name)
