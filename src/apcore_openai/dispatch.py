"""From a tool call, as OpenAI's clients return it, to the message that answers it."""

import asyncio
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from apcore import Executor

from apcore_host.governance import governed_executor
from apcore_host.selection import SelectedTools, Tools
from apcore_mcp.adapters.names import name_table
from apcore_mcp.adapters.selection import registry_of
from apcore_mcp.helpers import elicit
from apcore_mcp.server.errors import error_result
from apcore_mcp.server.router import ExecutionRouter, Unattended
from apcore_mcp.server.tools import LiveTools
from apcore_openai.strict import remove_nulls
from apcore_runtime.surface import Surface

if TYPE_CHECKING:
    from apcore import Identity, Registry

__all__ = ["Dispatcher"]


class Dispatcher:
    """Runs the tool calls of a model through the Executor.

    Takes Chat Completions' and the Responses API's calls, as dicts or as the `openai` package's objects.  What the
    filters leave out does not exist; a call that wants approval is denied, unless a given Executor decides otherwise.
    """

    def __init__(
        self,
        source: "Registry | Executor | Surface",
        *,
        tags: list[str] | None = None,
        prefix: str | None = None,
        identity: "Identity | None" = None,
    ) -> None:
        self._identity = identity
        if isinstance(source, Surface):
            self._tools: Tools = SelectedTools(source, tags, prefix)
            executor = governed_executor(source.registry(), elicit)
        else:
            self._tools = LiveTools(registry_of(source), tags, prefix)
            executor = source if isinstance(source, Executor) else governed_executor(source, elicit)
        # By table, because a shortened name cannot be turned back into an id.
        self._module_ids = name_table(tool["name"] for tool in self._tools.tools())
        self._router = ExecutionRouter(self._tools, lambda: executor)

    async def dispatch(self, call: Any) -> dict[str, Any]:
        """The message that answers a call, in the shape of the API the call came from."""
        plain: dict[str, Any] = call if isinstance(call, dict) else call.model_dump()
        function = plain.get("function", plain)
        text = await self._run(function["name"], function["arguments"])
        if "function" in plain:
            return {"role": "tool", "tool_call_id": plain["id"], "content": text}
        return {"type": "function_call_output", "call_id": plain["call_id"], "output": text}

    async def dispatch_all(self, calls: Iterable[Any]) -> list[dict[str, Any]]:
        """The answers to parallel calls, in the order of the calls."""
        return list(await asyncio.gather(*map(self.dispatch, calls)))

    async def _run(self, name: str, text: str) -> str:
        module_id = self._module_ids.get(name, name)
        tool = self._tools.tool(module_id)
        arguments = _arguments(text)
        if arguments is None:
            result = error_result("Invalid input: the arguments are not a JSON object")
        else:
            given = remove_nulls(arguments, tool["inputSchema"]) if tool else arguments
            result = await self._router.handle_call(module_id, given, Unattended(), self._identity)
        return "\n".join(content["text"] for content in result["content"])


def _arguments(text: str) -> dict[str, Any] | None:
    try:
        # A model that has nothing to say may say nothing.
        arguments = json.loads(text or "{}")
    except ValueError:
        return None
    return arguments if isinstance(arguments, dict) else None
