"""What the server answers, whatever the transport."""

from typing import TYPE_CHECKING, Any

from apcore_mcp.server.router import ExecutionRouter
from apcore_mcp.server.sdk import Request
from apcore_mcp.server.stdio import Prebuilt
from apcore_mcp.server.tools import Tools

if TYPE_CHECKING:
    from apcore import Identity

DOCS = "docs://"


class ToolService:
    """Answers with wire-shaped results; `prebuilt` leaves the tool list to a transport that can write raw JSON."""

    def __init__(self, tools: Tools, router: ExecutionRouter, identity: "Identity | None", *, prebuilt: bool) -> None:
        self.tools, self.router = tools, router
        self._identity, self._prebuilt = identity, prebuilt

    def list_tools(self) -> dict[str, Any]:
        return {"tools": Prebuilt(self.tools.listed()) if self._prebuilt else self.tools.tools()}

    def input_schema(self, name: str) -> dict[str, Any] | None:
        tool = self.tools.tool(name)
        return tool["inputSchema"] if tool else None

    async def call_tool(self, name: str, arguments: dict[str, Any], request: Request) -> dict[str, Any]:
        return await self.router.handle_call(name, arguments, request, self.caller_of(request.http))

    def caller_of(self, http: Any) -> "Identity | None":
        """On HTTP a caller is whom the verified token names, and nobody without one; on stdio the configured identity."""
        if http is None:
            return self._identity
        token = getattr(http.scope.get("user"), "access_token", None)
        return _identity(token) if token is not None else None

    def list_resources(self) -> dict[str, Any]:
        return {"resources": [_resource(name) for name in self.tools.docs()]}

    def read_resource(self, uri: str) -> dict[str, Any] | None:
        text = self.tools.docs().get(uri.removeprefix(DOCS)) if uri.startswith(DOCS) else None
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]} if text else None


def _resource(name: str) -> dict[str, Any]:
    return {"uri": DOCS + name, "name": DOCS + name, "title": f"Documentation of {name}", "mimeType": "text/plain"}


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
