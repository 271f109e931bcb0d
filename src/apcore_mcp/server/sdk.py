"""The one seam over the MCP SDK, 1.x and 2.x: on our side everything is shaped as it is on the wire."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any
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
_SessionMessage: Any = import_module("mcp.shared.message").SessionMessage
ProtocolError: type[Exception] = _exceptions.MCPError if SDK == 2 else _exceptions.McpError

RESOURCE_NOT_FOUND = -32002
INVALID_PARAMS = -32602
LIST_CHANGED = "notifications/tools/list_changed"
ANY_FORM: dict[str, Any] = {"type": "object", "properties": {}}
MODERN = "2026-07-28"

logger = logging.getLogger(__name__)


def protocol_error(code: int, message: str, data: Any = None) -> Exception:
    error = types.ErrorData(code=code, message=message, data=data)
    return ProtocolError(code, message, data) if SDK == 2 else ProtocolError(error)


def parse_message(line: bytes) -> Any:
    if SDK == 2:
        return _SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    return _SessionMessage(types.JSONRPCMessage.model_validate_json(line))


def message_body(message: Any) -> Any:
    """The request, response, notification or error inside a session message."""
    return message.message if SDK == 2 else message.message.root


def dump_message(message: Any) -> bytes:
    left_out = {"exclude_unset": True} if SDK == 2 else {"exclude_none": True}
    text: str = message.message.model_dump_json(by_alias=True, **left_out)
    return text.encode()


@dataclass(frozen=True, slots=True)
class Request:
    """What a client's request says about itself, and the way back to that client."""

    meta: Mapping[str, Any]
    # The Starlette request that carried it; None on stdio.
    http: Any
    session: Any
    request_id: Any
    # Since 2026-07-28 a server asks by answering a call with a question; `ask` is how that is done.
    asks_by_answering: bool = False
    ask: Callable[[str, dict[str, Any] | None], Awaitable[dict[str, Any] | None]] | None = None

    @property
    def session_id(self) -> str:
        return str(self.http.headers.get("mcp-session-id", "")) if self.http is not None else "stdio"

    @property
    def can_elicit(self) -> bool:
        needed = types.ClientCapabilities(elicitation=types.ElicitationCapability())
        return bool(self.session.check_client_capability(needed))

    async def progress(self, value: float, total: float | None = None, message: str | None = None) -> None:
        token = self.meta.get("progressToken")
        if token is not None:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await self.session.send_progress_notification(token, value, total, message, str(self.request_id))

    async def elicit(self, message: str, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        """The user's answer; None when declined, cancelled, or when the client cannot ask."""
        if not self.can_elicit:
            return None
        if self.ask is not None:
            return await self.ask(message, schema)
        try:
            answer = await self.session.elicit_form(message, schema or ANY_FORM, self.request_id)
        except (ProtocolError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            logger.warning("The client could not be asked: %s", error)
            return None
        return dict(answer.content or {}) if answer.action == "accept" else None


# Takes the request and its params, and gives the `result` object of the wire.
Answer = Callable[[Request, Any], Awaitable[dict[str, Any]]]
Answers = Mapping[str, Answer]
SchemaOf = Callable[[str], dict[str, Any] | None]


class Endpoint:
    """An SDK server that gives these answers, by method; `tools_changed` tells every connected client."""

    def __init__(self, answers: Answers, name: str, version: str, schema_of: SchemaOf, list_changed: bool) -> None:
        notifying = _lowlevel.NotificationOptions(tools_changed=list_changed)

        class Server(_lowlevel.Server):  # type: ignore[misc]
            # The SDK asks this method on every transport, and by itself never announces `listChanged`.
            def create_initialization_options(self, *_: Any, **__: Any) -> Any:
                return super().create_initialization_options(notifying)

        binding = _Second if SDK == 2 else _First
        self._binding = binding(partial(Server, name, version=version), answers, schema_of, list_changed)
        self.server = self._binding.server

    async def run(self, read_stream: Any, write_stream: Any) -> None:
        await self.server.run(read_stream, write_stream, self.server.create_initialization_options())

    async def tools_changed(self) -> None:
        async with anyio.create_task_group() as group:
            for send in self._binding.outlets():
                group.start_soon(_send_bounded, send)


async def _send_bounded(send: Callable[[], Awaitable[None]]) -> None:
    # A client that does not read must not keep the others from being told.
    try:
        with anyio.move_on_after(2):
            await send()
    except Exception as error:
        logger.warning("Could not tell a client that the tools have changed: %s", error)


class _First:
    """mcp 1.x.  Handlers are registered directly: the SDK's decorator would validate every call with jsonschema, before
    the ACL is asked, and for longer than the call itself takes."""

    def __init__(self, make: Any, answers: Answers, schema_of: SchemaOf, list_changed: bool) -> None:
        self.server = make()
        self._streams = set[Any]()
        self._run, self.server.run = self.server.run, self._run_known
        requests = {
            "tools/list": types.ListToolsRequest,
            "tools/call": types.CallToolRequest,
            "resources/list": types.ListResourcesRequest,
            "resources/templates/list": types.ListResourceTemplatesRequest,
            "resources/read": types.ReadResourceRequest,
        }
        for method, answer in answers.items():
            self.server.request_handlers[requests[method]] = partial(self._answer, answer)

    async def _run_known(self, read_stream: Any, write_stream: Any, *args: Any, **kwargs: Any) -> None:
        self._streams.add(write_stream)
        try:
            await self._run(read_stream, write_stream, *args, **kwargs)
        finally:
            self._streams.discard(write_stream)

    def outlets(self) -> list[Callable[[], Awaitable[None]]]:
        notification = types.JSONRPCNotification(jsonrpc="2.0", method=LIST_CHANGED)
        message = _SessionMessage(types.JSONRPCMessage(notification))
        return [partial(stream.send, message) for stream in self._streams]

    async def _answer(self, answer: Answer, message: Any) -> Any:
        context = self.server.request_context
        meta = context.meta.model_dump(by_alias=True, exclude_none=True) if context.meta else {}
        request = Request(meta, context.request, context.session, context.request_id)
        result = await answer(request, message.params if message else None)
        # The session asks nothing of a result but this method.
        return SimpleNamespace(model_dump=lambda **_: result)


class _Second:
    """mcp 2.x, which serves the handshake revisions and 2026-07-28 from one server."""

    def __init__(self, make: Any, answers: Answers, schema_of: SchemaOf, list_changed: bool) -> None:
        self._answers = answers
        self._connections: WeakSet[Any] = WeakSet()
        options: dict[str, Any] = {}
        if "get_tool_input_schema" in inspect.signature(_lowlevel.Server.__init__).parameters:
            # Without it every call over 2026-07-28 HTTP lists all tools to find one schema.
            options["get_tool_input_schema"] = schema_of
        if list_changed:
            self._subscriptions: Any = import_module("mcp.server.subscriptions")
            self._bus = self._subscriptions.InMemorySubscriptionBus()
            options["on_subscriptions_listen"] = self._subscriptions.ListenHandler(self._bus)
        self.server = make(**options)
        params = {"tools/call": types.CallToolRequestParams, "resources/read": types.ReadResourceRequestParams}
        for method, answer in answers.items():
            kind = params.get(method, types.PaginatedRequestParams)
            self.server.add_request_handler(method, kind, partial(self._answer, answer))
        self.server.middleware.append(self._intercept)

    def outlets(self) -> list[Callable[[], Awaitable[None]]]:
        subscribers = partial(self._bus.publish, self._subscriptions.ToolsListChanged())
        return [subscribers, *(connection.send_tool_list_changed for connection in self._connections)]

    async def _intercept(self, context: Any, call_next: Any) -> Any:
        if context.method == "notifications/initialized":
            self._connections.add(context.session._connection)
        if context.method == "tools/list":
            # Answered here, because past this point the SDK validates and dumps every tool anew.
            return await self._answer(self._answers["tools/list"], context, None)
        return await call_next(context)

    async def _answer(self, answer: Answer, context: Any, params: Any) -> dict[str, Any]:
        meta = (context.params or {}).get("_meta") or {}
        modern = context.protocol_version >= MODERN
        result = await answer(Request(meta, context.request, context.session, context.request_id, modern), params)
        if not modern:
            return result
        stamped = {types.SERVER_INFO_META_KEY: self.server.server_info_stamp, **result.get("_meta", {})}
        hints = {} if context.method == "tools/call" else {"ttlMs": 0, "cacheScope": "private"}
        return {"resultType": "complete", **hints, **result, "_meta": stamped}
