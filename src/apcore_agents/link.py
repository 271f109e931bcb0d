"""A session with one external server: the only file that knows the MCP client, of either SDK major.

On our side everything is shaped as it is on the wire.  Requests are sent as such, because the SDK's `call_tool` lists
the tools again behind one's back, and validates results by what the server says then instead of what was locked.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import Any

import anyio
import pydantic

from apcore_agents.lockfile import Listing
from apcore_agents.processes import Pipes, launched
from apcore_agents.servers import HttpServer, Server, StdioServer
from apcore_mcp import __version__
from apcore_mcp.server.sdk import SDK, ProtocolError, dump_message, parse_message, types

__all__ = ["Connection", "ConnectionLost", "NeverSent", "ProtocolFault", "connected"]

MAX_PAGES = 64
LIST_CHANGED = "notifications/tools/list_changed"
CANCEL_PATIENCE = 1.0
# The first SDK's way to say that a server has forgotten the session.
SESSION_TERMINATED = 32600

Progress = Callable[[float, float | None, str | None], Awaitable[None]]
Fill = Callable[[str], str]


class NeverSent(Exception):
    """The request has not left this process; it may be sent again."""


class ConnectionLost(Exception):
    """The server went away, and may or may not have done what it was asked."""


class ProtocolFault(Exception):
    """The server answered something else than the protocol has."""


class _Request:
    """A request as the SDKs dump it; arguments pass as they are, nulls included."""

    name_param = None

    def __init__(self, method: str, params: dict[str, Any]) -> None:
        self._method, self._params = method, params

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {"method": self._method, "params": dict(self._params)}


class _Result:
    """Takes a result as it is on the wire."""

    @staticmethod
    def model_validate(result: Any, **_: Any) -> Any:
        return result


class Connection:
    def __init__(self, session: Any, pipes: Pipes | None) -> None:
        self._session, self._pipes = session, pipes

    async def listing(self) -> Listing:
        info, instructions = _introduction(self._session)
        return Listing(await self.tools(), info, instructions)

    async def tools(self) -> list[dict[str, Any]]:
        """Every page; a list that never ends, or turns round, is a fault."""
        tools: list[dict[str, Any]] = []
        cursors: set[str] = set()
        params: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            page = await self._send("tools/list", params)
            found = page.get("tools")
            if not isinstance(found, list) or not all(isinstance(tool, dict) for tool in found):
                raise ProtocolFault("tools/list holds no list of tools")
            tools += found
            cursor = page.get("nextCursor")
            if not cursor:
                return tools
            if cursor in cursors:
                break
            cursors.add(cursor)
            params = {"cursor": cursor}
        raise ProtocolFault("tools/list does not end")

    async def call(self, tool: str, arguments: dict[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        result = await self._send("tools/call", {"name": tool, "arguments": arguments}, progress)
        if not isinstance(result.get("content"), list):
            raise ProtocolFault("the result holds no content")
        return result

    async def _send(self, method: str, params: dict[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        if self._pipes is not None and not self._pipes.is_open:
            raise NeverSent
        # Taken before the first await of the request, which is where the SDK counts on.
        request_id = getattr(self._session, "_request_id", None)
        try:
            result = await self._session.send_request(_Request(method, params), _Result, progress_callback=progress)
        except asyncio.CancelledError:
            await self._cancel(request_id)
            raise
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise NeverSent from error
        except ProtocolError as error:
            raise _translated(error) from error
        except pydantic.ValidationError as error:
            raise ProtocolFault("the result is not what the protocol has") from error
        if not isinstance(result, dict):
            raise ProtocolFault("the result is no object")
        return result

    async def _cancel(self, request_id: Any) -> None:
        """Tell the server to stop; the second SDK does so by itself."""
        if SDK == 2 or request_id is None:
            return
        params = types.CancelledNotificationParams(requestId=request_id, reason="no longer needed")
        notification = types.ClientNotification(types.CancelledNotification(params=params))
        with anyio.CancelScope(shield=True), contextlib.suppress(Exception), anyio.move_on_after(CANCEL_PATIENCE):
            await self._session.send_notification(notification)


def _translated(error: Any) -> Exception:
    code, message = error.error.code, str(error.error.message)
    # The SDKs say so with a code that servers use for errors of their own.
    lost = (code == types.CONNECTION_CLOSED and message == "Connection closed") or code == SESSION_TERMINATED
    return ConnectionLost() if lost else ProtocolFault(message[:500])


def _introduction(session: Any) -> tuple[dict[str, Any], str | None]:
    """What a server calls itself, and what it would like a model to be told."""
    said = session if SDK == 2 else session.introduction
    info = said.server_info if SDK == 2 else said.serverInfo
    return info.model_dump(by_alias=True, exclude_none=True, mode="json") if info else {}, said.instructions


@asynccontextmanager
async def connected(
    server: Server,
    fill: Fill,
    *,
    on_change: Callable[[], None] = lambda: None,
    on_end: Callable[[], None] = lambda: None,
    on_stderr: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Connection]:
    """A session that has shaken hands.  It offers the server nothing: no sampling, no roots, no elicitation."""

    async def on_message(message: Any) -> None:
        # Called within the SDK's receive loop: a request made here could never be answered.
        if getattr(getattr(message, "root", message), "method", None) == LIST_CHANGED:
            on_change()

    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(_transport(server, fill, on_stderr, on_end))
        pipes = streams[0] if isinstance(streams[0], Pipes) else None
        enter = _enter_second if SDK == 2 else _enter_first
        session = await enter(stack, streams, on_message, on_change)
        yield Connection(session, pipes)


async def _enter_first(stack: AsyncExitStack, streams: Any, on_message: Any, _: Any) -> Any:
    client: Any = import_module("mcp.client.session")
    info = types.Implementation(name="apcore-mcp", version=__version__)
    session = client.ClientSession(*streams[:2], message_handler=on_message, client_info=info)
    await stack.enter_async_context(session)
    session.introduction = await session.initialize()
    return session


async def _enter_second(stack: AsyncExitStack, streams: Any, on_message: Any, on_change: Any) -> Any:
    mcp: Any = import_module("mcp")
    info = types.Implementation(name="apcore-mcp", version=__version__)
    transport = contextlib.nullcontext(streams[:2])
    client = mcp.Client(transport, message_handler=on_message, client_info=info, cache=None)
    await stack.enter_async_context(client)
    if client.session.discover_result is not None:
        # From 2026-07-28 on changes are told only to whoever listens.
        listening = asyncio.create_task(_listen(client, on_change))
        stack.push_async_callback(_ended, listening)
    return client.session


async def _listen(client: Any, on_change: Callable[[], None]) -> None:
    # A server that cannot notify is asked from time to time anyway.
    with contextlib.suppress(Exception):
        async with client.listen(tools_list_changed=True) as events:
            async for _ in events:
                on_change()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _transport(server: Server, fill: Fill, on_stderr: Callable[[str], None], on_end: Callable[[], None]) -> Any:
    return _http(server, fill) if isinstance(server, HttpServer) else _stdio(server, fill, on_stderr, on_end)


@asynccontextmanager
async def _stdio(
    server: StdioServer, fill: Fill, on_stderr: Callable[[str], None], on_end: Callable[[], None]
) -> AsyncIterator[tuple[Pipes, Pipes]]:
    inherited = import_module("mcp.client.stdio").get_default_environment()
    environment = inherited | {name: fill(value) for name, value in server.env.items()}
    command = [fill(server.command), *(fill(argument) for argument in server.args)]
    directory = fill(server.cwd) if server.cwd else None
    async with launched(command, environment, directory, on_stderr) as process:
        pipes = Pipes(process, parse_message, dump_message, on_end)
        yield pipes, pipes


@asynccontextmanager
async def _http(server: HttpServer, fill: Fill) -> AsyncIterator[Any]:
    url, headers = fill(server.url), {name: fill(value) for name, value in server.headers.items()}
    if server.is_sse:
        async with import_module("mcp.client.sse").sse_client(url, headers=headers) as streams:
            yield streams
        return
    transport: Any = import_module("mcp.client.streamable_http")
    if not hasattr(transport, "streamable_http_client"):
        # Before mcp 1.24.
        async with transport.streamablehttp_client(url, headers=headers) as streams:
            yield streams
        return
    client = import_module("mcp.shared._httpx_utils").create_mcp_http_client(headers=headers)
    async with client, transport.streamable_http_client(url, http_client=client) as streams:
        yield streams
