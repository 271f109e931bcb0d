"""Three agents at work, without a model: what each may do is the same whoever decides to do it.

Run it from this directory, once `mcp-server-time` is installed (see README.md): `python run.py`
"""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

from apcore.errors import ModuleError
from parcels import carrier

from apcore_agents import AgentSession, AgentTask, failure_of, load_runtime
from apcore_runtime import load

HERE = Path(__file__).parent
os.environ.setdefault("PARCELS_TOKEN", "a-token-for-this-example")


class Script:
    """Stands for whatever runs models: it is given a task and the tools for it, and reports."""

    async def run(self, task: AgentTask) -> str:
        found = await task.session.call("catalogue.search", {"query": task.task})
        return ", ".join(f"{hit['title']} ({hit['in_stock']} in stock)" for hit in found["hits"])


async def say_yes(question: str, _: dict[str, Any]) -> dict[str, bool]:
    print("  ? " + question.replace("\n", "\n    "))
    return {"approve": True}


async def attempt(session: AgentSession, tool: str, arguments: dict[str, Any], **how: Any) -> None:
    try:
        output = await session.call(tool, arguments, **how)
        text = output["content"][0]["text"] if "content" in output else output
        print(f"  {tool} -> {text}")
    except ModuleError as error:
        failure = failure_of(error)
        print(f"  {tool} -> {failure.code}: {failure.message} (outcome: {failure.outcome})")


async def main() -> None:
    surface = load(HERE / "generated")
    async with load_runtime(surface.directory, surface.registry(), runner=Script()) as runtime:
        await runtime.ready()
        for name, agent in runtime.agents.items():
            print(f"{name}: {', '.join(runtime.available(name))}\n  {agent.description}")

        print("\nThe bookkeeper reads, and finds nothing else:")
        async with runtime.session("bookkeeper") as session:
            await attempt(session, "mcp__time__get_current_time", {"timezone": "Europe/London"})
            await attempt(session, "orders.cancel", {"order_id": "O-1001"})
            await attempt(session, "customers.erase", {"customer_id": "C-1"})

        print("\nThe order desk asks before anything leaves the shop:")
        async with runtime.session("order-desk") as session:
            await attempt(session, "http.parcels.track", {"number": "P1001"})
            await attempt(session, "http.parcels.track", {"number": "../admin"})
            collection = {"order": "O-1001", "weight_grams": 400}
            await attempt(session, "http.parcels.collect", collection)
            await attempt(session, "http.parcels.collect", collection, ask=say_yes)
            print("  and has the librarian look:")
            wanted = {"agents": [{"agent_name": "librarian", "task": "Woolf"}]}
            await attempt(session, "spawn_agents", wanted)


if __name__ == "__main__":
    service = carrier()
    threading.Thread(target=service.serve_forever, daemon=True).start()
    try:
        asyncio.run(main())
    finally:
        service.shutdown()
        service.server_close()
