"""The tools as apcore modules: parse nothing twice, hold no logic of their own."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import Any

from apcore.context import Context
from apcore.module import Change, ModuleAnnotations, PreviewResult
from apcore.registry import Registry
from jsonschema import Draft202012Validator

from apcore_tree.engine.node import Json
from apcore_tree.errors import Internal, as_tree_error
from apcore_tree.service import TreeService
from apcore_tree.settings import Caller
from apcore_tree.tools.catalogue import TOOLS
from apcore_tree.tools.tool import Tool

__all__ = ["SESSION_KEY", "TreeModule", "caller_of", "register_tree", "tree_modules"]

# Where an adapter leaves the id of its transport's session.
SESSION_KEY = "_mcp_session"

_MODULE_VERSION = "1.0.0"


class InputSchema:
    """A tool's input schema behind the interface that apcore expects of a model class."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    def model_json_schema(self) -> Json:
        return self._tool.input_schema

    def model_validate(self, data: Any, *, strict: bool | None = None) -> Any:
        self._tool.check(data)
        return data

    def model_rebuild(self) -> None:
        return None


class OutputSchema:
    """A tool's output schema; a result that breaks it is this side's fault."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    @cached_property
    def _validator(self) -> Draft202012Validator:
        return Draft202012Validator(self._tool.output_schema)

    def model_json_schema(self) -> Json:
        return self._tool.output_schema

    def model_validate(self, data: Any, *, strict: bool | None = None) -> Any:
        for error in self._validator.iter_errors(data):
            raise Internal("The result breaks its schema", reason="output_schema", field=error.json_path)
        return data

    def model_rebuild(self) -> None:
        return None


class TreeModule:
    """One tool, bound to a service."""

    # Whatever a gate of the pipeline raises, callers of the tree are told one of its six codes.
    restate_error = staticmethod(as_tree_error)

    def __init__(self, tool: Tool, service: TreeService) -> None:
        self.tool = tool
        self.service = service
        self.input_schema = InputSchema(tool)
        self.output_schema = OutputSchema(tool)
        self.description = tool.description
        self.version = _MODULE_VERSION
        self.tags = ["tree", tool.kind.value]
        self.annotations = ModuleAnnotations(
            readonly=tool.reads,
            destructive=tool.destructive,
            idempotent=tool.idempotent,
            open_world=False,
            paginated=tool.paginated,
        )

    @property
    def waits(self) -> bool:
        """Whether the next call leaves the event loop to a thread."""
        return self.service.is_long(self.tool.name)

    async def execute(self, inputs: Json, context: Context[Any]) -> Json:
        name, caller = self.tool.name, caller_of(context)
        if self.waits:
            return await asyncio.to_thread(self.service.run, name, inputs, caller)
        return self.service.run(name, inputs, caller)

    def preview(self, inputs: Json, context: Context[Any]) -> PreviewResult | None:
        """What the call would change, found by doing it and taking it back."""
        result = self.service.preview(self.tool.name, inputs, caller_of(context))
        if result is None:
            return None
        count, ids = result["changedCount"], result["changedIds"]
        return PreviewResult(
            changes=[
                Change(
                    action=self.tool.name,
                    target=", ".join(ids[:5]),
                    summary=f"{count} node{'s' if count != 1 else ''} would change",
                )
            ]
        )


def caller_of(context: Context[Any]) -> Caller:
    """Who calls, as the context knows it; without an identity nobody with no roles."""
    identity = context.identity
    session = context.data.get(SESSION_KEY, "")
    if identity is None:
        return Caller("anonymous", session=session, trace_id=context.trace_id)
    return Caller(
        identity.id,
        identity.type,
        tuple(identity.roles),
        session,
        bool(identity.attrs.get("readOnly")),
        context.trace_id,
    )


def tree_modules(service: TreeService) -> dict[str, TreeModule]:
    """The live modules by id, in the order of the catalogue."""
    return {tool.module_id: TreeModule(tool, service) for tool in TOOLS.values()}


def register_tree(registry: Registry, service: TreeService) -> None:
    for module_id, module in tree_modules(service).items():
        registry.register(module_id, module)
