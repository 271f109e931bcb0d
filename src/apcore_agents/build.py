"""The part of a build that is about agents, as one function over what the compiler has found."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from apcore_agents.emit import AgentArtifact, emit_agents
from apcore_agents.pool import Pool, build_pool
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


def build_agents(config: Path, local: Iterable[LocalTool], config_from_out: str | None = None) -> AgentBuild:
    """Compile the agents of a project; contacts nobody and starts nothing."""
    project = read_project(config)
    notes = Notes(strict=project.tables.agents.strict)
    project.check(notes)
    pool = build_pool(project, local, notes)
    agents = resolve_all(project, pool, notes)
    artifacts = tuple(emit_agents(project, pool, agents, notes, config_from_out))
    return AgentBuild(project, pool, agents, artifacts, notes)
