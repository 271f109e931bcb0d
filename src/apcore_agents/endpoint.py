"""One agent as an MCP server: its tools, its calls, and what a client is told when one fails."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from apcore import Context, Identity
from apcore.errors import ModuleError

from apcore_agents.failures import Failure, failure_of
from apcore_agents.runs import Run
from apcore_agents.runtime import AgentRuntime
from apcore_host.options import ServeOptions
from apcore_mcp import __version__
from apcore_mcp.helpers import MCP_ELICIT_KEY
from apcore_mcp.server.router import ExecutionRouter
from apcore_mcp.server.sdk import Endpoint
from apcore_mcp.server.service import ToolService

__all__ = ["AgentEndpoint", "agent_endpoint"]


class AgentToolList:
    """The tools of an agent as a server lists them: the frozen set, less what is withheld at the moment."""

    def __init__(self, runtime: AgentRuntime, agent: str, docs: Mapping[str, str]) -> None:
        self._runtime, self._agent = runtime, agent
        known = runtime.agents[agent]
        # Dicts of the server's own, the same ones at every call.
        self._entries = {name: dict(known.entries[name]) for name in known.table(0)}
        self._docs = {name: text for name, text in docs.items() if name in self._entries}

    @property
    def count(self) -> int:
        return len(self.tools())

    def tool(self, name: str) -> dict[str, Any] | None:
        return self._entries.get(name)

    def tools(self) -> list[dict[str, Any]]:
        return [entry for name, entry in self._entries.items() if not self._runtime.is_withheld(name)]

    def listed(self) -> bytes:
        return json.dumps(self.tools(), ensure_ascii=False, separators=(",", ":")).encode()

    def docs(self) -> dict[str, str]:
        return self._docs


class _Dispatch:
    """Stands where a server expects an Executor; has no `stream`, since a secret may be split over two chunks."""

    def __init__(self, runtime: AgentRuntime, agent: str) -> None:
        self._runtime, self._agent = runtime, agent

    @property
    def registry(self) -> "_Dispatch":
        return self

    def get(self, name: str) -> Any:
        """The module behind a name of this agent's."""
        module_id = self._runtime.agents[self._agent].table(0).get(name)
        return self._runtime.executors[self._agent].registry.get(module_id) if module_id is not None else None

    async def call_async(self, name: str, arguments: dict[str, Any], context: Context[Any]) -> Any:
        # Taken before any module can put something else there.
        elicit = context.data.get(MCP_ELICIT_KEY)
        try:
            return await self._runtime.call(Run(self._agent), name, arguments, context, elicit)
        except Exception as error:
            readonly = self._runtime.agents[self._agent].is_readonly(name)
            _failed.set(failure_of(error, readonly=readonly))
            raise


_failed: ContextVar[Failure | None] = ContextVar("apcore_agents_failed", default=None)


@contextmanager
def _noting_failure() -> Iterator[None]:
    reset = _failed.set(None)
    try:
        yield
    finally:
        _failed.reset(reset)


class AgentRouter:
    """The server's router, which adds to an error what a caller can act on, and passes content blocks on unchanged."""

    def __init__(self, runtime: AgentRuntime, agent: str, tools: AgentToolList) -> None:
        dispatch: Any = _Dispatch(runtime, agent)
        self._runtime, self._tools = runtime, tools
        self._router = ExecutionRouter(tools, lambda: dispatch)

    @property
    def in_flight(self) -> int:
        return self._router.in_flight

    async def handle_call(
        self, name: str, arguments: dict[str, Any], caller: Any, identity: Identity | None = None
    ) -> dict[str, Any]:
        with _noting_failure():
            result = await self._router.handle_call(name, arguments, caller, identity)
            if result.get("isError"):
                return self._explained(result, _failed.get())
        return self._unpacked(result, name)

    def _explained(self, result: dict[str, Any], failure: Failure | None) -> dict[str, Any]:
        error = result.setdefault("_meta", {}).setdefault("apcore/error", {})
        # The router answers by itself when there is no such tool, or the output is no JSON.
        known = failure or failure_of(ModuleError(code=str(error.get("code")), message=""))
        error |= {"category": known.category, "retryable": known.retryable, "outcome": known.outcome}
        if known.is_ours:
            error["code"] = known.code
            result["content"] = [{"type": "text", "text": known.message}]
        return result

    def _unpacked(self, result: dict[str, Any], name: str) -> dict[str, Any]:
        if name in self._runtime.upstream and "outputSchema" not in (self._tools.tool(name) or {}):
            result["content"] = json.loads(result["content"][0]["text"])["content"]
        return result


@dataclass(frozen=True)
class AgentEndpoint:
    """One agent, ready to be put on a transport."""

    agent: str
    service: ToolService
    endpoint: Endpoint


def agent_endpoint(
    runtime: AgentRuntime, agent: str, options: ServeOptions, docs: Mapping[str, str], *, prebuilt: bool
) -> AgentEndpoint:
    tools = AgentToolList(runtime, agent, docs)
    router: Any = AgentRouter(runtime, agent, tools)
    service = ToolService(tools, router, options.identity if prebuilt else None, prebuilt=prebuilt)
    version = options.version or __version__
    # The only change there can be is that a tool is withheld, or is back.
    endpoint = Endpoint(service.answers, agent, version, service.input_schema, True)
    return AgentEndpoint(agent, service, endpoint)
