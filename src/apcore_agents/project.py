"""A project with agents: its settings, its servers, its lock and its agents, read together and without side effects."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from apcore_agents import rules
from apcore_agents.canonical import digest
from apcore_agents.lockfile import BadLock, Lock, read_lock
from apcore_agents.profiles import AgentProfile, read_profiles
from apcore_agents.rules import Notes
from apcore_agents.servers import HttpServer, Server, StdioServer, read_servers
from apcore_agents.settings import TABLES, BadProject, ProjectTables, explain_invalid

__all__ = ["Project", "read_project"]

# The shapes of credentials that are commonly pasted, and a header that can hold nothing else.
_CREDENTIAL = re.compile(
    r"\b(sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|xox[abpr]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{16}"
    r"|glpat-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.)"
)
_SECRET_HEADERS = {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"}
_SECRET_VARIABLE = re.compile(r"(TOKEN|SECRET|PASSWORD|API_?KEY|PRIVATE_?KEY)$", re.IGNORECASE)
_REFERENCE = re.compile(r"secret://[a-z][a-z0-9_]*|\$\{[^}]*\}")


@dataclass(frozen=True, slots=True)
class Project:
    """`lock` is None when there is none, and a text when it cannot be believed."""

    config: Path
    tables: ProjectTables
    servers: dict[str, Server]
    lock: Lock | str | None
    profiles: tuple[AgentProfile, ...]

    @property
    def root(self) -> Path:
        return self.config.parent

    @property
    def fingerprint(self) -> str:
        """Changes when anything changes that could give an agent another tool, or a tool another behaviour."""
        return digest(
            {
                "tables": self.tables.model_dump(mode="json", by_alias=True),
                "servers": {alias: server.source_digest for alias, server in self.servers.items()},
                "lock": self.lock.to_json() if isinstance(self.lock, Lock) else self.lock,
                "agents": {profile.name: profile.grants for profile in self.profiles},
            }
        )

    def max_depth(self, profile: AgentProfile) -> int:
        return self.tables.agents.max_depth if profile.max_depth is None else profile.max_depth

    def check(self, notes: Notes) -> None:
        """Report what is wrong with the configuration itself."""
        for place, text in _texts_of(self):
            if _CREDENTIAL.search(text):
                notes.add(rules.SECRET_LITERAL, f"{place} holds what looks like a credential", file=place.split(":")[0])
        for place in _unprotected(self):
            notes.add(rules.SECRET_LITERAL, f"{place} is written out", file=place.split(":")[0])
        for alias, server in self.servers.items():
            if not server.is_pinned:
                notes.add(rules.SERVER_UNPINNED, f"server {alias!r} runs {server.described()}", file=_mcp_file(self))


def read_project(config: Path) -> Project:
    tables = _tables(config)
    servers = read_servers(config.parent / tables.mcp.config)
    for alias in tables.mcp.servers:
        if alias not in servers:
            raise BadProject(f"{config}: mcp.servers.{alias}: {tables.mcp.config} has no server of this name")
    for name, secret in tables.secrets.items():
        for holder in secret.allow:
            if not _is_holder(holder, tables, servers):
                raise BadProject(f"{config}: secrets.{name}.allow: there is no {holder}")
    return Project(config, tables, servers, _lock(config.parent / tables.mcp.lock), _profiles(config, tables))


def _profiles(config: Path, tables: ProjectTables) -> tuple[AgentProfile, ...]:
    return read_profiles(config.parent, tables.agents)


def _lock(path: Path) -> Lock | str | None:
    try:
        return read_lock(path)
    except BadLock as error:
        return str(error)


def _tables(config: Path) -> ProjectTables:
    known = {name: value for name, value in _table_of(config).items() if name in TABLES}
    try:
        return ProjectTables.model_validate(known)
    except ValidationError as error:
        raise explain_invalid(config, error) from error


def _table_of(config: Path) -> dict[str, Any]:
    try:
        document: Any = tomllib.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadProject(f"{config} cannot be read: {error}") from error
    if config.name == "pyproject.toml":
        document = document.get("tool", {}).get("apcore-mcp", {})
    return document if isinstance(document, dict) else {}


def _is_holder(holder: str, tables: ProjectTables, servers: dict[str, Server]) -> bool:
    kind, _, name = holder.partition(".")
    return name in (tables.http if kind == "http" else servers if kind == "mcp" else ())


def _mcp_file(project: Project) -> str:
    return project.tables.mcp.config


def _texts_of(project: Project) -> Iterator[tuple[str, str]]:
    for name, service in project.tables.http.items():
        for text in (service.base_url, *service.headers.values()):
            yield f"{project.config.name}: http.{name}", text
    for alias, server in project.servers.items():
        for text in _server_texts(server):
            yield f"{_mcp_file(project)}: {alias}", text


def _server_texts(server: Server) -> list[str]:
    if isinstance(server, StdioServer):
        return [server.command, *server.args, *server.env.values()]
    return [server.url, *server.headers.values()]


def _unprotected(project: Project) -> Iterator[str]:
    """Headers and variables that hold nothing but credentials, and refer to none."""
    for name, service in project.tables.http.items():
        for header, value in service.headers.items():
            if header.lower() in _SECRET_HEADERS and not _REFERENCE.search(value):
                yield f"{project.config.name}: http.{name}.headers.{header}"
    for alias, server in project.servers.items():
        values = server.headers if isinstance(server, HttpServer) else server.env
        for key, value in values.items():
            secret = key.lower() in _SECRET_HEADERS if isinstance(server, HttpServer) else _SECRET_VARIABLE.search(key)
            if secret and value and not _REFERENCE.search(value):
                yield f"{_mcp_file(project)}: {alias}.{key}"
