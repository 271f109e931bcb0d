"""fastmcp, which makes objects of structured results.

Run: pip install -e . 'fastmcp>=4' && python examples/clients/fastmcp_client.py
"""

import asyncio
import sys
from pathlib import Path

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

GENERATED = Path(__file__).parents[2] / "generated"
SERVER = StdioTransport(sys.executable, ["-m", "apcore_mcp", "serve", str(GENERATED)], keep_alive=False)
COUNTS = [{"isbn": "9780141439518", "counted": 5}, {"isbn": "9780141182711", "counted": 2}]


async def confirm(message: str, *_: object) -> dict[str, object]:
    """The person at the desk; here, one who always agrees."""
    print(f"asked: {message}")
    return {"confirmed": True, "note": "Agreed on the phone."}


async def show(progress: float, total: float | None, message: str | None) -> None:
    print(f"progress: {progress:g} of {total:g}, {message}")


async def main() -> None:
    async with Client(SERVER, elicitation_handler=confirm, progress_handler=show) as client:
        print("tools:", *(tool.name for tool in await client.list_tools()))
        # fastmcp makes objects of structured results, with the types that the output schema declares.
        found = await client.call_tool("catalogue.search", {"query": "woolf"})
        print("found:", found.data.hits[0].title)

        await client.call_tool("reports.stocktake", {"counts": COUNTS})

        refund = {"order_id": "B-1002", "amount": {"kind": "whole"}, "reason": "Arrived damaged."}
        refunded = await client.call_tool("orders.refund", refund)
        print("refunded:", refunded.structured_content)

        for resource in await client.list_resources():
            [page] = await client.read_resource(resource.uri)
            print(f"{resource.uri}: {page.text.splitlines()[0]}")


asyncio.run(main())
