"""Modules that apcore's Registry and Executor take for real ones, loaded at their first call.

What apcore asks before a call is allowed (lookup, annotations, schemas) is answered from
build-time data; the module's file is imported when its input is validated, which is after the ACL.
"""

import logging
import threading
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any

from apcore.errors import ModuleLoadError
from apcore.module import ModuleAnnotations, ModuleExample

from apcore_runtime.loading import SourceFile, describe_error, load_entry
from apcore_runtime.spec import ToolSpec

__all__ = ["LazyModule", "lazy_module"]

logger = logging.getLogger("apcore_mcp.runtime")

# apcore decides by the presence of these names, so they must not appear by forwarding.
_DETECTED = frozenset(
    {"on_load", "on_unload", "on_suspend", "on_resume", "stream", "preflight", "preview", "describe", "resources"}
)


class LazySchema:
    """Stands for a pydantic model class: its JSON Schema is build-time data, validation is the model's own."""

    def __init__(self, owner: "LazyModule", attribute: str, schema: dict[str, Any]) -> None:
        self._owner, self._attribute, self._schema = owner, attribute, schema

    def model_json_schema(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self._schema

    def model_rebuild(self, *_: Any, **__: Any) -> None:
        """Nothing to rebuild: the schema is final."""

    def model_validate(self, data: Any, *, strict: bool | None = None) -> Any:
        return self._model().model_validate(data, strict=strict)

    def model_validate_json(self, data: str, *, strict: bool | None = None) -> Any:
        return self._model().model_validate_json(data, strict=strict)

    @property
    def __apcore_source_schema__(self) -> Any:
        return getattr(self._model(), "__apcore_source_schema__", None)

    def _model(self) -> Any:
        return getattr(self._owner._load(), self._attribute)


class LazyModule:
    """The common part of all proxies; `lazy_module` picks the class with the right optional methods."""

    def __init__(self, spec: ToolSpec[Any, Any], tool: dict[str, Any], load: Callable[[], Any]) -> None:
        details = spec.details
        self.module_id, self.version, self.tags = spec.module_id, spec.version, list(spec.tags)
        self.name, self.description = tool.get("title"), tool["description"]
        self.documentation = details.get("documentation")
        self.annotations = _annotations(spec)
        self.examples = [ModuleExample(**example) for example in details.get("examples", ())]
        self.metadata = dict(details.get("metadata", {}))
        self.dependencies = list(details.get("dependencies", ()))
        self.display = details.get("display")
        if "resources" in details:
            self.resources = details["resources"]
        self.input_schema = self._schema("input", tool["inputSchema"], spec)
        self.output_schema = self._schema("output", tool.get("outputSchema", details.get("output_schema", {})), spec)
        self._spec, self._load_module = spec, load
        self._module: Any = None
        self._lock = threading.Lock()

    def _schema(self, side: str, schema: dict[str, Any], spec: ToolSpec[Any, Any]) -> Any:
        # A plain dict is wrapped by Registry.register; it must not offer pydantic's interface.
        return schema if side in spec.plain_schemas else LazySchema(self, f"{side}_schema", schema)

    def _load(self) -> Any:
        if self._module is None:
            with self._lock:
                if self._module is None:
                    self._module = self._load_checked()
        return self._module

    def _load_checked(self) -> Any:
        try:
            module = self._load_module()
            if callable(hook := getattr(module, "on_load", None)):
                hook()
        except Exception as error:
            logger.error("Module %s could not be loaded: %s", self.module_id, describe_error(error))
            raise ModuleLoadError(module_id=self.module_id, reason=describe_error(error)) from error
        return module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in _DETECTED:
            raise AttributeError(name)
        return getattr(self._load(), name)


class _Synchronous:
    def execute(self: Any, inputs: dict[str, Any], context: Any) -> Any:
        return self._load().execute(inputs, context)


class _Asynchronous:
    async def execute(self: Any, inputs: dict[str, Any], context: Any) -> Any:
        return await self._load().execute(inputs, context)


class _Streaming:
    async def stream(self: Any, inputs: dict[str, Any], context: Any) -> AsyncIterator[dict[str, Any]]:
        async for chunk in self._load().stream(inputs, context):
            yield chunk


class _Preflight:
    def preflight(self: Any, inputs: dict[str, Any], context: Any) -> Any:
        return self._load().preflight(inputs, context)


class _Preview:
    def preview(self: Any, inputs: dict[str, Any], context: Any) -> Any:
        return self._load().preview(inputs, context)


class _Unload:
    def on_unload(self: Any) -> None:
        if self._module is not None:
            self._module.on_unload()


_HOOKS: dict[str, type] = {
    "stream": _Streaming,
    "preflight": _Preflight,
    "preview": _Preview,
    "on_unload": _Unload,
}


@cache
def _proxy_class(is_async: bool, hooks: tuple[str, ...]) -> type[LazyModule]:
    execute = _Asynchronous if is_async else _Synchronous
    return type("LazyModule", (execute, *(_HOOKS[hook] for hook in hooks), LazyModule), {})


def lazy_module(spec: ToolSpec[Any, Any], tool: dict[str, Any], source: SourceFile) -> LazyModule:
    """Make the proxy of one tool; `tool` is its entry of tools/list."""
    return _proxy_class(spec.is_async, spec.hooks)(spec, tool, lambda: load_entry(source, spec.entry))


def _annotations(spec: ToolSpec[Any, Any]) -> ModuleAnnotations | None:
    if spec.annotations is None:
        return None
    return ModuleAnnotations(**spec.annotations)
