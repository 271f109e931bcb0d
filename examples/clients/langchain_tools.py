"""langchain-mcp-adapters, with no model asked.

Run: pip install -e . langchain-mcp-adapters && python examples/clients/langchain_tools.py
"""

import asyncio
import sys
from pathlib import Path

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

GENERATED = Path(__file__).parents[2] / "generated"
BOOKSHOP = {"transport": "stdio", "command": sys.executable, "args": ["-m", "apcore_mcp", "serve", str(GENERATED)]}


async def main() -> None:
    client = MultiServerMCPClient({"bookshop": BOOKSHOP})
    # One session for all calls; `client.get_tools()` would start a server for each.
    async with client.session("bookshop") as session:
        tools = await load_mcp_tools(session)
        for tool in tools:
            # Most model providers take no dots in a tool's name; it still calls the one it was made for.
            tool.name = tool.name.replace(".", "-")
        print("tools:", *(tool.name for tool in tools))

        # What an agent does when the model calls a tool.
        [search] = [tool for tool in tools if tool.name == "catalogue-search"]
        call = {"type": "tool_call", "id": "call_1", "name": search.name, "args": {"query": "woolf"}}
        message = await search.ainvoke(call)
        print("tool message:", message.tool_call_id, message.content[0]["text"])
        print("structured:", message.artifact["structured_content"])


asyncio.run(main())
