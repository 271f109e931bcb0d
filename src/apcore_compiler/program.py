"""The compiler's intermediate form: tools with everything an emitter needs, decided."""

from dataclasses import dataclass
from typing import Any

from apcore_compiler.pytypes import PyType, Record
from apcore_compiler.settings import Settings
from apcore_compiler.snapshot import ModuleRecord, Snapshot
from apcore_openai.strict import StrictResult

__all__ = ["Program", "Tool", "ToolNames"]


@dataclass(frozen=True, slots=True)
class ToolNames:
    """What a tool is called in each place."""

    mcp: str
    openai: str
    # The Python module that holds it, and its names there.
    namespace: str
    function: str
    constant: str


@dataclass(frozen=True, slots=True)
class Tool:
    record: ModuleRecord
    names: ToolNames
    # The entry of tools/list.
    mcp: dict[str, Any]
    # What OpenAI, Anthropic and Gemini are given: inlined as far as that is possible.
    parameters: dict[str, Any]
    strict: StrictResult
    input: PyType
    output: PyType
    records: tuple[Record, ...]

    @property
    def is_strict(self) -> bool:
        return self.strict.verdict != "lossy"


@dataclass(frozen=True, slots=True)
class Program:
    snapshot: Snapshot
    settings: Settings
    # The way from the output directory to the extensions.
    source: str | None
    tools: tuple[Tool, ...]

    def namespaces(self) -> dict[str, list[Tool]]:
        grouped: dict[str, list[Tool]] = {}
        for tool in self.tools:
            grouped.setdefault(tool.names.namespace, []).append(tool)
        return grouped
