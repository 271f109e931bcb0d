"""The published rules of OpenAI's structured outputs, written down once more and apart from the converter."""

import json
from collections.abc import Iterator
from typing import Any

ALLOWED = {
    *("type", "title", "description", "enum", "const", "anyOf"),
    *("properties", "required", "additionalProperties"),
    *("items", "minItems", "maxItems"),
    *("pattern", "format"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
TYPES = {"string", "number", "boolean", "integer", "object", "array", "null"}
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


def violations(schema: dict[str, Any]) -> list[str]:
    """What a provider would refuse; empty when the schema may be sent with `"strict": true`."""
    found = list(_root(schema))
    properties = enum_values = characters = 0
    for path, node, level in _walk("#", schema, 1):
        found += [f"{path}: {problem}" for problem in _node(node)]
        if not isinstance(node, dict):
            continue
        names = list(node.get("properties", {}))
        values = [value if isinstance(value, str) else json.dumps(value) for value in node.get("enum", [])]
        constant = [json.dumps(node["const"])] if "const" in node and not isinstance(node["const"], str) else []
        constant += [node["const"]] if isinstance(node.get("const"), str) else []
        properties += len(names)
        enum_values += len(values)
        characters += sum(len(text) for text in (*names, *values, *constant))
        if len(values) > 250 and sum(map(len, values)) > 15_000:
            found.append(f"{path}: long enum")
        if level > 10:
            found.append(f"{path}: nested more than 10 levels deep")
    found += ["too many properties"] * (properties > 5_000)
    found += ["too many enum values"] * (enum_values > 1_000)
    found += ["too many characters"] * (characters > 120_000)
    return found


def _root(schema: dict[str, Any]) -> Iterator[str]:
    if schema.get("type") != "object":
        yield "#: the root is not an object"
    if "anyOf" in schema:
        yield "#: the root has anyOf"


def _walk(path: str, node: Any, level: int) -> Iterator[tuple[str, Any, int]]:
    """A level is an object or an array; what is inside is one level further down."""
    is_container = isinstance(node, dict) and ("properties" in node or "items" in node)
    yield path, node, level if is_container else 0
    if not isinstance(node, dict):
        return
    for name, child in node.get("properties", {}).items():
        yield from _walk(f"{path}/properties/{name}", child, level + 1)
    if "items" in node:
        yield from _walk(f"{path}/items", node["items"], level + 1)
    for index, child in enumerate(node.get("anyOf", [])):
        yield from _walk(f"{path}/anyOf/{index}", child, level)


def _node(node: Any) -> Iterator[str]:
    if not isinstance(node, dict):
        yield "not a schema object"
        return
    if unknown := node.keys() - ALLOWED:
        yield f"keywords not supported: {sorted(unknown)}"
    types = node.get("type", [])
    types = [types] if isinstance(types, str) else types
    if not types and "anyOf" not in node:
        yield "untyped"
    if not TYPES.issuperset(types) or len(set(types)) != len(types):
        yield f"bad type: {types}"
    if "object" in types:
        if node.get("additionalProperties") is not False:
            yield "open object"
        if node.get("required") != list(node.get("properties", {})):
            yield "not every property is required"
    if "array" in types and not isinstance(node.get("items"), dict):
        yield "array without items"
    if "format" in node and node["format"] not in FORMATS:
        yield f"format not supported: {node['format']}"
    if "anyOf" in node and not node["anyOf"]:
        yield "empty anyOf"
