"""A bicycle as a bill of materials, edited by two agents at once.

    python examples/tree/bill_of_materials.py

One agent prices parts, the other rearranges the frame.  Both call the tools through apcore's Executor, each with an
identity of its own; `Agent` asks only for something to call, so that the same story can be told to an MCP client.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from apcore import Context, Identity

from apcore_tree import AuditQuery, Conflict, PayloadType, Ruleset, Settings, build_service, tree_executor
from apcore_tree.errors import as_tree_error

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]

PART = PayloadType(
    "Part",
    schema={
        "type": "object",
        "properties": {
            "Name": {"type": "string", "minLength": 1},
            "Quantity": {"type": "integer", "minimum": 1},
            "Price": {"type": "number", "minimum": 0},
        },
        "required": ["Name", "Quantity"],
    },
    read_only=frozenset({"Number"}),
)
PRICED = Ruleset("priced", required={"Part": ("Price",)}, unique_by="Name")

BICYCLE = {
    "PayloadType": "Part",
    "Payload": {"Name": "Bicycle", "Quantity": 1, "Number": "B-1"},
    "Children": [
        {
            "PayloadType": "Part",
            "Payload": {"Name": "Frame", "Quantity": 1},
            "Children": [
                {"PayloadType": "Part", "Payload": {"Name": "Fork", "Quantity": 1}},
                {"PayloadType": "Part", "Payload": {"Name": "Saddle", "Quantity": 1}},
            ],
        },
        {
            "PayloadType": "Part",
            "Payload": {"Name": "Wheel", "Quantity": 2},
            "Children": [
                {"PayloadType": "Part", "Payload": {"Name": "Spoke", "Quantity": 32, "Price": 0.4}},
                {"PayloadType": "Part", "Payload": {"Name": "Tyre", "Quantity": 1}},
            ],
        },
    ],
}


class Agent:
    """An agent that threads the version it last saw through its calls, and reads again after a conflict."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.version = ""

    async def read(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.call(tool, arguments)
        self.version = result["version"]
        return result

    async def change(self, tool: str, **arguments: Any) -> dict[str, Any]:
        for _ in range(5):
            try:
                result = await self.call(tool, {**arguments, "versionToken": self.version})
            except Conflict as conflict:
                self.version = conflict.details["currentVersion"]
            else:
                self.version = result["version"]
                return result
        raise RuntimeError(f"{tool}: somebody is always faster")

    async def find(self, query: str) -> list[str]:
        found = await self.read("select_nodes", queryDsl=query)
        return [item["node"]["nodeId"] for item in found["items"]]


async def price_the_parts(agent: Agent, prices: dict[str, float]) -> None:
    """Walk through the unpriced parts and price each; a retry with the same key does nothing twice."""
    for part in await agent.find("not (Price exists) and :Part"):
        name = (await agent.read("get_node", nodeId=part))["node"]["name"]
        if name in prices:
            await agent.change(
                "update_payload_property",
                nodeId=part,
                propertyName="Price",
                newValue=prices[name],
                idempotencyKey=f"price-{part}",
            )
        await asyncio.sleep(0)


async def rearrange_the_frame(agent: Agent) -> None:
    """Move the saddle out of the frame, and give it a post."""
    (frame,), (saddle,) = await agent.find("//Frame"), await agent.find("//Saddle")
    (bicycle,) = await agent.find("//Bicycle")
    await agent.change("move_after", nodeId=frame, siblingId=(await agent.find("//Wheel"))[0])
    await agent.change("move_node", nodeId=saddle, newParentId=bicycle, index=0)
    post = {"Name": "Seat post", "Quantity": 1}
    await agent.change("add_child", parentNodeId=saddle, payloadType="Part", payloadProps=post)
    await agent.change("tag_node", nodeId=saddle, tags=["reviewed"])


async def tell(first: Call, second: Call) -> dict[str, Any]:
    """The whole story over any two ways to call the tools; returns what came out of it."""
    pricing, design = Agent(first), Agent(second)
    root = (await pricing.read("get_status"))["rootNodeId"]
    await pricing.change(
        "import_merge", json=BICYCLE, strategy="upsert", matchBy="path", targetParentId=root, idempotencyKey="load"
    )
    snapshot = (await pricing.call("snapshot_create", {"label": "as designed"}))["snapshotId"]
    await design.read("get_status")
    await asyncio.gather(
        price_the_parts(pricing, {"Frame": 320.0, "Fork": 85.0, "Saddle": 40.0, "Tyre": 25.0, "Wheel": 60.0}),
        rearrange_the_frame(design),
    )
    outline = await pricing.read("get_view", rootNodeId=root, format="flat", includedProperties=["Price"])
    difference = await pricing.read("snapshot_diff", a=snapshot, b="current", includePayload=False)
    missing = await pricing.read("validate_tree", rulesetId="priced")
    return {
        "outline": [(row["depth"], row["name"], row["payload"].get("Price")) for row in outline["rows"]],
        "summary": difference["summary"],
        "unpriced": [item["nodeId"] for item in missing["items"] if item["ruleId"] == "required-missing"],
    }


def through(executor: Any, identity: Identity) -> Call:
    """Calls the tools in this process; every call passes the Executor."""

    async def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            result: dict[str, Any] = await executor.call_async(
                f"tree.{tool}", arguments, Context.create(identity=identity)
            )
        except Exception as error:
            raise as_tree_error(error) from error
        return result

    return call


def main() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        service = build_service(
            f"sqlite:{Path(folder) / 'bicycle.db'}",
            settings=Settings(tokens="footprint"),
            payload_types=(PART,),
            rulesets=(PRICED,),
            root={"Name": "Workshop"},
        )
        with tree_executor(service) as executor:
            pricing = through(executor, Identity("pricing", type="agent", roles=("editor",)))
            design = through(executor, Identity("design", type="agent", roles=("editor",)))
            told = asyncio.run(tell(pricing, design))
        for depth, name, price in told["outline"]:
            print(f"{'  ' * depth}{name}{'' if price is None else f'  {price:.2f}'}")
        print("\nsince the snapshot:", ", ".join(f"{count} {kind}" for kind, count in told["summary"].items()))
        print("without a price:", len(told["unpriced"]))
        entries = service.audit(AuditQuery(limit=1000))
        print("audited:", ", ".join(sorted({f"{entry.agent} {entry.operation}" for entry in entries})))
        service.close()
    return told


if __name__ == "__main__":
    main()
