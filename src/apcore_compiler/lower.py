"""Turn a snapshot into a program: one complete tool a module.

A module whose schema has no MCP form is reported and left out; the others are lowered all the same.
"""

import keyword
import re

from apcore.registry.registry import MODULE_ID_PATTERN

from apcore_compiler import rules
from apcore_compiler.findings import Findings
from apcore_compiler.program import Program, Tool, ToolNames
from apcore_compiler.pytypes import Typer, pascal_case
from apcore_compiler.settings import Settings
from apcore_compiler.snapshot import ModuleRecord, Snapshot
from apcore_mcp.adapters.names import openai_name
from apcore_mcp.adapters.schema import CircularReference, SchemaConverter, inline_refs
from apcore_mcp.adapters.strict import to_strict
from apcore_mcp.adapters.tools import to_mcp_tool

__all__ = ["is_selected", "lower"]

# No namespace can have this name, since parts of an id begin with a letter.
ROOT_NAMESPACE = "_root"


def lower(snapshot: Snapshot, settings: Settings, source: str | None, findings: Findings) -> Program:
    """Lower the modules that the settings select."""
    names = _Names()
    converter = SchemaConverter(settings.refs)
    tools = [
        tool
        for record in snapshot.modules
        if is_selected(record, settings) and MODULE_ID_PATTERN.match(record.module_id)
        if (tool := _lower_record(record, names, converter, findings)) is not None
    ]
    return Program(snapshot, settings, source, tuple(tools))


def is_selected(record: ModuleRecord, settings: Settings) -> bool:
    """Whether the filters let a module through, and the module lets itself be seen."""
    if (record.annotations or {}).get("discoverable") is False:
        return False
    return set(settings.tags) <= set(record.tags) and record.module_id.startswith(settings.prefix or "")


def _lower_record(record: ModuleRecord, names: "_Names", converter: SchemaConverter, findings: Findings) -> Tool | None:
    try:
        mcp = to_mcp_tool(record, converter)
        parameters = _provider_schema(mcp["inputSchema"])
    except CircularReference as error:
        findings.add(rules.REFERENCE_CIRCULAR, str(error), record.module_id, record.file or "", record.line)
        return None
    except KeyError as error:
        message = f"the schema refers to {error.args[0]!r}, which it does not define"
        findings.add(rules.REFERENCE_UNRESOLVABLE, message, record.module_id, record.file or "", record.line)
        return None
    except ValueError as error:
        findings.add(rules.ROOT_NOT_OBJECT, str(error), record.module_id, record.file or "", record.line)
        return None
    tool_names, typer = names.of(record.module_id)
    return Tool(
        record=record,
        names=tool_names,
        mcp=mcp,
        parameters=parameters,
        strict=to_strict(parameters),
        input=typer.root(mcp["inputSchema"], "Input"),
        output=typer.root(mcp.get("outputSchema", {}), "Output"),
        records=tuple(typer.records),
    )


def _provider_schema(schema: dict[str, object]) -> dict[str, object]:
    try:
        return inline_refs(schema)
    except CircularReference:
        # Kept on purpose by `refs = "keep"`; providers other than strict OpenAI take references.
        return schema


class _Names:
    """Chooses Python names, distinct within each generated file."""

    def __init__(self) -> None:
        self._taken: dict[str, set[str]] = {}

    def of(self, module_id: str) -> tuple[ToolNames, Typer]:
        namespace, _, rest = module_id.partition(".")
        namespace, rest = (_safe(namespace), rest) if rest else (ROOT_NAMESPACE, module_id)
        # What the generated file itself defines or imports.
        taken = self._taken.setdefault(namespace, {"TOOLS", "ToolSpec", "Caller", *_TYPING})
        function = _distinct(_safe(rest.replace(".", "_")), taken)
        constant = _distinct(module_id.replace(".", "_").upper(), taken)
        names = ToolNames(module_id, openai_name(module_id), namespace, function, constant)
        return names, Typer(pascal_case(re.sub("[._]", " ", module_id)), taken)


_TYPING = ("Any", "Literal", "NotRequired", "TypedDict")


def _safe(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) else name


def _distinct(name: str, taken: set[str]) -> str:
    number, base = 2, name
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return name
