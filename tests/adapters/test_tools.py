import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from apcore import ModuleAnnotations, ModuleDescriptor, Registry
from pydantic import BaseModel
from tests.requirements import requirement

from apcore_mcp.adapters.schema import SchemaConverter
from apcore_mcp.adapters.tools import to_mcp_tool


class Text(BaseModel):
    text: str


class Count:
    description = "Count the words."
    input_schema = Text
    output_schema = Text
    annotations = ModuleAnnotations(readonly=True, requires_approval=True, streaming=True)

    def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        return inputs

    async def stream(self, inputs: dict[str, Any], context: Any) -> AsyncIterator[dict[str, Any]]:
        yield inputs


def descriptor(**fields: Any) -> ModuleDescriptor:
    return ModuleDescriptor(
        **{
            "module_id": "text.count",
            "name": None,
            "description": "Count.",
            "documentation": None,
            "input_schema": {},
            "output_schema": {},
            **fields,
        }
    )


@requirement("FR-SCHEMA-001", "FR-SCHEMA-005", "FR-ANNOT-006")
def test_a_registered_module_becomes_a_wire_shaped_tool() -> None:
    registry = Registry()
    registry.register("text.count", Count())
    tool = to_mcp_tool(registry.get_definition("text.count"), SchemaConverter())

    schema = {
        "properties": {"text": {"title": "Text", "type": "string"}},
        "required": ["text"],
        "title": "Text",
        "type": "object",
    }
    assert tool == {
        "name": "text.count",
        "description": "Count the words.",
        "inputSchema": schema,
        "outputSchema": schema,
        "annotations": {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": False,
            "openWorldHint": True,
        },
        "_meta": {"apcore/requiresApproval": True, "apcore/streaming": True},
    }


def test_what_a_module_does_not_have_is_left_out_and_the_order_is_fixed() -> None:
    bare = to_mcp_tool(descriptor(), SchemaConverter())
    assert list(bare) == ["name", "description", "inputSchema", "annotations"]
    full = to_mcp_tool(
        descriptor(name="Word count", output_schema={"properties": {}}, annotations={"streaming": True}),
        SchemaConverter(),
    )
    assert list(full) == ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"]
    assert full["title"] == "Word count"
    assert full["outputSchema"] == {"type": "object", "properties": {}}
    assert full["_meta"] == {"apcore/streaming": True}


@pytest.mark.parametrize("output", [{"type": "array"}, {"type": ["object", "null"]}])
def test_an_output_schema_that_is_not_an_object_is_left_out(output: dict[str, Any]) -> None:
    assert "outputSchema" not in to_mcp_tool(descriptor(output_schema=output), SchemaConverter())


def test_importing_the_adapters_imports_neither_apcore_nor_mcp() -> None:
    script = "import sys, apcore_mcp.adapters; sys.exit(bool({'apcore', 'mcp'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
