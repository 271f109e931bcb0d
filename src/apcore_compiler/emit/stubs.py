"""Typed in-process stubs for bundled tools: one class a bundle, one method a tool."""

from collections.abc import Iterator
from typing import TypeGuard

from apcore_compiler.artifacts import GENERATED_BY, Artifact
from apcore_compiler.emit.quoting import render
from apcore_compiler.program import Program, Tool
from apcore_compiler.pytypes import PyType, RecordRef, pascal_case
from apcore_compiler.snapshot import digest_of

__all__ = ["emit_stubs"]


def emit_stubs(program: Program) -> Iterator[Artifact]:
    bundles: dict[str, list[Tool]] = {}
    for tool in program.tools:
        if tool.record.bundle:
            bundles.setdefault(tool.record.bundle, []).append(tool)
    if bundles:
        yield Artifact("stubs/__init__.py", render("stubs/__init__.py.j2"))
    for bundle, tools in bundles.items():
        digest = digest_of([tool.record.facts() for tool in tools])
        values = {
            "header": f"The {bundle} tools, in process.  {GENERATED_BY}  Source sha256:{digest}.",
            "class_name": f"{pascal_case(bundle)}Tools",
            "namespace": tools[0].names.namespace,
            "constants": sorted(tool.names.constant for tool in tools),
            "records": sorted({kind.name for tool in tools for kind in (tool.input, tool.output) if _is_record(kind)}),
            "tools": tools,
        }
        yield Artifact(f"stubs/{bundle}_tools.py", render("stubs/tools.py.j2", **values))


def _is_record(kind: PyType) -> TypeGuard[RecordRef]:
    # Whatever else a schema allows is spelled out where it is used.
    return isinstance(kind, RecordRef)
