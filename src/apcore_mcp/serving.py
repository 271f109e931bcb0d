"""`serve()` and `async_serve()`: from a registry, an Executor or a compiled surface to a running server."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from apcore_host.options import DEFAULT_NAME, ServeOptions
from apcore_host.process import GRACE, bind, call_back, configure_logging, run_until_stopped, serve_asgi
from apcore_runtime.surface import Surface

if TYPE_CHECKING:
    from apcore import Executor, Registry

    from apcore_mcp.server.http import HttpApp

__all__ = ["ServeOptions", "async_serve", "run_server", "serve"]

logger = logging.getLogger(__name__)


def serve(registry_or_executor: "Registry | Executor | Surface", **options: Any) -> None:
    """Serve modules over MCP until the client leaves or a signal arrives; see `ServeOptions` for the options."""
    chosen = ServeOptions(**options)
    _check_source(registry_or_executor)
    run_server(lambda: registry_or_executor, chosen)


@asynccontextmanager
async def async_serve(registry_or_executor: "Registry | Executor | Surface", **options: Any) -> AsyncIterator[Any]:
    """An ASGI application to mount in another; it serves while the context is open."""
    chosen = ServeOptions(**{"transport": "streamable-http", **options})
    _check_source(registry_or_executor)
    configure_logging(chosen.log_level)
    server = _Server(registry_or_executor, chosen)
    app = server.http_app()
    async with server.lifespan(), app.running():
        yield app.asgi


def run_server(open_source: Callable[[], "Registry | Executor | Surface"], options: ServeOptions) -> None:
    """Serve what `open_source` returns; on stdio it is opened only once stdout is safe from what modules print."""
    configure_logging(options.log_level)
    if options.transport == "stdio":
        from apcore_host.stdio import claim_streams

        with claim_streams() as streams:
            server = _Server(open_source(), options)
            run_until_stopped(lambda stop: server.run_stdio(streams, stop))
        return
    if options.transport == "sse":
        logger.warning("SSE transport is deprecated; use streamable-http instead")
    server = _Server(open_source(), options)
    with bind(options.host, options.port) as listener:
        run_until_stopped(lambda stop: server.run_http(listener, stop))


class _Server:
    """The parts of one server, put together."""

    def __init__(self, source: Any, options: ServeOptions) -> None:
        from apcore_host.selection import SelectedTools
        from apcore_mcp.server.router import ExecutionRouter
        from apcore_mcp.server.sdk import Endpoint
        from apcore_mcp.server.service import ToolService
        from apcore_mcp.server.tools import LiveTools

        self._source, self._options = source, options
        self._surface = source if isinstance(source, Surface) else None
        if self._surface is not None:
            self.tools: Any = SelectedTools(self._surface, options.tags, options.prefix)
        else:
            self.tools = LiveTools(getattr(source, "registry", source), options.tags, options.prefix)
        self._follows = options.dynamic and self._surface is None
        on_stdio = options.transport == "stdio"
        router = ExecutionRouter(self.tools, lambda: self.executor)
        self.service = ToolService(self.tools, router, options.identity if on_stdio else None, prebuilt=on_stdio)
        name, version = self._name_and_version()
        self.endpoint = Endpoint(self.service.answers, name, version, self.service.input_schema, self._follows)

    def _name_and_version(self) -> tuple[str, str]:
        from apcore_mcp import __version__

        name, version = self._options.name, self._options.version
        if self._surface is None:
            return name, version or __version__
        return self._surface.name if name == DEFAULT_NAME else name, version or self._surface.version or __version__

    @cached_property
    def executor(self) -> "Executor":
        # Made at the first call: listing tools needs neither apcore nor a module.
        from apcore import Executor

        from apcore_host.governance import PublishedSchemas, governed_executor
        from apcore_mcp.helpers import elicit

        source = self._surface.registry(self._options.bundles) if self._surface is not None else self._source
        executor = source if isinstance(source, Executor) else governed_executor(source, elicit)
        if self._options.validate_inputs:
            executor.use(PublishedSchemas(self.service.input_schema))
        if self._options.metrics:
            from apcore.observability.metrics import MetricsMiddleware

            executor.use(MetricsMiddleware(self._metrics))
        return executor

    @cached_property
    def _metrics(self) -> Any:
        from apcore.observability.metrics import MetricsCollector

        return MetricsCollector()

    async def run_stdio(self, streams: Any, stop: asyncio.Event) -> None:
        from apcore_host.stdio import connect
        from apcore_mcp.server import sdk

        async with self.lifespan(), connect(streams, sdk, stop, GRACE) as (read_stream, write_stream):
            await self.endpoint.run(read_stream, write_stream)

    async def run_http(self, listener: Any, stop: asyncio.Event) -> None:
        app = self.http_app()
        async with self.lifespan(), app.running():
            await serve_asgi(app.asgi, listener, stop, app.drain)

    def http_app(self) -> "HttpApp":
        from apcore_host.explorer import explorer_page, explorer_routes
        from apcore_mcp.server.http import HttpApp, metrics_route

        options = self._options
        if options.identity is not None:
            logger.warning("identity is for stdio; over HTTP callers are whom their verified tokens name")
        pages = [metrics_route(self._metrics.export_prometheus)] if options.metrics else []
        if options.explorer:
            page = explorer_page(self._surface.directory if self._surface is not None else None)
            pages += explorer_routes(self.service, page, options.explorer_prefix, allow_execute=options.allow_execute)
        return HttpApp(self.endpoint, self.service, options, pages)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        if not self.tools.count:
            logger.warning("No modules registered; server starting with zero tools")
        async with self._following():
            await call_back(self._options.on_startup)
            logger.info(
                "apcore-mcp server started: %d tools registered, transport=%s",
                self.tools.count,
                self._options.transport,
            )
            try:
                yield
            finally:
                await call_back(self._options.on_shutdown)
                # Opened here, at the first call; anybody else's registry is theirs to close.
                if self._surface is not None and "executor" in vars(self):
                    opened: Any = self.executor.registry
                    opened.close()

    @asynccontextmanager
    async def _following(self) -> AsyncIterator[None]:
        if not self._follows:
            yield
            return
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        async def tell_clients() -> None:
            while await changed.wait():
                changed.clear()
                await self.endpoint.tools_changed()

        unfollow = self.tools.follow(lambda: loop.call_soon_threadsafe(changed.set))
        telling = asyncio.create_task(tell_clients())
        try:
            yield
        finally:
            unfollow()
            telling.cancel()


def _check_source(source: Any) -> None:
    if not isinstance(source, Surface):
        from apcore_mcp.adapters.selection import registry_of

        registry_of(source)


def _signature() -> inspect.Signature:
    """The options as keyword parameters, so that `help(serve)` and editors show them."""
    source = inspect.Parameter("registry_or_executor", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [inspect.Parameter(f.name, keyword, default=f.default, annotation=f.type) for f in fields(ServeOptions)]
    return inspect.Signature([source, *options])


for _function in (serve, async_serve):
    setattr(_function, "__signature__", _signature())  # noqa: B010
