"""`serve()` and `async_serve()`: what they accept, refuse, announce and offer."""

import asyncio
import inspect
import logging
import re
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from apcore import Registry
from tests.requirements import requirement
from tests.server.clients import connected, http_client, http_server, listening
from tests.server.modules import Add, registry_of, returning, shop

import apcore_mcp
from apcore_host.process import bind
from apcore_mcp import async_serve, serve
from apcore_mcp.serving import ServeOptions


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("", "apcore_mcp", "mcp")]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"transport": "websocket"}, "Unknown transport: 'websocket'. Must be one of: stdio, streamable-http, sse"),
    ({"transport": "http"}, "Unknown transport: 'http'. Must be one of: stdio, streamable-http, sse"),
    ({"transport": ""}, "Unknown transport: ''. Must be one of: stdio, streamable-http, sse"),
    ({"transport": "sse", "port": 0}, "Port must be between 1 and 65535, got 0"),
    ({"transport": "streamable-http", "port": 65536}, "Port must be between 1 and 65535, got 65536"),
    ({"transport": "streamable-http", "host": ""}, "Host must not be empty"),
    ({"name": ""}, "name must not be empty"),
    ({"name": "x" * 256}, "name must not exceed 255 characters"),
    ({"version": ""}, "version must not be empty"),
    ({"tags": ["public", ""]}, "Tag values must not be empty"),
    ({"prefix": ""}, "prefix must not be empty"),
    ({"log_level": "LOUD"}, "Unknown log level: 'LOUD'. Must be one of: DEBUG, INFO, WARNING, ERROR"),
    ({"transport": "sse", "explorer_prefix": "explorer"}, "explorer_prefix must start with '/'"),
]


@requirement(
    "FR-SERVER-002",
    "FR-SERVER-004",
    "FR-SERVER-007",
    "FR-SERVER-008",
    "FR-SERVER-009",
    "FR-SERVER-010",
    "FR-EXPLORER-006",
)
@pytest.mark.parametrize(("options", "message"), REFUSALS, ids=[message for _, message in REFUSALS])
def test_a_wrong_option_is_refused_in_the_documented_words(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the exact text is the point
        serve(Registry(), **options)
    assert str(refusal.value) == message


@requirement("FR-EXEC-005")
def test_only_a_registry_or_an_executor_can_be_served() -> None:
    with pytest.raises(TypeError, match=r"^Expected Registry or Executor instance, got dict$"):
        serve({})  # type: ignore[arg-type]


def test_a_callback_must_be_callable() -> None:
    with pytest.raises(TypeError, match="on_startup must be callable or None"):
        serve(Registry(), on_startup="soon")


@requirement("FR-SERVER-007")
@pytest.mark.parametrize("transport", ["STDIO", "Streamable-HTTP", "Sse"])
def test_the_case_of_a_transport_does_not_matter(transport: str) -> None:
    assert ServeOptions(transport=transport).transport == transport.lower()


@requirement("FR-TRANSPORT-005")
def test_host_and_port_mean_nothing_on_stdio() -> None:
    assert ServeOptions(transport="stdio", host="", port=0).transport == "stdio"


@requirement("FR-SERVER-002", "FR-TRANSPORT-003")
@pytest.mark.parametrize("port", [1, 65535])
def test_every_real_port_is_accepted(port: int) -> None:
    options = ServeOptions(transport="streamable-http", host="0.0.0.0", port=port)
    assert (options.host, options.port) == ("0.0.0.0", port)


@requirement("NFR-MAINT-003", "FR-SERVER-001")
def test_the_signature_shows_every_documented_parameter_with_its_default() -> None:
    parameters = inspect.signature(serve).parameters
    documented = {
        "transport": "stdio",
        "host": "127.0.0.1",
        "port": 8000,
        "name": "apcore-mcp",
        "version": None,
        "on_startup": None,
        "on_shutdown": None,
        "tags": None,
        "prefix": None,
        "log_level": None,
        "dynamic": False,
        "validate_inputs": False,
        "explorer": False,
        "explorer_prefix": "/explorer",
        "allow_execute": False,
    }
    assert {name: parameters[name].default for name in documented} == documented
    assert inspect.signature(async_serve).parameters.keys() == parameters.keys()


@requirement("FR-SERVER-010", "FR-LOG-005")
@pytest.mark.anyio
async def test_the_log_level_is_set_only_when_asked_for() -> None:
    ours = logging.getLogger("apcore_mcp")
    before = (ours.level, list(ours.handlers))
    async with async_serve(shop()):
        assert (ours.level, list(ours.handlers)) == before
    async with async_serve(shop(), log_level="debug"):
        assert ours.level == logging.DEBUG
        assert ours.handlers == []


@requirement("FR-SERVER-006", "FR-LOG-001")
@pytest.mark.anyio
async def test_an_empty_registry_is_served_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="apcore_mcp"):
        async with connected(Registry()) as client:
            assert await client.tools() == []
    assert "No modules registered; server starting with zero tools" in caplog.messages
    assert "apcore-mcp server started: 0 tools registered, transport=streamable-http" in caplog.messages


@requirement("FR-SERVER-004")
@pytest.mark.anyio
async def test_name_and_version_are_announced() -> None:
    async with connected(shop(), name="my-tools", version="2.0.0") as client:
        assert client.server["serverInfo"] == {"name": "my-tools", "version": "2.0.0"}
    async with connected(shop()) as client:
        assert client.server["serverInfo"] == {"name": "apcore-mcp", "version": apcore_mcp.__version__}


@requirement("FR-SERVER-011")
@pytest.mark.anyio
async def test_every_module_is_one_tool_with_schema_and_annotations() -> None:
    async with connected(shop()) as client:
        tools = {tool["name"]: tool for tool in await client.tools()}
    assert sorted(tools) == ["api.add", "api.hidden", "math.add", "math.async_add"]
    add = tools["math.add"]
    assert add["description"] == "Add two numbers."
    assert add["inputSchema"]["required"] == ["a"]
    assert add["outputSchema"]["required"] == ["total"]
    assert add["annotations"] == {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }


CIRCULAR = {"type": "object", "properties": {"next": {"$ref": "#"}}}


@requirement("NFR-REL-002", "FR-SERVER-011")
@pytest.mark.anyio
async def test_one_bad_schema_costs_one_tool(caplog: pytest.LogCaptureFixture) -> None:
    good = {f"good{number}": Add() for number in range(4)}
    async with connected(registry_of(bad=returning({}, input_schema=CIRCULAR), **good)) as client:
        assert await client.tool_names() == sorted(good)
        assert await client.text("bad") == "Module not found: bad"
    assert "Module bad is not offered: Circular reference" in caplog.text


@requirement("FR-SERVER-008", "FR-FILTER-001")
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tags", "names"),
    [
        (["public"], ["api.add", "math.add", "math.async_add"]),
        (["public", "stable"], ["api.add", "math.add"]),
        (["nonexistent"], []),
        ([], ["api.add", "api.hidden", "math.add", "math.async_add"]),
    ],
)
async def test_tags_keep_the_modules_that_have_all_of_them(tags: list[str], names: list[str]) -> None:
    async with connected(shop(), tags=tags) as client:
        assert await client.tool_names() == names


@requirement("FR-SERVER-009", "FR-FILTER-002", "FR-FILTER-003")
@pytest.mark.anyio
async def test_a_prefix_keeps_the_modules_below_it_and_meets_with_tags() -> None:
    async with connected(shop(), prefix="api.") as client:
        assert await client.tool_names() == ["api.add", "api.hidden"]
    async with connected(shop(), prefix="api.", tags=["public"]) as client:
        assert await client.tool_names() == ["api.add"]
    async with connected(shop(), prefix="nonexistent.") as client:
        assert await client.tool_names() == []


@requirement("FR-FILTER-001", "FR-FILTER-002")
@pytest.mark.anyio
async def test_what_a_filter_hides_does_not_exist_for_the_client() -> None:
    async with connected(shop(), prefix="api.") as client:
        hidden, missing = await client.call("math.add", {"a": 1}), await client.call("math.nope", {"a": 1})
        assert hidden["content"][0]["text"] == "Module not found: math.add"
        assert str(hidden).replace("math.add", "math.nope") == str(missing)
        assert [resource["uri"] for resource in await client.resources()] == ["docs://api.add"]
        with pytest.raises(Exception, match="Resource not found"):
            await client.read("docs://math.add")


@requirement("FR-RESOURCE-001", "FR-RESOURCE-002")
@pytest.mark.anyio
async def test_documentation_is_a_resource_and_its_absence_is_not() -> None:
    async with connected(shop()) as client:
        assert [resource["uri"] for resource in await client.resources()] == ["docs://api.add", "docs://math.add"]
        content = (await client.read("docs://math.add"))["contents"][0]
        assert (content["text"], content["mimeType"]) == ("Adds `a` and `b`.", "text/plain")
        for uri in ("docs://math.async_add", "docs://nothing", "file:///etc/passwd"):
            with pytest.raises(Exception, match="Resource not found"):
                await client.read(uri)


@pytest.mark.anyio
async def test_callbacks_run_around_the_server_whether_async_or_not() -> None:
    seen: list[str] = []

    async def stopped() -> None:
        seen.append("stopped")

    async with connected(shop(), on_startup=lambda: seen.append("started"), on_shutdown=stopped) as client:
        assert seen == ["started"]
        await client.tools()
    assert seen == ["started", "stopped"]


@pytest.mark.anyio
async def test_validate_inputs_holds_arguments_to_the_published_schema() -> None:
    from pydantic import BaseModel, Field

    class Picky(BaseModel):
        colour: str = Field(json_schema_extra={"enum": ["red", "blue"]})

    registry = registry_of(paint=returning({}, input_schema=Picky))
    async with connected(registry) as client:
        assert (await client.call("paint", {"colour": "green"}))["isError"] is False
    async with connected(registry, validate_inputs=True) as client:
        text = await client.text("paint", {"colour": "green"})
        assert text == "Input validation failed:\n- colour: 'green' is not one of ['red', 'blue'] (enum)"
        assert (await client.call("paint", {"colour": "red"}))["isError"] is False


@pytest.mark.anyio
async def test_the_asgi_application_can_be_mounted_in_another() -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    async with (
        async_serve(shop()) as app,
        listening(Starlette(routes=[Mount("/tools", app=app)])) as url,
        http_client(f"{url}/tools") as client,
    ):
        assert await client.text("math.add", {"a": 1}) == '{"total": 2}'


@requirement("FR-HEALTH-001", "FR-HEALTH-002")
@pytest.mark.anyio
async def test_health_counts_the_tools_and_asks_for_no_token() -> None:
    async with http_server(shop(), token_verifier=NoToken()) as url, httpx.AsyncClient() as http:
        answer = await http.get(f"{url}/health", headers={"Host": "anything.example"})
        refused = await http.post(f"{url}/mcp", json={})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json().keys() == {"status", "module_count", "uptime_seconds"}
    assert (answer.json()["status"], answer.json()["module_count"]) == ("ok", 4)
    assert answer.json()["uptime_seconds"] >= 0
    assert refused.status_code == 401


class NoToken:
    async def verify_token(self, token: str) -> None:
        return None


@pytest.mark.anyio
async def test_metrics_are_off_unless_asked_for_and_count_calls() -> None:
    async with http_server(shop()) as url, httpx.AsyncClient() as http:
        assert (await http.get(f"{url}/metrics")).status_code == 404
    async with http_server(shop(), metrics=True) as url, http_client(url) as client, httpx.AsyncClient() as http:
        await client.call("math.add", {"a": 1})
        answer = await http.get(f"{url}/metrics", follow_redirects=False)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'apcore_module_calls_total{module_id="math.add",status="success"} 1' in answer.text


@pytest.mark.anyio
async def test_small_answers_do_not_wait_for_the_clients_acknowledgement() -> None:
    accepted: list[int] = []

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            connection = transport.get_extra_info("socket")
            accepted.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    with bind("127.0.0.1", 0) as listener:
        async with await asyncio.get_running_loop().create_server(Connection, sock=listener):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            await reader.read()
            writer.close()
    assert accepted == [1]


@pytest.mark.anyio
@pytest.mark.parametrize("header", ["Host", "Origin"])
async def test_a_foreign_host_or_origin_is_refused_unless_allowed(header: str) -> None:
    foreign = {"Host": "evil.example", "Origin": "http://evil.example"}[header]
    allowed = {"allow_hosts": ["evil.example"]} if header == "Host" else {"allow_origins": ["http://evil.example"]}
    headers = {header: foreign, "Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient() as http:
        async with http_server(shop()) as url:
            refused = await http.post(f"{url}/mcp", json=PING, headers=headers)
            assert refused.status_code in (403, 421)
            # On the address itself, without a redirect that would change the host.
            assert (await http.post(f"{url}/mcp", json=PING)).status_code != 307
        async with http_server(shop(), **allowed) as url:
            assert (await http.post(f"{url}/mcp", json=PING, headers=headers)).status_code not in (403, 421)


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.mark.anyio
async def test_a_body_beyond_the_limit_is_refused() -> None:
    async with http_server(shop()) as url, httpx.AsyncClient() as http:
        answer = await http.post(f"{url}/mcp", content=b"x" * (5 * 2**20), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.anyio
async def test_a_stateless_server_keeps_no_session() -> None:
    async with http_server(shop(), stateless=True, json_response=True) as url:
        async with http_client(url) as client:
            assert await client.text("math.add", {"a": 1}) == '{"total": 2}'
        headers = {"Accept": "application/json, text/event-stream"}
        async with httpx.AsyncClient(headers=headers) as http:
            call = {"name": "math.add", "arguments": {"a": 4}}
            answer = await http.post(f"{url}/mcp", json={**PING, "method": "tools/call", "params": call})
    assert answer.headers["content-type"].startswith("application/json")
    assert "mcp-session-id" not in answer.headers
    assert answer.json()["result"]["structuredContent"] == {"total": 5}


@pytest.mark.anyio
async def test_two_clients_have_two_sessions() -> None:
    async with http_server(shop()) as url, http_client(url) as first, http_client(url) as second:
        one, two = await asyncio.gather(first.text("math.add", {"a": 1}), second.text("math.add", {"a": 2}))
    assert (one, two) == ('{"total": 2}', '{"total": 3}')


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("nonsense", "tree_store must be memory: or sqlite:PATH, got 'nonsense'"),
        ("sqlite:", "tree_store must be memory: or sqlite:PATH, got 'sqlite:'"),
        ("sqlite:no/such/place/tree.db", "tree_store: there is no directory no/such/place"),
    ],
)
def test_a_store_that_cannot_be_is_refused_before_the_server_starts(store: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        serve(Registry(), tree_store=store)
