"""One tool of a pool: the name agents know it by, the module behind it, and what we say about it.

What an external server claims about its own tools is not among that, unless it is trusted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from apcore_agents.lockfile import LockedTool
from apcore_agents.names import matches
from apcore_agents.settings import HttpOperation, ServerPolicy
from apcore_mcp.adapters.annotations import AnnotationMapper

__all__ = [
    "COORDINATION",
    "COORDINATION_TEXTS",
    "HTTP_OUTPUT",
    "LocalTool",
    "PoolTool",
    "entry_of",
    "external_annotations",
    "http_annotations",
    "http_entry",
]

Origin = Literal["module", "coordination", "http", "mcp"]

COORDINATION = ("spawn_agents", "list_available_agents")


@dataclass(frozen=True, slots=True)
class LocalTool:
    """A tool of the build: its entry of tools/list, and the modules that its module says it calls."""

    entry: Mapping[str, Any]
    module_id: str
    dependencies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolTool:
    """`entry` is what tools/list shows, under the name by which agents know the tool."""

    name: str
    module_id: str
    origin: Origin
    entry: Mapping[str, Any]
    dependencies: tuple[str, ...] = ()
    # Of an external tool: where it comes from, and what was locked.
    server: str | None = None
    upstream: LockedTool | None = None

    @property
    def needs_approval(self) -> bool:
        return bool(self.entry.get("_meta", {}).get("apcore/requiresApproval"))

    @property
    def is_readonly(self) -> bool:
        return bool(self.entry.get("annotations", {}).get("readOnlyHint"))


def http_annotations(operation: HttpOperation) -> dict[str, Any]:
    return {
        "readonly": operation.is_safe and not operation.needs_approval,
        "destructive": operation.method == "DELETE",
        "idempotent": operation.is_safe or operation.method in ("PUT", "DELETE"),
        "requires_approval": operation.needs_approval,
        "open_world": True,
    }


HTTP_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ok": {"type": "boolean", "description": "Whether the status is below 400."},
        "status": {"type": "integer"},
        "data": {"description": "The body: parsed when it is JSON, else text."},
        "truncated": {"type": "boolean", "description": "Whether the body was longer than what is given."},
    },
    "required": ["ok", "status", "data", "truncated"],
}


def http_entry(module_id: str, operation: HttpOperation) -> dict[str, Any]:
    annotations = http_annotations(operation)
    return entry_of(module_id, None, operation.description, operation.input_schema, HTTP_OUTPUT, annotations)


def entry_of(
    name: str,
    title: str | None,
    description: str,
    input_schema: Mapping[str, Any],
    output_schema: Mapping[str, Any] | None,
    annotations: Mapping[str, bool],
) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, **({"title": title} if title else {}), "description": description}
    entry["inputSchema"] = dict(input_schema)
    if output_schema is not None:
        entry["outputSchema"] = dict(output_schema)
    entry["annotations"] = AnnotationMapper().to_mcp_annotations(annotations).to_wire()
    return entry | ({"_meta": {"apcore/requiresApproval": True}} if annotations.get("requires_approval") else {})


SPAWN_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "agents": {
            "type": "array",
            "minItems": 1,
            "maxItems": 8,
            "items": {
                "type": "object",
                "properties": {
                    "agent_name": {"type": "string", "description": "As list_available_agents gives it."},
                    "task": {"type": "string", "description": "What the agent is to do, complete in itself."},
                    "context": {"type": "string", "description": "What it should know beforehand."},
                    "timeout": {"type": "number", "exclusiveMinimum": 0, "description": "Seconds."},
                },
                "required": ["agent_name", "task"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["agents"],
    "additionalProperties": False,
}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
COORDINATION_TEXTS = {
    "spawn_agents": ("Start other agents at the same time, and wait for what they report.", SPAWN_INPUT),
    "list_available_agents": ("List the agents that this one may start.", NOTHING),
}


def external_annotations(tool: LockedTool, policy: ServerPolicy) -> dict[str, bool]:
    """Our own claims about a tool; what its server claims counts only where it is trusted."""
    hints = tool.definition.get("annotations") or {}
    trusted = policy.trust_annotations and hints.get("readOnlyHint") is True
    readonly = trusted or any(matches(pattern, tool.name) for pattern in policy.readonly)
    return {
        "readonly": readonly,
        "destructive": not readonly,
        "idempotent": readonly,
        "requires_approval": policy.approval == "always" or (policy.approval == "writes" and not readonly),
        "open_world": True,
    }
