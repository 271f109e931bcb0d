"""Plain dict schemas, and chunks one by one."""

from collections.abc import AsyncIterator
from typing import Any

from apcore import Context


class Lamp:
    input_schema = {"type": "object", "properties": {"level": {"type": "integer"}}, "required": ["level"]}
    output_schema = {"type": "object", "properties": {"level": {"type": "integer"}}}
    description = "Dim the lamp, step by step."
    documentation = "# The lamp\n\nLevels go from 0 to 10.\n"

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        return {"level": inputs["level"]}

    async def stream(self, inputs: dict[str, Any], context: Context) -> AsyncIterator[dict[str, Any]]:
        for level in range(inputs["level"]):
            yield {"level": level}
