"""Typed server modules, one for each namespace."""

from collections.abc import Iterator
from typing import Any

from apcore_compiler.artifacts import GENERATED_BY, Artifact
from apcore_compiler.emit.quoting import render
from apcore_compiler.program import Program, Tool
from apcore_compiler.pytypes import names_in
from apcore_compiler.snapshot import ModuleRecord, digest_of

__all__ = ["emit_server"]


def emit_server(program: Program) -> Iterator[Artifact]:
    namespaces = program.namespaces()
    index = {_id_prefix(tools): namespace for namespace, tools in namespaces.items()}
    yield Artifact("server/__init__.py", render("server/__init__.py.j2", namespaces=index))
    for namespace, tools in namespaces.items():
        yield Artifact(f"server/{namespace}.py", render("server/namespace.py.j2", **_values(tools)))


def _id_prefix(tools: list[Tool]) -> str:
    """What the ids of a namespace have before their first dot; nothing for ids without one."""
    module_id = tools[0].record.module_id
    return module_id.partition(".")[0] if "." in module_id else ""


def _values(tools: list[Tool]) -> dict[str, Any]:
    digest = digest_of([tool.record.facts() for tool in tools])
    return {
        "header": f"Tools of {_id_prefix(tools) or 'no namespace'}.  {GENERATED_BY}  Source sha256:{digest}.",
        "typing_names": _typing_names(tools),
        "tools": [{"tool": tool, "spec": dict(_spec(tool))} for tool in tools],
    }


def _spec(tool: Tool) -> Iterator[tuple[str, Any]]:
    """The arguments of ToolSpec that are not at their default."""
    record = tool.record
    yield "module_id", record.module_id
    if record.bundle:
        yield "bundle", record.bundle
    if record.file:
        yield "source", record.file
        yield "entry", record.entry
    if record.version != "1.0.0":
        yield "version", record.version
    if record.is_async:
        yield "is_async", True
    for name in ("hooks", "plain_schemas", "tags"):
        if value := getattr(record, name):
            yield name, tuple(value)
    if record.annotations is not None:
        yield "annotations", record.annotations
    if details := dict(_details(tool, record)):
        yield "details", details


def _details(tool: Tool, record: ModuleRecord) -> Iterator[tuple[str, Any]]:
    for name in ("documentation", "examples", "metadata", "dependencies", "display", "resources"):
        if value := getattr(record, name):
            yield name, value
    if record.output_schema and "outputSchema" not in tool.mcp:
        # MCP has no place for it, and the Executor validates against it all the same.
        yield "output_schema", record.output_schema


def _typing_names(tools: list[Tool]) -> list[str]:
    records = [record for tool in tools for record in tool.records]
    fields = [field for record in records for field in record.fields]
    kinds = [*(field.type for field in fields), *(kind for tool in tools for kind in (tool.input, tool.output))]
    names = {
        "Any": True,
        "Literal": any("Literal" in names_in(kind) for kind in kinds),
        "NotRequired": not all(field.required for field in fields),
        "TypedDict": bool(records),
    }
    return [name for name, needed in names.items() if needed]
