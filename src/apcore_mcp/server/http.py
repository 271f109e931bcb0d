"""The HTTP side: streamable HTTP or SSE, health, metrics and the explorer in one ASGI application."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import anyio
import uvicorn
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from apcore_mcp.server.explorer import explorer_routes
from apcore_mcp.server.sdk import Endpoint
from apcore_mcp.server.service import ToolService

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    transport: str
    host: str
    port: int
    stateless: bool
    json_response: bool
    allow_hosts: list[str]
    allow_origins: list[str]
    explorer_prefix: str | None
    explorer_page: Callable[[], bytes]
    allow_execute: bool
    # Renders the metrics; None when they are switched off.
    metrics: Callable[[], str] | None
    token_verifier: Any
    auth: Any


class HttpApp:
    def __init__(self, endpoint: Endpoint, service: ToolService, settings: HttpSettings) -> None:
        self._endpoint, self._service, self._settings = endpoint, service, settings
        self._started = time.monotonic()
        self._security = _security(settings)
        self._streams: set[anyio.CancelScope] = set()
        self._manager: StreamableHTTPSessionManager | None = None
        routes: list[BaseRoute] = [Route("/health", self._health)]
        routes += self._sse_routes() if settings.transport == "sse" else self._streamable_routes()
        if settings.metrics is not None:
            routes.append(Route("/metrics", self._guarded(self._render_metrics)))
        if settings.explorer_prefix is not None:
            pages = explorer_routes(service, settings.explorer_page, allow_execute=settings.allow_execute)
            routes.append(Mount(settings.explorer_prefix, routes=[*map(self._guarded_route, pages)]))
        self.asgi = Starlette(routes=[*routes, *_metadata_routes(settings)], middleware=_authentication(settings))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if self._manager is not None:
                await stack.enter_async_context(self._manager.run())
            yield

    async def close_streams(self) -> None:
        """End the streams that clients keep open, once the calls in flight have been answered."""
        while self._service.router.in_flight:
            await asyncio.sleep(0.02)
        for scope in list(self._streams):
            scope.cancel()

    def _streamable_routes(self) -> list[BaseRoute]:
        manager = StreamableHTTPSessionManager(
            self._endpoint.server,
            json_response=self._settings.json_response,
            stateless=self._settings.stateless,
            security_settings=self._security.settings,
        )
        self._manager = manager
        return [Route("/mcp", _Asgi(self._protected(self._closable(manager.handle_request))))]

    def _sse_routes(self) -> list[BaseRoute]:
        transport = SseServerTransport("/messages/", security_settings=self._security.settings)

        async def connect(scope: Scope, receive: Receive, send: Send) -> None:
            if refusal := await self._security.validate_request(Request(scope, receive)):
                return await refusal(scope, receive, send)
            async with transport.connect_sse(scope, receive, send) as (read_stream, write_stream):
                await self._endpoint.run(read_stream, write_stream)

        return [
            Route("/sse", _Asgi(self._protected(self._closable(connect))), methods=["GET"]),
            Mount("/messages/", app=self._protected(transport.handle_post_message)),
        ]

    def _closable(self, app: ASGIApp) -> ASGIApp:
        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["method"] != "GET":
                return await app(scope, receive, send)
            with anyio.CancelScope() as stream:
                self._streams.add(stream)
                try:
                    await app(scope, receive, send)
                finally:
                    self._streams.discard(stream)

        return run

    def _protected(self, app: ASGIApp) -> ASGIApp:
        """Behind the SDK's token check, when one is configured."""
        settings = self._settings
        if settings.token_verifier is None:
            return app
        resource = settings.auth.resource_server_url if settings.auth else None
        scopes = (settings.auth.required_scopes or []) if settings.auth else []
        return RequireAuthMiddleware(app, scopes, build_resource_metadata_url(resource) if resource else None)

    def _guarded_route(self, route: Route) -> Route:
        return Route(route.path, self._guarded(route.endpoint), methods=list(route.methods or ()))

    def _guarded(self, answer: Callable[[Request], Any]) -> "_Asgi":
        """A page of ours, behind the same checks of Host, Origin and token as the protocol."""

        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope, receive)
            response: Response | None = await self._security.validate_request(request)
            await (response or await answer(request))(scope, receive, send)

        return _Asgi(self._protected(run))

    async def _health(self, _: Request) -> Response:
        uptime = round(time.monotonic() - self._started, 3)
        return JSONResponse({"status": "ok", "module_count": self._service.tools.count, "uptime_seconds": uptime})

    async def _render_metrics(self, _: Request) -> Response:
        assert self._settings.metrics is not None
        return PlainTextResponse(self._settings.metrics(), media_type="text/plain; version=0.0.4")


class _Asgi:
    """An object, because Starlette takes a function for an endpoint that wants a parsed request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def _security(settings: HttpSettings) -> TransportSecurityMiddleware:
    names = [*LOOPBACK, *([] if settings.host in ("0.0.0.0", "::") else [settings.host]), *settings.allow_hosts]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
    return TransportSecurityMiddleware(
        TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=_with_any_port(names),
            allowed_origins=[*_with_any_port(origins), *settings.allow_origins],
        )
    )


def _with_any_port(names: list[str]) -> list[str]:
    return [*names, *(f"{name}:*" for name in names)]


def _authentication(settings: HttpSettings) -> list[Middleware]:
    if settings.token_verifier is None:
        return []
    auth = settings.auth
    bound = auth is not None and getattr(auth, "validate_token_resource", None)
    options = {"resource_server_url": auth.resource_server_url} if bound else {}
    backend = BearerAuthBackend(settings.token_verifier, **options)
    return [Middleware(AuthenticationMiddleware, backend=backend), Middleware(AuthContextMiddleware)]


def _metadata_routes(settings: HttpSettings) -> list[Route]:
    auth = settings.auth
    if auth is None or auth.resource_server_url is None:
        return []
    return create_protected_resource_routes(auth.resource_server_url, [auth.issuer_url], auth.required_scopes)


class _Uvicorn(uvicorn.Server):
    """Leaves signals to us: uvicorn raises them again when it is done, and a clean stop would end in an error."""

    def capture_signals(self) -> Any:
        return nullcontext()


def bind(host: str, port: int) -> socket.socket:
    """Listen before anything starts, so that a port in use is an `OSError` of the caller's."""
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


async def run_http(app: HttpApp, listener: socket.socket, stop: asyncio.Event, grace: float) -> None:
    config = uvicorn.Config(
        app.asgi, log_config=None, lifespan="off", access_log=False, timeout_graceful_shutdown=int(grace)
    )
    server = _Uvicorn(config)

    async def stop_serving() -> None:
        await stop.wait()
        server.should_exit = True
        await app.close_streams()

    async with app.running(), anyio.create_task_group() as group:
        group.start_soon(stop_serving)
        await server.serve(sockets=[listener])
        group.cancel_scope.cancel()
