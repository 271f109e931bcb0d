"""Open what a build wrote about agents, and put together what runs it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from apcore import ACL, Executor, Registry
from apcore.policy import ExecutionPolicy

from apcore_agents.approvals import AgentApprovals, ApprovalLedger
from apcore_agents.coordination import AgentRunner, ListAvailableAgents, SpawnAgents
from apcore_agents.emit import INDEX, INDEX_VERSION
from apcore_agents.external import ExternalTool
from apcore_agents.http_tools import HttpTool, ServiceClient
from apcore_agents.pool import Pool, build_pool
from apcore_agents.project import Project, read_project
from apcore_agents.resolve import AgentTools
from apcore_agents.rules import Notes
from apcore_agents.runtime import Agent, AgentRuntime
from apcore_agents.secrets import Secrets
from apcore_agents.settings import BadProject, ServerPolicy
from apcore_agents.supervision import Link, open_connection
from apcore_agents.tools import COORDINATION

__all__ = ["StaleBuild", "load_runtime"]

DEPTHS = ("root", "sub", "leaf")


class StaleBuild(BadProject):
    """What was built is not what is configured."""


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
        raise StaleBuild(f"{generated} holds no agents: give the settings an [agents] table and build again") from error
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
