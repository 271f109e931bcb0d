"""Turn a snapshot into a program: one complete tool a module.

A module whose schema has no MCP form is reported and left out; the others are lowered all the same.
"""

import keyword
import re
from collections.abc import Iterator
from typing import Any

from apcore.registry.registry import MAX_MODULE_ID_LENGTH, MODULE_ID_PATTERN, RESERVED_WORDS
from jsonschema import Draft202012Validator as Validator
from jsonschema.exceptions import best_match

from apcore_compiler import rules
from apcore_compiler.findings import Findings
from apcore_compiler.program import Program, Tool, ToolNames
from apcore_compiler.pytypes import ANNOTATION_NAMES, Typer, pascal_case
from apcore_compiler.rules import Rule
from apcore_compiler.settings import Settings
from apcore_compiler.snapshot import ModuleRecord, Snapshot
from apcore_mcp.adapters.names import openai_name
from apcore_mcp.adapters.schema import CircularReference, SchemaConverter, inline_refs
from apcore_mcp.adapters.tools import to_mcp_tool
from apcore_openai.strict import to_strict
from apcore_runtime.loading import describe_error

__all__ = ["fault_of_id", "is_selected", "lower"]

# No namespace can have this name, since parts of an id begin with a letter.
ROOT_NAMESPACE = "_root"
# Python reads no more than 200 nested brackets, and clients have limits of their own.
MAX_NESTING = 100


def lower(snapshot: Snapshot, settings: Settings, source: str | None, findings: Findings) -> Program:
    """Lower the modules that the settings select."""
    names = _Names()
    converter = SchemaConverter(settings.refs)
    tools = [
        tool
        for record in snapshot.modules
        if is_selected(record, settings) and not fault_of_id(record.module_id)
        if (tool := _lower_record(record, names, converter, findings)) is not None
    ]
    return Program(snapshot, settings, source, tuple(tools))


def is_selected(record: ModuleRecord, settings: Settings) -> bool:
    """Whether the filters let a module through, and the module lets itself be seen."""
    if (record.annotations or {}).get("discoverable") is False:
        return False
    return set(settings.tags) <= set(record.tags) and record.module_id.startswith(settings.prefix or "")


def fault_of_id(module_id: str) -> str | None:
    """Why apcore would refuse to register a module under an id."""
    if not MODULE_ID_PATTERN.fullmatch(module_id):
        return "is not an apcore module id"
    if len(module_id) > MAX_MODULE_ID_LENGTH:
        return f"has more than {MAX_MODULE_ID_LENGTH} characters"
    word = module_id.partition(".")[0]
    return f"begins with {word!r}, which apcore keeps for itself" if word in RESERVED_WORDS else None


def _lower_record(record: ModuleRecord, names: "_Names", converter: SchemaConverter, findings: Findings) -> Tool | None:
    try:
        _check_nesting([getattr(record, name) for name in _NESTED])
        # A pydantic model cannot but produce a valid schema, and checking one takes milliseconds.
        for side in record.plain_schemas:
            Validator.check_schema(getattr(record, f"{side}_schema"))
        return _tool(record, names, converter)
    except Exception as error:
        # What is no schema at all may bring any pass down; the other modules are lowered all the same.
        rule, message = _fault(record, error)
        findings.add(rule, message, record.module_id, record.file or "", record.line)
        return None


def _fault(record: ModuleRecord, error: Exception) -> tuple[Rule, str]:
    """What to say about a module that could not be lowered."""
    if isinstance(error, RecursionError):
        return rules.NESTING_TOO_DEEP, f"{record.module_id} is nested more than {MAX_NESTING} levels deep"
    if isinstance(error, CircularReference):
        return rules.REFERENCE_CIRCULAR, str(error)
    if faults := "; ".join(_schema_faults(record)):
        return rules.SCHEMA_INVALID, faults
    if isinstance(error, KeyError):
        return rules.REFERENCE_UNRESOLVABLE, f"the schema refers to {error.args[0]!r}, which it does not define"
    if _has_other_type(record.input_schema):
        return rules.ROOT_NOT_OBJECT, str(error)
    if isinstance(error, ValueError):
        return rules.REFERENCE_UNRESOLVABLE, str(error)
    return rules.SCHEMA_INVALID, describe_error(error)


def _schema_faults(record: ModuleRecord) -> Iterator[str]:
    for side in ("input", "output"):
        if error := best_match(Validator(Validator.META_SCHEMA).iter_errors(getattr(record, f"{side}_schema"))):
            yield f"{side} schema at {error.json_path}: {error.message}"


_NESTED = ("input_schema", "output_schema", "metadata", "examples", "display", "resources")


def _check_nesting(value: Any) -> None:
    level = [value]
    for _ in range(MAX_NESTING):
        nested = [node.values() if isinstance(node, dict) else node for node in level if isinstance(node, dict | list)]
        if not nested:
            return
        level = [item for items in nested for item in items]
    raise RecursionError


def _has_other_type(schema: dict[str, Any]) -> bool:
    """Whether a schema whose references can be followed describes something else than an object."""
    try:
        return "object" not in inline_refs(schema).get("type", "object")
    except ValueError:
        return False


def _tool(record: ModuleRecord, names: "_Names", converter: SchemaConverter) -> Tool:
    mcp = to_mcp_tool(record, converter)
    _check_nesting(mcp)
    parameters = _provider_schema(mcp["inputSchema"])
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
        self._namespaces: dict[str, str] = {}

    def of(self, module_id: str) -> tuple[ToolNames, Typer]:
        first, _, rest = module_id.partition(".")
        namespace = self._namespace(first) if rest else ROOT_NAMESPACE
        taken = self._taken.setdefault(namespace, {"TOOLS", "ToolSpec", "Caller", "TypedDict", *ANNOTATION_NAMES})
        function = _distinct(_safe((rest or first).replace(".", "_")), taken)
        constant = _distinct(module_id.replace(".", "_").upper(), taken)
        names = ToolNames(module_id, openai_name(module_id), namespace, function, constant)
        return names, Typer(pascal_case(re.sub("[._]", " ", module_id)), taken)

    def _namespace(self, first: str) -> str:
        # `class` and `class_` may both be the first part of an id, and each needs a file of its own.
        if first not in self._namespaces:
            self._namespaces[first] = _distinct(_safe(first), set(self._namespaces.values()))
        return self._namespaces[first]


def _safe(name: str) -> str:
    """A name that is no keyword, and hides nothing that an annotation needs: `orders.list` must not become `list`."""
    # Soft keywords are names like any other, and which there are depends on the version of Python.
    return f"{name}_" if keyword.iskeyword(name) or name in ANNOTATION_NAMES else name


def _distinct(name: str, taken: set[str]) -> str:
    number, base = 2, name
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return name
