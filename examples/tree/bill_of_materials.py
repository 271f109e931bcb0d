"""The story: a bicycle as a bill of materials, edited by two agents at once while a third looks on.

One agent prices parts, the other rearranges them.  Each decides on a version of the tree; when the other was faster its
change is refused, and it goes on from the version that the refusal names.  `tell` asks only for the generated
`TreeTools`, whatever is behind them: see `through_stubs.py` and `over_mcp.py`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from apcore_tree import Conflict, Forbidden

# Where `generated` is, unless PYTHONPATH names another build.
sys.path.append(str(Path(__file__).parents[2]))
try:
    import generated
    from generated.stubs.tree_tools import TreeTools
except ModuleNotFoundError:
    sys.exit("There are no tree tools in generated/: apcore-mcp build examples/extensions -o generated --with tree")

__all__ = ["GENERATED", "TreeTools", "show", "tell"]

GENERATED = Path(str(generated.__file__)).parent

Change = Callable[..., Awaitable[Any]]

PRICES = {"Frame": 320.0, "Fork": 85.0, "Saddle": 40.0, "Tyre": 25.0, "Wheel": 60.0}


def part(name: str, quantity: int = 1, *children: dict[str, Any]) -> dict[str, Any]:
    return {"PayloadType": "object", "Payload": {"Name": name, "Quantity": quantity}, "Children": list(children)}


BICYCLE = part(
    "Bicycle",
    1,
    part("Frame", 1, part("Fork"), part("Saddle")),
    part("Wheel", 2, part("Spoke", 32), part("Tyre")),
)


class Told(NamedTuple):
    """What came of it."""

    outline: list[tuple[int, str, float | None]]
    since_snapshot: Mapping[str, object]
    unpriced: list[str]
    overtaken: int
    refused: str


class Agent:
    """Threads the version it last saw through its changes."""

    def __init__(self, tools: TreeTools) -> None:
        self.tools = tools
        self.version = ""
        self.overtaken = 0

    async def look(self) -> None:
        self.version = (await self.tools.get_status())["version"]

    async def find(self, query: str) -> list[str]:
        found = await self.tools.select_nodes(queryDsl=query)
        self.version = found["version"]
        return [item["node"]["nodeId"] for item in found["items"]]

    async def change(self, tool: Change, **arguments: Any) -> None:
        while True:
            # In one process a call may be over before anybody else has had a turn.
            await asyncio.sleep(0)
            try:
                result = await tool(**arguments, versionToken=self.version)
            except Conflict as conflict:
                # Nothing here rests on what the other agent does; one that does would read again and decide anew.
                self.overtaken += 1
                self.version = conflict.details["currentVersion"]
            else:
                self.version = result["version"]
                return


async def price_the_parts(agent: Agent, both_have_looked: asyncio.Barrier) -> None:
    """Set the known prices; a repeated call with the same key does nothing twice."""
    found = {name: await agent.find(f"//{name}") for name in PRICES}
    await both_have_looked.wait()
    for name, (node_id,) in found.items():
        await agent.change(
            agent.tools.update_payload_property,
            nodeId=node_id,
            propertyName="Price",
            newValue=PRICES[name],
            idempotencyKey=f"price of {name}",
        )


async def rearrange_the_parts(agent: Agent, both_have_looked: asyncio.Barrier) -> None:
    """Put the frame after the wheel, and the saddle on a post of its own."""
    tools = agent.tools
    names = ("Bicycle", "Frame", "Wheel", "Saddle")
    (bicycle,), (frame,), (wheel,), (saddle,) = [await agent.find(f"//{name}") for name in names]
    await both_have_looked.wait()
    await agent.change(tools.move_after, nodeId=frame, siblingId=wheel)
    await agent.change(tools.move_node, nodeId=saddle, newParentId=bicycle, index=0)
    post = {"Name": "Seat post", "Quantity": 1}
    await agent.change(tools.add_child, parentNodeId=saddle, payloadType="object", payloadProps=post)
    await agent.change(tools.tag_node, nodeId=saddle, tags=["reviewed"])


async def look_on(tools: TreeTools) -> str:
    """A reader reads, and is told no when it tries to change something."""
    version = (await tools.get_status())["version"]
    try:
        await tools.tag_node(nodeId="root", tags=["mine"], versionToken=version)
    except Forbidden as refused:
        return refused.code
    return "nothing"


async def tell(first: TreeTools, second: TreeTools, third: TreeTools) -> Told:
    """The whole story, on an empty tree; the tools belong to two editors and a reader."""
    pricing, design = Agent(first), Agent(second)
    await pricing.look()
    await pricing.change(first.import_merge, json=BICYCLE, strategy="upsert", matchBy="path", targetParentId="root")
    snapshot = (await first.snapshot_create(label="as designed"))["snapshotId"]
    both_have_looked = asyncio.Barrier(2)
    async with asyncio.TaskGroup() as work:
        work.create_task(price_the_parts(pricing, both_have_looked))
        work.create_task(rearrange_the_parts(design, both_have_looked))
    view = await third.get_view(rootNodeId="root", format="flat", includedProperties=["Price"])
    difference = await third.snapshot_diff(a=snapshot, b="current", includePayload=False)
    unpriced = await third.select_nodes(queryDsl="Quantity exists and not (Price exists)")
    return Told(
        [(row["depth"], row.get("name", ""), row["payload"].get("Price")) for row in view["rows"]],
        difference["summary"],
        [item["node"]["name"] for item in unpriced["items"]],
        pricing.overtaken + design.overtaken,
        await look_on(third),
    )


def show(told: Told) -> None:
    for depth, name, price in told.outline:
        print(f"{'  ' * depth}{name}{'' if price is None else f'  {price:.2f}'}")
    print("since the snapshot:", ", ".join(f"{count} {kind}" for kind, count in told.since_snapshot.items()))
    print("without a price:", ", ".join(told.unpriced))
    print("changes refused because the other agent was faster, and made anew:", told.overtaken)
    print("the reader's own change:", told.refused)
