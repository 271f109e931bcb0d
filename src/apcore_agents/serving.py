"""Agents over MCP: an endpoint each, because the tools of one URL must be the same for everyone who asks it.

Over HTTP every agent is at `/agents/<name>/mcp`; over stdio one is served alone.  Beside it, `/agents/<name>/calls`
makes one call and streams what happens, and `/agents/<name>/approvals` is where somebody else agrees to a call.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from apcore import Context, Identity
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from apcore_agents.emit import INDEX, role_of
from apcore_agents.events import event, sse
from apcore_agents.failures import Failure, failure_of
from apcore_agents.runs import Run
from apcore_agents.runtime import AgentRuntime, load_runtime
from apcore_agents.servers import HttpServer
from apcore_agents.settings import BadProject
from apcore_host.options import ServeOptions
from apcore_host.process import GRACE, bind, configure_logging, run_until_stopped, serve_asgi
from apcore_host.stdio import claim_streams, connect
from apcore_mcp import __version__
from apcore_mcp.helpers import MCP_ELICIT_KEY
from apcore_mcp.server import sdk
from apcore_mcp.server.http import HttpApp
from apcore_mcp.server.router import ExecutionRouter
from apcore_mcp.server.sdk import Endpoint
from apcore_mcp.server.service import ToolService
from apcore_runtime.surface import Surface

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["AgentEndpoint", "agent_endpoints", "agents_app", "has_agents", "run_agent", "run_agents", "with_agents"]

logger = logging.getLogger("apcore_mcp.agents")

LOOPBACK = ("127.0.0.1", "localhost", "::1")
APPROVER = "approver"
# Answers are short; nobody needs to send more to make one call.
LARGEST_BODY = 1024 * 1024


class AgentToolList:
    """The tools of an agent as a server lists them: the frozen set, less what is withheld at the moment."""

    def __init__(self, runtime: AgentRuntime, agent: str, docs: Mapping[str, str]) -> None:
        self._runtime, self._agent = runtime, agent
        known = runtime.agents[agent]
        # Dicts of the server's own, the same ones at every call.
        self._entries = {name: dict(known.entries[name]) for name in known.table(0)}
        self._docs = {name: text for name, text in docs.items() if name in self._entries}

    @property
    def count(self) -> int:
        return len(self.tools())

    def tool(self, name: str) -> dict[str, Any] | None:
        return self._entries.get(name)

    def tools(self) -> list[dict[str, Any]]:
        return [entry for name, entry in self._entries.items() if not self._runtime.is_withheld(name)]

    def listed(self) -> bytes:
        return json.dumps(self.tools(), ensure_ascii=False, separators=(",", ":")).encode()

    def docs(self) -> dict[str, str]:
        return self._docs


class _Dispatch:
    """Stands where a server expects an Executor; has no `stream`, since a secret may be split over two chunks."""

    def __init__(self, runtime: AgentRuntime, agent: str) -> None:
        self._runtime, self._agent = runtime, agent

    @property
    def registry(self) -> "_Dispatch":
        return self

    def get(self, name: str) -> Any:
        """The module behind a name of this agent's."""
        module_id = self._runtime.agents[self._agent].table(0).get(name)
        return self._runtime.executors[self._agent].registry.get(module_id) if module_id is not None else None

    async def call_async(self, name: str, arguments: dict[str, Any], context: Context[Any]) -> Any:
        # Taken before any module can put something else there.
        elicit = context.data.get(MCP_ELICIT_KEY)
        try:
            return await self._runtime.call(Run(self._agent), name, arguments, context, elicit)
        except Exception as error:
            readonly = self._runtime.agents[self._agent].is_readonly(name)
            _failed.set(failure_of(error, readonly=readonly))
            raise


_failed: ContextVar[Failure | None] = ContextVar("apcore_agents_failed", default=None)


@contextmanager
def _noting_failure() -> Iterator[None]:
    reset = _failed.set(None)
    try:
        yield
    finally:
        _failed.reset(reset)


class AgentRouter:
    """The server's router, which adds to an error what a caller can act on, and passes content blocks on unchanged."""

    def __init__(self, runtime: AgentRuntime, agent: str, tools: AgentToolList) -> None:
        dispatch: Any = _Dispatch(runtime, agent)
        self._runtime, self._tools = runtime, tools
        self._router = ExecutionRouter(tools, lambda: dispatch)

    @property
    def in_flight(self) -> int:
        return self._router.in_flight

    async def handle_call(
        self, name: str, arguments: dict[str, Any], caller: Any, identity: Identity | None = None
    ) -> dict[str, Any]:
        with _noting_failure():
            result = await self._router.handle_call(name, arguments, caller, identity)
            if result.get("isError"):
                return self._explained(result, name, _failed.get())
        return self._unpacked(result, name)

    def _explained(self, result: dict[str, Any], name: str, failure: Failure | None) -> dict[str, Any]:
        error = result.setdefault("_meta", {}).setdefault("apcore/error", {})
        known = failure or Failure("MODULE_NOT_FOUND", "not_found", "", False, "not_started", "policy", {})
        error |= {"category": known.category, "retryable": known.retryable, "outcome": known.outcome}
        if known.is_ours:
            error["code"] = known.code
            result["content"] = [{"type": "text", "text": known.message}]
        return result

    def _unpacked(self, result: dict[str, Any], name: str) -> dict[str, Any]:
        if name in self._runtime.upstream and "outputSchema" not in (self._tools.tool(name) or {}):
            result["content"] = json.loads(result["content"][0]["text"])["content"]
        return result


@dataclass(frozen=True)
class AgentEndpoint:
    """One agent, ready to be put on a transport."""

    agent: str
    service: ToolService
    endpoint: Endpoint


def agent_endpoint(
    runtime: AgentRuntime, agent: str, options: ServeOptions, docs: Mapping[str, str], *, prebuilt: bool
) -> AgentEndpoint:
    tools = AgentToolList(runtime, agent, docs)
    router: Any = AgentRouter(runtime, agent, tools)
    service = ToolService(tools, router, options.identity if prebuilt else None, prebuilt=prebuilt)
    version = options.version or __version__
    # The only change there can be is that a tool is withheld, or is back.
    endpoint = Endpoint(service.answers, agent, version, service.input_schema, True)
    return AgentEndpoint(agent, service, endpoint)


def has_agents(generated: Path) -> bool:
    return (generated / INDEX).is_file()


# --- stdio ---


def run_agent(surface: Surface, agent: str, options: ServeOptions, **how: Any) -> None:
    """Serve one agent over stdio until the client leaves or a signal arrives; `how` is given to `load_runtime`."""
    configure_logging(options.log_level)
    with claim_streams() as streams:
        runtime = load_runtime(surface.directory, surface.registry(), **how)
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
    runtime = load_runtime(surface.directory, surface.registry())
    async with agent_endpoints(runtime, options, surface.docs) as paths:

        async def run(scope: "Scope", receive: "Receive", send: "Send") -> None:
            ours = scope["type"] == "http" and scope["path"].startswith("/agents/")
            await (paths if ours else app)(scope, receive, send)

        yield run


@asynccontextmanager
async def agents_app(surface: Surface, options: ServeOptions, **how: Any) -> AsyncIterator["ASGIApp"]:
    """An application that has the agents of a build, and nothing else; `how` is given to `load_runtime`."""
    runtime = load_runtime(surface.directory, surface.registry(), **how)
    async with agent_endpoints(runtime, options, surface.docs) as paths:
        yield paths


def run_agents(surface: Surface, agent: str, options: ServeOptions, **how: Any) -> None:
    """Serve one agent, or `*` for all, over HTTP until a signal arrives."""
    configure_logging(options.log_level)
    runtime = load_runtime(surface.directory, surface.registry(), **how)
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


class Gateway:
    """One call over plain HTTP, with what happens as server-sent events; and the approvals that calls wait for."""

    def __init__(self, runtime: AgentRuntime, one: AgentEndpoint) -> None:
        self._runtime, self._agent, self._service = runtime, one.agent, one.service

    def routes(self, *, approvals: bool) -> list[Route]:
        calls = [Route("/calls", self.call, methods=["POST"])]
        if not approvals or self._runtime.ledger is None:
            # Without authentication nobody can be told from the one who asks.
            return calls
        return [
            *calls,
            Route("/approvals", self.list_approvals, methods=["GET"]),
            Route("/approvals/{id}", self.decide, methods=["POST"]),
        ]

    async def call(self, request: Request) -> Response:
        body = await _json_body(request)
        if not isinstance(body, dict) or not isinstance(body.get("tool"), str):
            return JSONResponse({"error": "Expected {tool, arguments} as application/json"}, status_code=400)
        arguments = body.get("arguments") or {}
        if not isinstance(arguments, dict):
            return JSONResponse({"error": "arguments must be an object"}, status_code=400)
        stream = self._happenings(body["tool"], arguments, self._service._caller(request))
        return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    async def _happenings(
        self, tool: str, arguments: dict[str, Any], identity: Identity | None
    ) -> AsyncIterator[bytes]:
        async with self._runtime.session(self._agent, identity=identity) as session:
            happenings = session.events()
            calling = asyncio.create_task(_finished(session.call(tool, arguments), happenings.close))
            try:
                async for record in happenings:
                    yield sse(record)
                yield sse(event("final", run_id=session.run.id, agent=self._agent, tool=tool, **await calling))
            finally:
                calling.cancel()

    async def list_approvals(self, request: Request) -> Response:
        if not self._may_approve(request) or self._runtime.ledger is None:
            return JSONResponse({"error": "Forbidden"}, status_code=403)
        waiting = [entry for entry in self._runtime.ledger.pending() if entry.agent == self._agent]
        return JSONResponse({"approvals": [{"id": entry.id, "text": entry.text} for entry in waiting]})

    async def decide(self, request: Request) -> Response:
        body = await _json_body(request)
        if not self._may_approve(request) or self._runtime.ledger is None:
            return JSONResponse({"error": "Forbidden"}, status_code=403)
        if not isinstance(body, dict) or not isinstance(body.get("approve"), bool):
            return JSONResponse({"error": "Expected {approve: true or false} as application/json"}, status_code=400)
        identity = self._service._caller(request)
        approver = identity.id if identity is not None else None
        known = self._runtime.ledger.decide(request.path_params["id"], approver, approve=body["approve"])
        return JSONResponse({"ok": True}) if known else JSONResponse({"error": "Not found"}, status_code=404)

    def _may_approve(self, request: Request) -> bool:
        identity = self._service._caller(request)
        return identity is not None and APPROVER in identity.roles


async def _finished(call: Any, done: Callable[[], None]) -> dict[str, Any]:
    """How a call ended; never raises."""
    try:
        return {"ok": True, "output": await call}
    except Exception as error:
        token = getattr(error, "approval_id", None)
        waiting = {"approval_token": token} if token else {}
        return {"ok": False, "error": failure_of(error).as_dict(), **waiting}
    finally:
        done()


async def _json_body(request: Request) -> Any:
    """The body, if it is JSON and says so: a browser sends any other kind to foreign places without asking."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            return None
    try:
        return json.loads(body)
    except ValueError:
        return None
