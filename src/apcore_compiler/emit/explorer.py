"""The explorer: one page with the tools inside it."""

from collections.abc import Iterator

from apcore_compiler.artifacts import Artifact
from apcore_compiler.emit.quoting import render
from apcore_compiler.emit.tools import openai_function
from apcore_compiler.program import Program
from apcore_openai.tools import openai_tool

__all__ = ["emit_explorer"]


def emit_explorer(program: Program) -> Iterator[Artifact]:
    places = ((tool.names.mcp, tool.record) for tool in program.tools)
    data = {
        "name": program.settings.name,
        "version": program.settings.version or "",
        "tools": [tool.mcp for tool in program.tools],
        "openai": {tool.names.mcp: openai_function(tool, program, openai_tool) for tool in program.tools},
        "sources": {name: f"{record.file}:{record.line}" for name, record in places if record.file},
        "docs": {tool.names.mcp: tool.record.documentation for tool in program.tools if tool.record.documentation},
    }
    yield Artifact("explorer.html", render("explorer/explorer.html.j2", title=program.settings.name, data=data))
