"""Agents as their authors write them: a Markdown file with front matter, or the same keys in YAML or TOML."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, field_validator

from apcore_agents.settings import AgentsTable, BadProject, Duration, explain_invalid

__all__ = ["AgentProfile", "Limits", "read_profiles"]

_NAME = re.compile("[a-z][a-z0-9]*([-_][a-z0-9]+)*")
# Of Claude Code's keys these are about its own loop, and say nothing about tools.
_FOREIGN_KEYS = ("model", "color", "maxTurns", "permissionMode", "skills", "hooks", "mcpServers", "memory", "effort")


class Limits(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    max_steps: int = Field(default=50, ge=1)
    timeout: Duration = 600.0


class AgentProfile(BaseModel):
    """What one agent may use; `tools` has no default, because an empty list once meant everything elsewhere."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(max_length=64)
    description: str = ""
    tools: tuple[str, ...]
    deny: tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("deny", "disallowedTools"))
    max_depth: int | None = Field(default=None, ge=0, le=16)
    # Which agents it may start; none, unless they are named.
    spawn: tuple[str, ...] = ()
    limits: Limits = Limits()
    # What the agent is told; never part of a digest, since it grants nothing.
    prompt: str = ""
    file: str = ""
    # Written for another program, where a missing list of tools means all of them.
    imported: bool = False
    inherits_tools: bool = False

    @field_validator("name")
    @classmethod
    def _is_a_path_segment(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("must be of a-z and 0-9, parts joined by - or _")
        return name

    @field_validator("tools", "deny", "spawn", mode="before")
    @classmethod
    def _may_be_one_line(cls, value: Any) -> Any:
        # Claude Code separates names with commas.
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @property
    def grants(self) -> dict[str, Any]:
        """The part that decides what the agent can do."""
        return {
            "tools": sorted(set(self.tools)),
            "deny": sorted(set(self.deny)),
            "maxDepth": self.max_depth,
            "spawn": sorted(set(self.spawn)),
            "limits": self.limits.model_dump(),
        }


def read_profiles(root: Path, table: AgentsTable) -> tuple[AgentProfile, ...]:
    """All agents of a project, sorted by name."""
    own = [_read(path, root, imported=False) for path in _found(root, table.paths)]
    imported = [_read(path, root, imported=True) for path in _found(root, [f"{way}/*.md" for way in table.imports])]
    profiles: dict[str, AgentProfile] = {}
    for profile in [*own, *imported]:
        if profile.name in profiles:
            raise BadProject(f"agent {profile.name!r} is in both {profiles[profile.name].file} and {profile.file}")
        profiles[profile.name] = profile
    return tuple(profiles[name] for name in sorted(profiles))


def _found(root: Path, patterns: Iterable[str]) -> list[Path]:
    files = {path for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    return sorted(path for path in files if path.name.lower() != "readme.md")


def _read(path: Path, root: Path, *, imported: bool) -> AgentProfile:
    try:
        values, prompt = _PARSERS[path.suffix](path.read_text(encoding="utf-8"))
    except (KeyError, OSError, ValueError, yaml.YAMLError) as error:
        raise BadProject(f"{path} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise BadProject(f"{path} must hold keys and values")
    values = {"name": path.stem, "prompt": prompt, **values}
    if imported:
        values = _as_imported(values)
    elif "tools" not in values:
        raise BadProject(f"{path}: tools is missing; write `tools: []` for none, or `tools: ['*']` for all")
    try:
        return AgentProfile.model_validate({**values, "file": path.relative_to(root).as_posix()})
    except ValidationError as error:
        raise explain_invalid(path, error) from error


def _as_imported(values: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in values.items() if key not in _FOREIGN_KEYS}
    inherits = kept.get("tools") is None
    return {**kept, "imported": True, "inherits_tools": inherits, "tools": ["*"] if inherits else kept["tools"]}


def _markdown(text: str) -> tuple[Any, str]:
    found = re.match(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)(.*)", text, re.DOTALL | re.MULTILINE)
    if not found:
        raise ValueError("it does not begin with front matter between two lines of ---")
    return yaml.safe_load(found[1]), found[2].strip()


_PARSERS: dict[str, Any] = {
    ".md": _markdown,
    ".yaml": lambda text: (yaml.safe_load(text), ""),
    ".yml": lambda text: (yaml.safe_load(text), ""),
    ".toml": lambda text: (tomllib.loads(text), ""),
}
