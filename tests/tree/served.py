"""Two more ways to call the tools, both through a compiled surface: its stubs in process, and a real MCP session."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from apcore import Identity
from mcp.server.auth.provider import AccessToken
from tests.server.clients import Client, http_client, http_server
from tests.tree.surfaces import EDITOR, READER, Direct

from apcore_host.governance import governed_executor
from apcore_runtime.surface import Surface
from apcore_tree import ERRORS, Caller, TreeService, tree_modules
from apcore_tree.bundle import TreeBundle

PATIENCE = 30
STRANGER = Caller("eve")


class Tokens:
    """A verifier of the SDK's kind: a token names its bearer, whose scopes are the roles."""

    known: ClassVar = {
        caller.id: AccessToken(token=caller.id, client_id=caller.id, scopes=list(caller.roles))
        for caller in (EDITOR, READER, STRANGER)
    }

    async def verify_token(self, token: str) -> AccessToken | None:
        return self.known.get(token)


def bearer(caller: Caller) -> dict[str, str]:
    return {"Authorization": f"Bearer {caller.id}"}


class SurfaceOver(Surface):
    """A compiled surface whose tree is the given one, so that a test can look inside and choose ids and clock."""

    def __init__(self, directory: Path, service: TreeService) -> None:
        super().__init__(directory)
        self._service = service

    def registry(self, stores: Mapping[str, str] | None = None) -> Any:
        registry = super().registry(stores)
        registry.bundles["tree"] = TreeBundle(self._service, tree_modules(self._service))
        return registry


class Compiled(Direct):
    """A way through the surface compiled into `directory`, with an event loop to go it in."""

    opened: ClassVar[list[Compiled]] = []
    directory: ClassVar[Path]

    def __init__(self, service: TreeService, caller: Caller = EDITOR) -> None:
        super().__init__(service, caller)
        self.surface = SurfaceOver(self.directory, service)
        self.loop = asyncio.new_event_loop()
        self.opened.append(self)

    def close(self) -> None:
        self.opened.remove(self)
        self.loop.close()


async def _nobody(*_: Any) -> None:
    """Answers no question."""


class ThroughStubs(Compiled):
    """Calls the generated methods, under the access rules and steps that a server installs."""

    def __init__(self, service: TreeService, caller: Caller = EDITOR) -> None:
        super().__init__(service, caller)
        self.executor = governed_executor(self.surface.registry(), _nobody)
        self.stubs = importlib.import_module(f"{self.surface.package.__name__}.stubs.tree_tools")

    def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        tools = self.stubs.TreeTools(self.executor, Identity(self.caller.id, self.caller.type, self.caller.roles))
        result: dict[str, Any] = self.loop.run_until_complete(getattr(tools, tool)(**arguments))
        return result

    def close(self) -> None:
        self.executor.close()
        super().close()


class OverMcp(Compiled):
    """Calls a server over streamable HTTP, with a session and a bearer token for each caller."""

    def __init__(self, service: TreeService, caller: Caller = EDITOR) -> None:
        super().__init__(service, caller)
        self._leave = asyncio.Event()
        self._clients: asyncio.Future[dict[str, Client]] = self.loop.create_future()
        # One task opens and closes it all, as cancel scopes must be; it goes on while the loop waits for a call.
        self._serving = self.loop.create_task(self._serve())
        either: set[asyncio.Future[Any]] = {self._clients, self._serving}
        waiting = asyncio.wait(either, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        self.loop.run_until_complete(waiting)

    async def _serve(self) -> None:
        async with http_server(self.surface, token_verifier=Tokens()) as url, clients_of(url) as clients:
            self._clients.set_result(clients)
            await self._leave.wait()

    def result(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The result as on the wire."""
        client = self._clients.result()[self.caller.id]
        return self.loop.run_until_complete(client.call(f"tree.{tool}", arguments))

    def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self.result(tool, arguments)
        if not result["isError"]:
            content: dict[str, Any] = result["structuredContent"]
            return content
        told = dict(result["_meta"]["apcore/error"])
        error = ERRORS[told.pop("code")](result["content"][0]["text"])
        assert told.pop("retryable") is error.retryable
        error.trace_id = told.pop("traceId", None)
        error.details.update(told)
        raise error

    def close(self) -> None:
        self._leave.set()
        self.loop.run_until_complete(asyncio.wait_for(self._serving, PATIENCE))
        # The SSE package watches for the end of the process in a task of its own.
        self._end_tasks()
        super().close()

    def _end_tasks(self) -> None:
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


@asynccontextmanager
async def clients_of(url: str) -> AsyncIterator[dict[str, Client]]:
    async with (
        http_client(url, headers=bearer(EDITOR)) as editor,
        http_client(url, headers=bearer(READER)) as reader,
        http_client(url, headers=bearer(STRANGER)) as stranger,
    ):
        yield {EDITOR.id: editor, READER.id: reader, STRANGER.id: stranger}
