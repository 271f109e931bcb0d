"""What modules return: put together, held to its schema, written as JSON."""

import json
from typing import Any

__all__ = ["NotSerialisable", "merge_chunk", "to_json", "validate_output"]


class NotSerialisable(ValueError):
    """The output of a module cannot be written as JSON."""


def merge_chunk(output: dict[str, Any], chunk: dict[str, Any]) -> None:
    """Add a streamed chunk as apcore does: objects are merged, anything else is replaced."""
    for key, value in chunk.items():
        if isinstance(value, dict) and isinstance(output.get(key), dict):
            merge_chunk(output[key], value)
        else:
            output[key] = value


def validate_output(module: Any, output: dict[str, Any]) -> None:
    """Hold an output to its module's schema, as the Executor does."""
    # Imported late: a server that only lists its tools does without apcore.
    from apcore.errors import SchemaValidationError
    from pydantic import ValidationError

    schema = getattr(module, "output_schema", None)
    try:
        if schema is not None:
            schema.model_validate(output, strict=True)
    except (SchemaValidationError, ValidationError) as error:
        raise SchemaValidationError(message="Output validation failed") from error


def to_json(value: Any) -> str:
    try:
        text = json.dumps(value, default=str)
        if "\\ud" in text:
            # Escapes of a pair are fine; a lone surrogate cannot be sent as structured content.
            json.dumps(json.loads(text), ensure_ascii=False).encode()
    except Exception as error:
        raise NotSerialisable(type(error).__name__) from error
    return text
