"""Tool files as clients and providers read them."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from apcore_compiler.artifacts import Artifact
from apcore_compiler.program import Program, Tool
from apcore_mcp.adapters.annotations import AnnotationMapper
from apcore_openai.tools import anthropic_tool, gemini_tool, openai_responses_tool, openai_tool

__all__ = ["PROVIDERS", "emit_tools", "provider_tools"]


def emit_tools(program: Program) -> Iterator[Artifact]:
    yield Artifact("tools.json", tools_list(program))
    yield Artifact("openai_tools.json", _pretty(provider_tools(program, "openai")))
    yield Artifact("anthropic_tools.json", _pretty(provider_tools(program, "anthropic")))
    documents = {tool.names.mcp: tool.record.documentation for tool in program.tools if tool.record.documentation}
    yield Artifact("docs.json", _pretty(documents))


def tools_list(program: Program) -> str:
    """The result of tools/list, one tool a line: a diff names the tools it touches, and a server reads one alone."""
    lines = ",\n".join(json.dumps(tool.mcp, ensure_ascii=False, separators=(",", ":")) for tool in program.tools)
    return f'{{"tools":[\n{lines}\n]}}\n' if lines else '{"tools":[\n]}\n'


def provider_tools(program: Program, provider: str) -> Any:
    """The tools in the shape a provider's API takes."""
    return PROVIDERS[provider](program)


def _description(tool: Tool, program: Program) -> str:
    embed = program.settings.embed_annotations
    suffix = AnnotationMapper().to_description_suffix(tool.record.annotations) if embed else ""
    return tool.record.description + suffix


def _is_strict(tool: Tool, program: Program) -> bool:
    setting = program.settings.strict
    return tool.is_strict if setting == "auto" else setting


def openai_function(tool: Tool, program: Program, shape: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    strict = _is_strict(tool, program)
    parameters = tool.strict.schema if strict else tool.parameters
    return shape(tool.names.openai, _description(tool, program), parameters, strict)


PROVIDERS: dict[str, Callable[[Program], Any]] = {
    "openai": lambda program: [openai_function(tool, program, openai_tool) for tool in program.tools],
    "openai-responses": lambda program: [
        openai_function(tool, program, openai_responses_tool) for tool in program.tools
    ],
    "anthropic": lambda program: [
        anthropic_tool(tool.names.openai, _description(tool, program), tool.parameters) for tool in program.tools
    ],
    "gemini": lambda program: {
        "functionDeclarations": [
            gemini_tool(tool.names.openai, _description(tool, program), tool.parameters) for tool in program.tools
        ]
    },
    "mcp": lambda program: {"tools": [tool.mcp for tool in program.tools]},
}


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
