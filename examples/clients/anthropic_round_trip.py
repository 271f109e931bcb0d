"""Anthropic's tool use, with no model asked.

Run: pip install -e . anthropic && python examples/clients/anthropic_round_trip.py
"""

import asyncio
import json
from pathlib import Path

from anthropic.types import ToolResultBlockParam, ToolUseBlock

from apcore_openai.dispatch import Dispatcher
from apcore_runtime import load

GENERATED = Path(__file__).parents[2] / "generated"


async def answer(dispatcher: Dispatcher, block: ToolUseBlock) -> ToolResultBlockParam:
    """The dispatcher takes OpenAI's shape; Anthropic's says the same in other words."""
    call = {"id": block.id, "function": {"name": block.name, "arguments": json.dumps(block.input)}}
    message = await dispatcher.dispatch(call)
    return ToolResultBlockParam(type="tool_result", tool_use_id=block.id, content=message["content"])


async def main() -> None:
    tools = json.loads((GENERATED / "anthropic_tools.json").read_text(encoding="utf-8"))
    print("tools:", *(tool["name"] for tool in tools))

    # As the Messages API returns it, in `content`.
    block = ToolUseBlock(type="tool_use", id="toolu_1", name="catalogue-search", input={"query": "woolf"})
    print("tool result:", await answer(Dispatcher(load(GENERATED)), block))


asyncio.run(main())
