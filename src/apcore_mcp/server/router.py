"""From a tool call to its result: the only way in leads through the Executor."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from apcore_host.failures import log_failure, restated
from apcore_host.output import NotSerialisable, merge_chunk, to_json, validate_output
from apcore_host.progress import Progress
from apcore_host.selection import Tools
from apcore_host.sensitive import is_marked, mask, secrets_in
from apcore_host.walk import missing_fields
from apcore_mcp.helpers import MCP_ELICIT_KEY, MCP_PROGRESS_KEY, MCP_SESSION_KEY
from apcore_mcp.server.errors import ErrorMapper, error_result, text_content

if TYPE_CHECKING:
    from apcore import Context, Executor, Identity

logger = logging.getLogger(__name__)


class Caller(Protocol):
    """The client at the other end of a call."""

    @property
    def meta(self) -> Any: ...
    @property
    def session_id(self) -> str: ...
    async def progress(self, value: float, total: float | None = None, message: str | None = None) -> None: ...
    async def elicit(self, message: str, schema: dict[str, Any] | None) -> dict[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class Unattended:
    """A caller without an MCP session: progress is not shown, and nobody can be asked for approval."""

    meta: Mapping[str, str] = field(default_factory=dict)
    session_id: str = ""

    async def progress(self, value: float, total: float | None = None, message: str | None = None) -> None:
        return None

    async def elicit(self, message: str, schema: dict[str, Any] | None) -> None:
        return None


@dataclass(frozen=True, slots=True)
class _Traits:
    """What is asked of a tool at every call, found out once."""

    tool: dict[str, Any]
    secret_input: bool
    # None when nothing in the output is sensitive.
    secret_output: dict[str, Any] | None

    @property
    def streams(self) -> bool:
        return bool(self.tool.get("_meta", {}).get("apcore/streaming"))


class ExecutionRouter:
    def __init__(self, tools: Tools, executor: Callable[[], "Executor"]) -> None:
        self._tools, self._executor = tools, executor
        self._errors = ErrorMapper()
        self._traits: dict[str, _Traits] = {}
        self.in_flight = 0

    async def handle_call(
        self, name: str, arguments: dict[str, Any], caller: Caller, identity: "Identity | None" = None
    ) -> dict[str, Any]:
        """The wire-shaped result of a call.  Never raises, but for the cancellation of the call itself."""
        # A name from outside must not be able to write lines of its own into the log.
        logger.debug("Tool call: %s", name if name.isprintable() else ascii(name))
        tool = self._tools.tool(name)
        if tool is None:
            logger.error("Tool call error: %s - ModuleNotFoundError: no such tool", ascii(name)[1:-1])
            return self._errors.not_found(name)
        self.in_flight += 1
        try:
            return await self._call(name, arguments, self._traits_of(tool), caller, identity)
        except Exception as error:
            # Not the module's: a compiled tool whose module is gone, or an Executor that cannot be made.
            log_failure(logger, error, name, [])
            return self._errors.to_mcp_error(error)
        finally:
            self.in_flight -= 1

    def _traits_of(self, tool: dict[str, Any]) -> _Traits:
        traits = self._traits.get(tool["name"])
        if traits is None or traits.tool is not tool:
            output = self._output_schema(tool)
            traits = _Traits(tool, is_marked(tool["inputSchema"]), output if is_marked(output) else None)
            self._traits[tool["name"]] = traits
        return traits

    def _output_schema(self, tool: dict[str, Any]) -> Any:
        if "outputSchema" in tool:
            return tool["outputSchema"]
        # Not every output schema can be published, but what one calls sensitive is masked all the same.
        own = getattr(self._executor().registry.get(tool["name"]), "output_schema", None)
        return own.model_json_schema() if own is not None else {}

    async def _call(
        self, name: str, arguments: dict[str, Any], traits: _Traits, caller: Caller, identity: "Identity | None"
    ) -> dict[str, Any]:
        from apcore.cancel import CancelToken
        from apcore.context import Context
        from apcore.trace_context import TraceContext

        progress, token = Progress(caller.progress), CancelToken()
        context: Context[Any] = Context.create(
            identity=identity,
            trace_parent=TraceContext.extract(_headers(caller.meta)),
            cancel_token=token,
            data={
                MCP_PROGRESS_KEY: progress.report,
                MCP_ELICIT_KEY: caller.elicit,
                MCP_SESSION_KEY: caller.session_id,
            },
        )
        try:
            output = await self._execute(name, arguments, context, traits, caller, progress)
            result = _success(output, traits)
        except asyncio.CancelledError:
            token.cancel()
            raise
        except (Exception, SystemExit) as error:
            result = self._failure(error, name, arguments, traits)
        result.setdefault("_meta", {}).update(TraceContext.inject(context))
        return result

    async def _execute(
        self,
        name: str,
        arguments: dict[str, Any],
        context: "Context[Any]",
        traits: _Traits,
        caller: Caller,
        progress: Progress,
    ) -> Any:
        executor = self._executor()
        if not (traits.streams and caller.meta.get("progressToken") is not None and hasattr(executor, "stream")):
            return await executor.call_async(name, arguments, context)
        output: dict[str, Any] = {}
        async for chunk in executor.stream(name, arguments, context):
            merge_chunk(output, chunk)
            await progress.chunk(to_json(_masked(chunk, traits)))
        # Chunks are out before the Executor checks the whole, so it only logs a mismatch; the result must not pass.
        validate_output(executor.registry.get(name), output)
        return output

    def _failure(self, error: BaseException, name: str, arguments: dict[str, Any], traits: _Traits) -> dict[str, Any]:
        if isinstance(error, NotSerialisable):
            logger.error("Tool call error: %s - %s: %s", name, type(error).__name__, error)
            return error_result("Failed to serialize module output", code="GENERAL_INTERNAL_ERROR")
        schema = traits.tool["inputSchema"]
        secrets = secrets_in(arguments, schema) if traits.secret_input else []
        log_failure(logger, error, name, secrets)
        told = restated(error, self._executor().registry.get(name))
        return self._errors.to_mcp_error(error, secrets, missing_fields(arguments, schema), told)


def _success(output: Any, traits: _Traits) -> dict[str, Any]:
    text = to_json(_masked(output, traits))
    result: dict[str, Any] = {"content": [text_content(text)], "isError": False}
    if "outputSchema" in traits.tool and isinstance(output, dict):
        # Read back from the text, so that both say the same of a date or a path.
        result["structuredContent"] = json.loads(text)
    return result


def _masked(output: Any, traits: _Traits) -> Any:
    return mask(output, traits.secret_output) if traits.secret_output else output


def _headers(meta: Any) -> dict[str, str]:
    return {name: meta[name] for name in ("traceparent", "tracestate") if isinstance(meta.get(name), str)}
