"""What a build writes about agents: plain files that a reviewer can compare, and that serving reads.

Per agent: the tools as MCP, OpenAI and Anthropic take them, the ACL and the execution policy that enforce them, and a
report.  `agents.json` holds the frozen sets themselves.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from apcore_agents.names import provider_name
from apcore_agents.pool import Pool
from apcore_agents.profiles import AgentProfile
from apcore_agents.project import Project
from apcore_agents.report import report
from apcore_agents.resolve import AgentTools
from apcore_agents.rules import Notes
from apcore_agents.tools import PoolTool
from apcore_mcp.adapters.schema import inline_refs
from apcore_openai.strict import to_strict
from apcore_openai.tools import anthropic_tool, openai_tool

__all__ = ["INDEX", "AgentArtifact", "emit_agents", "role_of"]

INDEX = "agents/agents.json"
INDEX_VERSION = 1


@dataclass(frozen=True, slots=True)
class AgentArtifact:
    """A file to be, relative to the output directory."""

    path: str
    text: str


def role_of(agent: str) -> str:
    return f"agent:{agent}"


def emit_agents(
    project: Project, pool: Pool, resolved: Mapping[str, AgentTools], notes: Notes, config: str | None
) -> Iterator[AgentArtifact]:
    """All files; `config` is the way from the output directory to the project's settings file."""
    yield AgentArtifact(INDEX, _pretty(_index(project, pool, resolved, config)))
    shape = _shapes(pool)
    for profile in project.profiles:
        if profile.name in resolved:
            yield from _emit_agent(profile, project, pool, resolved[profile.name], notes, shape)


def _index(project: Project, pool: Pool, resolved: Mapping[str, AgentTools], config: str | None) -> dict[str, Any]:
    profiles = {profile.name: profile for profile in project.profiles}
    used = [name for name in pool.tools if any(name in tools.root for tools in resolved.values())]
    return {
        "version": INDEX_VERSION,
        "config": config,
        "fingerprint": project.fingerprint,
        "pool": pool.digest,
        "agents": {
            name: {
                "description": profiles[name].description,
                "spawn": sorted(set(profiles[name].spawn)),
                **tools.as_dict(),
            }
            for name, tools in sorted(resolved.items())
        },
        "modules": {name: pool.tools[name].module_id for name in used},
    }


def _emit_agent(
    profile: AgentProfile, project: Project, pool: Pool, tools: AgentTools, notes: Notes, shape: "_Shapes"
) -> Iterator[AgentArtifact]:
    folder = f"agents/{profile.name}"
    for depth, names in _variants(tools):
        suffix = "" if depth == "root" else f".{depth}"
        for file, render in shape.items():
            yield AgentArtifact(f"{folder}/{file}{suffix}.json", render(names))
    yield AgentArtifact(f"{folder}/acl.yaml", _yaml(acl(profile.name, pool, tools)))
    yield AgentArtifact(f"{folder}/policy.yaml", _yaml(policy(pool, tools)))
    yield AgentArtifact(f"{folder}/report.md", report(profile, project, pool, tools, notes))


def _variants(tools: AgentTools) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The depths at which the agent has other tools than one level up."""
    yield "root", tools.root
    if tools.sub != tools.root:
        yield "sub", tools.sub
    if tools.leaf != tools.sub:
        yield "leaf", tools.leaf


_Shapes = dict[str, Callable[[tuple[str, ...]], str]]


def _shapes(pool: Pool) -> _Shapes:
    """How the tools look to each reader; every tool is rendered once, however many agents have it."""

    @cache
    def line(name: str) -> str:
        return json.dumps(dict(pool.tools[name].entry), ensure_ascii=False, separators=(",", ":"))

    @cache
    def openai(name: str) -> dict[str, Any]:
        return _openai(pool.tools[name])

    @cache
    def anthropic(name: str) -> dict[str, Any]:
        entry = pool.tools[name].entry
        return anthropic_tool(provider_name(name), entry["description"], _parameters(entry))

    return {
        "mcp_tools": lambda names: tools_list(line(name) for name in names),
        "openai_tools": lambda names: _pretty([openai(name) for name in names]),
        "anthropic_tools": lambda names: _pretty([anthropic(name) for name in names]),
    }


def tools_list(lines: Iterator[str]) -> str:
    """One tool a line, as in the build's tools.json."""
    joined = ",\n".join(lines)
    return f'{{"tools":[\n{joined}\n]}}\n' if joined else '{"tools":[\n]}\n'


def _openai(tool: PoolTool) -> dict[str, Any]:
    parameters = _parameters(tool.entry)
    converted = to_strict(parameters)
    strict = converted.verdict != "lossy"
    description = tool.entry["description"]
    return openai_tool(provider_name(tool.name), description, converted.schema if strict else parameters, strict)


def _parameters(entry: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return inline_refs(entry["inputSchema"])
    except (KeyError, ValueError):
        # Circular, or of a kind that has no written-out form; providers take references as well.
        return dict(entry["inputSchema"])


def acl(agent: str, pool: Pool, tools: AgentTools) -> dict[str, Any]:
    """The second wall, behind the table of names: apcore itself refuses whatever the agent does not hold.

    Modules may call each other, as their authors meant them to; but what reaches outside, or is masked, only where the
    agent holds it or the calling module declares that it needs it.
    """
    held = [pool.tools[name].module_id for name in tools.root]
    # A rule must have a target; an agent without tools has no rule.
    rules = [_rule(["*"], held, f"the tools of {agent}", {"roles": [role_of(agent)]})] if held else []
    local = sorted(tool.module_id for tool in pool.tools.values() if tool.origin == "module")
    if local:
        rules.append(_rule(["$not", "@external"], local, "modules that call modules"))
    rules += [
        _rule([tool.module_id], sorted(tool.dependencies), f"declared by {tool.module_id}")
        for tool in pool.tools.values()
        if tool.dependencies
    ]
    return {"version": "1.0", "default_effect": "deny", "rules": rules}


def _rule(
    callers: list[str], targets: list[str], description: str, conditions: dict[str, Any] | None = None
) -> dict[str, Any]:
    rule = {"description": description, "callers": callers, "targets": targets, "effect": "allow"}
    return rule | ({"conditions": conditions} if conditions else {})


def policy(pool: Pool, tools: AgentTools) -> dict[str, Any]:
    """Strict, because without it apcore runs what wants approval when there is nobody to ask."""
    gated = [pool.tools[name] for name in tools.root if pool.tools[name].needs_approval]
    rules = [{"pattern": tool.module_id, "requires_approval": True, "reason": _reason(tool)} for tool in gated]
    return {"strict": True, "rules": rules}


def _reason(tool: PoolTool) -> str:
    return {"http": "a request that changes something", "mcp": f"a write on server {tool.server}"}.get(
        tool.origin, "its module asks for approval"
    )


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
