"""What the server answers, whatever the transport."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apcore_host.parking import ParkedCalls, Question
from apcore_host.selection import Tools
from apcore_host.stdio import Prebuilt
from apcore_mcp.server.router import ExecutionRouter, Unattended
from apcore_mcp.server.sdk import ANY_FORM, INVALID_PARAMS, RESOURCE_NOT_FOUND, Answers, Request, protocol_error

if TYPE_CHECKING:
    from apcore import Identity

DOCS = "docs://"


class ToolService:
    """Answers with wire-shaped results; `prebuilt` leaves the tool list to a transport that can write raw JSON."""

    def __init__(self, tools: Tools, router: ExecutionRouter, identity: "Identity | None", *, prebuilt: bool) -> None:
        self.tools, self.router = tools, router
        self._identity, self._prebuilt, self.parked = identity, prebuilt, ParkedCalls()
        self.answers: Answers = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
        }

    def input_schema(self, name: str) -> dict[str, Any] | None:
        tool = self.tools.tool(name)
        return tool["inputSchema"] if tool else None

    async def call_from_browser(self, name: str, arguments: dict[str, Any], request: Any) -> dict[str, Any]:
        return await self.router.handle_call(name, arguments, Unattended(request.headers), self._caller(request))

    async def _list_tools(self, _: Request, __: Any) -> dict[str, Any]:
        return {"tools": Prebuilt(self.tools.listed()) if self._prebuilt else self.tools.tools()}

    async def _call_tool(self, request: Request, params: Any) -> dict[str, Any]:
        name, arguments, identity = params.name, params.arguments or {}, self._caller(request.http)
        if not (request.asks_by_answering and request.can_elicit):
            return await self.router.handle_call(name, arguments, request, identity)
        binding = (name, arguments, identity)
        if params.request_state is not None:
            try:
                outcome = await self.parked.resume(params.request_state, binding, _answer(params.input_responses))
            except KeyError:
                raise protocol_error(INVALID_PARAMS, "Unknown or expired requestState") from None
        else:
            outcome = await self.parked.start(
                binding, lambda ask: self.router.handle_call(name, arguments, replace(request, ask=ask), identity)
            )
        return _input_required(outcome) if isinstance(outcome, Question) else outcome

    async def _list_resources(self, _: Request, __: Any) -> dict[str, Any]:
        return {"resources": [_resource(DOCS + name) for name in self.tools.docs()]}

    async def _list_templates(self, _: Request, __: Any) -> dict[str, Any]:
        # None; but clients ask every server that has resources.
        return {"resourceTemplates": []}

    async def _read_resource(self, request: Request, params: Any) -> dict[str, Any]:
        uri = str(params.uri)
        text = self.tools.docs().get(uri.removeprefix(DOCS)) if uri.startswith(DOCS) else None
        if text is None:
            # The revision that has servers ask by answering has also withdrawn the code of its own.
            code = INVALID_PARAMS if request.asks_by_answering else RESOURCE_NOT_FOUND
            raise protocol_error(code, "Resource not found", {"uri": uri})
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}

    def _caller(self, http: Any) -> "Identity | None":
        """Over HTTP whom the verified token names, and nobody without one; on stdio the configured identity."""
        if http is None:
            return self._identity
        token = getattr(http.scope.get("user"), "access_token", None)
        return _identity(token) if token is not None else None


def _input_required(question: Question) -> dict[str, Any]:
    params = {"mode": "form", "message": question.message, "requestedSchema": question.schema or ANY_FORM}
    requests = {"answer": {"method": "elicitation/create", "params": params}}
    return {"resultType": "input_required", "inputRequests": requests, "requestState": question.token}


def _answer(responses: Any) -> dict[str, Any] | None:
    answer = (responses or {}).get("answer")
    return dict(answer.content or {}) if answer is not None and answer.action == "accept" else None


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
