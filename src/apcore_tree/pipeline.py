"""The tree's place in an apcore pipeline: its gates, and a lean way through for its modules.

`install_tree` adds to any executor what concerns `tree.*` and leaves every other module alone.  No gate of apcore is
removed or replaced; lookup and validation do the same work without generating schemas and deep copies on every call.
"""

from __future__ import annotations

import time
from typing import Any

from apcore.acl import ACL
from apcore.builtin_steps import (
    BuiltinExecute,
    BuiltinInputValidation,
    BuiltinModuleLookup,
    BuiltinOutputValidation,
)
from apcore.cancel import ExecutionCancelledError
from apcore.context import GovernanceProjection
from apcore.errors import ModuleDisabledError, ModuleTimeoutError
from apcore.executor import Executor
from apcore.pipeline import BaseStep, PipelineContext, PipelineState, StepResult
from apcore.registry import Registry

from apcore_tree.access import tree_acl
from apcore_tree.engine.node import Json
from apcore_tree.errors import as_tree_error
from apcore_tree.modules import TreeModule, caller_of, register_tree
from apcore_tree.service import TreeService
from apcore_tree.tools.tool import Tool

__all__ = ["install_tree", "tree_executor"]

_CONTINUE = StepResult(action="continue")
_LOGGED_TYPES = ("string", "integer", "boolean")


class CallRate(BaseStep):
    """Counts the agent's calls before anything is decided about them; a dry run is free."""

    def __init__(self, service: TreeService) -> None:
        super().__init__("tree_call_rate", "Limit how often one agent calls")
        self._service = service

    async def execute(self, ctx: PipelineContext) -> StepResult:
        if not self._service.rate.unlimited and _is_tree(ctx):
            self._service.rate.hit(caller_of(ctx.context).id)
        return _CONTINUE


class Replay(BaseStep):
    """Answers a repeated request after the access check and before a human is asked again."""

    def __init__(self, service: TreeService) -> None:
        super().__init__("tree_replay", "Return the answer to a repeated request")
        self._service = service

    async def execute(self, ctx: PipelineContext) -> StepResult:
        if "idempotencyKey" in ctx.inputs and _is_tree(ctx):
            known = self._service.replay(_tool_name(ctx), ctx.inputs, caller_of(ctx.context))
            if known is not None:
                ctx.output = known
                return StepResult(action="skip_to", skip_to="return_result")
        return _CONTINUE


class FailureAudit:
    """A step middleware, because apcore's module middlewares never see a denial."""

    def __init__(self, service: TreeService) -> None:
        self._service = service

    def on_step_error(self, step_name: str, state: PipelineState, error: Exception) -> None:
        ctx = state.context
        if _is_tree(ctx):
            self._service.audit_failure(_tool_name(ctx), ctx.inputs, caller_of(ctx.context), as_tree_error(error))


class LeanLookup(BuiltinModuleLookup):
    async def execute(self, ctx: PipelineContext) -> StepResult:
        module = None if ctx.version_hint is not None else self._registry.get(ctx.module_id)
        if not isinstance(module, TreeModule):
            return await super().execute(ctx)
        if self._toggle_state.is_disabled(ctx.module_id):
            raise ModuleDisabledError(module_id=ctx.module_id)
        ctx.module = module
        ctx.declared_annotations = self._registry.get_declared_annotations(ctx.module_id)
        ctx.governance_projection = GovernanceProjection.of(ctx.inputs)
        ctx.context.redacted_inputs = _loggable(ctx.inputs, module.tool)
        return _CONTINUE


class LeanInput(BuiltinInputValidation):
    async def execute(self, ctx: PipelineContext) -> StepResult:
        if not isinstance(ctx.module, TreeModule):
            return await super().execute(ctx)
        ctx.module.tool.check(ctx.inputs)
        ctx.validated_inputs = ctx.inputs
        return _CONTINUE


class LeanExecute(BuiltinExecute):
    """A tool that never waits cannot be timed out on the way, so it needs no task of its own."""

    async def execute(self, ctx: PipelineContext) -> StepResult:
        module, context = ctx.module, ctx.context
        if not isinstance(module, TreeModule) or module.waits:
            return await super().execute(ctx)
        if context.cancel_token is not None and context.cancel_token.is_cancelled:
            raise ExecutionCancelledError()
        if context.global_deadline is not None and time.time() > context.global_deadline:
            raise ModuleTimeoutError(module_id=ctx.module_id, timeout_ms=0)
        ctx.output = await module.execute(ctx.inputs, context)
        return _CONTINUE


class LeanOutput(BuiltinOutputValidation):
    """Checks results only when asked to: they are this package's own."""

    def __init__(self, check: bool, redaction: Any) -> None:
        super().__init__(redaction=redaction)
        self._check = check

    async def execute(self, ctx: PipelineContext) -> StepResult:
        if not isinstance(ctx.module, TreeModule):
            return await super().execute(ctx)
        if self._check:
            ctx.module.output_schema.model_validate(ctx.output)
        ctx.validated_output = ctx.output
        ctx.context.redacted_output = {"version": (ctx.output or {}).get("version")}
        return _CONTINUE


def _is_tree(ctx: PipelineContext) -> bool:
    # Cheaper than a step's own `match_modules`, which compiles its patterns on every call.
    return ctx.module_id.startswith("tree.")


def _tool_name(ctx: PipelineContext) -> str:
    return ctx.module_id.removeprefix("tree.")


def _loggable(inputs: Json, tool: Tool) -> Json:
    """Ids, names and flags for the log; payloads are the user's and stay out of it."""
    properties = tool.input_schema["properties"]
    return {
        name: value if properties.get(name, {}).get("type") in _LOGGED_TYPES else "***"
        for name, value in inputs.items()
    }


def _lean(usual: Any, check_output: bool) -> BaseStep | None:
    """The lean form of a step; None for any step that is not exactly apcore's own."""
    if type(usual) is BuiltinModuleLookup:
        return LeanLookup(registry=usual._registry, toggle_state=usual._toggle_state, redaction=usual._redaction)
    if type(usual) is BuiltinInputValidation:
        return LeanInput(redaction=usual._redaction)
    if type(usual) is BuiltinExecute:
        return LeanExecute(config=usual._config)
    return LeanOutput(check_output, usual._redaction) if type(usual) is BuiltinOutputValidation else None


def install_tree(executor: Executor, service: TreeService, *, check_output: bool = False) -> None:
    """Put the tree's steps into the executor's strategy."""
    strategy = executor.current_strategy
    for index, usual in enumerate(strategy.steps):
        # Same name, same place: the strategy's index stays true.
        strategy.steps[index] = _lean(usual, check_output) or usual
    strategy.insert_after("module_lookup", CallRate(service))
    gated = any(step.name == "acl_check" for step in strategy.steps)
    strategy.insert_after("acl_check" if gated else "tree_call_rate", Replay(service))
    # apcore asks a step middleware only for the hooks it has.
    strategy.add_step_middleware(FailureAudit(service))  # type: ignore[arg-type]


def tree_executor(
    service: TreeService,
    registry: Registry | None = None,
    *,
    acl: ACL | None = None,
    check_output: bool = False,
    **options: Any,
) -> Executor:
    """An executor with the tree's modules, its access list (unless given another) and its steps."""
    if registry is None:
        registry = Registry()
        register_tree(registry, service)
    executor = Executor(registry, acl=acl or tree_acl(service.settings), **options)
    install_tree(executor, service, check_output=check_output)
    return executor
