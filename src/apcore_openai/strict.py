"""Fit a schema to the rules of OpenAI's structured outputs, and say what that cost.

The verdict is `exact` when the model may send the same values as before, with null for an absent property; `widened`
when a constraint had to go that the Executor still enforces, and that the description states instead; `lossy` when no
strict form says what the schema says.  An exact or widened schema keeps every published rule; a lossy one may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal

from apcore_mcp.adapters.schema import CircularReference, conjoin, copy_json, inline_refs

FORMATS = {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}

_BOUNDS = {"exclusiveMaximum", "exclusiveMinimum", "maxItems", "maximum", "minItems", "minimum", "multipleOf"}
_KEPT = _BOUNDS | {"const", "description", "enum", "title", "type"}
# Constraints that fit into words, so that the model still knows them.
_SENTENCES = {
    "format": "Format: {}.",
    "maxLength": "At most {} characters.",
    "maxProperties": "At most {} properties.",
    "minLength": "{} or more characters.",
    "minProperties": "{} or more properties.",
    "pattern": "Matches the pattern `{}`.",
    "uniqueItems": "No item appears twice.",
}
_FORMLESS = {"contains", "dependentRequired", "dependentSchemas", "if", "not", "patternProperties", "prefixItems"}
_FORMLESS |= {"dependencies", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
# Regular expressions become automata, which cannot look around or back.
_LOOKS_AROUND = re.compile(r"\(\?[=!<]|\\[1-9]")
_SCALARS = {bool: "boolean", float: "number", int: "integer", str: "string", NoneType: "null"}
_TYPES = _SCALARS | {dict: "object", list: "array"}


@dataclass(frozen=True, slots=True)
class Departure:
    """A place where the strict schema says less than the original."""

    path: str
    keyword: str
    reason: str
    verdict: Literal["widened", "lossy"]


@dataclass(frozen=True, slots=True)
class StrictResult:
    schema: dict[str, Any]
    paths: tuple[Departure, ...]

    @property
    def verdict(self) -> Literal["exact", "widened", "lossy"]:
        if any(departure.verdict == "lossy" for departure in self.paths):
            return "lossy"
        return "widened" if self.paths else "exact"


def to_strict(schema: dict[str, Any]) -> StrictResult:
    """The strict form of an object schema; references are inlined first, a recursive schema is returned as it is."""
    try:
        root = {"type": "object"} | inline_refs(schema)
    except CircularReference as error:
        reason = f"a recursive reference ({' -> '.join(error.path)})"
        return StrictResult(copy_json(schema), (Departure("#", "$ref", reason, "lossy"),))
    conversion = _Conversion()
    strict = conversion.node(root, "#")
    if strict["type"] != "object" or "anyOf" in strict:
        conversion.lose("#", "type", "a root that is not simply an object")
    for keyword, excess in _excesses(strict):
        conversion.lose("#", keyword, excess)
    return StrictResult(strict, tuple(conversion.departures))


class _Conversion:
    def __init__(self) -> None:
        self.departures: list[Departure] = []

    def lose(self, path: str, keyword: str, reason: str) -> None:
        self.departures.append(Departure(path, keyword, reason, "lossy"))

    def widen(self, path: str, keyword: str, reason: str) -> str:
        self.departures.append(Departure(path, keyword, reason, "widened"))
        return reason

    def node(self, schema: Any, path: str) -> dict[str, Any]:
        schema = _flatten(schema) if isinstance(schema, dict) else {} if schema else {"not": {}}
        strict = self.keywords(schema, path)
        self.alternatives(schema, strict, path)
        if "type" not in strict and "anyOf" not in strict:
            strict |= _implied_type(schema)
            if "type" not in strict:
                self.lose(path, "type", "a value of any type")
        types = strict.get("type", ())
        if "object" in types:
            strict |= self.fields(schema, path)
        if "array" in types:
            strict["items"] = self.node(schema.get("items", {}), f"{path}/items")
        return strict

    def keywords(self, schema: dict[str, Any], path: str) -> dict[str, Any]:
        """What carries over as it is.  Of the rest, constraints are said or given up, and annotations are dropped."""
        strict: dict[str, Any] = {}
        said = []
        for keyword, value in schema.items():
            if keyword in _KEPT or _is_supported(keyword, value):
                strict[keyword] = value
            elif keyword in _SENTENCES and value is not False:
                said.append(self.widen(path, keyword, _SENTENCES[keyword].format(value)))
            elif keyword in _FORMLESS and value is not False:
                self.lose(path, keyword, keyword)
        if said:
            description = strict.get("description", "")
            ending = "." if description[-1:].isalnum() else ""
            strict["description"] = " ".join([description + ending, *said]).strip()
        return strict

    def alternatives(self, schema: dict[str, Any], strict: dict[str, Any], path: str) -> None:
        for keyword in ("anyOf", "oneOf", "allOf"):
            for index, branch in enumerate(schema.get(keyword, ())):
                branches = strict.setdefault(keyword.replace("one", "any"), [])
                branches.append(self.node(branch, f"{path}/{keyword}/{index}"))
        if "oneOf" in schema:
            self.widen(path, "oneOf", "Exactly one alternative applies.")
        # Where two of these meet, each would be closed against what only the other one names.
        shapes = schema.keys() & {"allOf", "anyOf", "items", "oneOf", "properties"}
        if "allOf" in shapes or len(shapes) > 1:
            self.lose(path, min(shapes), "schemas that apply together")

    def fields(self, schema: dict[str, Any], path: str) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        extra = schema.get("additionalProperties", "properties" not in schema and path != "#")
        if extra is not False:
            kind = "additionalProperties: true" if extra is True else "additionalProperties with a schema"
            self.lose(path, "additionalProperties", kind)
        if not properties.keys() >= set(required):
            self.lose(path, "required", "a required property without a schema")
        fields = {}
        for name, value in properties.items():
            field = self.node(value, f"{path}/properties/{name.replace('~', '~0').replace('/', '~1')}")
            fields[name] = field if name in required else _or_null(field)
        return {"properties": fields, "required": list(fields), "additionalProperties": False}


def _is_supported(keyword: str, value: Any) -> bool:
    return value in FORMATS if keyword == "format" else keyword == "pattern" and not _LOOKS_AROUND.search(value)


def _implied_type(schema: dict[str, Any]) -> dict[str, Any]:
    if "properties" in schema or "items" in schema:
        return {"type": "object" if "properties" in schema else "array"}
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    types = list(dict.fromkeys(_TYPES[type(value)] for value in values))
    return {"type": types[0] if len(types) == 1 else types} if types else {}


def _flatten(schema: dict[str, Any]) -> dict[str, Any]:
    """Lay the branches of an `allOf` over the schema as far as that changes nothing."""
    flat = {keyword: value for keyword, value in schema.items() if keyword != "allOf"}
    for branch in schema.get("allOf", ()):
        flat = conjoin(_flatten(branch) if isinstance(branch, dict) else branch, flat)
    return flat


def _or_null(node: dict[str, Any]) -> dict[str, Any]:
    if accepts_null(node):
        return node
    if "const" in node:
        return {"anyOf": [node, {"type": "null"}]}
    nullable = dict(node)
    for keyword, null in (("type", "null"), ("enum", None), ("anyOf", {"type": "null"})):
        if keyword in node:
            values = [node[keyword]] if isinstance(node[keyword], str) else node[keyword]
            nullable[keyword] = values if null in values else [*values, null]
    return nullable


def _excesses(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Which of the published limits a strict schema exceeds."""
    nodes = list(_nodes(schema, 0))
    names = [name for node, _ in nodes for name in node.get("properties", ())]
    enums = [[str(value) for value in node["enum"]] for node, _ in nodes if "enum" in node]
    values = [value for enum in enums for value in enum]
    constants = [str(node["const"]) for node, _ in nodes if "const" in node]
    long_enums = [sum(map(len, enum)) for enum in enums if len(enum) > 250]
    for keyword, what, count, limit in (
        ("properties", "properties", len(names), 5_000),
        ("properties", "levels of nesting", max(depth for _, depth in nodes), 10),
        ("properties", "characters", sum(map(len, (*names, *values, *constants))), 120_000),
        ("enum", "enum values", len(values), 1_000),
        ("enum", "characters in an enum of more than 250", max(long_enums, default=0), 15_000),
    ):
        if count > limit:
            yield keyword, f"{count:,} {what} (at most {limit:,})"


def _nodes(node: dict[str, Any], depth: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Every node with its level.  Arrays and alternatives count as levels, to stay on the safe side of the limit."""
    yield node, depth
    for child in (*node.get("properties", {}).values(), *node.get("anyOf", ()), node.get("items")):
        if child is not None:
            yield from _nodes(child, depth + 1)


def accepts_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return bool(schema)
    return (
        "null" in schema.get("type", "null")
        and None in schema.get("enum", (None,))
        and schema.get("const") is None
        and all(map(accepts_null, schema.get("allOf", ())))
        and all(any(map(accepts_null, schema[keyword])) for keyword in ("anyOf", "oneOf") if keyword in schema)
    )


def remove_nulls(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Undo what strict mode asks of a model: drop each null that stands for an absent property.

    `schema` is the original, inlined one.  A null that it allows is data and stays; so does one in a required
    property, for the Executor to refuse.
    """
    return dict(_without_nulls(arguments, schema))


def _without_nulls(value: Any, schema: Any) -> Any:
    if not isinstance(schema, dict):
        return value
    for branch in schema.get("allOf", ()):
        value = _without_nulls(value, branch)
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        if _fits(value, branch):
            value = _without_nulls(value, branch)
            break
    if isinstance(value, list):
        return [_without_nulls(item, schema.get("items")) for item in value]
    if not isinstance(value, dict):
        return value
    fields, extra = schema.get("properties", {}), schema.get("additionalProperties")
    return {
        name: _without_nulls(item, fields.get(name, extra))
        for name, item in value.items()
        if item is not None or name in schema.get("required", ()) or accepts_null(fields.get(name, True))
    }


def _fits(value: Any, schema: Any) -> bool:
    """Whether `value` can come from the strict form of `schema`: enough to tell alternatives apart."""
    if not isinstance(schema, dict) or value is None:
        return accepts_null(schema)
    schema = _flatten(schema)
    types = schema.get("type", _TYPES.values())
    return (
        (_TYPES[type(value)] in types or (type(value) is int and "number" in types))
        and value in schema.get("enum", (value,))
        and value == schema.get("const", value)
        and all(any(_fits(value, branch) for branch in schema[key]) for key in ("anyOf", "oneOf") if key in schema)
        and (not isinstance(value, list) or all(_fits(item, schema.get("items", True)) for item in value))
        and (not isinstance(value, dict) or _fits_fields(value, schema))
    )


def _fits_fields(value: dict[str, Any], schema: dict[str, Any]) -> bool:
    fields, required = schema.get("properties", {}), schema.get("required", ())
    extra = schema.get("additionalProperties", not fields)
    absent = {name for name in fields.keys() - set(required) if value.get(name) is None}
    return value.keys() >= set(required) and all(
        name in absent or _fits(item, fields.get(name, extra)) for name, item in value.items()
    )
