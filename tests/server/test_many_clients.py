"""Many clients at once, well-behaved and not."""

import asyncio
import contextlib
import json

import httpx
import pytest
from tests.requirements import requirement
from tests.server.clients import http_client, http_server
from tests.server.modules import Add, Function, registry_of

pytestmark = pytest.mark.anyio
HEADERS = {"Accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


async def client_of(http: httpx.AsyncClient, url: str, number: int, calls: int) -> list[int]:
    """Speaks raw HTTP, so that an answer meant for somebody else cannot be hidden by an SDK."""
    opened = await http.post(f"{url}/mcp", json=INITIALIZE, headers=HEADERS)
    session = {**HEADERS, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
    await http.post(f"{url}/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
    answers = []
    for call in range(1, calls + 1):
        params = {"name": "echo", "arguments": {"value": number * 1000 + call}}
        # The same ids for everybody: only the session tells the answers apart.
        request = {"jsonrpc": "2.0", "id": call, "method": "tools/call", "params": params}
        answer = await http.post(f"{url}/mcp", json=request, headers=session)
        data = next(line[6:] for line in answer.text.splitlines() if line.startswith("data: {"))
        message = json.loads(data)
        assert message["id"] == call
        answers.append(message["result"]["structuredContent"]["value"])
    return answers


def echo() -> Function:
    async def later(inputs: dict[str, int], context: object) -> dict[str, int]:
        await asyncio.sleep(inputs["value"] % 7 / 1000)
        return {"value": inputs["value"]}

    return Function(later)


@requirement("NFR-PERF-004")
async def test_fifty_clients_get_their_own_answers_and_two_hundred_deserters_harm_nobody() -> None:
    limits = httpx.Limits(max_connections=None)
    async with http_server(registry_of(echo=echo(), add=Add())) as url:
        async with httpx.AsyncClient(limits=limits, timeout=120) as http:
            answers = await asyncio.gather(*(client_of(http, url, number, 40) for number in range(50)))
            assert answers == [[number * 1000 + call for call in range(1, 41)] for number in range(50)]
            await asyncio.gather(*(desert(http, url) for _ in range(200)))
        async with http_client(url) as fresh:
            assert await fresh.text("add", {"a": 1}) == '{"total": 2}'


async def desert(http: httpx.AsyncClient, url: str) -> None:
    """Open a session and a call, and leave without a word."""
    opened = await http.post(f"{url}/mcp", json=INITIALIZE, headers=HEADERS)
    session = {**HEADERS, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
    call = {"name": "echo", "arguments": {"value": 6}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    with contextlib.suppress(httpx.TransportError):
        async with http.stream("POST", f"{url}/mcp", json=request, headers=session):
            raise httpx.ReadError("gone")
