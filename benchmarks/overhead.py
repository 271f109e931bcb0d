"""Print what a tools/call costs in memory beyond its Executor, in seconds; runs inside a contestant's environment.

The call goes through the SDK's server session over memory streams, so that no transport is counted.
"""

import asyncio
import logging
import statistics
import sys
import time
from typing import Any

import anyio
from wire import ARGUMENTS, INITIALIZE

TOOL = "area0.tool0"
CALLS = 400

logging.disable(logging.ERROR)


def ours(extensions: str) -> tuple[Any, Any]:
    from pathlib import Path

    from apcore_mcp.serving import ServeOptions, _Server
    from apcore_runtime import load

    server = _Server(load(Path(extensions).parent / "generated"), ServeOptions(transport="streamable-http"))
    return server.endpoint.run, server.executor


def peer(extensions: str) -> tuple[Any, Any]:
    from apcore import Executor, Registry
    from apcore_mcp.server.factory import MCPServerFactory

    from apcore_mcp.server.router import ExecutionRouter

    registry = Registry(extensions_dir=extensions)
    registry.discover()
    executor, factory = Executor(registry), MCPServerFactory()
    server = factory.create_server()
    tools = factory.build_tools(registry)
    schemas = {module_id: registry.get_definition(module_id).output_schema for module_id in registry.list()}
    router = ExecutionRouter(executor, output_schema_map=schemas)
    factory.register_handlers(server, tools, router)
    options = server.create_initialization_options()
    return lambda read, write: server.run(read, write, options), executor


async def measure(run: Any, executor: Any) -> float:
    to_server, server_reads = anyio.create_memory_object_stream[Any](1)
    server_writes, from_server = anyio.create_memory_object_stream[Any](1)
    async with anyio.create_task_group() as group:
        group.start_soon(run, server_reads, server_writes)
        await _request(to_server, from_server, 0, "initialize", INITIALIZE)
        await to_server.send(_message({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        through, alone = [], []
        for number in range(1, CALLS):
            through.append(await _timed(_request(to_server, from_server, number, "tools/call", _call())))
            alone.append(await _timed(executor.call_async(TOOL, dict(ARGUMENTS))))
        group.cancel_scope.cancel()
    return statistics.median(through) - statistics.median(alone)


def _call() -> dict[str, Any]:
    return {"name": TOOL, "arguments": dict(ARGUMENTS)}


async def _timed(work: Any) -> float:
    started = time.perf_counter()
    await work
    return time.perf_counter() - started


async def _request(to_server: Any, from_server: Any, number: int, method: str, params: dict[str, Any]) -> None:
    await to_server.send(_message({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
    answer = await from_server.receive()
    body = getattr(answer.message, "root", answer.message)
    assert not body.result.get("isError"), body.result


def _message(document: dict[str, Any]) -> Any:
    from mcp.shared.message import SessionMessage

    try:
        from mcp_types import jsonrpc_message_adapter

        return SessionMessage(jsonrpc_message_adapter.validate_python(document))
    except ImportError:
        from mcp.types import JSONRPCMessage

        return SessionMessage(JSONRPCMessage.model_validate(document))


if __name__ == "__main__":
    try:
        import apcore_runtime  # noqa: F401

        contestant = ours
    except ImportError:
        contestant = peer
    print(asyncio.run(measure(*contestant(sys.argv[1]))))
