"""The explorer's page and its JSON endpoints."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

# The page is one file: nothing is fetched from elsewhere, and no other site may frame it.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
BODY_LIMIT = 4 * 2**20
_STATUS = {"MODULE_NOT_FOUND": 404, "SCHEMA_VALIDATION_ERROR": 400, "GENERAL_INVALID_INPUT": 400}


class Explored(Protocol):
    """What the explorer needs of a server; results of calls are shaped as MCP's."""

    tools: Any

    async def call_from_browser(self, name: str, arguments: dict[str, Any], request: Request) -> dict[str, Any]: ...


def explorer_page(generated: Path | None) -> bytes:
    """The page that the build wrote; without a build, the packaged one, which asks the live endpoints for its tools."""
    if generated is not None and (page := generated / "explorer.html").is_file():
        return page.read_bytes()
    return files("apcore_host").joinpath("explorer.html").read_bytes()


def explorer_routes(server: Explored, page: bytes, prefix: str, *, allow_execute: bool) -> list[Route]:
    async def show(_: Request) -> Response:
        return Response(page, media_type="text/html", headers={"Content-Security-Policy": POLICY})

    async def list_tools(_: Request) -> Response:
        return JSONResponse([_summary(tool) for tool in server.tools.tools()])

    async def detail(request: Request) -> Response:
        name = request.path_params["name"]
        tool = server.tools.tool(name)
        return _not_found(name) if tool is None else JSONResponse(tool)

    async def call(request: Request) -> Response:
        name = request.path_params["name"]
        if not allow_execute:
            return _error("Tool execution is disabled", 403)
        if server.tools.tool(name) is None:
            return _not_found(name)
        # A form of another site can send text, but not this type.
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _error("The body must be application/json", 415)
        body = await _body(request)
        if body is None:
            return _error("The body is too large", 413)
        try:
            arguments = json.loads(body or b"{}")
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            return _error("Input validation failed: the body must be a JSON object", 400)
        return _answer(await server.call_from_browser(name, arguments, request))

    return [
        Route(f"{prefix}/", show, methods=["GET"]),
        Route(f"{prefix}/tools", list_tools, methods=["GET"]),
        Route(prefix + "/tools/{name}", detail, methods=["GET"]),
        Route(prefix + "/tools/{name}/call", call, methods=["POST"]),
    ]


async def _body(request: Request) -> bytes | None:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_LIMIT:
            return None
    return body


def _summary(tool: dict[str, Any]) -> dict[str, Any]:
    return {key: tool[key] for key in ("name", "description", "annotations")}


def _answer(result: dict[str, Any]) -> Response:
    text = result["content"][0]["text"]
    if not result["isError"]:
        return Response(b'{"result":%s}' % text.encode(), media_type="application/json")
    code = result["_meta"]["apcore/error"]["code"]
    # Output that fails its schema is the module's fault, and shares the code of input that does.
    fault_of_module = text.startswith("Module error")
    return _error(text, 500 if fault_of_module else _STATUS.get(code, 500))


def _not_found(name: str) -> Response:
    return _error(f"Tool '{name}' not found", 404)


def _error(message: str, status: int) -> Response:
    return JSONResponse({"error": message}, status_code=status)
