"""Projects written to disk, and tools to fill their pools with."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from apcore_agents.build import AgentBuild, build_agents
from apcore_agents.lockfile import Listing, Lock, lock_server
from apcore_agents.project import read_project
from apcore_agents.servers import read_servers
from apcore_agents.tools import LocalTool

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}


def local(*names: str, **entry: Any) -> list[LocalTool]:
    return [LocalTool({"name": name, "description": "Does it.", "inputSchema": OBJECT} | entry, name) for name in names]


def upstream(name: str, description: str = "Does it.", **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": OBJECT} | fields


def agent_file(name: str, tools: Iterable[str], **keys: Any) -> str:
    return "---\n" + json.dumps({"name": name, "tools": list(tools)} | keys) + "\n---\nYou are an agent.\n"


class ProjectFiles:
    """A project in a directory of its own, changed by writing its files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "apcore-mcp.toml"
        self.config.write_text("", encoding="utf-8")

    def settings(self, text: str) -> "ProjectFiles":
        self.config.write_text(text, encoding="utf-8")
        return self

    def agent(self, name: str, tools: Iterable[str], **keys: Any) -> "ProjectFiles":
        return self.write(f"agents/{name}.md", agent_file(name, tools, **keys))

    def servers(self, **entries: dict[str, Any]) -> "ProjectFiles":
        return self.write(".mcp.json", json.dumps({"mcpServers": entries}))

    def write(self, path: str, text: str) -> "ProjectFiles":
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return self

    def lock(self, **tools: list[dict[str, Any]]) -> "ProjectFiles":
        """Lock servers as if they had listed these tools."""
        servers = read_servers(self.root / ".mcp.json")
        locked = {alias: lock_server(servers[alias], Listing(listed)) for alias, listed in tools.items()}
        return self.write("mcp.lock.json", Lock(locked).to_json())

    def build(self, *names: str) -> AgentBuild:
        return build_agents(self.config, local(*names), "../apcore-mcp.toml")

    def read(self) -> Any:
        return read_project(self.config)


def slugs(build: AgentBuild, severity: str | None = None) -> list[str]:
    return [note.rule.slug for note in build.notes if severity in (None, note.severity)]


def files(build: AgentBuild) -> dict[str, str]:
    return {artifact.path: artifact.text for artifact in build.artifacts}
