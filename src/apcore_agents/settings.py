"""What `apcore-mcp.toml`, or `[tool.apcore-mcp]`, says about agents, servers, HTTP tools and secrets.

An unknown key is refused everywhere: in a file that governs, a slip of the pen must not pass for a rule.
"""

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

__all__ = [
    "TABLES",
    "AgentsTable",
    "BadProject",
    "Duration",
    "HttpOperation",
    "HttpService",
    "McpTable",
    "ProjectTables",
    "SecretSource",
    "ServerPolicy",
    "explain_invalid",
]

# The keys of the settings file that are read here, and by nobody else.
TABLES = ("agents", "http", "mcp", "secrets")

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
MUTATING_METHODS = ("POST", "PUT", "PATCH", "DELETE")
REDIRECT_LIMIT = 3
# A shorter one would be found, and masked, in texts that have nothing to do with it.
SHORTEST_SECRET = 8

_NAME = re.compile("[a-z][a-z0-9_]{0,62}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
# Set per message by HTTP itself, or able to change where a request ends up.
_RESERVED_HEADERS = {"connection", "content-length", "expect", "host", "te", "transfer-encoding", "upgrade"}
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


class BadProject(ValueError):
    """A project whose configuration, or what was built from it, cannot be used."""


def parse_duration(value: Any) -> Any:
    """`20s`, `5m` or a number of seconds."""
    if isinstance(value, str):
        found = _DURATION.fullmatch(value)
        if not found:
            raise ValueError(f"{value!r} is not a duration such as 500ms, 20s, 5m or 1h")
        return float(found[1]) * _SECONDS[found[2]]
    return value


Duration = Annotated[float, BeforeValidator(parse_duration), Field(gt=0, le=86_400)]


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class AgentsTable(Table):
    paths: tuple[str, ...] = ("agents/*.md", "agents/*.yaml", "agents/*.toml")
    max_depth: int = Field(default=2, ge=0, le=16)
    # Directories with agents written for Claude Code.
    imports: tuple[str, ...] = Field(default=(), alias="import")
    strict: bool = True


class ServerPolicy(Table):
    """What we allow one server of .mcp.json; whatever it says of itself is no evidence."""

    # Which of its tools may be used at all: none, unless they are named here.
    tools: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    readonly: tuple[str, ...] = ()
    approval: Literal["never", "writes", "always"] = "writes"
    timeout: Duration = 30.0
    recheck: Duration = 300.0
    trust_annotations: bool = False


class McpTable(Table):
    config: str = ".mcp.json"
    lock: str = "mcp.lock.json"
    mask: tuple[str, ...] = ()
    servers: dict[str, ServerPolicy] = {}


class HttpOperation(Table):
    method: str
    path: str
    description: str = Field(min_length=1)
    params: dict[str, dict[str, Any]] = {}
    # Which parameters of a mutating request go into the query; for the others every parameter does.
    query: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    approval: Literal["required", "auto"] | None = None

    @field_validator("method")
    @classmethod
    def _is_known(cls, method: str) -> str:
        if method.upper() not in SAFE_METHODS + MUTATING_METHODS:
            raise ValueError(f"{method} is not one of {', '.join(SAFE_METHODS + MUTATING_METHODS)}")
        return method.upper()

    @field_validator("path")
    @classmethod
    def _stays_below_its_base(cls, path: str) -> str:
        if (
            not path.isascii()
            or "://" in path
            or path.startswith(("/", "\\"))
            or re.search(r"[?#\\\s]|(^|/)\.\.?(/|$)", path)
        ):
            raise ValueError("must be relative ASCII, without a query, a fragment or dot segments")
        return path

    @model_validator(mode="after")
    def _names_agree(self) -> "HttpOperation":
        for name in (*self.placeholders, *self.query, *self.optional):
            if name not in self.params:
                raise ValueError(f"{name!r} is not one of its params")
        if unfit := set(self.placeholders) & {*self.query, *self.optional}:
            raise ValueError(f"{min(unfit)!r} is part of the path")
        return self

    @property
    def placeholders(self) -> list[str]:
        return _PLACEHOLDER.findall(self.path)

    @property
    def is_safe(self) -> bool:
        return self.method in SAFE_METHODS

    @property
    def needs_approval(self) -> bool:
        return self.approval == "required" or (self.approval is None and not self.is_safe)

    @property
    def input_schema(self) -> dict[str, Any]:
        required = [
            name for name, schema in self.params.items() if name not in self.optional and "default" not in schema
        ]
        schema = {"type": "object", "properties": dict(self.params), "additionalProperties": False}
        return schema | ({"required": required} if required else {})


class HttpService(Table):
    base_url: str
    headers: dict[str, str] = {}
    # Networks that are not public and may be reached nevertheless.
    allow_private: tuple[str, ...] = ()
    max_bytes: int = Field(default=65_536, ge=1, le=16 * 1024 * 1024)
    redirects: int = Field(default=0, ge=0, le=REDIRECT_LIMIT)
    timeout: Duration = 10.0
    operations: dict[str, HttpOperation] = {}

    @model_validator(mode="before")
    @classmethod
    def _gather_operations(cls, values: Any) -> Any:
        """`[http.tickets.get_ticket]` is an operation; so is every table that is not an option of the service."""
        if not isinstance(values, Mapping) or "operations" in values:
            return values
        operations = {key: value for key, value in values.items() if isinstance(value, dict) and key != "headers"}
        return {key: value for key, value in values.items() if key not in operations} | {"operations": operations}

    @field_validator("operations")
    @classmethod
    def _are_named(cls, operations: dict[str, HttpOperation]) -> dict[str, HttpOperation]:
        return _named(operations)

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not re.fullmatch("[A-Za-z0-9-]+", name) or name.lower() in _RESERVED_HEADERS:
                raise ValueError(f"{name!r} is not a header to be set here")
            if not value.isprintable() or not value.isascii():
                raise ValueError(f"the value of {name} has characters that no header may have")
        return headers

    @field_validator("allow_private")
    @classmethod
    def _are_networks(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(ipaddress.ip_network(network)) for network in networks)

    @model_validator(mode="after")
    def _has_a_fixed_origin(self) -> "HttpService":
        problem = origin_problem(self.base_url, self.networks)
        if problem:
            raise ValueError(f"base_url {problem}")
        return self

    @property
    def networks(self) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        return [ipaddress.ip_network(network) for network in self.allow_private]


class SecretSource(Table):
    sources: tuple[str, ...] = Field(alias="from", min_length=1)
    # The only holders that may have it: `http.<service>` or `mcp.<server>`.
    allow: tuple[str, ...] = ()

    @field_validator("sources")
    @classmethod
    def _are_known(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        for source in sources:
            if not re.fullmatch("(env|file|keyring):.+", source):
                raise ValueError(f"{source!r} is not env:NAME, file:PATH or keyring:SERVICE/NAME")
        return sources


class ProjectTables(Table):
    agents: AgentsTable = AgentsTable()
    mcp: McpTable = McpTable()
    http: dict[str, HttpService] = {}
    secrets: dict[str, SecretSource] = {}

    @field_validator("http", "secrets")
    @classmethod
    def _are_named(cls, tables: dict[str, Any]) -> dict[str, Any]:
        return _named(tables)


def _named(tables: dict[str, Any]) -> dict[str, Any]:
    for name in tables:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} must be a lower-case word of a-z, 0-9 and _")
    return tables


def origin_problem(url: str, networks: list[Any]) -> str | None:
    """What keeps a URL from being the one fixed place that a tool talks to."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        return f"cannot be read: {error}"
    if not url.isascii() and host.isascii():
        return "must be written in ASCII"
    if parts.username is not None or parts.password is not None:
        return "must not carry credentials; put secret://name into a header"
    if parts.query or parts.fragment or "?" in url or "#" in url:
        return "must not have a query or a fragment"
    if re.search(r"(^|/)\.\.?(/|$)|\\|%", parts.path):
        return "must not have dot segments or escapes in its path"
    if problem := host_problem(host):
        return problem
    if parts.scheme == "http":
        address = _address(host)
        reachable = address is not None and address.is_loopback and any(address in network for network in networks)
        return None if reachable else "must be https, or http to a loopback address listed in allow_private"
    return None if parts.scheme == "https" else "must be https"


def host_problem(host: str) -> str | None:
    if not host:
        return "has no host"
    if not host.isascii():
        return "must give an international host name in its ASCII form, xn--..."
    if _address(host) is not None:
        return None
    # A resolver reads `2130706433` and `0x7f.1` as addresses, whatever they look like to a reviewer.
    if re.fullmatch(r"(0x[0-9a-f]*|\d+)", host.rstrip(".").rpartition(".")[2], re.IGNORECASE):
        return "has a host that is an address in disguise"
    return None if re.fullmatch("[a-z0-9._-]+", host, re.IGNORECASE) else "has an invalid host"


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def explain_invalid(path: Path, error: ValidationError) -> BadProject:
    """One line for the first of pydantic's complaints: where, and what."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "settings"
    message = "unknown key" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
    return BadProject(f"{path}: {place}: {message}")
