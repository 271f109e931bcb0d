"""The HTTP side: streamable HTTP or SSE, health, metrics and the explorer in one ASGI application."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
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

from apcore_host.options import ServeOptions
from apcore_mcp.server.sdk import Endpoint
from apcore_mcp.server.service import ToolService

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
ANYWHERE = ("0.0.0.0", "::")

logger = logging.getLogger(__name__)


class HttpApp:
    """`pages` are routes of ours, which get the same checks of Host, Origin and token as the protocol."""

    def __init__(self, endpoint: Endpoint, service: ToolService, options: ServeOptions, pages: list[Route]) -> None:
        self._endpoint, self._service, self._options = endpoint, service, options
        self._started = time.monotonic()
        self._security = _security(options)
        self._streams, self._requests = set[anyio.CancelScope](), set[anyio.CancelScope]()
        self._manager = StreamableHTTPSessionManager(
            endpoint.server,
            json_response=options.json_response,
            stateless=options.stateless,
            security_settings=self._security.settings,
        )
        protocol = self._sse_routes() if options.transport == "sse" else self._streamable_routes()
        routes = [Route("/health", self._health), *protocol, *_metadata_routes(options), *map(self._guarded, pages)]
        self.asgi = Starlette(routes=routes, middleware=_authentication(options))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._manager.run():
            yield

    async def drain(self) -> None:
        """Wait for the calls in flight, and end the streams on which clients would listen for ever."""
        self._service.parked.give_up()
        while self._service.router.in_flight or self._requests:
            await asyncio.sleep(0.02)
        # An answer over SSE is on its way to a stream when its call is over.
        await asyncio.sleep(0.05)
        for stream in list(self._streams):
            stream.cancel()

    async def _health(self, _: Request) -> Response:
        uptime = round(time.monotonic() - self._started, 3)
        return JSONResponse({"status": "ok", "module_count": self._service.tools.count, "uptime_seconds": uptime})

    def _streamable_routes(self) -> list[BaseRoute]:
        return [Route("/mcp", _Asgi(self._protected(self._tracked(self._manager.handle_request))))]

    def _sse_routes(self) -> list[BaseRoute]:
        transport = SseServerTransport("/messages/", security_settings=self._security.settings)

        async def connect(scope: Scope, receive: Receive, send: Send) -> None:
            if refusal := await self._security.validate_request(Request(scope, receive)):
                return await refusal(scope, receive, send)
            async with transport.connect_sse(scope, receive, send) as (read_stream, write_stream):
                await self._endpoint.run(read_stream, write_stream)

        return [
            Route("/sse", _Asgi(self._protected(self._tracked(connect))), methods=["GET"]),
            Mount("/messages/", app=self._protected(transport.handle_post_message)),
        ]

    def _tracked(self, app: ASGIApp) -> ASGIApp:
        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            with anyio.CancelScope() as request:
                known = self._streams if scope["method"] == "GET" else self._requests
                known.add(request)
                try:
                    await app(scope, receive, send)
                finally:
                    known.discard(request)

        return run

    def _protected(self, app: ASGIApp) -> ASGIApp:
        """Behind the SDK's token check, when one is configured."""
        auth = self._options.auth
        if self._options.token_verifier is None:
            return app
        metadata = build_resource_metadata_url(auth.resource_server_url) if _has_resource(auth) else None
        return RequireAuthMiddleware(app, (auth.required_scopes if auth else None) or [], metadata)

    def _guarded(self, route: Route) -> Route:
        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope, receive)
            refusal = await self._security.validate_request(request)
            await (refusal or await route.endpoint(request))(scope, receive, send)

        return Route(route.path, _Asgi(self._protected(run)), methods=list(route.methods or ()))


class _Asgi:
    """An object, because Starlette takes a function for an endpoint that wants a parsed request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def metrics_route(render: Callable[[], str]) -> Route:
    async def show(_: Request) -> Response:
        return PlainTextResponse(render(), media_type="text/plain; version=0.0.4")

    return Route("/metrics", show, methods=["GET"])


def _security(options: ServeOptions) -> TransportSecurityMiddleware:
    if options.host in ANYWHERE and not options.allow_hosts:
        logger.warning("Requests to any other host than localhost are refused; name the allowed ones (--allow-host)")
    names = [*LOOPBACK, *(options.allow_hosts or ()), *([] if options.host in ANYWHERE else [options.host])]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
    return TransportSecurityMiddleware(
        TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=_with_any_port(names),
            allowed_origins=[*_with_any_port(origins), *(options.allow_origins or ())],
        )
    )


def _with_any_port(names: list[str]) -> list[str]:
    return [*names, *(f"{name}:*" for name in names)]


def _has_resource(auth: Any) -> bool:
    return auth is not None and auth.resource_server_url is not None


def _authentication(options: ServeOptions) -> list[Middleware]:
    auth = options.auth
    if options.token_verifier is None:
        return []
    bound = auth is not None and getattr(auth, "validate_token_resource", None)
    audience = {"resource_server_url": auth.resource_server_url} if bound else {}
    backend = BearerAuthBackend(options.token_verifier, **audience)
    return [Middleware(AuthenticationMiddleware, backend=backend), Middleware(AuthContextMiddleware)]


def _metadata_routes(options: ServeOptions) -> list[Route]:
    auth = options.auth
    if not _has_resource(auth):
        return []
    return create_protected_resource_routes(auth.resource_server_url, [auth.issuer_url], auth.required_scopes)
