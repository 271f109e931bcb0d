"""The MCP SDK, 2.x.

Run: pip install -e . 'mcp>=2,<3' && python examples/clients/mcp_2x.py
"""

import asyncio
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters
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
    # The server speaks 2026-07-28 and the revisions with a handshake; the client takes the newest it knows.
    async with Client(SERVER, elicitation_callback=confirm) as client:
        print(f"server: {client.server_info.name} {client.server_info.version}, MCP {client.protocol_version}")

        print("tools:", *(tool.name for tool in (await client.list_tools()).tools))
        found = await client.call_tool("catalogue.search", {"query": "woolf"})
        print("found:", found.structured_content)

        await client.call_tool("reports.stocktake", {"counts": COUNTS}, progress_callback=show)

        refund = {"order_id": "B-1002", "amount": {"kind": "whole"}, "reason": "Arrived damaged."}
        refunded = await client.call_tool("orders.refund", refund)
        print("refunded:", refunded.structured_content)

        for resource in (await client.list_resources()).resources:
            [page] = (await client.read_resource(resource.uri)).contents
            print(f"{resource.uri}: {page.text.splitlines()[0]}")


asyncio.run(main())
