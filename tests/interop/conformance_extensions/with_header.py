"""A tool with an argument that clients repeat as a header, for the proxies between."""

from typing import Any, ClassVar

from apcore import Context


class WithHeader:
    description = "Answers with its region, which a header names as well."
    input_schema: ClassVar = {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    }
    output_schema: ClassVar = {"type": "object"}

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        return inputs
