"""HTTP requests from configuration, as apcore modules: one a method, so that what may run is fixed at build time.

The model chooses values of parameters and nothing else: no URL, no header, no method.
"""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urljoin, urlsplit

import httpcore
from apcore import ModuleAnnotations

from apcore_agents.egress import GuardedBackend, Resolve
from apcore_agents.failures import ToolError
from apcore_agents.runs import cancelled_with_its_caller
from apcore_agents.schemas import JsonSchema
from apcore_agents.secrets import Secrets
from apcore_agents.settings import HttpOperation, HttpService
from apcore_agents.tools import HTTP_OUTPUT, http_annotations

__all__ = ["HttpTool", "ServiceClient"]

# The Executor never cancels what has run out of time, so the request gives up first.
MARGIN = 0.25
CONNECTIONS = 20
REDIRECTS = {301, 302, 303, 307, 308}

Headers = list[tuple[bytes, bytes]]


class ServiceClient:
    """The connections to one service, and to nowhere else."""

    def __init__(self, name: str, service: HttpService, secrets: Secrets, resolve: Resolve | None = None) -> None:
        self.holder, self.service, self.secrets = f"http.{name}", service, secrets
        self.base = urlsplit(service.base_url)
        backend = GuardedBackend(service.networks, resolve)
        # No proxies: httpcore reads no environment, and a proxy would connect to what was never vetted.
        self._pool = httpcore.AsyncConnectionPool(network_backend=backend, max_connections=CONNECTIONS)

    async def close(self) -> None:
        await self._pool.aclose()

    def headers(self) -> Headers:
        given = {name: self.secrets.fill(value, self.holder) for name, value in self.service.headers.items()}
        fixed = {
            "Host": self.base.netloc,
            "Accept": "application/json, text/*;q=0.9, */*;q=0.1",
            # A small body that unpacks into a large one is not read.
            "Accept-Encoding": "identity",
            "User-Agent": "apcore-mcp",
        }
        try:
            return [(name.encode("ascii"), value.encode("latin-1")) for name, value in (fixed | given).items()]
        except UnicodeEncodeError:
            raise ToolError("SECRET_UNAVAILABLE", "a header holds what no header can") from None

    @asynccontextmanager
    async def request(self, method: str, url: str, body: bytes | None) -> AsyncIterator[httpcore.Response]:
        """Follow redirects within the origin, as far as the configuration allows."""
        for hop in range(self.service.redirects + 1):
            headers = self.headers() + ([(b"Content-Type", b"application/json")] if body is not None else [])
            async with self._pool.stream(method, url, headers=headers, content=body) as response:
                location = _header(response, b"location")
                if response.status not in REDIRECTS or not location or method not in ("GET", "HEAD"):
                    yield response
                    return
                if hop == self.service.redirects:
                    raise ToolError("REDIRECT_DENIED", f"{self.base.hostname} redirects, and that is not followed")
                url = self._within_origin(urljoin(url, location))
        raise AssertionError("every hop returns or raises")

    def _within_origin(self, url: str) -> str:
        target = urlsplit(url)
        if (target.scheme, target.netloc) != (self.base.scheme, self.base.netloc):
            raise ToolError("REDIRECT_DENIED", f"{self.base.hostname} redirects to somewhere else")
        return target._replace(fragment="").geturl()


class HttpTool:
    def __init__(self, client: ServiceClient, operation: HttpOperation) -> None:
        self._client, self._operation = client, operation
        timeout = client.service.timeout
        self._timeout = max(timeout - MARGIN, timeout / 2)
        self.description = operation.description
        self.tags = ["http"]
        self.input_schema = JsonSchema(operation.input_schema)
        self.output_schema = JsonSchema(HTTP_OUTPUT, "Output")
        self.annotations = ModuleAnnotations(
            **http_annotations(operation),
            extra={
                "resources": {"timeout": int(timeout * 1000)},
                "http": {"method": operation.method, "host": client.base.netloc},
            },
        )

    async def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        operation, readonly = self._operation, self._operation.is_safe
        url, body = build_url(self._client.base, operation, inputs), build_body(operation, inputs)
        # Errors name the host and the kind of error: a URL may hold whatever its parameters do.
        place = f"{operation.method} {self._client.base.hostname}"
        try:
            with cancelled_with_its_caller():
                output = await asyncio.wait_for(self._answer(url, body), self._timeout)
        except (TimeoutError, httpcore.ReadTimeout, httpcore.WriteTimeout):
            raise ToolError("UPSTREAM_TIMEOUT", f"{place} took too long", readonly=readonly) from None
        except (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout, ssl.SSLError) as error:
            raise ToolError("UPSTREAM_UNAVAILABLE", f"{place}: {type(error).__name__}") from None
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            message = f"{place}: {type(error).__name__}"
            raise ToolError("UPSTREAM_DISCONNECTED", message, readonly=readonly) from None
        scrubbed: dict[str, Any] = self._client.secrets.scrubber.value(output)
        return scrubbed

    async def _answer(self, url: str, body: bytes | None) -> dict[str, Any]:
        async with self._client.request(self._operation.method, url, body) as response:
            return await read_response(response, self._client.service.max_bytes)


def build_url(base: SplitResult, operation: HttpOperation, inputs: dict[str, Any]) -> str:
    path = re.sub(r"\{([^{}]*)\}", lambda found: _segment(found[1], inputs[found[1]]), operation.path)
    in_query = set(operation.query) if not operation.is_safe else set(inputs) - set(operation.placeholders)
    query = urlencode([(name, _plain(inputs[name])) for name in sorted(in_query & set(inputs))], doseq=True)
    return base._replace(path=f"{base.path.rstrip('/')}/{path}", query=query).geturl()


def _segment(name: str, value: Any) -> str:
    """One segment of a path.  Encoding is not enough: some servers decode `..%2F` before they look at it."""
    text = str(_plain(value))
    if text in ("", ".", "..") or re.search(r"[/\\%\x00-\x1f\x7f]", text):
        raise ToolError("INVALID_ARGUMENT", f"{name!r} cannot be part of a path", field=name)
    return quote(text, safe="")


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return json.dumps(value, separators=(",", ":")) if isinstance(value, dict) else value


def build_body(operation: HttpOperation, inputs: dict[str, Any]) -> bytes | None:
    if operation.is_safe:
        return None
    elsewhere = {*operation.placeholders, *operation.query}
    return json.dumps({name: value for name, value in inputs.items() if name not in elsewhere}).encode()


async def read_response(response: httpcore.Response, limit: int) -> dict[str, Any]:
    encoding = _header(response, b"content-encoding").lower()
    if encoding not in ("", "identity"):
        raise ToolError("UPSTREAM_PROTOCOL", f"the answer is packed as {encoding[:20]}, which was not asked for")
    data, truncated = bytearray(), False
    async for chunk in response.aiter_stream():
        data += chunk
        if len(data) > limit:
            truncated = True
            break
    body = bytes(data[:limit])
    return {
        "ok": response.status < 400,
        "status": response.status,
        "data": _parsed(body, _header(response, b"content-type"), truncated),
        "truncated": truncated,
    }


def _parsed(body: bytes, content_type: str, truncated: bool) -> Any:
    text = _decoded(body, content_type)
    if "json" not in content_type.lower() or truncated:
        return text
    try:
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def _decoded(body: bytes, content_type: str) -> str:
    found = re.search(r"charset=\"?([A-Za-z0-9_.:-]+)", content_type)
    try:
        return body.decode(found[1] if found else "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def _header(response: httpcore.Response, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in response.headers if key.lower() == name), "")
