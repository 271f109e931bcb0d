"""`mcp.lock.json`: the definitions of external tools as somebody reviewed them.

No clock and no machine is in it, nor the revision of the protocol that happened to be spoken, so that locking the same
servers twice writes the same bytes, and a difference is a change of what a model would be told.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apcore_agents.canonical import digest
from apcore_agents.names import exposed_name, external_module_id
from apcore_agents.screening import Flaw, screen
from apcore_agents.servers import Server

__all__ = ["BadLock", "Listing", "Lock", "LockedServer", "LockedTool", "drift", "read_lock"]

LOCK_VERSION = 1
# What a model or a policy can see.  Icons and _meta are neither, and change often.
FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


class BadLock(ValueError):
    """The lock cannot be believed."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server says of itself, every page of it."""

    tools: list[dict[str, Any]]
    server_info: dict[str, Any] = field(default_factory=dict)
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class LockedTool:
    definition: dict[str, Any]
    digest: str
    module_id: str
    exposed_as: str
    flaws: tuple[Flaw, ...] = ()

    @property
    def name(self) -> str:
        return str(self.definition["name"])

    @property
    def is_refused(self) -> bool:
        return any(flaw.level == "error" for flaw in self.flaws)

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.definition,
            "digest": self.digest,
            "moduleId": self.module_id,
            "exposedAs": self.exposed_as,
            "findings": [flaw.as_dict() for flaw in self.flaws],
        }


@dataclass(frozen=True, slots=True)
class LockedServer:
    source: dict[str, Any]
    source_digest: str
    server_info: dict[str, Any]
    # Instructions would go into a model's prompt; they are watched, and never passed on.
    instructions_digest: str | None
    tools: dict[str, LockedTool]

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "sourceDigest": self.source_digest,
            "serverInfo": self.server_info,
            "instructionsDigest": self.instructions_digest,
            "tools": {name: self.tools[name].as_dict() for name in sorted(self.tools)},
        }


@dataclass(frozen=True, slots=True)
class Lock:
    servers: dict[str, LockedServer] = field(default_factory=dict)

    def to_json(self) -> str:
        servers = {alias: self.servers[alias].as_dict() for alias in sorted(self.servers)}
        document = {"lockVersion": LOCK_VERSION, "servers": servers}
        return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def surface(tool: dict[str, Any]) -> dict[str, Any]:
    return {name: tool[name] for name in FIELDS if tool.get(name) is not None}


def lock_server(server: Server, listing: Listing) -> LockedServer:
    flaws = screen(listing.tools)
    tools = {}
    for tool in listing.tools:
        # A name that is no name, or a number that is no number, has no place in a file that others read.
        if tool.get("name") in flaws and not any(flaw.code in _UNWRITABLE for flaw in flaws[tool["name"]]):
            tools[tool["name"]] = _lock_tool(server.alias, tool, flaws[tool["name"]])
    return LockedServer(
        source=server.source,
        source_digest=server.source_digest,
        server_info={key: listing.server_info[key] for key in ("name", "version") if key in listing.server_info},
        instructions_digest=digest(listing.instructions) if listing.instructions else None,
        tools=tools,
    )


_UNWRITABLE = {"schema-not-json", "too-many-tools", "schema-too-complex", "name-duplicate"}


def _lock_tool(alias: str, tool: dict[str, Any], flaws: list[Flaw]) -> LockedTool:
    definition, name = surface(tool), tool["name"]
    module_id, exposed = external_module_id(alias, name), exposed_name(alias, name)
    return LockedTool(definition, digest(definition), module_id, exposed, tuple(flaws))


def read_lock(path: Path) -> Lock | None:
    """The lock, or None where there is no file; `BadLock` when it does not agree with itself."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise BadLock(f"{path.name} cannot be read: {error}") from error
    try:
        if document["lockVersion"] != LOCK_VERSION:
            raise BadLock(f"{path.name} has version {document['lockVersion']!r}; this program reads {LOCK_VERSION}")
        return Lock({alias: _read_server(alias, entry) for alias, entry in document["servers"].items()})
    except (KeyError, TypeError, AttributeError) as error:
        raise BadLock(f"{path.name} is not a lock: {type(error).__name__}: {error}") from error


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _read_server(alias: str, entry: dict[str, Any]) -> LockedServer:
    return LockedServer(
        source=entry["source"],
        source_digest=entry["sourceDigest"],
        server_info=entry["serverInfo"],
        instructions_digest=entry["instructionsDigest"],
        tools={name: _read_tool(alias, name, tool) for name, tool in entry["tools"].items()},
    )


def _read_tool(alias: str, name: str, entry: dict[str, Any]) -> LockedTool:
    """A tool whose digest, names and findings follow from its definition; anything else was put there by hand."""
    definition = surface(entry)
    # Screened alone: what it has in common with its neighbours stays as the lock says.
    found = {flaw.code for flaw in screen([definition])[name]}
    flaws = tuple(Flaw(flaw["level"], flaw["code"], flaw["text"]) for flaw in entry["findings"])
    expected = (name, digest(definition), external_module_id(alias, name), exposed_name(alias, name))
    if expected != (definition["name"], entry["digest"], entry["moduleId"], entry["exposedAs"]):
        raise BadLock(f"tool {name!r} of server {alias!r} does not agree with its digest")
    if not found <= {flaw.code for flaw in flaws}:
        raise BadLock(f"tool {name!r} of server {alias!r} has lost a finding")
    return LockedTool(definition, entry["digest"], entry["moduleId"], entry["exposedAs"], flaws)


def drift(locked: dict[str, LockedTool], live: list[dict[str, Any]]) -> dict[str, str]:
    """The locked tools that a server no longer offers as they were, and what is different; new ones do not count."""
    offered: dict[str, list[dict[str, Any]]] = {}
    for tool in live:
        offered.setdefault(str(tool.get("name")), []).append(tool)
    return {
        name: reason
        for name, tool in locked.items()
        if (reason := _difference(tool.definition, tool.digest, offered.get(name, [])))
    }


def _difference(definition: dict[str, Any], expected: str, offered: list[dict[str, Any]]) -> str | None:
    if not offered:
        return "removed"
    if len(offered) > 1:
        return "listed twice"
    now = surface(offered[0])
    try:
        if digest(now) == expected:
            return None
    except ValueError:
        return "not JSON"
    return "changed: " + ", ".join(name for name in FIELDS if now.get(name) != definition.get(name))
