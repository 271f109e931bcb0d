"""The MCP SDK, 1.x.

Run: pip install -e . 'mcp<2' && python examples/clients/mcp_1x.py
"""

import asyncio
import sys
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitRequestParams, ElicitResult

GENERATED = Path(__file__).parents[2] / "generated"
SERVER = StdioServerParameters(command=sys.executable, args=["-m", "apcore_mcp", "serve", str(GENERATED)])
COUNTS = [{"isbn": "9780141439518", "counted": 5}, {"isbn": "9780141182711", "counted": 2}]


async def confirm(_: object, question: ElicitRequestParams) -> ElicitResult:
    """The person at the desk; here, one who always agrees."""
    print(f"asked: {question.message}")
    return ElicitResult(action="accept", content={"confirmed": True, "note": "Agreed on the phone."})


async def show(progress: float, total: float | None, message: str | None) -> None:
    print(f"progress: {progress:g} of {total:g}, {message}")


async def main() -> None:
    async with stdio_client(SERVER) as streams, ClientSession(*streams, elicitation_callback=confirm) as session:
        server = (await session.initialize()).serverInfo
        print(f"server: {server.name} {server.version}")

        print("tools:", *(tool.name for tool in (await session.list_tools()).tools))
        found = await session.call_tool("catalogue.search", {"query": "woolf"})
        print("found:", found.structuredContent)

        await session.call_tool("reports.stocktake", {"counts": COUNTS}, progress_callback=show)

        refund = {"order_id": "B-1002", "amount": {"kind": "whole"}, "reason": "Arrived damaged."}
        refunded = await session.call_tool("orders.refund", refund)
        print("refunded:", refunded.structuredContent)

        for resource in (await session.list_resources()).resources:
            [page] = (await session.read_resource(resource.uri)).contents
            print(f"{resource.uri}: {page.text.splitlines()[0]}")


asyncio.run(main())
