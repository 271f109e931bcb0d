"""The one seam over the MCP SDK, 1.x and 2.x: on our side everything is shaped as it is on the wire."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Protocol
from weakref import WeakSet

import anyio

types: Any
try:
    types = import_module("mcp_types")
    SDK = 2
except ModuleNotFoundError:
    types = import_module("mcp.types")
    SDK = 1

_lowlevel: Any = import_module("mcp.server.lowlevel.server")
_exceptions: Any = import_module("mcp.shared.exceptions")
SessionMessage: Any = import_module("mcp.shared.message").SessionMessage
ProtocolError: type[Exception] = _exceptions.MCPError if SDK == 2 else _exceptions.McpError

RESOURCE_NOT_FOUND = -32002
LIST_CHANGED = "notifications/tools/list_changed"
MODERN = "2026-07-28"

logger = logging.getLogger(__name__)


def protocol_error(code: int, message: str) -> Exception:
    if SDK == 2:
        return ProtocolError(code, message)
    return ProtocolError(types.ErrorData(code=code, message=message))


def parse_message(line: bytes) -> Any:
    if SDK == 2:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    return SessionMessage(types.JSONRPCMessage.model_validate_json(line))


def message_body(message: Any) -> Any:
    """The request, response, notification or error inside a `SessionMessage`."""
    return message.message if SDK == 2 else message.message.root


def dump_message(message: Any) -> bytes:
    leave_out = {"exclude_unset": True} if SDK == 2 else {"exclude_none": True}
    text: str = message.message.model_dump_json(by_alias=True, **leave_out)
    return text.encode()


@dataclass(frozen=True, slots=True)
class Request:
    """What a client's request says about itself, and the way back to that client."""

    meta: Mapping[str, Any]
    # The Starlette request that carried it; None on stdio.
    http: Any
    session: Any
    request_id: Any
    protocol_version: str

    async def progress(self, value: float, total: float | None = None, message: str | None = None) -> None:
        token = self.meta.get("progressToken")
        if token is not None:
            await self.session.send_progress_notification(token, value, total, message, str(self.request_id))

    async def elicit(self, message: str, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        """The user's answer; None when declined, cancelled, or when the client cannot ask."""
        asked = types.ClientCapabilities(elicitation=types.ElicitationCapability())
        if not self.session.check_client_capability(asked):
            return None
        try:
            answer = await self.session.elicit_form(
                message, schema or {"type": "object", "properties": {}}, self.request_id
            )
        except (ProtocolError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            logger.warning("The client could not be asked: %s", error)
            return None
        return dict(answer.content or {}) if answer.action == "accept" else None


class Service(Protocol):
    """What a server answers; every result is the `result` object of the wire."""

    def list_tools(self) -> dict[str, Any]: ...
    async def call_tool(self, name: str, arguments: dict[str, Any], request: Request) -> dict[str, Any]: ...
    def list_resources(self) -> dict[str, Any]: ...
    def read_resource(self, uri: str) -> dict[str, Any] | None: ...
    def input_schema(self, name: str) -> dict[str, Any] | None: ...


class Endpoint:
    """An SDK server around a service; `tools_changed` tells every connected client."""

    def __init__(self, service: Service, name: str, version: str, *, list_changed: bool) -> None:
        self.service = service
        wire = _Modern if SDK == 2 else _Classic
        self._wire = wire(service, name, version, list_changed)
        self.server = self._wire.server

    async def run(self, read_stream: Any, write_stream: Any) -> None:
        await self.server.run(read_stream, write_stream, self.server.create_initialization_options())

    async def tools_changed(self) -> None:
        async with anyio.create_task_group() as group:
            for send in self._wire.outlets():
                group.start_soon(_bounded, send)


async def _bounded(send: Callable[[], Awaitable[None]]) -> None:
    # A client that does not read must not keep the others from being told.
    try:
        with anyio.move_on_after(2):
            await send()
    except Exception as error:
        logger.warning("Could not tell a client that the tools have changed: %s", error)


def _read_resource(service: Service, uri: str) -> dict[str, Any]:
    result = service.read_resource(uri)
    if result is None:
        raise protocol_error(RESOURCE_NOT_FOUND, "Resource not found")
    return result


def _announcing(server_class: Any, list_changed: bool) -> Any:
    """The SDK derives capabilities itself and never announces `listChanged`; both HTTP managers ask this method."""

    class Announcing(server_class):  # type: ignore[misc]
        def create_initialization_options(self, *_: Any, **__: Any) -> Any:
            return super().create_initialization_options(_lowlevel.NotificationOptions(tools_changed=list_changed))

    return Announcing


class _Wire:
    """A finished result: the 1.x session asks nothing of a result but this method."""

    __slots__ = ("_result",)

    def __init__(self, result: dict[str, Any]) -> None:
        self._result = result

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return self._result


class _Classic:
    """mcp 1.x.  Handlers are registered directly: the SDK's decorator validates every call with jsonschema, before
    the ACL has been asked, and needs a hundred times the time of the call."""

    def __init__(self, service: Service, name: str, version: str, list_changed: bool) -> None:
        self._service, self._streams = service, set[Any]()
        self.server = _announcing(_lowlevel.Server, list_changed)(name, version=version)
        self._run = self.server.run
        self.server.run = self._run_tracked
        self.server.request_handlers.update(
            {
                types.ListToolsRequest: self._list_tools,
                types.CallToolRequest: self._call_tool,
                types.ListResourcesRequest: self._list_resources,
                types.ReadResourceRequest: self._read_resource,
            }
        )

    async def _run_tracked(self, read_stream: Any, write_stream: Any, *args: Any, **kwargs: Any) -> None:
        self._streams.add(write_stream)
        try:
            await self._run(read_stream, write_stream, *args, **kwargs)
        finally:
            self._streams.discard(write_stream)

    def outlets(self) -> list[Callable[[], Awaitable[None]]]:
        notification = types.JSONRPCNotification(jsonrpc="2.0", method=LIST_CHANGED)
        message = SessionMessage(types.JSONRPCMessage(notification))
        return [partial(stream.send, message) for stream in self._streams]

    async def _list_tools(self, _: Any) -> _Wire:
        return _Wire(self._service.list_tools())

    async def _call_tool(self, call: Any) -> _Wire:
        params = call.params
        return _Wire(await self._service.call_tool(params.name, params.arguments or {}, self._request()))

    async def _list_resources(self, _: Any) -> _Wire:
        return _Wire(self._service.list_resources())

    async def _read_resource(self, read: Any) -> _Wire:
        return _Wire(_read_resource(self._service, str(read.params.uri)))

    def _request(self) -> Request:
        context = self.server.request_context
        meta = context.meta.model_dump(by_alias=True, exclude_none=True) if context.meta else {}
        client = context.session.client_params
        return Request(
            meta, context.request, context.session, context.request_id, client.protocolVersion if client else ""
        )


class _Modern:
    """mcp 2.x, which serves the handshake revisions and 2026-07-28 from one server."""

    def __init__(self, service: Service, name: str, version: str, list_changed: bool) -> None:
        self._service, self._list_changed = service, list_changed
        self._connections: WeakSet[Any] = WeakSet()
        options: dict[str, Any] = {}
        if "get_tool_input_schema" in inspect.signature(_lowlevel.Server.__init__).parameters:
            # Without it every call over 2026-07-28 HTTP lists all tools to find one schema.
            options["get_tool_input_schema"] = service.input_schema
        if list_changed:
            subscriptions: Any = import_module("mcp.server.subscriptions")
            self._bus = subscriptions.InMemorySubscriptionBus()
            self._changed = subscriptions.ToolsListChanged
            options["on_subscriptions_listen"] = subscriptions.ListenHandler(self._bus)
        self.server = _announcing(_lowlevel.Server, list_changed)(name, version=version, **options)
        add = self.server.add_request_handler
        add("tools/list", types.PaginatedRequestParams, self._list_tools)
        add("tools/call", types.CallToolRequestParams, self._call_tool)
        add("resources/list", types.PaginatedRequestParams, self._list_resources)
        add("resources/read", types.ReadResourceRequestParams, self._read_resource)
        self.server.middleware.append(self._intercept)

    def outlets(self) -> list[Callable[[], Awaitable[None]]]:
        listeners = [connection.send_tool_list_changed for connection in self._connections]
        return [*listeners, partial(self._bus.publish, self._changed())] if self._list_changed else listeners

    async def _intercept(self, context: Any, call_next: Any) -> Any:
        if context.method == "notifications/initialized":
            self._connections.add(context.session._connection)
        if context.method == "tools/list":
            # Answered here, because past this point the SDK validates and dumps every tool anew.
            return await self._list_tools(context, None)
        return await call_next(context)

    async def _list_tools(self, context: Any, _: Any) -> dict[str, Any]:
        result = self._service.list_tools()
        if context.protocol_version < MODERN:
            return result
        info = {types.SERVER_INFO_META_KEY: self.server.server_info_stamp}
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": info, **result}

    async def _call_tool(self, context: Any, params: Any) -> dict[str, Any]:
        return await self._service.call_tool(params.name, params.arguments or {}, self._request(context))

    async def _list_resources(self, context: Any, _: Any) -> dict[str, Any]:
        return _uncached(context, self._service.list_resources())

    async def _read_resource(self, context: Any, params: Any) -> dict[str, Any]:
        return _uncached(context, _read_resource(self._service, str(params.uri)))

    def _request(self, context: Any) -> Request:
        meta = (context.params or {}).get("_meta") or {}
        return Request(meta, context.request, context.session, context.request_id, context.protocol_version)


def _uncached(context: Any, result: dict[str, Any]) -> dict[str, Any]:
    if context.protocol_version < MODERN:
        return result
    return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
