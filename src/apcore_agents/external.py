"""An external tool as an apcore module, so that ACL, approval, validation, limits and audit apply to it as well."""

from typing import Any

from apcore import ModuleAnnotations

from apcore_agents.failures import ToolError
from apcore_agents.runs import cancelled_with_its_caller
from apcore_agents.schemas import JsonSchema
from apcore_agents.scrubbing import Scrubber
from apcore_agents.settings import ServerPolicy
from apcore_agents.supervision import Link
from apcore_agents.tools import PoolTool
from apcore_mcp.helpers import report_progress

__all__ = ["ExternalTool"]

# The Executor never cancels what has run out of time, so the link gives up first.
MARGIN = 0.25
LONGEST_ERROR = 2_000


class ExternalTool:
    """Gives back structured content where the lock has an output schema, else `{"content": [...]}` as it came."""

    def __init__(self, tool: PoolTool, link: Link, policy: ServerPolicy, scrubber: Scrubber) -> None:
        assert tool.upstream is not None
        entry, upstream = tool.entry, tool.upstream
        self._link, self._scrubber = link, scrubber
        self._upstream_name, self._readonly = upstream.name, tool.is_readonly
        self._timeout = max(policy.timeout - MARGIN, policy.timeout / 2)
        self.description, self.name = entry["description"] or upstream.name, entry.get("title")
        self.tags = ["mcp", link.alias]
        self.input_schema = JsonSchema(entry["inputSchema"])
        output = entry.get("outputSchema")
        self.output_schema = JsonSchema(output, "Output") if output is not None else None
        self.annotations = ModuleAnnotations(
            readonly=tool.is_readonly,
            destructive=not tool.is_readonly,
            idempotent=tool.is_readonly,
            requires_approval=tool.needs_approval,
            open_world=True,
            extra={
                "resources": {"timeout": int(policy.timeout * 1000)},
                "mcp": {"server": link.alias, "tool": upstream.name, "digest": upstream.digest},
            },
        )

    async def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        messages = self._scrubber.stream()

        async def progress(value: float, total: float | None, message: str | None) -> None:
            await report_progress(context, value, total, message and messages.push(message))

        with cancelled_with_its_caller():
            result = await self._link.call(
                self._upstream_name, inputs, timeout=self._timeout, readonly=self._readonly, progress=progress
            )
        return self._output(self._scrubber.value(result))

    def _output(self, result: dict[str, Any]) -> dict[str, Any]:
        if result.get("isError"):
            text = " ".join(str(block.get("text", "")) for block in result["content"] if isinstance(block, dict))
            raise ToolError("UPSTREAM_TOOL_ERROR", text[:LONGEST_ERROR] or "the tool failed", server=self._link.alias)
        if self.output_schema is None:
            return {"content": result["content"]}
        output = result.get("structuredContent")
        if not isinstance(output, dict):
            raise ToolError("UPSTREAM_PROTOCOL", "the result has no structured content", server=self._link.alias)
        return output
