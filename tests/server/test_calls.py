"""Calls from a real client through the real Executor."""

import asyncio
import json
import logging
from typing import Any

import pytest
from apcore import ACL, ACLRule
from apcore.middleware import Middleware
from tests.requirements import requirement
from tests.server.clients import connected, http_client, http_server
from tests.server.modules import (
    Add,
    AsyncAdd,
    Function,
    Stream,
    Waiter,
    ask_name,
    executor_of,
    odd_values,
    raising,
    registry_of,
    returning,
    shop,
    tell_progress,
)

pytestmark = pytest.mark.anyio


@requirement("FR-EXEC-001", "FR-SERVER-011")
async def test_a_call_returns_the_modules_output_as_text_and_structure() -> None:
    async with connected(shop()) as client:
        result = await client.call("math.add", {"a": 2, "b": 3})
    assert result["content"] == [{"type": "text", "text": '{"total": 5}'}]
    assert result["structuredContent"] == {"total": 5}
    assert result["isError"] is False


@requirement("FR-EXEC-001")
async def test_a_call_without_arguments_reaches_the_module_as_an_empty_object() -> None:
    async with connected(registry_of(echo=Function(lambda inputs, _: {"got": inputs}))) as client:
        assert json.loads(await client.text("echo")) == {"got": {}}


@requirement("FR-EXEC-002")
async def test_values_json_does_not_know_are_written_as_strings() -> None:
    async with connected(registry_of(odd=Function(odd_values), empty=returning({}))) as client:
        assert json.loads(await client.text("odd")) == {"when": "2026-01-02", "where": "a/b", "bytes": "b'x'"}
        assert await client.text("empty") == "{}"


class Unwritable:
    def __str__(self) -> str:
        raise ValueError("no string form")


@requirement("FR-EXEC-002")
@pytest.mark.parametrize("output", [{"it": Unwritable()}, {"lone": "\ud800"}], ids=["no string", "lone surrogate"])
async def test_output_that_cannot_be_written_is_an_error_and_not_the_end(output: dict[Any, Any]) -> None:
    async with connected(registry_of(odd=returning(output), add=Add())) as client:
        result = await client.call("odd")
        assert result["isError"] is True
        assert result["content"][0]["text"] == "Failed to serialize module output"
        assert await client.text("add", {"a": 1}) == '{"total": 2}'


@requirement("FR-EXEC-002")
async def test_circular_output_is_an_error() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    module = returning({})
    module._function = lambda inputs, context: {"loop": [loop]}
    async with connected(registry_of(odd=module)) as client:
        assert (await client.call("odd"))["isError"] is True


class Recording(Middleware):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def before(self, module_id: str, inputs: dict[str, Any], context: Any) -> None:
        self.seen.append(f"before {module_id}")

    def after(self, module_id: str, inputs: Any, output: dict[str, Any], context: Any) -> dict[str, Any]:
        self.seen.append(f"after {module_id}")
        return {**output, "total": output["total"] * 10}


@requirement("FR-EXEC-003", "FR-EXEC-005")
async def test_a_given_executor_runs_its_middleware_on_every_call() -> None:
    middleware = Recording()
    async with connected(executor_of(shop(), middlewares=[middleware])) as client:
        assert await client.text("math.add", {"a": 1}) == '{"total": 20}'
    assert middleware.seen == ["before math.add", "after math.add"]


@requirement("FR-EXEC-003", "FR-EXEC-005", "NFR-SEC-001", "FR-ERROR-003")
async def test_the_acl_of_a_given_executor_is_asked_before_anything_else() -> None:
    acl = ACL(rules=[ACLRule(callers=["*"], targets=["api.*"], effect="allow", description="api only")])
    async with connected(executor_of(shop(), acl=acl)) as client:
        assert await client.text("api.add", {"a": 1}) == '{"total": 2}'
        # Arguments that do not even fit: a denied caller learns nothing from the schema.
        assert await client.text("math.add", {"a": "no number"}) == "Access denied"


@requirement("FR-EXEC-004")
async def test_synchronous_and_asynchronous_modules_answer_alike() -> None:
    async with connected(registry_of(sync=Add(), later=AsyncAdd())) as client:
        assert await client.text("sync", {"a": 1}) == await client.text("later", {"a": 1}) == '{"total": 2}'


@requirement("FR-EXEC-004")
async def test_a_synchronous_module_does_not_hold_up_the_others() -> None:
    import threading

    release = threading.Event()

    class Blocking(Add):
        def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
            assert release.wait(10)
            return {"total": 0}

    async with http_server(registry_of(blocking=Blocking(), add=Add())) as url, http_client(url) as client:
        blocked = asyncio.create_task(client.call("blocking", {"a": 1}))
        assert await client.text("add", {"a": 1}) == '{"total": 2}'
        release.set()
        assert (await blocked)["structuredContent"] == {"total": 0}


@requirement("FR-EXEC-007")
@pytest.mark.parametrize("error", [RuntimeError("x"), SystemExit(3), MemoryError(), RecursionError()], ids=repr)
async def test_whatever_a_module_raises_the_client_gets_a_result(error: BaseException) -> None:
    class Failing(Add):
        def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
            raise error

    async with connected(registry_of(failing=Failing(), add=Add())) as client:
        result = await client.call("failing", {"a": 1})
        assert result["isError"] is True
        assert result["content"][0]["text"] == "Internal error occurred"
        assert await client.text("add", {"a": 1}) == '{"total": 2}'


@requirement("FR-STREAM-001")
async def test_chunks_arrive_as_counted_progress_and_the_result_is_their_sum() -> None:
    stream = Stream({"n": 1, "deep": {"a": 1}}, {"n": 2, "deep": {"b": 2}}, {"last": True})
    async with connected(registry_of(count=stream)) as client:
        result = await client.call_with_progress("count")
    assert [(value, json.loads(message or "")) for value, _, message in client.progress] == [
        (1, {"n": 1, "deep": {"a": 1}}),
        (2, {"n": 2, "deep": {"b": 2}}),
        (3, {"last": True}),
    ]
    assert result["structuredContent"] == {"n": 2, "deep": {"a": 1, "b": 2}, "last": True}


@requirement("FR-STREAM-001")
async def test_without_a_progress_token_a_streaming_module_runs_at_once() -> None:
    async with connected(registry_of(count=Stream({"n": 1}))) as client:
        assert await client.text("count") == '{"atomic": true}'


@requirement("FR-STREAM-001")
async def test_a_stream_without_chunks_gives_an_empty_result() -> None:
    async with connected(registry_of(count=Stream())) as client:
        assert (await client.call_with_progress("count"))["content"][0]["text"] == "{}"


@requirement("FR-STREAM-001")
async def test_a_stream_that_fails_half_way_is_an_error() -> None:
    async with connected(registry_of(count=Stream({"n": 1}, RuntimeError("lost")))) as client:
        result = await client.call_with_progress("count")
    assert (result["isError"], result["content"][0]["text"]) == (True, "Internal error occurred")
    assert len(client.progress) == 1


@requirement("FR-STREAM-001")
async def test_a_streamed_result_that_fails_its_schema_is_the_modules_error() -> None:
    from tests.server.modules import Sum

    async with connected(registry_of(count=Stream({"total": "three"}, output=Sum))) as client:
        result = await client.call_with_progress("count")
    assert result["content"][0]["text"] == "Module error: SCHEMA_VALIDATION_ERROR"


@requirement("FR-EXT-001")
async def test_reported_progress_reaches_the_client_as_reported() -> None:
    async with connected(registry_of(work=Function(tell_progress))) as client:
        await client.call_with_progress("work")
        # Without a token there is nowhere to report to, and that is no error.
        assert await client.text("work") == '{"done": true}'
    assert client.progress == [(1, 3, "one"), (2, None, "two")]


@requirement("FR-EXT-001", "FR-STREAM-001")
async def test_chunks_and_reports_share_one_rising_counter() -> None:
    from apcore_mcp import report_progress

    async def report(context: Any) -> None:
        await report_progress(context, 50, total=100)
        await report_progress(context, 10, total=100, message="not back to ten")

    async with connected(registry_of(count=Stream({"n": 1}, report, {"n": 2}))) as client:
        await client.call_with_progress("count")
    values = [value for value, _, _ in client.progress]
    assert values == sorted(set(values))
    assert (values[0], values[1], values[-1]) == (1, 50, 51)


@requirement("FR-EXT-003")
async def test_the_documented_keys_lead_to_the_clients_progress_and_questions() -> None:
    import apcore_mcp

    assert (apcore_mcp.MCP_PROGRESS_KEY, apcore_mcp.MCP_ELICIT_KEY) == ("_mcp_progress", "_mcp_elicit")

    async def directly(inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        await context.data[apcore_mcp.MCP_PROGRESS_KEY](7, 9, "direct")
        return {"answer": await context.data[apcore_mcp.MCP_ELICIT_KEY]("Well?", None)}

    async with connected(registry_of(direct=Function(directly)), answers=[{}]) as client:
        result = await client.call_with_progress("direct")
    assert (client.progress, result["structuredContent"]) == ([(7, 9, "direct")], {"answer": {}})


@requirement("FR-EXT-002")
async def test_an_answer_of_the_user_reaches_the_module() -> None:
    async with connected(registry_of(ask=Function(ask_name)), answers=[{"name": "Ada"}]) as client:
        assert json.loads(await client.text("ask")) == {"answer": {"name": "Ada"}}
    assert client.questions[0]["message"] == "Your name?"
    assert client.questions[0]["requestedSchema"]["required"] == ["name"]


@requirement("FR-EXT-002")
@pytest.mark.parametrize("answers", [[None], None], ids=["declined", "client cannot ask"])
async def test_no_answer_is_none(answers: list[Any] | None) -> None:
    async with connected(registry_of(ask=Function(ask_name)), answers=answers) as client:
        assert await client.text("ask") == '{"answer": null}'


async def test_a_cancelled_call_reaches_the_module_and_frees_its_place() -> None:
    from apcore_mcp.server.sdk import SDK, types

    waiter = Waiter()
    async with connected(registry_of(wait=waiter, add=Add())) as client:
        call = asyncio.create_task(client.session.call_tool("wait", {}))
        assert await asyncio.to_thread(waiter.started.wait, 10)
        if SDK == 1:
            # The 1.x client leaves it to its user to say so; the request is the second of the session.
            params = types.CancelledNotificationParams(requestId=1)
            await client.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))
        else:
            call.cancel()
        assert await asyncio.to_thread(waiter.cancelled.wait, 10)
        with pytest.raises((Exception, asyncio.CancelledError)):
            await call
        assert await client.text("add", {"a": 1}) == '{"total": 2}'


TRACE = "0af7651916cd43dd8448eb211c80319c"


async def test_the_callers_trace_goes_on_in_the_module_and_comes_back() -> None:
    def trace_id(inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        return {"trace": context.trace_id}

    meta = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "tracestate": "vendor=1"}
    async with connected(registry_of(trace=Function(trace_id))) as client:
        result = await client.call("trace", meta=meta)
        fresh = await client.call("trace")
    assert result["structuredContent"] == {"trace": TRACE}
    assert result["_meta"]["traceparent"].startswith(f"00-{TRACE}-")
    assert result["_meta"]["tracestate"] == "vendor=1"
    assert fresh["structuredContent"]["trace"] in fresh["_meta"]["traceparent"]


@requirement("FR-LOG-002", "FR-LOG-003", "FR-LOG-004")
async def test_calls_are_logged_and_failures_with_type_message_and_stack(caplog: pytest.LogCaptureFixture) -> None:
    registry = registry_of(add=Add(), broken=raising(KeyError("lost key")))
    with caplog.at_level(logging.DEBUG, logger="apcore_mcp"):
        async with connected(registry) as client:
            await client.call("add", {"a": 1})
            await client.call("add", {"a": "x"})
            await client.call("broken")
    ours = [record for record in caplog.records if record.name.startswith("apcore_mcp")]
    debug = [record.getMessage() for record in ours if record.levelno == logging.DEBUG]
    errors = [record.getMessage() for record in ours if record.levelno == logging.ERROR]
    assert "Tool call: add" in debug
    assert errors[0].startswith("Tool call error: add - SchemaValidationError: Input validation failed")
    assert "Traceback" not in errors[0]
    assert errors[1].startswith("Tool call error: broken - KeyError: 'lost key'")
    assert "Traceback" in errors[1]
    assert "raise error" in errors[1]


async def test_a_name_from_outside_cannot_write_lines_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="apcore_mcp"):
        async with connected(registry_of(add=Add())) as client:
            await client.call("x\nERROR:root:forged")
    assert [message for message in caplog.messages if "\nERROR:root" in message] == []


@requirement("NFR-PERF-002")
async def test_the_router_adds_nothing_but_a_table_lookup_to_the_executors_work() -> None:
    """The call must not depend on how many tools there are: nothing is listed, converted or validated per call."""
    from apcore_mcp.server.router import ExecutionRouter, Unattended

    class OnlyThisOne:
        def tool(self, name: str) -> dict[str, Any]:
            return {"name": name, "inputSchema": {"type": "object"}}

    executor = executor_of(registry_of(add=Add()))
    router = ExecutionRouter(OnlyThisOne(), lambda: executor)  # type: ignore[arg-type]
    result = await router.handle_call("add", {"a": 1}, Unattended())
    assert result["content"][0]["text"] == '{"total": 2}'
