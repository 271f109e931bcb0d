"""What can be chosen about a server, in one record."""

import importlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apcore import Identity

__all__ = ["DEFAULT_NAME", "LOG_LEVELS", "TRANSPORTS", "Callback", "ServeOptions"]

DEFAULT_NAME = "apcore-mcp"
TRANSPORTS = ("stdio", "streamable-http", "sse")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

Callback = Callable[[], Awaitable[None] | None]


def _option(default: Any, help: str, **how: Any) -> Any:
    """A field that the command line offers too; `how` says what its flag has beyond the field's type."""
    return field(default=default, metadata={"help": help, **how})


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    transport: str = _option("stdio", "MCP transport.", choices=TRANSPORTS)
    host: str = _option("127.0.0.1", "Address to listen on (HTTP).")
    port: int = _option(8000, "Port to listen on, 1-65535 (HTTP).")
    name: str = _option(DEFAULT_NAME, "Server name, at most 255 characters; a build has its own.")
    version: str | None = _option(None, "Server version; else the build's, else this package's.")
    on_startup: Callback | None = None
    on_shutdown: Callback | None = None
    tags: Sequence[str] | None = _option(None, "Offer only modules that have this tag; may be repeated.", flag="tag")
    prefix: str | None = _option(None, "Offer only modules whose id begins so.")
    log_level: str | None = _option(None, "Log verbosity.", choices=LOG_LEVELS, assumed="INFO")
    dynamic: bool = _option(False, "Follow what is registered and unregistered while serving.")
    validate_inputs: bool = _option(False, "Hold arguments to the published schema, beside the module's own model.")
    explorer: bool = _option(False, "Serve the tool explorer (HTTP).")
    explorer_prefix: str = _option("/explorer", "Where the explorer is.")
    allow_execute: bool = _option(False, "Let the explorer run tools.")
    metrics: bool = _option(False, "Serve Prometheus metrics at /metrics (HTTP).")
    stateless: bool = _option(False, "Keep no session between requests (streamable HTTP).")
    json_response: bool = _option(False, "Answer with JSON instead of event streams (streamable HTTP).")
    allow_hosts: Sequence[str] | None = _option(None, "Accept this Host beside loopback names.", flag="allow-host")
    allow_origins: Sequence[str] | None = _option(None, "Accept this Origin beside loopback ones.", flag="allow-origin")
    # Who calls over stdio; on HTTP the verified token says so.
    identity: "Identity | None" = None
    # The MCP SDK's own `TokenVerifier` and `AuthSettings`.
    token_verifier: Any = None
    auth: Any = None
    tree_store: str = _option("memory:", "Where the tree tools keep their data: memory: or sqlite:PATH.")
    tree_config: str | None = _option(None, "TOML file: the tree's payload types, rulesets, limits, read-only mode.")

    def __post_init__(self) -> None:
        object.__setattr__(self, "transport", self.transport.lower())
        self._check_transport()
        self._check_identity()
        self._check_filters()
        self._check_tree()
        object.__setattr__(self, "explorer_prefix", self.explorer_prefix.rstrip("/"))
        if self.log_level is not None and self.log_level.upper() not in LOG_LEVELS:
            raise ValueError(f"Unknown log level: '{self.log_level}'. Must be one of: {', '.join(LOG_LEVELS)}")
        for callback in ("on_startup", "on_shutdown"):
            if not (getattr(self, callback) is None or callable(getattr(self, callback))):
                raise TypeError(f"{callback} must be callable or None")

    @property
    def bundles(self) -> dict[str, dict[str, str]]:
        """What the tools that come with apcore-mcp are opened with, by bundle."""
        config = {"config": self.tree_config} if self.tree_config else {}
        return {"tree": {"store": self.tree_store, **config}}

    def _check_tree(self) -> None:
        """Here and not at the first call, which would be somebody's."""
        kind, _, path = self.tree_store.partition(":")
        if self.tree_store != "memory:" and not (kind == "sqlite" and path):
            raise ValueError(f"tree_store must be memory: or sqlite:PATH, got '{self.tree_store}'")
        if path and not Path(path).parent.is_dir():
            raise ValueError(f"tree_store: there is no directory {Path(path).parent}")
        if self.tree_config is not None:
            # The tree is an extra, and its file its own to understand.
            try:
                configuration = importlib.import_module("apcore_tree.configuration")
            except ImportError as error:
                raise ValueError(f"tree_config needs `pip install 'apcore-mcp[tree]'`: {error}") from error
            configuration.read_configuration(Path(self.tree_config))

    def _check_transport(self) -> None:
        if self.transport not in TRANSPORTS:
            raise ValueError(f"Unknown transport: '{self.transport}'. Must be one of: {', '.join(TRANSPORTS)}")
        if self.transport == "stdio":
            return
        if not self.host:
            raise ValueError("Host must not be empty")
        if not 1 <= self.port <= 65535:
            raise ValueError(f"Port must be between 1 and 65535, got {self.port}")
        if not self.explorer_prefix.startswith("/"):
            raise ValueError("explorer_prefix must start with '/'")

    def _check_identity(self) -> None:
        if not self.name:
            raise ValueError("name must not be empty")
        if len(self.name) > 255:
            raise ValueError("name must not exceed 255 characters")
        if self.version == "":
            raise ValueError("version must not be empty")

    def _check_filters(self) -> None:
        if self.tags is not None and not all(self.tags):
            raise ValueError("Tag values must not be empty")
        if self.prefix == "":
            raise ValueError("prefix must not be empty")
