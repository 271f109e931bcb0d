"""Agents over MCP: an endpoint each, because the tools of one URL must be the same for everyone who asks it.

Over HTTP every agent is at `/agents/<name>/mcp`; over stdio one is served alone.  Beside it, `/agents/<name>/calls`
makes one call and streams what happens, and `/agents/<name>/approvals` is where somebody else agrees to a call.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.responses import JSONResponse

from apcore_agents.emit import role_of
from apcore_agents.endpoint import AgentEndpoint, agent_endpoint
from apcore_agents.gateway import Gateway
from apcore_agents.loading import load_runtime
from apcore_agents.runtime import AgentRuntime
from apcore_agents.servers import HttpServer
from apcore_agents.settings import BadProject
from apcore_host.options import ServeOptions
from apcore_host.process import GRACE, bind, configure_logging, run_until_stopped, serve_asgi
from apcore_host.stdio import claim_streams, connect
from apcore_mcp.server import sdk
from apcore_mcp.server.http import HttpApp
from apcore_runtime.surface import Surface

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["AgentPaths", "agent_endpoints", "agents_app", "run_agent", "run_agents", "with_agents"]

logger = logging.getLogger("apcore_mcp.agents")

LOOPBACK = ("127.0.0.1", "localhost", "::1")


# --- stdio ---


def run_agent(surface: Surface, agent: str, options: ServeOptions, **how: Any) -> None:
    """Serve one agent over stdio until the client leaves or a signal arrives; `how` is given to `load_runtime`."""
    configure_logging(options.log_level)
    with claim_streams() as streams:
        runtime = load_runtime(surface.directory, surface.registry(options.bundles), **how)
        one = agent_endpoint(runtime, _known(runtime, agent), options, surface.docs, prebuilt=True)
        run_until_stopped(lambda stop: _over_stdio(runtime, one, streams, stop))


def _known(runtime: AgentRuntime, agent: str) -> str:
    if agent not in runtime.agents:
        raise BadProject(f"there is no agent {agent!r}; there are {', '.join(runtime.agents)}")
    return agent


async def _over_stdio(runtime: AgentRuntime, one: AgentEndpoint, streams: Any, stop: asyncio.Event) -> None:
    async with runtime, telling_of_changes(runtime, [one]), connect(streams, sdk, stop, GRACE) as (reading, writing):
        await runtime.ready()
        await one.endpoint.run(reading, writing)


@asynccontextmanager
async def telling_of_changes(runtime: AgentRuntime, endpoints: list[AgentEndpoint]) -> AsyncIterator[None]:
    """Tell connected clients when a tool is withheld, or is back."""
    changed = asyncio.Event()

    async def tell() -> None:
        while await changed.wait():
            changed.clear()
            for one in endpoints:
                await one.endpoint.tools_changed()

    unlisten = runtime.events.listen(
        lambda e: changed.set() if e["type"] in ("tool_withheld", "tool_restored") else None
    )
    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        unlisten()
        telling.cancel()


# --- HTTP ---


@asynccontextmanager
async def agent_endpoints(
    runtime: AgentRuntime, options: ServeOptions, docs: Mapping[str, str], agents: Iterable[str] | None = None
) -> AsyncIterator["AgentPaths"]:
    """The endpoints of these agents, or of all, while the context is open."""
    refuse_loops(runtime, options)
    chosen = runtime.agents if agents is None else agents
    endpoints = [agent_endpoint(runtime, name, options, docs, prebuilt=False) for name in chosen]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(runtime)
        await stack.enter_async_context(telling_of_changes(runtime, endpoints))
        apps = {}
        for one in endpoints:
            pages = Gateway(runtime, one).routes(approvals=options.token_verifier is not None)
            app = HttpApp(one.endpoint, one.service, _for_agent(options, one.agent), pages)
            await stack.enter_async_context(app.running())
            apps[one.agent] = app
        await runtime.ready()
        yield AgentPaths(apps, open_to_all=options.token_verifier is not None)


class AgentPaths:
    """Leads `/agents/<name>/...` to the agent; without authentication only from this machine."""

    def __init__(self, apps: Mapping[str, HttpApp], *, open_to_all: bool) -> None:
        self._apps, self._open_to_all = apps, open_to_all

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        await self.answer(scope)(scope, receive, send)

    def answer(self, scope: "Scope") -> "ASGIApp":
        name, _, rest = scope["path"].removeprefix("/agents/").partition("/")
        app = self._apps.get(name)
        if app is None or not (self._open_to_all or _is_local(scope)):
            return JSONResponse({"error": "Not found"}, status_code=404)

        async def run(_: "Scope", receive: "Receive", send: "Send") -> None:
            inner = {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode(), "root_path": ""}
            await app.asgi(inner, receive, send)

        return run

    async def drain(self) -> None:
        await asyncio.gather(*(app.drain() for app in self._apps.values()))


def _is_local(scope: "Scope") -> bool:
    client = scope.get("client")
    return client is None or client[0] in LOOPBACK or client[0].startswith("127.")


def _for_agent(options: ServeOptions, agent: str) -> ServeOptions:
    """With authentication, only whoever holds the role of an agent reaches its endpoint."""
    if options.token_verifier is None:
        return options
    auth = options.auth
    scopes = [*((auth.required_scopes if auth else None) or []), role_of(agent)]
    if auth is None:
        return replace(options, auth=SimpleNamespace(required_scopes=scopes, resource_server_url=None))
    return replace(options, auth=auth.model_copy(update={"required_scopes": scopes}))


@asynccontextmanager
async def with_agents(app: "ASGIApp", surface: Surface, options: ServeOptions) -> AsyncIterator["ASGIApp"]:
    """An application that has the agents of a build beside its own paths."""
    runtime = load_runtime(surface.directory, surface.registry(options.bundles))
    async with agent_endpoints(runtime, options, surface.docs) as paths:

        async def run(scope: "Scope", receive: "Receive", send: "Send") -> None:
            ours = scope["type"] == "http" and scope["path"].startswith("/agents/")
            await (paths if ours else app)(scope, receive, send)

        yield run


@asynccontextmanager
async def agents_app(surface: Surface, options: ServeOptions, **how: Any) -> AsyncIterator["ASGIApp"]:
    """An application that has the agents of a build, and nothing else; `how` is given to `load_runtime`."""
    runtime = load_runtime(surface.directory, surface.registry(options.bundles), **how)
    async with agent_endpoints(runtime, options, surface.docs) as paths:
        yield paths


def run_agents(surface: Surface, agent: str, options: ServeOptions, **how: Any) -> None:
    """Serve one agent, or `*` for all, over HTTP until a signal arrives."""
    configure_logging(options.log_level)
    runtime = load_runtime(surface.directory, surface.registry(options.bundles), **how)
    chosen = list(runtime.agents) if agent == "*" else [_known(runtime, agent)]

    async def serve(stop: asyncio.Event) -> None:
        async with agent_endpoints(runtime, options, surface.docs, chosen) as paths:
            logger.info("apcore-mcp serves %s at /agents/NAME/mcp", ", ".join(chosen))
            await serve_asgi(paths, listener, stop, paths.drain)

    with bind(options.host, options.port) as listener:
        run_until_stopped(serve)


def refuse_loops(runtime: AgentRuntime, options: ServeOptions) -> None:
    """An agent whose external server is this very server would call itself for ever."""
    for alias, server in runtime.project.servers.items():
        if not isinstance(server, HttpServer) or alias not in runtime.links:
            continue
        target = urlsplit(server.url)
        port = target.port or {"http": 80, "https": 443}[target.scheme]
        hosts = {options.host, *(LOOPBACK if options.host in (*LOOPBACK, "0.0.0.0", "::") else ())}
        if port == options.port and target.hostname in hosts:
            raise BadProject(f"server {alias!r} of {runtime.project.tables.mcp.config} is this server itself")
