"""What changed between two builds, for whoever has to agree to it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apcore_agents.emit import INDEX

__all__ = ["Grants", "NoAgents", "changed_grants", "read_grants"]


class NoAgents(ValueError):
    """The directory was not built with agents."""


@dataclass(frozen=True, slots=True)
class Grants:
    """The tools of each agent with their definitions as the agent sees them, and which of them ask first."""

    tools: dict[str, dict[str, Any]]


def read_grants(directory: Path) -> Grants:
    try:
        index = json.loads((directory / INDEX).read_text(encoding="utf-8"))
        return Grants({agent: _tools(directory, agent) for agent in index["agents"]})
    except (OSError, ValueError, KeyError) as error:
        raise NoAgents(f"{directory} holds no agents: {type(error).__name__}: {error}") from error


def _tools(directory: Path, agent: str) -> dict[str, Any]:
    listed = json.loads((directory / "agents" / agent / "mcp_tools.json").read_text(encoding="utf-8"))
    return {tool["name"]: tool for tool in listed["tools"]}


def changed_grants(old: Grants, new: Grants) -> Iterator[str]:
    """One line a change: `+` gained, `-` lost, `~` another definition, `!` no longer asks."""
    for agent in sorted({*old.tools, *new.tools}):
        before, after = old.tools.get(agent, {}), new.tools.get(agent, {})
        if agent not in old.tools or agent not in new.tools:
            yield f"{'+' if agent in new.tools else '-'} agent {agent}"
        yield from (f"+ {agent}: {name}" for name in after if name not in before)
        yield from (f"- {agent}: {name}" for name in before if name not in after)
        for name in after:
            if name in before and before[name] != after[name]:
                yield f"{'!' if _asks(before[name]) and not _asks(after[name]) else '~'} {agent}: {name}"


def _asks(tool: dict[str, Any]) -> bool:
    return bool(tool.get("_meta", {}).get("apcore/requiresApproval"))
