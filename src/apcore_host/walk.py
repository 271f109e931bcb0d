"""A value and the schemas that have a say about it, walked together."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["missing_fields", "schemas_of_index", "schemas_of_key", "views"]

_BRANCHES = ("anyOf", "oneOf", "allOf")
_CONDITIONS = ("if", "then", "else")


def views(schemas: Iterable[Any], root: dict[str, Any]) -> Iterator[dict[str, Any]]:
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


def schemas_of_key(key: Any, schemas: list[dict[str, Any]]) -> list[Any]:
    found: list[Any] = []
    for view in schemas:
        named = view.get("properties", {}).get(key)
        patterns = view.get("patternProperties", {}).items()
        matching = [schema for pattern, schema in patterns if re.search(pattern, str(key))]
        matching += [named] if named is not None else []
        found += matching or [view.get("additionalProperties")]
    return found


def schemas_of_index(index: int, schemas: list[dict[str, Any]]) -> list[Any]:
    found: list[Any] = []
    for view in schemas:
        prefix = view.get("prefixItems", ())
        found.append(prefix[index] if index < len(prefix) else view.get("items"))
    return found


def missing_fields(value: Any, schema: dict[str, Any]) -> dict[str, list[str]]:
    """The required properties that are absent, by the dotted path of the object they are missing from."""
    found: dict[str, list[str]] = {}
    _find_missing(value, [schema], schema, "", found)
    return found


def _find_missing(value: Any, schemas: list[Any], root: dict[str, Any], path: str, found: dict[str, list[str]]) -> None:
    seen = list(views(schemas, root))
    children: list[tuple[Any, Any, list[Any]]] = []
    if isinstance(value, dict):
        required = dict.fromkeys(name for view in seen for name in view.get("required", ()))
        found[path] = [name for name in required if name not in value]
        children = [(key, item, schemas_of_key(key, seen)) for key, item in value.items()]
    elif isinstance(value, list):
        children = [(index, item, schemas_of_index(index, seen)) for index, item in enumerate(value)]
    for step, item, of_item in children:
        _find_missing(item, of_item, root, f"{path}.{step}".lstrip("."), found)
