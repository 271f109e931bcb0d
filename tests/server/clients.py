"""Real MCP clients of either SDK major, with results shaped as on the wire."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import mcp.client.streamable_http as streamable_http
import uvicorn
from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client

from apcore_host.process import bind
from apcore_mcp import async_serve
from apcore_mcp.server.sdk import SDK, types

ROOT = Path(__file__).parents[2]
PATIENCE = 30


def wire(result: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped


class Client:
    """A session over any pair of streams; remembers the notifications and answers elicitations with `answers`."""

    def __init__(self, answers: list[Any] | None = None) -> None:
        self.notifications: list[str] = []
        self.questions: list[Any] = []
        self.progress: list[tuple[float, float | None, str | None]] = []
        self._answers = answers
        self._arrived = asyncio.Event()
        self.session: Any = None
        self.server: dict[str, Any] = {}

    async def open(self, stack: AsyncExitStack, read_stream: Any, write_stream: Any) -> "Client":
        callback = {"elicitation_callback": self._elicited} if self._answers is not None else {}
        session = ClientSession(read_stream, write_stream, message_handler=self._received, **callback)
        self.session = await stack.enter_async_context(session)
        self.server = wire(await self.session.initialize())
        return self

    async def _elicited(self, _: Any, params: Any) -> Any:
        assert self._answers is not None
        self.questions.append(wire(params))
        answer = self._answers.pop(0)
        if answer is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content=answer)

    async def _received(self, message: Any) -> None:
        body = getattr(message, "root", message)
        method = getattr(body, "method", None)
        if method is not None:
            self.notifications.append(method)
            self._arrived.set()

    async def notified(self, method: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while method not in self.notifications:
                self._arrived.clear()
                await self._arrived.wait()

    async def tools(self) -> list[dict[str, Any]]:
        return list(wire(await self.session.list_tools())["tools"])

    async def tool_names(self) -> list[str]:
        return [tool["name"] for tool in await self.tools()]

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            return wire(await self.session.call_tool(name, arguments or {}, **options))

    async def call_with_progress(self, name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        async def remember(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append((progress, total, message))

        return await self.call(name, arguments, progress_callback=remember)

    async def text(self, name: str, arguments: dict[str, Any] | None = None) -> str:
        return str((await self.call(name, arguments))["content"][0]["text"])

    async def resources(self) -> list[dict[str, Any]]:
        return list(wire(await self.session.list_resources())["resources"])

    async def read(self, uri: str) -> dict[str, Any]:
        return wire(await self.session.read_resource(uri))


class OpenStreams:
    """Counts the event streams that an application has begun to send."""

    def __init__(self, app: Any) -> None:
        self._app, self._count, self._opened = app, 0, asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def watch(message: Any) -> None:
            await send(message)
            if scope["method"] == "GET" and message["type"] == "http.response.start":
                self._count += 1
                self._opened.set()

        await self._app(scope, receive, watch)

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while self._count < count:
                self._opened.clear()
                await self._opened.wait()


@asynccontextmanager
async def http_server(source: Any, **options: Any) -> AsyncIterator[str]:
    """A server on a free port of the loopback interface, in this event loop."""
    async with async_serve(source, **options) as app, listening(app) as url:
        yield url


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    with bind("127.0.0.1", 0) as listener:
        config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            async with asyncio.timeout(PATIENCE):
                await serving


@asynccontextmanager
async def http_client(
    url: str, answers: list[Any] | None = None, headers: dict[str, str] | None = None
) -> AsyncIterator[Client]:
    http_package: Any = __import__("httpx2" if SDK == 2 else "httpx")
    async with AsyncExitStack() as stack:
        if hasattr(streamable_http, "streamable_http_client"):
            http = await stack.enter_async_context(http_package.AsyncClient(headers=headers, timeout=PATIENCE))
            transport = streamable_http.streamable_http_client(f"{url}/mcp", http_client=http)
        else:  # before mcp 1.24
            transport = streamable_http.streamablehttp_client(f"{url}/mcp", headers=headers)
        streams = await stack.enter_async_context(transport)
        yield await Client(answers).open(stack, *streams[:2])


@asynccontextmanager
async def sse_connection(url: str) -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(sse_client(f"{url}/sse"))
        yield await Client().open(stack, *streams)


@asynccontextmanager
async def connected(source: Any, answers: list[Any] | None = None, **options: Any) -> AsyncIterator[Client]:
    """One client of a fresh server."""
    async with http_server(source, **options) as url, http_client(url, answers) as client:
        yield client


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


@asynccontextmanager
async def stdio_connection(
    *command: str, answers: list[Any] | None = None, errors: Any = None
) -> AsyncIterator[Client]:
    """A client of a server process; `command` follows the interpreter."""
    parameters = StdioServerParameters(command=sys.executable, args=list(command), env=environment(), cwd=str(ROOT))
    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(stdio_client(parameters, errlog=errors or sys.stderr))
        yield await Client(answers).open(stack, *streams)
