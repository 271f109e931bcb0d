"""The MCP tool of a module, in the shape it has on the wire."""

from __future__ import annotations

from typing import Any

from apcore_host.sensitive import admit_mask
from apcore_mcp.adapters.annotations import AnnotationMapper, promises
from apcore_mcp.adapters.schema import SchemaConverter

# What MCP has no field for, a client finds in `_meta`.
_META = {"apcore/requiresApproval": "requires_approval", "apcore/streaming": "streaming"}


def to_mcp_tool(descriptor: Any, converter: SchemaConverter) -> dict[str, Any]:
    """Lower one module; `descriptor` is an apcore `ModuleDescriptor` or a record with the same fields.

    MCP knows structured output only as an object, so an output schema of any other type is left out of the tool; the
    result still reaches the client as text.  Sensitive parts of a result are masked, so the schema admits the mask.
    """
    tool: dict[str, Any] = {"name": descriptor.module_id}
    if descriptor.name:
        tool["title"] = descriptor.name
    tool["description"] = descriptor.description
    tool["inputSchema"] = converter.convert_input_schema(descriptor)
    output = converter.convert_output_schema(descriptor)
    if output and output.get("type", "object") == "object":
        tool["outputSchema"] = {"type": "object"} | admit_mask(output)
    tool["annotations"] = AnnotationMapper().to_mcp_annotations(descriptor.annotations).to_wire()
    if meta := {key: True for key, field in _META.items() if promises(descriptor.annotations, field)}:
        tool["_meta"] = meta
    return tool
