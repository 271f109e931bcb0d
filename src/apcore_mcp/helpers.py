"""What a module may ask of the MCP client that called it.

Outside MCP both helpers do nothing, so that a module can use them wherever it runs.
"""

from typing import Any

MCP_PROGRESS_KEY = "_mcp_progress"
MCP_ELICIT_KEY = "_mcp_elicit"
MCP_SESSION_KEY = "_mcp_session"


async def report_progress(
    context: Any, progress: float, total: float | None = None, message: str | None = None
) -> None:
    """Tell the client how far the call has come."""
    send = _from_context(context, MCP_PROGRESS_KEY)
    if send is not None:
        await send(progress, total, message)


async def elicit(context: Any, message: str, requested_schema: dict[str, Any] | None = None) -> Any | None:
    """Ask the user; the answer's content, or None when there is nobody to ask or the user declines."""
    ask = _from_context(context, MCP_ELICIT_KEY)
    return None if ask is None else await ask(message, requested_schema)


def _from_context(context: Any, key: str) -> Any:
    data = getattr(context, "data", None)
    return data.get(key) if isinstance(data, dict) else None
