"""openai-agents, with no model asked.

Run: pip install -e . openai-agents && python examples/clients/openai_agents.py
"""

import asyncio
import sys
from pathlib import Path

from agents import Agent, RunContextWrapper
from agents.mcp import MCPServerStdio
from agents.tool_context import ToolContext

GENERATED = Path(__file__).parents[2] / "generated"
SERVER = {"command": sys.executable, "args": ["-m", "apcore_mcp", "serve", str(GENERATED)]}


async def main() -> None:
    async with MCPServerStdio(SERVER, name="bookshop", use_structured_content=True) as bookshop:
        # OpenAI takes no dots in a tool's name; with the server's name in front, the SDK writes names without.
        clerk = Agent("clerk", mcp_servers=[bookshop], mcp_config={"include_server_in_tool_names": True})
        tools = {tool.name: tool for tool in await clerk.get_all_tools(RunContextWrapper(None))}
        print("tools:", *tools)

        # What the runner does when the model calls a tool.
        [search] = [name for name in tools if name.endswith("catalogue_search")]
        arguments = '{"query": "woolf"}'
        context = ToolContext(None, tool_name=search, tool_call_id="call_1", tool_arguments=arguments)
        print("found:", await tools[search].on_invoke_tool(context, arguments))


asyncio.run(main())
