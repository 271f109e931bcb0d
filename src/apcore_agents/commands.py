"""The commands about agents."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click

from apcore_agents.grants import changed_grants, read_grants
from apcore_agents.lockfile import Lock
from apcore_agents.pool import Pool, build_pool
from apcore_agents.project import Project, read_project
from apcore_agents.resolve import explain as explain_tool
from apcore_agents.resolve import resolve_all
from apcore_agents.rules import Notes
from apcore_agents.settings import BadProject
from apcore_agents.tools import LocalTool
from apcore_host.options import ServeOptions
from apcore_host.process import leave
from apcore_runtime.surface import Surface, load

__all__ = ["agents", "explain", "lock", "serve_agent"]

INVALID, FAILED = 1, 2

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Settings file; default: apcore-mcp.toml, or pyproject.toml, in this directory or above.",
)
generated_option = click.option(
    "--generated",
    type=click.Path(path_type=Path, file_okay=False),
    default="generated",
    show_default=True,
    help="Directory of the last build, which says what the project's own tools are.",
)


@click.command()
@click.argument("servers", nargs=-1)
@click.option("--yes", is_flag=True, help="Do not ask before a server is started or contacted.")
@config_option
def lock(servers: tuple[str, ...], yes: bool, config: Path | None) -> None:
    """Write down what the tools of external servers are.

    This starts the programs and contacts the addresses that .mcp.json names; no other command does.
    """
    from apcore_agents.locking import changes, lock_servers
    from apcore_agents.secrets import Secrets

    with failures_explained():
        project = _project(config)
        chosen = _chosen(project, servers)
        if not yes:
            _confirm(project, chosen)
        locked = lock_servers(project, chosen, Secrets(project.tables.secrets, project.root))
        _write(project.root / project.tables.mcp.lock, locked.lock.to_json())
    for line in changes(locked):
        click.echo(line)
    click.echo(_summary(locked.lock, project), err=True)


@click.command()
@click.argument("agent")
@click.argument("tool")
@generated_option
@config_option
def explain(agent: str, tool: str, generated: Path, config: Path | None) -> None:
    """Tell whether AGENT has TOOL, and which rule decided.  Exit code 0: it has; 1: it has not."""
    with failures_explained():
        project = _project(config)
        decision = explain_tool(project, _pool(project, generated), agent, tool)
    click.echo(str(decision))
    sys.exit(0 if decision.is_allowed else INVALID)


@click.group()
def agents() -> None:
    """See and compare what agents may use."""


@agents.command("list")
@generated_option
@config_option
def list_agents(generated: Path, config: Path | None) -> None:
    """List the agents with their tools."""
    with failures_explained():
        project = _project(config)
        resolved = resolve_all(project, _pool(project, generated), Notes(strict=project.tables.agents.strict))
    for name, tools in resolved.items():
        click.echo(f"{name}: {len(tools.root)} tools")
        for tool in tools.root:
            click.echo(f"  {tool}")


@agents.command("diff")
@click.argument("old", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.argument("new", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--exit-code", is_flag=True, help="Exit with 1 when anything differs.")
def diff_agents(old: Path, new: Path, exit_code: bool) -> None:
    """List what agents gained (+) and lost (-) between two builds, what changed (~), and what no longer asks (!)."""
    with failures_explained():
        lines = list(changed_grants(read_grants(old), read_grants(new)))
    for line in lines:
        click.echo(line)
    sys.exit(INVALID if lines and exit_code else 0)


def serve_agent(surface: Surface, agent: str, read_options: Callable[[], ServeOptions]) -> None:
    """What `apcore-mcp serve GENERATED --agent NAME` does; `*` is every agent, which takes HTTP."""
    from apcore_agents.serving import run_agent, run_agents

    with failures_explained():
        options = read_options()
        serve = run_agent if options.transport == "stdio" else run_agents
        serve(surface, agent, options)
    leave()


def _project(config: Path | None) -> Project:
    found = config or _nearest(Path.cwd())
    if found is None:
        raise BadProject("there is no apcore-mcp.toml or pyproject.toml here or above")
    return read_project(found)


def _nearest(start: Path) -> Path | None:
    names = ("apcore-mcp.toml", "pyproject.toml")
    found = (place / name for place in (start, *start.parents) for name in names)
    return next((path for path in found if path.is_file()), None)


def _pool(project: Project, generated: Path) -> Pool:
    surface = load(generated)
    local = [LocalTool(surface.tool(name), name) for name in surface.names]
    return build_pool(project, local, Notes(strict=project.tables.agents.strict))


def _chosen(project: Project, servers: tuple[str, ...]) -> list[str]:
    for alias in servers:
        if alias not in project.servers:
            raise BadProject(f"{project.tables.mcp.config} has no server {alias!r}")
    return list(servers) or list(project.servers)


def _confirm(project: Project, chosen: list[str]) -> None:
    for alias in chosen:
        server = project.servers[alias]
        verb = "contact" if server.source["type"] != "stdio" else "run"
        click.confirm(f"{alias}: {verb} {server.described()} ?", abort=True, err=True)


def _write(path: Path, text: str) -> None:
    """All of it or nothing: half a lock would withhold everything."""
    handle, name = tempfile.mkstemp(prefix=".lock-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _summary(lock: Lock, project: Project) -> str:
    tools = [tool for server in lock.servers.values() for tool in server.tools.values()]
    refused = sum(tool.is_refused for tool in tools)
    return f"{project.tables.mcp.lock}: {len(lock.servers)} servers, {len(tools)} tools, {refused} refused"


@contextmanager
def failures_explained() -> Iterator[None]:
    from apcore_agents.locking import LockFailed

    try:
        yield
    except (ValueError, LookupError) as error:
        _fail(str(error), INVALID)
    except (LockFailed, OSError) as error:
        _fail(str(error), FAILED)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)
