"""The way back from an OpenAI tool call, with the real package's types."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageToolCall
from openai.types.responses import ResponseFunctionToolCall
from pydantic import BaseModel
from tests.server.clients import ROOT
from tests.server.modules import Add, Function, executor_of, registry_of, shop
from tests.server.test_governance import dangerous

from apcore_mcp import to_openai_tools
from apcore_openai.dispatch import Dispatcher
from apcore_runtime import load

pytestmark = pytest.mark.anyio


def chat_call(name: str, arguments: Any, call_id: str = "call_1") -> ChatCompletionMessageToolCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    function = {"name": name, "arguments": text}
    return ChatCompletionMessageToolCall.model_validate({"id": call_id, "type": "function", "function": function})


async def test_a_chat_completions_call_is_answered_with_a_tool_message() -> None:
    answer = await Dispatcher(shop()).dispatch(chat_call("math-add", {"a": 2, "b": 3}))
    assert answer == {"role": "tool", "tool_call_id": "call_1", "content": '{"total": 5}'}


async def test_a_responses_call_is_answered_with_a_function_call_output() -> None:
    call = ResponseFunctionToolCall(type="function_call", call_id="c9", name="math-add", arguments='{"a": 1}')
    answer = await Dispatcher(shop()).dispatch(call)
    assert answer == {"type": "function_call_output", "call_id": "c9", "output": '{"total": 2}'}
    assert await Dispatcher(shop()).dispatch(call.model_dump()) == answer


class Contact(BaseModel):
    phone: str | None = "unset"
    copies: int = 1


async def test_nulls_that_stand_for_absent_values_are_removed_and_real_ones_stay() -> None:
    def echo(inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        return {"got": inputs}

    registry = registry_of(contact=Function(echo, input_schema=Contact))
    strict = to_openai_tools(registry, strict=True)[0]["function"]["parameters"]
    assert sorted(strict["required"]) == ["copies", "phone"]
    answer = await Dispatcher(registry).dispatch(chat_call("contact", {"phone": None, "copies": None}))
    assert json.loads(answer["content"]) == {"got": {"phone": None}}


async def test_a_shortened_name_finds_its_module() -> None:
    long = ".".join(["a" * 30] * 3)
    registry = registry_of(add=Add())
    registry.register(long, Add())
    names = [tool["function"]["name"] for tool in to_openai_tools(registry)]
    assert max(map(len, names)) == 64
    answers = await Dispatcher(registry).dispatch_all(chat_call(name, {"a": 1}, name) for name in names)
    assert [(answer["tool_call_id"], answer["content"]) for answer in answers] == [
        (name, '{"total": 2}') for name in names
    ]


@pytest.mark.parametrize("arguments", ["{", "[1]", "null", '"text"'])
async def test_arguments_that_are_no_object_are_told_to_the_model(arguments: str) -> None:
    answer = await Dispatcher(shop()).dispatch(chat_call("math-add", arguments))
    assert answer["content"] == "Invalid input: the arguments are not a JSON object"


async def test_errors_and_filters_are_those_of_the_server() -> None:
    dispatcher = Dispatcher(shop(), prefix="api.")
    assert (await dispatcher.dispatch(chat_call("math-add", {"a": 1})))["content"] == "Module not found: math-add"
    assert (await dispatcher.dispatch(chat_call("api-add", {"a": "x"})))["content"].startswith(
        "Input validation failed:"
    )


async def test_nothing_that_wants_approval_runs_unless_a_given_executor_says_so() -> None:
    from apcore.approval import AutoApproveHandler

    done: list[Any] = []
    call = chat_call("erase", {"user": "ada", "password": "hunter2"})
    denied = await Dispatcher(dangerous(done)).dispatch(call)
    assert (denied["content"], done) == ("Module error: APPROVAL_DENIED", [])
    executor = executor_of(dangerous(done), approval_handler=AutoApproveHandler())
    assert (await Dispatcher(executor).dispatch(call))["content"] == '{"erased": "ada"}'


async def test_a_build_can_be_dispatched_to(generated: Path) -> None:
    dispatcher = Dispatcher(load(generated, ROOT / "examples" / "extensions"))
    answer = await dispatcher.dispatch(chat_call("catalogue-search", {"query": "woolf"}))
    assert json.loads(answer["content"])["total"] == 1
