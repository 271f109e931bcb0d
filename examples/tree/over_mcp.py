"""The story by MCP clients: the compiled server on HTTP, and for each agent a session with a bearer token of its own.

Run: pip install -e '.[tree]' && python examples/tree/over_mcp.py
"""

import asyncio
import logging
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from bill_of_materials import GENERATED, TreeTools, show, tell
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.provider import AccessToken
from mcp.shared._httpx_utils import create_mcp_http_client

from apcore_mcp import async_serve
from apcore_runtime import load
from apcore_tree import ERRORS

ROLES = {"pricing": "editor", "design": "editor", "visitor": "reader"}


class Tokens:
    """The MCP SDK's `TokenVerifier`.  A real one asks an authorisation server; here the token is the name."""

    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id=token, scopes=[ROLES[token]]) if token in ROLES else None


class RemoteTools(TreeTools):
    """The generated methods in front of an MCP session: `tree.add_child` is `tools.add_child(...)`."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def call(self, spec: Any, arguments: Any) -> Any:
        answer = await self._session.call_tool(spec.module_id, dict(arguments))
        result = answer.model_dump(by_alias=True)
        if not result["isError"]:
            return result["structuredContent"]
        detail = result["_meta"]["apcore/error"]
        raise ERRORS[detail["code"]](result["content"][0]["text"], **detail)


@asynccontextmanager
async def serving(store: str) -> AsyncIterator[str]:
    async with async_serve(load(GENERATED), tree_store=store, token_verifier=Tokens()) as app:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
            running = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            finally:
                server.should_exit = True
                await running


async def main() -> None:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = await stack.enter_async_context(serving(f"sqlite:{Path(folder) / 'bicycle.db'}"))

        async def connect(agent: str) -> TreeTools:
            http = create_mcp_http_client(headers={"Authorization": f"Bearer {agent}"})
            await stack.enter_async_context(http)
            streams = await stack.enter_async_context(streamable_http_client(url, http_client=http))
            session = await stack.enter_async_context(ClientSession(*streams[:2]))
            await session.initialize()
            return RemoteTools(session)

        show(await tell(*[await connect(agent) for agent in ROLES]))


# The server logs every refusal; the story tells them itself.
logging.disable(logging.ERROR)
asyncio.run(main())
