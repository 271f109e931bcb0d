"""Values whose schema says `x-sensitive`: masked in results, never repeated in errors or logs."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

MASK = "***REDACTED***"
_BRANCHES = ("anyOf", "oneOf", "allOf")
_CONDITIONS = ("if", "then", "else")


def is_marked(schema: Any) -> bool:
    """Whether anything in a schema is sensitive; most schemas have nothing, and need no walk per call."""
    return '"x-sensitive"' in json.dumps(schema, default=str)


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
    views = list(_views(schemas, root))
    if value is not None and any(view.get("x-sensitive") is True for view in views):
        found.append(value)
        return MASK
    if isinstance(value, dict):
        return {key: _masked(item, _of_key(key, views), root, found) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, _of_index(index, views), root, found) for index, item in enumerate(value)]
    return value


def _views(schemas: Iterable[Any], root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every schema that has a say about a value: the given ones, their branches and what they refer to."""
    pending, seen = list(schemas), set[int]()
    while pending:
        schema = pending.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield schema
        pending += [branch for keyword in _BRANCHES for branch in schema.get(keyword, ())]
        pending += [schema[keyword] for keyword in _CONDITIONS if keyword in schema]
        if isinstance(ref := schema.get("$ref"), str):
            pending.append(_target(ref, root))


def _target(ref: str, root: dict[str, Any]) -> Any:
    node: Any = root
    for step in ref.removeprefix("#").split("/")[1:]:
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node


def _of_key(key: Any, views: list[dict[str, Any]]) -> list[Any]:
    found: list[Any] = []
    for view in views:
        named = view.get("properties", {}).get(key)
        patterns = view.get("patternProperties", {}).items()
        matching = [schema for pattern, schema in patterns if re.search(pattern, str(key))]
        matching += [named] if named is not None else []
        found += matching or [view.get("additionalProperties")]
    return found


def _of_index(index: int, views: list[dict[str, Any]]) -> list[Any]:
    found: list[Any] = []
    for view in views:
        prefix = view.get("prefixItems", ())
        found.append(prefix[index] if index < len(prefix) else view.get("items"))
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
    elif value not in (None, "", True, False):
        yield from {str(value), repr(value)[1:-1] if isinstance(value, str) else repr(value)}
