"""The 2026-07-28 revision, which mcp 2.x speaks: no handshake, no requests from the server."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from apcore import Identity
from tests.server.clients import PATIENCE, http_server, wire
from tests.server.modules import Function, ask_name, registry_of, shop, tell_progress
from tests.server.test_governance import CALL, Tokens, bearer, dangerous, governed

from apcore_host.parking import ParkedCalls, Question
from apcore_mcp.server.sdk import SDK, types

pytestmark = [pytest.mark.anyio]
needs_2x = pytest.mark.skipif(SDK == 1, reason="mcp 1.x ends with the revision of 2025-11-25")
REVISION = "2026-07-28"


@asynccontextmanager
async def modern(
    source: Any, answer: Any = None, headers: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Any]:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def elicited(_: Any, params: Any) -> Any:
        return types.ElicitResult(action="accept", content=answer)

    callback = {"elicitation_callback": elicited} if answer is not None else {}
    async with http_server(source, **options) as url, httpx2.AsyncClient(headers=headers) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=REVISION, read_timeout_seconds=PATIENCE, **callback) as client:
            yield client


@needs_2x
async def test_tools_and_resources_are_listed_with_their_caching_hints() -> None:
    async with modern(shop()) as client:
        tools, resources = wire(await client.list_tools()), wire(await client.list_resources())
    for answer in (tools, resources):
        assert (answer["resultType"], answer["ttlMs"], answer["cacheScope"]) == ("complete", 0, "private")
    assert [tool["name"] for tool in tools["tools"]] == ["api.add", "api.hidden", "math.add", "math.async_add"]
    assert tools["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "apcore-mcp"


@needs_2x
async def test_calls_progress_and_errors_are_as_before() -> None:
    seen: list[Any] = []

    async def remember(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    registry = shop()
    registry.register("work", Function(tell_progress))
    async with modern(registry) as client:
        result = wire(await client.call_tool("math.add", {"a": 1}))
        assert (result["resultType"], result["structuredContent"]) == ("complete", {"total": 2})
        assert wire(await client.call_tool("nope", {}))["content"][0]["text"] == "Module not found: nope"
        assert wire(await client.read_resource("docs://math.add"))["contents"][0]["text"] == "Adds `a` and `b`."
        await client.call_tool("work", {}, progress_callback=remember)
    assert seen == [(1, 3, "one"), (2, None, "two")]


@needs_2x
async def test_a_question_is_the_answer_to_a_call_and_its_answer_continues_it() -> None:
    async with modern(registry_of(ask=Function(ask_name)), answer={"name": "Ada"}) as client:
        result = wire(await client.call_tool("ask", {}))
    assert result["structuredContent"] == {"answer": {"name": "Ada"}}


@needs_2x
@pytest.mark.parametrize(
    ("answer", "text"), [({"approve": True}, '{"erased": "ada"}'), ({"approve": False}, None), (None, None)]
)
async def test_approval_is_asked_in_the_same_way(answer: Any, text: str | None) -> None:
    done: list[Any] = []
    async with modern(dangerous(done), answer=answer) as client:
        result = wire(await client.call_tool("erase", CALL))
    assert result["content"][0]["text"] == (text or "Module error: APPROVAL_DENIED")
    assert done == ([CALL] if text else [])


@needs_2x
async def test_an_answer_is_good_for_one_call_with_the_same_arguments() -> None:
    done: list[Any] = []
    answers = {"answer": types.ElicitResult(action="accept", content={"approve": True})}
    async with modern(dangerous(done), answer={"approve": True}) as client:
        asked = await client.session.call_tool("erase", CALL, allow_input_required=True)
        assert asked.input_requests["answer"].method == "elicitation/create"
        state = asked.request_state
        with pytest.raises(Exception, match="Unknown or expired requestState"):
            await client.session.call_tool(
                "erase",
                {**CALL, "user": "eve"},
                input_responses=answers,
                request_state=state,
                allow_input_required=True,
            )
        for _ in range(2):
            with pytest.raises(Exception, match="Unknown or expired requestState"):
                await client.session.call_tool(
                    "erase", CALL, input_responses=answers, request_state=state, allow_input_required=True
                )
    assert done == []


@needs_2x
async def test_the_token_says_who_calls_here_too() -> None:
    async with modern(governed(), headers=bearer("ada"), token_verifier=Tokens()) as client:
        assert json.loads(wire(await client.call_tool("who", {}))["content"][0]["text"])["roles"] == ["read", "admin"]


@needs_2x
async def test_a_subscriber_hears_of_changed_tools() -> None:
    from mcp.server.subscriptions import ToolsListChanged

    registry = shop()
    async with modern(registry, dynamic=True) as client:
        with anyio.fail_after(PATIENCE):
            async with client.listen(tools_list_changed=True) as events:
                registry.register("one.more", Function(ask_name))
                async for event in events:
                    assert isinstance(event, ToolsListChanged)
                    break
        assert "one.more" in [tool["name"] for tool in wire(await client.list_tools(cache_mode="bypass"))["tools"]]


@needs_2x
async def test_a_call_over_http_does_not_list_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    from apcore_mcp.server.tools import LiveTools

    async with modern(shop()) as client:
        await client.list_tools()

        def listed(self: Any) -> list[Any]:
            raise AssertionError("a call must not list every tool")

        monkeypatch.setattr(LiveTools, "tools", listed)
        assert wire(await client.call_tool("math.add", {"a": 1}))["structuredContent"] == {"total": 2}
        monkeypatch.undo()


async def two_questions(ask: Any) -> str:
    return f"{await ask('first', None)} {await ask('second', {})}"


async def test_a_parked_call_goes_on_where_it_stood() -> None:
    calls = ParkedCalls()
    first = await calls.start("binding", two_questions)
    assert isinstance(first, Question)
    second = await calls.resume(first.token, "binding", 1)
    assert (second.message, second.schema) == ("second", {})
    assert await calls.resume(second.token, "binding", 2) == "1 2"
    with pytest.raises(KeyError):
        await calls.resume(second.token, "binding", 2)


async def test_a_parked_call_ends_when_its_time_is_up() -> None:
    ended = anyio.Event()

    async def waiting(ask: Any) -> Any:
        try:
            return await ask("anybody?", None)
        finally:
            ended.set()

    calls = ParkedCalls(patience=0.01)
    question = await calls.start(Identity(id="ada"), waiting)
    with anyio.fail_after(PATIENCE):
        await ended.wait()
    with pytest.raises(KeyError):
        await calls.resume(question.token, Identity(id="ada"), None)


async def test_only_the_principal_who_was_asked_can_answer() -> None:
    calls = ParkedCalls()
    question = await calls.start(("erase", Identity(id="ada")), two_questions)
    with pytest.raises(KeyError):
        await calls.resume(question.token, ("erase", Identity(id="eve")), {"approve": True})
    with pytest.raises(KeyError):
        await calls.resume(question.token, ("erase", Identity(id="ada")), {"approve": True})
