"""Values whose schema says `x-sensitive`: masked in results, never repeated in errors or logs."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from apcore_host.walk import schemas_of_index, schemas_of_key, views

__all__ = ["MASK", "admit_mask", "is_marked", "mask", "scrub", "secrets_in"]

MASK = "***REDACTED***"

_DATA = {"const", "default", "enum", "examples"}
_NOT_NARROWING = {"default", "description", "examples", "title", "type", "x-sensitive"}


def is_marked(schema: Any) -> bool:
    """Whether anything in a schema is sensitive; most schemas have nothing, and need no walk per call."""
    return '"x-sensitive"' in json.dumps(schema, default=str)


def admit_mask(schema: Any) -> Any:
    """A copy of an output schema that accepts a mask wherever the schema says `x-sensitive`."""
    if isinstance(schema, list):
        return [admit_mask(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    admitted = {key: value if key in _DATA else admit_mask(value) for key, value in schema.items()}
    takes_any_text = schema.get("type") == "string" and schema.keys() <= _NOT_NARROWING
    if schema.get("x-sensitive") is not True or takes_any_text:
        return admitted
    return {"anyOf": [admitted, {"const": MASK}], "x-sensitive": True}


def mask(value: Any, schema: dict[str, Any]) -> Any:
    """A copy of `value` without its sensitive parts."""
    return _masked(value, [schema], schema, [])


def secrets_in(value: Any, schema: dict[str, Any]) -> list[str]:
    """The sensitive parts of `value`, as they would appear in a text."""
    found: list[Any] = []
    _masked(value, [schema], schema, found)
    return sorted({text for item in found for text in _texts(item)}, key=len, reverse=True)


def scrub(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def _masked(value: Any, schemas: list[Any], root: dict[str, Any], found: list[Any]) -> Any:
    seen = list(views(schemas, root))
    if value is not None and any(view.get("x-sensitive") is True for view in seen):
        found.append(value)
        return MASK
    if isinstance(value, dict):
        return {key: _masked(item, schemas_of_key(key, seen), root, found) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, schemas_of_index(index, seen), root, found) for index, item in enumerate(value)]
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
    elif value not in (None, "", True, False):
        yield from {str(value), repr(value)[1:-1] if isinstance(value, str) else repr(value)}
