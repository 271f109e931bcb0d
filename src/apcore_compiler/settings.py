"""Settings: what the command line, apcore-mcp.toml or [tool.apcore-mcp] say; a flag always wins."""

import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from apcore_compiler.bundles import BUNDLES
from apcore_compiler.rules import RULES, Severity, agent_rules

__all__ = ["BadSettings", "Settings", "defines_agents", "find_settings", "read_settings"]

# Tables of the same file that `apcore_agents` reads, and checks.
AGENT_TABLES = ("agents", "http", "mcp", "secrets")


class BadSettings(ValueError):
    """A settings file that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that changes what a build writes."""

    name: str = "apcore-mcp"
    version: str | None = None
    tags: tuple[str, ...] = ()
    prefix: str | None = None
    strict: Literal["auto", True, False] = "auto"
    embed_annotations: bool = False
    refs: Literal["inline", "keep"] = "inline"
    # Tools that come with this project, compiled in beside the user's own.
    bundles: tuple[str, ...] = ()
    rules: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise BadSettings(problem)

    def _problems(self) -> list[str]:
        return [message for wrong, message in (
            (not self.name, "server name must not be empty"),
            (len(self.name) > 255, "server name must not exceed 255 characters"),
            (self.version == "", "server version must not be empty"),
            (not all(self.tags), "tag values must not be empty"),
            (not all(isinstance(tag, str) for tag in self.tags), "tag values must be strings"),
            (self.prefix == "", "prefix must not be empty"),
            (not set(self.bundles) <= BUNDLES.keys(), f"with takes {', '.join(BUNDLES)}, not {self.bundles!r}"),
            (self.refs not in ("inline", "keep"), "refs must be 'inline' or 'keep'"),
            (self.strict not in ("auto", True, False), "strict must be true, false or 'auto'"),
            *_rule_problems(self.rules),
        ) if wrong]  # fmt: skip

    def options(self) -> dict[str, Any]:
        """What a manifest records: the settings that are not at their default."""
        default = Settings()
        return {
            _key(f.name): list(value) if isinstance(value, tuple) else value
            for f in fields(self)
            if (value := getattr(self, f.name)) != getattr(default, f.name)
        }

    def override(self, **given: Any) -> "Settings":
        """The settings with what was given on the command line; None means not given."""
        return replace(self, **{key: value for key, value in given.items() if value is not None})


def _key(field_name: str) -> str:
    """What a field is called in a file; `with` is a word that Python keeps for itself."""
    return "with" if field_name == "bundles" else field_name.replace("_", "-")


def _rule_problems(levels: dict[str, str]) -> list[tuple[bool, str]]:
    known = {rule.slug: rule for rule in (*RULES, *(agent_rules() if levels else ()))}
    allowed = ("off", *(severity.value for severity in Severity))
    return [
        *((slug not in known, f"there is no rule {slug!r}; see `apcore-mcp rules`") for slug in levels),
        *((slug in known and known[slug].fixed, f"rule {slug!r} is always an error") for slug in levels),
        *(
            (level not in allowed, f"rule {slug!r}: {level!r} is not off, info, warning or error")
            for slug, level in levels.items()
        ),
    ]


def find_settings(start: Path) -> Path | None:
    """The nearest apcore-mcp.toml, or pyproject.toml with a [tool.apcore-mcp] table, from `start` upwards."""
    for directory in (start, *start.parents):
        own, project = directory / "apcore-mcp.toml", directory / "pyproject.toml"
        if own.is_file():
            return own
        if project.is_file():
            return project if _table_of(project) is not None else None
    return None


def read_settings(path: Path | None) -> Settings:
    if path is None:
        return Settings()
    table = {key: value for key, value in (_table_of(path) or {}).items() if key not in AGENT_TABLES}
    known = {_key(f.name): f.name for f in fields(Settings)}
    for key, value in table.items():
        if key not in known:
            raise BadSettings(f"{path}: unknown key {key!r}; known are {', '.join(sorted(known))}")
        _check_type(path, key, value)
    values: dict[str, Any] = {
        known[key]: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    try:
        return Settings(**values)
    except BadSettings as error:
        raise BadSettings(f"{path}: {error}") from error


def defines_agents(path: Path | None) -> bool:
    return path is not None and not (_table_of(path) or {}).keys().isdisjoint(AGENT_TABLES)


_TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "version": (str,),
    "tags": (list,),
    "prefix": (str,),
    "strict": (bool, str),
    "embed-annotations": (bool,),
    "refs": (str,),
    "with": (list,),
    "rules": (dict,),
}


def _check_type(path: Path, key: str, value: Any) -> None:
    if not isinstance(value, _TYPES[key]):
        raise BadSettings(f"{path}: {key} must be a {_TYPES[key][0].__name__}, not {value!r}")


def _table_of(path: Path) -> dict[str, Any] | None:
    """The settings in a file: all of it, or one table of a pyproject.toml, which need not be there."""
    try:
        document: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSettings(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadSettings(f"{path} is not TOML: {error}") from error
    for key in ("tool", "apcore-mcp") if path.name == "pyproject.toml" else ():
        document = document.get(key)
        if document is None:
            return None
        if not isinstance(document, dict):
            raise BadSettings(f"{path}: {key} must be a table, not {document!r}")
    table: dict[str, Any] = document
    return table
