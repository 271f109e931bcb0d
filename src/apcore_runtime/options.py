"""What can be chosen about a server, in one record."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apcore import Identity

__all__ = ["DEFAULT_NAME", "LOG_LEVELS", "TRANSPORTS", "Callback", "ServeOptions"]

DEFAULT_NAME = "apcore-mcp"
TRANSPORTS = ("stdio", "streamable-http", "sse")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

Callback = Callable[[], Awaitable[None] | None]


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Everything that can be chosen about a server."""

    transport: str = "stdio"
    host: str = "127.0.0.1"
    port: int = 8000
    name: str = DEFAULT_NAME
    version: str | None = None
    on_startup: Callback | None = None
    on_shutdown: Callback | None = None
    tags: list[str] | None = None
    prefix: str | None = None
    log_level: str | None = None
    # Follow what is registered and unregistered while serving.
    dynamic: bool = False
    # Hold arguments to the published schema as well as to the module's own model.
    validate_inputs: bool = False
    explorer: bool = False
    explorer_prefix: str = "/explorer"
    # Let the explorer run tools.
    allow_execute: bool = False
    metrics: bool = False
    stateless: bool = False
    json_response: bool = False
    allow_hosts: list[str] | None = None
    allow_origins: list[str] | None = None
    # Who calls over stdio; on HTTP the verified token says so.
    identity: "Identity | None" = None
    # The MCP SDK's own `TokenVerifier` and `AuthSettings`.
    token_verifier: Any = None
    auth: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "transport", self.transport.lower())
        self._check_transport()
        self._check_identity()
        self._check_filters()
        object.__setattr__(self, "explorer_prefix", self.explorer_prefix.rstrip("/"))
        if self.log_level is not None and self.log_level.upper() not in LOG_LEVELS:
            raise ValueError(f"Unknown log level: '{self.log_level}'. Must be one of: {', '.join(LOG_LEVELS)}")
        for callback in ("on_startup", "on_shutdown"):
            if not (getattr(self, callback) is None or callable(getattr(self, callback))):
                raise TypeError(f"{callback} must be callable or None")

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
