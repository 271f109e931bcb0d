"""What the server answers, whatever the transport."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apcore_mcp.server.router import ExecutionRouter
from apcore_mcp.server.sdk import ANY_FORM, INVALID_PARAMS, RESOURCE_NOT_FOUND, Answer, Request, protocol_error
from apcore_mcp.server.tools import Tools
from apcore_runtime.parking import ParkedCalls, Question
from apcore_runtime.stdio import Prebuilt

if TYPE_CHECKING:
    from apcore import Identity

DOCS = "docs://"


class ToolService:
    """Answers with wire-shaped results; `prebuilt` leaves the tool list to a transport that can write raw JSON."""

    def __init__(self, tools: Tools, router: ExecutionRouter, identity: "Identity | None", *, prebuilt: bool) -> None:
        self.tools, self.router = tools, router
        self._identity, self._prebuilt, self._parked = identity, prebuilt, ParkedCalls()
        self.answers: Mapping[str, Answer] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/read": self._read_resource,
        }

    def input_schema(self, name: str) -> dict[str, Any] | None:
        tool = self.tools.tool(name)
        return tool["inputSchema"] if tool else None

    async def call_from_browser(self, name: str, arguments: dict[str, Any], request: Any) -> dict[str, Any]:
        return await self.router.handle_call(name, arguments, _Browser(request.headers), self._caller(request))

    async def _list_tools(self, _: Request, __: Any) -> dict[str, Any]:
        return {"tools": Prebuilt(self.tools.listed()) if self._prebuilt else self.tools.tools()}

    async def _call_tool(self, request: Request, params: Any) -> dict[str, Any]:
        name, arguments, identity = params.name, params.arguments or {}, self._caller(request.http)
        if not (request.asks_by_answering and request.can_elicit):
            return await self.router.handle_call(name, arguments, request, identity)
        binding = (name, arguments, identity)
        if params.request_state is not None:
            try:
                outcome = await self._parked.resume(params.request_state, binding, _answer(params.input_responses))
            except KeyError:
                raise protocol_error(INVALID_PARAMS, "Unknown or expired requestState") from None
        else:
            outcome = await self._parked.start(
                binding, lambda ask: self.router.handle_call(name, arguments, _Asking(request, ask), identity)
            )
        return _input_required(outcome) if isinstance(outcome, Question) else outcome

    async def _list_resources(self, _: Request, __: Any) -> dict[str, Any]:
        return {"resources": [_resource(DOCS + name) for name in self.tools.docs()]}

    async def _read_resource(self, _: Request, params: Any) -> dict[str, Any]:
        uri = str(params.uri)
        text = self.tools.docs().get(uri.removeprefix(DOCS)) if uri.startswith(DOCS) else None
        if text is None:
            raise protocol_error(RESOURCE_NOT_FOUND, "Resource not found")
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}

    def _caller(self, http: Any) -> "Identity | None":
        """Over HTTP whom the verified token names, and nobody without one; on stdio the configured identity."""
        if http is None:
            return self._identity
        token = getattr(http.scope.get("user"), "access_token", None)
        return _identity(token) if token is not None else None


@dataclass(frozen=True, slots=True)
class _Asking:
    """A client whose questions are put by answering its request."""

    request: Request
    elicit: Any

    @property
    def meta(self) -> Mapping[str, Any]:
        return self.request.meta

    async def progress(self, value: float, total: float | None = None, message: str | None = None) -> None:
        await self.request.progress(value, total, message)


def _input_required(question: Question) -> dict[str, Any]:
    params = {"mode": "form", "message": question.message, "requestedSchema": question.schema or ANY_FORM}
    requests = {"answer": {"method": "elicitation/create", "params": params}}
    return {"resultType": "input_required", "inputRequests": requests, "requestState": question.token}


def _answer(responses: Any) -> dict[str, Any] | None:
    answer = (responses or {}).get("answer")
    return dict(answer.content or {}) if answer is not None and answer.action == "accept" else None


class _Browser:
    """Has no MCP session: progress is not shown, and nobody can be asked for approval."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.meta = headers

    async def progress(self, value: float, total: float | None = None, message: str | None = None) -> None:
        return None

    async def elicit(self, message: str, schema: dict[str, Any] | None) -> None:
        return None


def _resource(uri: str) -> dict[str, Any]:
    return {"uri": uri, "name": uri, "title": f"Documentation of {uri.removeprefix(DOCS)}", "mimeType": "text/plain"}


def _identity(token: Any) -> "Identity":
    from apcore import Identity

    claims = dict(getattr(token, "claims", None) or {})
    subject = getattr(token, "subject", None)
    declared = claims.get("roles")
    roles = [*token.scopes, *(declared if isinstance(declared, list) else ())]
    return Identity(
        id=subject or token.client_id,
        type="user" if subject else "service",
        roles=tuple(dict.fromkeys(map(str, roles))),
        attrs={"client_id": token.client_id, "claims": claims},
    )
