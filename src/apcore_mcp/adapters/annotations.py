"""Say in MCP's and OpenAI's words what apcore's annotations promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SPOKEN = ("readonly", "destructive", "idempotent", "requires_approval", "open_world")


@dataclass(frozen=True, slots=True)
class ToolAnnotations:
    read_only_hint: bool = False
    destructive_hint: bool = False
    idempotent_hint: bool = False
    open_world_hint: bool = True

    def to_wire(self) -> dict[str, bool]:
        return {
            "readOnlyHint": self.read_only_hint,
            "destructiveHint": self.destructive_hint,
            "idempotentHint": self.idempotent_hint,
            "openWorldHint": self.open_world_hint,
        }


class AnnotationMapper:
    """Reads apcore's `ModuleAnnotations`, a mapping of their fields, or None."""

    def to_mcp_annotations(self, annotations: Any) -> ToolAnnotations:
        hints = ("readonly", "destructive", "idempotent", "open_world")
        return ToolAnnotations(*(promises(annotations, field) for field in hints))

    def has_requires_approval(self, annotations: Any) -> bool:
        return promises(annotations, "requires_approval")

    def to_description_suffix(self, annotations: Any) -> str:
        """What differs from the defaults, as `\\n\\n[Annotations: readonly=true, ...]`; empty when nothing does."""
        values = {field: promises(annotations, field) for field in _SPOKEN}
        unusual = [f"{field}={str(value).lower()}" for field, value in values.items() if value != _default(field)]
        return f"\n\n[Annotations: {', '.join(unusual)}]" if unusual else ""


def promises(annotations: Any, field: str) -> bool:
    if isinstance(annotations, Mapping):
        return bool(annotations.get(field, _default(field)))
    return bool(getattr(annotations, field, _default(field)))


def _default(field: str) -> bool:
    # A module that says nothing may reach the outside world; it promises nothing else.
    return field == "open_world"
