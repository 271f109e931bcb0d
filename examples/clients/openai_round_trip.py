"""OpenAI's tool calls in both shapes, with no model asked.

Run: pip install -e . openai && python examples/clients/openai_round_trip.py
"""

import asyncio
import json
from pathlib import Path

from openai.types.chat import ChatCompletionMessageFunctionToolCall
from openai.types.chat.chat_completion_message_function_tool_call import Function
from openai.types.responses import ResponseFunctionToolCall

from apcore_openai.dispatch import Dispatcher
from apcore_runtime import load

GENERATED = Path(__file__).parents[2] / "generated"

# In strict mode every property is required, and a model says null where it has nothing to say.
SEARCH = {"query": "woolf", "subject": None, "in_stock_only": None, "order_by": None, "limit": None}


def chat_call(name: str, arguments: dict[str, object]) -> ChatCompletionMessageFunctionToolCall:
    """As Chat Completions returns it, in `choices[0].message.tool_calls`."""
    function = Function(name=name, arguments=json.dumps(arguments))
    return ChatCompletionMessageFunctionToolCall(id="call_1", type="function", function=function)


def responses_call(name: str, arguments: dict[str, object]) -> ResponseFunctionToolCall:
    """As the Responses API returns it, in `output`."""
    return ResponseFunctionToolCall(type="function_call", call_id="call_2", name=name, arguments=json.dumps(arguments))


async def main() -> None:
    tools = json.loads((GENERATED / "openai_tools.json").read_text(encoding="utf-8"))
    print("tools:", *(tool["function"]["name"] for tool in tools))

    dispatcher = Dispatcher(load(GENERATED))
    print("Chat Completions:", await dispatcher.dispatch(chat_call("catalogue-search", SEARCH)))
    print("Responses:", await dispatcher.dispatch(responses_call("catalogue-search", SEARCH)))
    print("a tool that the model made up:", await dispatcher.dispatch(chat_call("catalogue-burn", {})))


asyncio.run(main())
