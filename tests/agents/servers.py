"""Servers that tests start and talk to over loopback."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.agents.odd_server import OddServer
from tests.agents.support import upstream

from apcore_agents.lockfile import Listing, LockedTool, lock_server
from apcore_agents.secrets import Secrets
from apcore_agents.servers import HttpServer, Server, StdioServer
from apcore_agents.supervision import Link, open_connection
from apcore_host.process import bind

PROGRAM = Path(__file__).with_name("odd_server.py")
PATIENCE = 20.0


class Upstream:
    """An odd server's state on disk, and the links to it."""

    def __init__(self, directory: Path, *tools: str) -> None:
        self.state = directory / "state.json"
        self.tools = [upstream(name) for name in tools]
        self.write(tools=self.tools)

    @property
    def server(self) -> StdioServer:
        return StdioServer("odd", sys.executable, (str(PROGRAM), str(self.state)))

    def write(self, **state: Any) -> None:
        self.state.write_text(json.dumps(state), encoding="utf-8")

    def logged(self) -> list[str]:
        log = self.state.with_suffix(".log")
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def locked(self, server: Server | None = None) -> dict[str, LockedTool]:
        return lock_server(server or self.server, Listing(self.tools)).tools

    @asynccontextmanager
    async def link(
        self, server: Server | None = None, secrets: Secrets | None = None, **options: Any
    ) -> AsyncIterator[Link]:
        chosen = server or self.server
        opening = open_connection(chosen, secrets or Secrets({}, self.state.parent, {}))
        link = Link(chosen, self.locked(chosen), opening, **options)
        await link.start()
        try:
            yield link
        finally:
            await link.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that nobody announces, a bounded time."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def http_app(app: Any, port: int = 0) -> AsyncIterator[int]:
    """Serve an application on loopback, and give its port."""
    with bind("127.0.0.1", port) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1))
        serving = asyncio.create_task(server.serve([listener]))
        await until(lambda: server.started or serving.done())
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


class HttpUpstream:
    """An odd server behind HTTP, which can be told to answer with a status of its own."""

    def __init__(self, state: Path) -> None:
        self._odd = OddServer(state)
        self.statuses: dict[str, int] = {}
        self.headers: list[dict[str, str]] = []
        self.app = Starlette(routes=[Route("/mcp", self._answer, methods=["POST", "GET", "DELETE"])])

    async def _answer(self, request: Request) -> Response:
        if request.method != "POST":
            return Response(status_code=405)
        message = await request.json()
        self.headers.append(dict(request.headers))
        tool = (message.get("params") or {}).get("name")
        if tool in self.statuses:
            return Response(status_code=self.statuses[tool])
        if "id" not in message:
            await self._odd.receive(message, None)
            return Response(status_code=202)
        return JSONResponse(await self._reply(message))

    async def _reply(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["method"] != "tools/call":
            return self._odd.answer(message)
        answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        async def send(reply: dict[str, Any]) -> None:
            if not answered.done() and "id" in reply:
                answered.set_result(reply)

        await self._odd.receive(message, send)
        return await answered

    def server(self, port: int) -> HttpServer:
        return HttpServer("odd", f"http://127.0.0.1:{port}/mcp")
