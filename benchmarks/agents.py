"""What agents cost: resolving them, calling through the link, scrubbing, and matching nothing at call time.

`PYTHONPATH=src python benchmarks/agents.py`.  Direct and linked calls are made in turn, so that both meet the same
noise.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from apcore import Context, Executor, Registry

from apcore_agents import names, resolve
from apcore_agents.build import build_agents
from apcore_agents.external import ExternalTool
from apcore_agents.link import connected
from apcore_agents.loading import load_runtime
from apcore_agents.locking import lock_servers
from apcore_agents.pool import build_pool
from apcore_agents.project import read_project
from apcore_agents.rules import Notes
from apcore_agents.scrubbing import Scrubber
from apcore_agents.secrets import Secrets
from apcore_agents.settings import ServerPolicy
from apcore_agents.supervision import Link, open_connection
from apcore_agents.tools import LocalTool
from apcore_mcp.server.sdk import SDK

ROUNDS, WARM_UP = 1500, 200
OVERHEAD_LIMIT_MS = 0.5
RESOLVE_LIMIT_S = 0.5

SERVER = """
import asyncio
import importlib.util
MAJOR = 2 if importlib.util.find_spec("mcp_types") else 1
import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOL = {"name": "echo", "description": "Say it again.", "inputSchema": SCHEMA}

async def answer(text):
    return [types.TextContent(type="text", text=text)]

if MAJOR == 1:
    server = Server("echo")
    @server.list_tools()
    async def tools():
        return [types.Tool(**TOOL)]
    @server.call_tool(validate_input=False)
    async def call(name, arguments):
        return await answer(arguments["text"])
else:
    async def tools(context, params):
        return types.ListToolsResult(tools=[types.Tool.model_validate(TOOL)])
    async def call(context, params):
        return types.CallToolResult(content=await answer(params.arguments["text"]))
    server = Server("echo", on_list_tools=tools, on_call_tool=call)

async def main():
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())

asyncio.run(main())
"""


def project_with(root: Path) -> Any:
    (root / "server.py").write_text(SERVER, encoding="utf-8")
    (root / "apcore-mcp.toml").write_text('[mcp.servers.echo]\ntools = ["*"]\napproval = "never"\n', encoding="utf-8")
    entry = {"command": sys.executable, "args": [str(root / "server.py")]}
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": {"echo": entry}}), encoding="utf-8")
    (root / "agents").mkdir()
    profile = {"name": "a", "tools": ["*"], "limits": {"max_steps": 1_000_000}}
    (root / "agents" / "a.md").write_text(f"---\n{json.dumps(profile)}\n---\n", encoding="utf-8")
    secrets = Secrets({}, root)
    locked = lock_servers(read_project(root / "apcore-mcp.toml"), ["echo"], secrets)
    (root / "mcp.lock.json").write_text(locked.lock.to_json(), encoding="utf-8")
    for artifact in build_agents(root / "apcore-mcp.toml", [], "../apcore-mcp.toml").artifacts:
        target = root / "generated" / artifact.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(artifact.text, encoding="utf-8")
    return read_project(root / "apcore-mcp.toml"), secrets


async def direct_client(server: Any, stack: Any) -> Callable[[], Awaitable[Any]]:
    """The SDK's own client over the SDK's own transport, as a program without us would use it."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(command=server.command, args=list(server.args))
    streams = await stack.enter_async_context(stdio_client(parameters))
    session: Any = await stack.enter_async_context(ClientSession(*streams))
    await session.initialize()
    await session.list_tools()
    return lambda: session.call_tool("echo", {"text": "hello"})


async def overhead(root: Path) -> dict[str, list[float]]:
    from contextlib import AsyncExitStack

    project, secrets = await asyncio.to_thread(project_with, root)
    pool = build_pool(project, [], Notes())
    (tool,) = pool.tools.values()
    server = project.servers["echo"]
    link = Link(server, {"echo": tool.upstream}, open_connection(server, secrets))
    registry = Registry()
    registry.register(tool.module_id, ExternalTool(tool, link, ServerPolicy(), secrets.scrubber))
    executor = Executor(registry)
    async with AsyncExitStack() as stack:
        direct = await direct_client(server, stack)
        alone = await stack.enter_async_context(connected(server, lambda text: text))
        await link.start()
        stack.push_async_callback(link.stop)
        runtime = await stack.enter_async_context(load_runtime(root / "generated", Registry()))
        session = await stack.enter_async_context(runtime.session("a"))
        contestants: dict[str, Callable[[], Awaitable[Any]]] = {
            "SDK client": direct,
            "our connection": lambda: alone.call("echo", {"text": "hello"}),
            "link": lambda: link.call("echo", {"text": "hello"}, timeout=30),
            "Executor + link": lambda: executor.call_async(tool.module_id, {"text": "hello"}, Context.create()),
            "agent's session": lambda: session.call(tool.name, {"text": "hello"}),
        }
        samples: dict[str, list[float]] = {name: [] for name in contestants}
        for number in range(ROUNDS + WARM_UP):
            for name, call in contestants.items():
                started = time.perf_counter()
                await call()
                if number >= WARM_UP:
                    samples[name].append(time.perf_counter() - started)
    return samples


def resolution(root: Path) -> tuple[float, float]:
    """Seconds to resolve 1,000 tools for 20 agents, and for a build of them with every file."""
    local = [
        LocalTool(
            {"name": f"area{n % 25}.tool_{n}", "description": "d", "inputSchema": {"type": "object"}},
            f"area{n % 25}.tool_{n}",
        )
        for n in range(1000)
    ]
    agents = root / "agents"
    agents.mkdir()
    for number in range(20):
        patterns = [
            f"area{number}.*",
            "area1*.tool_?0",
            "*_99",
            "area2.tool_*5",
            "area3.*",
            f"area4.tool_{104 + number}",
        ]
        text = json.dumps({"name": f"agent-{number}", "tools": patterns, "deny": ["*_13*"]})
        (agents / f"agent-{number}.md").write_text(f"---\n{text}\n---\n", encoding="utf-8")
    config = root / "apcore-mcp.toml"
    config.write_text("[agents]\nstrict = false\n", encoding="utf-8")
    project = read_project(config)
    pool = build_pool(project, local, Notes())
    started = time.perf_counter()
    resolve.resolve_all(project, pool, Notes())
    resolved = time.perf_counter() - started
    started = time.perf_counter()
    build_agents(config, local)
    return resolved, time.perf_counter() - started


def globs_at_call_time() -> int:
    """How often the matcher runs while a call is made: patched to count, and left patched."""
    from apcore_agents.runtime import Agent

    counted = 0

    def counting(*_: Any) -> bool:
        nonlocal counted
        counted += 1
        return False

    names.match_glob = counting  # type: ignore[assignment]
    table = {f"tool_{n}": f"tool_{n}" for n in range(1000)}
    agent = Agent("a", "", "", None, (), 2, dict.fromkeys(("root", "sub", "leaf"), table), {}, "")  # type: ignore[arg-type]
    for depth in range(3):
        assert agent.table(depth).get("tool_7") == "tool_7"
        assert agent.table(depth).get("tool_*") is None
    return counted


def scrubbing() -> float:
    scrubber = Scrubber()
    for number in range(5):
        scrubber.learn(f"a-secret-of-the-benchmark-{number}")
    output = {"rows": [{"id": n, "text": "nothing to see here " * 5} for n in range(230)]}
    scrubber.value(output)
    started = time.perf_counter()
    for _ in range(50):
        scrubber.value(output)
    return (time.perf_counter() - started) / 50


def milliseconds(samples: list[float]) -> float:
    return statistics.median(samples) * 1000


def report(reached: float, bound: float, what: str) -> None:
    print(f"{'met' if reached <= bound else 'MISSED':<7} {reached:.3f} (<= {bound:g}) {what}")


def main() -> None:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        samples = asyncio.run(overhead(Path(first)))
        resolved, built = resolution(Path(second))
    print(f"stdio, mcp {SDK}.x, medians of {ROUNDS} calls in turn:")
    for name, values in samples.items():
        print(f"  {name:<18} {milliseconds(values):7.3f} ms")
    more = milliseconds(samples["Executor + link"]) - milliseconds(samples["SDK client"])
    report(more, OVERHEAD_LIMIT_MS, "ms more for Executor + link than for the SDK client")
    report(resolved, RESOLVE_LIMIT_S, f"s to resolve 1,000 tools x 20 agents (built with every file: {built:.3f} s)")
    report(globs_at_call_time(), 0, "patterns matched at call time")
    print(f"        {scrubbing() * 1e6:.0f} us to scrub 25 KB of five secrets")


if __name__ == "__main__":
    main()
