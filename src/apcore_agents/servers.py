"""The servers of `.mcp.json`, as other programs write and read it; no key of ours is ever added to it."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from apcore_agents.canonical import digest
from apcore_agents.names import is_server_alias
from apcore_agents.settings import BadProject, host_problem

__all__ = ["HttpServer", "Server", "StdioServer", "VariableUnset", "read_servers"]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_PACKAGE_RUNNERS = {"npx", "uvx", "bunx", "pipx", "pnpm", "docker"}
_KEYS = {
    "stdio": {"type", "command", "args", "env", "cwd"},
    "http": {"type", "url", "headers"},
}


class VariableUnset(LookupError):
    """A variable that the configuration names has no value; its name sent as a credential is never right."""


@dataclass(frozen=True, slots=True)
class StdioServer:
    alias: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None

    @property
    def source(self) -> dict[str, Any]:
        """What a lock shows of the entry: the names of environment variables, not what they are set to."""
        known = {"type": "stdio", "command": self.command, "args": list(self.args), "env": sorted(self.env)}
        return known | ({"cwd": self.cwd} if self.cwd else {})

    @property
    def source_digest(self) -> str:
        """Covers the entry as it is written, with `${NAME}` and not its value."""
        return digest(self.source | {"env": dict(self.env)})

    def described(self) -> str:
        return " ".join([self.command, *self.args])

    @property
    def is_pinned(self) -> bool:
        """Whether a package that is fetched has a version; programs that are already there need none."""
        if Path(self.command).name not in _PACKAGE_RUNNERS:
            return True
        packages = [argument for argument in self.args if not argument.startswith("-")]
        return any(re.search(r".(@\d|==|@sha256:|:\d)", package) for package in packages)


@dataclass(frozen=True, slots=True)
class HttpServer:
    alias: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    # The transport that streamable HTTP has replaced.
    is_sse: bool = False

    @property
    def source(self) -> dict[str, Any]:
        kind = "sse" if self.is_sse else "http"
        return {"type": kind, "url": self.url, "headers": sorted(self.headers)}

    @property
    def source_digest(self) -> str:
        return digest(self.source | {"headers": dict(self.headers)})

    def described(self) -> str:
        return self.url

    @property
    def is_pinned(self) -> bool:
        return True


Server = StdioServer | HttpServer


def read_servers(path: Path) -> dict[str, Server]:
    """The servers of a file, which need not be there."""
    if not path.is_file():
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        entries = document["mcpServers"]
        return {alias: _server(alias, entry) for alias, entry in sorted(entries.items())}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = str(error) if isinstance(error, BadProject) else f"{type(error).__name__}: {error}"
        raise BadProject(f"{path}: {reason}") from error


def _server(alias: str, entry: dict[str, Any]) -> Server:
    if not is_server_alias(alias):
        raise BadProject(f"server {alias!r}: a name is at most 32 of a-z, 0-9 and -, beginning with a letter")
    kind = "http" if "url" in entry else "stdio"
    # What other programs add (descriptions, switches of their own) changes nothing about what is run.
    known = {key: value for key, value in entry.items() if key in _KEYS[kind]}
    if kind == "http":
        url, headers = _checked_url(alias, known["url"]), _texts(known.get("headers", {}))
        return HttpServer(alias, url, headers, known.get("type") == "sse")
    if "command" not in entry:
        raise BadProject(f"server {alias!r} has neither a command nor a url")
    args = tuple(str(argument) for argument in known.get("args", ()))
    return StdioServer(alias, str(known["command"]), args, _texts(known.get("env", {})), known.get("cwd"))


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in sorted(values.items())}


def _checked_url(alias: str, url: str) -> str:
    parts = urlsplit(_VARIABLE.sub("x", url))
    if parts.scheme not in ("http", "https") or parts.username or parts.password:
        raise BadProject(f"server {alias!r}: the url must be http or https, without credentials")
    if "${" not in parts.netloc and (problem := host_problem(parts.hostname or "")):
        raise BadProject(f"server {alias!r}: the url {problem}")
    return url


def expand(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Replace `${NAME}` and `${NAME:-default}`."""
    known = os.environ if environment is None else environment

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name in known:
            return known[name]
        if default is None:
            raise VariableUnset(name)
        return default

    return _VARIABLE.sub(value, text)


def variables_in(text: str) -> list[str]:
    return [found[1] for found in _VARIABLE.finditer(text)]
