"""A schema whose keywords the suite reads back."""

from typing import Any, ClassVar

from apcore import Context


class JsonSchemaTool:
    description = "Tool with JSON Schema 2020-12 features"
    input_schema: ClassVar = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
    output_schema: ClassVar = {"type": "object"}

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        return inputs
