"""Checks: claims about a snapshot and its program, each a function that reports what contradicts it."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from apcore_compiler import rules
from apcore_compiler.findings import Findings
from apcore_compiler.lower import fault_of_id, is_selected
from apcore_compiler.program import Program
from apcore_compiler.rules import Rule
from apcore_compiler.snapshot import ModuleRecord
from apcore_mcp.adapters.annotations import promises
from apcore_mcp.adapters.names import NAME_LIMIT, shorten

__all__ = ["CHECKS"]

DESCRIPTION_LIMIT = 1024


class _Reporter:
    """Reports a rule about a record, at the record's place."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def __call__(self, rule: Rule, record: ModuleRecord, message: str) -> None:
        self._findings.add(rule, message, record.module_id, record.file or "", record.line)


def files_load(program: Program, findings: Findings) -> None:
    for failure in program.snapshot.failures:
        findings.add(rules.MODULE_LOAD_FAILED, failure.reason, "", failure.file, failure.line)


def ids_are_valid(program: Program, findings: Findings) -> None:
    report = _Reporter(findings)
    for record in _selected(program):
        if fault := fault_of_id(record.module_id):
            report(rules.MODULE_ID_INVALID, record, f"{record.module_id!r} {fault}")


def ids_are_unique(program: Program, findings: Findings) -> None:
    _no_two_share(program, findings, rules.MODULE_ID_DUPLICATE, lambda record: record.module_id, "the id")


def names_are_unique(program: Program, findings: Findings) -> None:
    def provider_name(record: ModuleRecord) -> str:
        # Of an invalid id too: whoever mends it by its other fault meets this one next.
        return shorten(record.module_id.replace(".", "-"))

    _no_two_share(program, findings, rules.TOOL_NAME_COLLISION, provider_name, "the tool name")


def _no_two_share(
    program: Program, findings: Findings, rule: Rule, key: Callable[[ModuleRecord], str], what: str
) -> None:
    groups: dict[str, list[ModuleRecord]] = defaultdict(list)
    for record in _selected(program):
        groups[key(record)].append(record)
    for shared, group in groups.items():
        distinct = {record.module_id for record in group}
        # Names are compared between ids; two modules of one id are another fault.
        if len(group) < 2 or (rule is rules.TOOL_NAME_COLLISION and len(distinct) < 2):
            continue
        for record in group:
            others = ", ".join(sorted(_place(other) for other in group if other is not record))
            _Reporter(findings)(rule, record, f"{_place(record)} and {others} share {what} {shared!r}")


def _place(record: ModuleRecord) -> str:
    return f"{record.module_id} ({record.file}:{record.line})" if record.file else record.module_id


def names_are_short(program: Program, findings: Findings) -> None:
    for tool in program.tools:
        if len(tool.names.mcp) > NAME_LIMIT:
            message = f"{tool.names.mcp!r} has {len(tool.names.mcp)} characters; providers see {tool.names.openai!r}"
            _Reporter(findings)(rules.TOOL_NAME_TOO_LONG, tool.record, message)


def aliases_are_unique(program: Program, findings: Findings) -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    for record in _selected(program):
        for name in (record.module_id, *_aliases(record)):
            owners[name].add(record.module_id)
    for record in _selected(program):
        for alias in sorted(_aliases(record)):
            if others := owners[alias] - {record.module_id}:
                message = f"alias {alias!r} also stands for {', '.join(sorted(others))}"
                _Reporter(findings)(rules.ALIAS_DUPLICATE, record, message)


def _aliases(record: ModuleRecord) -> set[str]:
    displays = [display for display in (record.display, record.metadata.get("display")) if isinstance(display, dict)]
    holders = [holder for display in displays for holder in (display, *display.values()) if isinstance(holder, dict)]
    return {str(holder["alias"]) for holder in holders if holder.get("alias")}


def strict_mode_is_faithful(program: Program, findings: Findings) -> None:
    if program.settings.strict is False:
        return
    for tool in program.tools:
        for verdict, rule in (("lossy", rules.STRICT_LOSSY), ("widened", rules.SCHEMA_KEYWORD_DROPPED)):
            parts = [
                f"{part.path} ({part.reason.rstrip('.')})" for part in tool.strict.paths if part.verdict == verdict
            ]
            if parts:
                _Reporter(findings)(rule, tool.record, f"strict mode cannot express {', '.join(parts)}")


def secrets_have_no_default(program: Program, findings: Findings) -> None:
    for tool in program.tools:
        for path, schema in _properties(tool.mcp["inputSchema"], "#"):
            if schema.get("x-sensitive") and schema.get("default"):
                message = f"{path} is x-sensitive and has a default"
                _Reporter(findings)(rules.SENSITIVE_DEFAULT_EXPOSED, tool.record, message)


def _properties(schema: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        for name, value in schema.get("properties", {}).items() if isinstance(schema.get("properties"), dict) else ():
            if isinstance(value, dict):
                yield f"{path}/properties/{name}", value
        for key, value in schema.items():
            if key not in ("default", "const", "enum", "examples"):
                yield from _properties(value, f"{path}/{key}")
    elif isinstance(schema, list):
        for number, value in enumerate(schema):
            yield from _properties(value, f"{path}/{number}")


def tools_are_described(program: Program, findings: Findings) -> None:
    for tool in program.tools:
        description = tool.record.description
        if not description.strip():
            _Reporter(findings)(rules.DESCRIPTION_MISSING, tool.record, f"{tool.names.mcp} has no description")
        if len(description) > DESCRIPTION_LIMIT:
            message = f"the description of {tool.names.mcp} has {len(description)} characters"
            _Reporter(findings)(rules.DESCRIPTION_TOO_LONG, tool.record, message)


def text_is_visible(program: Program, findings: Findings) -> None:
    for tool in program.tools:
        shown = {"tool": tool.mcp, "documentation": tool.record.documentation}
        for path, text in _texts(shown, ""):
            if hidden := hidden_characters(text):
                named = ", ".join(f"U+{ord(character):04X}" for character in hidden)
                message = f"{path or '/'} holds {named}"
                _Reporter(findings)(rules.HIDDEN_CHARACTERS, tool.record, message)


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every string, keys included, that is not plain ASCII print; most strings are."""
    if isinstance(value, str):
        if not (value.isascii() and value.isprintable()):
            yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key, path)
            yield from _texts(item, f"{path}/{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, f"{path}/{number}")


_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
# Letters and marks that take no ink: fillers, and the variation selectors that no emoji uses.
_INKLESS = re.compile("[\u115f\u1160\u2800\u3164\uffa0\ufe00-\ufe0e\U000e0100-\U000e01ef]")
# Between letters or emoji that are not ASCII a joiner belongs to the spelling.
_JOINERS = re.compile("(?<=[^\x00-\x7f])[\u200c\u200d](?=[^\x00-\x7f])")


def hidden_characters(text: str) -> list[str]:
    """The distinct characters of a text that a reader does not see, without line breaks and tabs."""
    visible = _JOINERS.sub("", text)
    hidden = {c for c in visible if unicodedata.category(c) in _HIDDEN_CATEGORIES and c not in "\n\r\t"}
    return sorted(hidden.union(_INKLESS.findall(visible)))


def annotations_agree(program: Program, findings: Findings) -> None:
    for tool in program.tools:
        if promises(tool.record.annotations, "readonly") and promises(tool.record.annotations, "destructive"):
            message = f"{tool.names.mcp} says that it is both read-only and destructive"
            _Reporter(findings)(rules.ANNOTATIONS_CONTRADICT, tool.record, message)


def _selected(program: Program) -> list[ModuleRecord]:
    return [record for record in program.snapshot.modules if is_selected(record, program.settings)]


CHECKS: tuple[Callable[[Program, Findings], None], ...] = (
    files_load,
    ids_are_valid,
    ids_are_unique,
    names_are_unique,
    names_are_short,
    aliases_are_unique,
    strict_mode_is_faithful,
    secrets_have_no_default,
    tools_are_described,
    text_is_visible,
    annotations_agree,
)
