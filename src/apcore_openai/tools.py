"""Tool definitions as model providers want them: plain dicts, and no provider's package."""

from __future__ import annotations

import logging
from typing import Any

from apcore import Executor, Registry

from apcore_mcp.adapters.annotations import AnnotationMapper
from apcore_mcp.adapters.names import openai_name
from apcore_mcp.adapters.schema import SchemaConverter
from apcore_mcp.adapters.selection import registry_of, validate_filters
from apcore_openai.strict import to_strict

logger = logging.getLogger("apcore_mcp.adapters.openai")
INCOMPATIBLE = "Schema for module '%s' uses %s, which is incompatible with strict mode (at %s)"


def to_openai_tools(
    registry_or_executor: Registry | Executor,
    *,
    embed_annotations: bool = False,
    strict: bool = False,
    tags: list[str] | None = None,
    prefix: str | None = None,
) -> list[dict[str, Any]]:
    """One tool per module, for `tools=` of OpenAI's chat completions; a module that cannot be converted is skipped."""
    registry = registry_of(registry_or_executor)
    validate_filters(tags, prefix)
    tools = []
    for module_id in registry.list(tags=tags, prefix=prefix):
        # Whatever is wrong with one module, the others are exported.
        try:
            descriptor = registry.get_definition(module_id)
            if descriptor is None:
                raise LookupError("it is no longer registered")
            parameters = SchemaConverter().convert_input_schema(descriptor)
            if strict:
                parameters = _strict_parameters(module_id, parameters)
            suffix = AnnotationMapper().to_description_suffix(descriptor.annotations) if embed_annotations else ""
            tools.append(openai_tool(openai_name(module_id), descriptor.description + suffix, parameters, strict))
        except Exception as error:
            logger.warning("Skipped module '%s': %s: %s", module_id, type(error).__name__, error)
    return tools


def _strict_parameters(module_id: str, parameters: dict[str, Any]) -> dict[str, Any]:
    result = to_strict(parameters)
    for departure in result.paths:
        if departure.verdict == "lossy":
            logger.warning(INCOMPATIBLE, module_id, departure.reason, departure.path)
    return result.schema


def openai_tool(name: str, description: str, parameters: dict[str, Any], strict: bool = False) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function | ({"strict": True} if strict else {})}


def openai_responses_tool(name: str, description: str, parameters: dict[str, Any], strict: bool) -> dict[str, Any]:
    # Stated even when false: the Responses API takes a tool without it for a strict one.
    return {"type": "function", "name": name, "description": description, "parameters": parameters, "strict": strict}


def anthropic_tool(name: str, description: str, input_schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": input_schema}


def gemini_tool(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    """One entry of `functionDeclarations`."""
    return {"name": name, "description": description, "parametersJsonSchema": schema}
