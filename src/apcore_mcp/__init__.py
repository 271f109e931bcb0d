"""Expose apcore modules to agents: an MCP server, OpenAI tools, and the compiler's shared adapters."""

import importlib
from typing import TYPE_CHECKING, Any

from apcore_mcp.helpers import MCP_ELICIT_KEY, MCP_PROGRESS_KEY, elicit, report_progress

if TYPE_CHECKING:
    from apcore_mcp.adapters.openai import to_openai_tools
    from apcore_mcp.serving import async_serve, serve

__version__ = "0.1.0"

__all__ = [
    "MCP_ELICIT_KEY",
    "MCP_PROGRESS_KEY",
    "__version__",
    "async_serve",
    "elicit",
    "report_progress",
    "serve",
    "to_openai_tools",
]

# Imported at first use: a module that only reports progress should not load a server.
_HOME = {
    "async_serve": "apcore_mcp.serving",
    "serve": "apcore_mcp.serving",
    "to_openai_tools": "apcore_mcp.adapters.openai",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
