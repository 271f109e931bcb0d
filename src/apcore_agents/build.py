"""The part of a build that is about agents, as one function over what the compiler has found."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from apcore_agents.emit import AgentArtifact, emit_agents
from apcore_agents.pool import Pool, PoolCache
from apcore_agents.project import Project, read_project
from apcore_agents.resolve import AgentTools, resolve_all
from apcore_agents.rules import Notes
from apcore_agents.tools import LocalTool

__all__ = ["AgentBuild", "build_agents"]


@dataclass(frozen=True)
class AgentBuild:
    project: Project
    pool: Pool
    agents: dict[str, AgentTools]
    artifacts: tuple[AgentArtifact, ...]
    notes: Notes


def build_agents(
    config: Path, local: Iterable[LocalTool], config_from_out: str | None = None, pools: PoolCache | None = None
) -> AgentBuild:
    """Compile the agents of a project; contacts nobody and starts nothing.

    Whoever builds again and again keeps the `pools`.
    """
    project = read_project(config)
    pool, found = (pools or PoolCache()).pool(project, local)
    notes = found.copy()
    project.check(notes)
    agents = resolve_all(project, pool, notes)
    artifacts = tuple(emit_agents(project, pool, agents, notes, config_from_out))
    return AgentBuild(project, pool, agents, artifacts, notes)
