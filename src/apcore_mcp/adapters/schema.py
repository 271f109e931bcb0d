"""Turn apcore schemas into schemas that stand on their own.

`inline_refs` replaces every local reference by what it points to, and keeps the value set: an instance is valid after
inlining exactly when it was before, by the rules of JSON Schema 2020-12.

Followed are JSON pointers and anchors, both within the document.  Any other reference is a `KeyError` that names it,
also one to the `$id` of an embedded schema; `$dynamicRef` is a `ValueError`, because what it means depends on the road
by which it was reached and so has no inlined form.
"""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import unquote

MAX_CHAIN = 32
# A few definitions that each mention another twice grow without bound; real schemas stay far below this.
MAX_REFERENCES = 10_000

# Keywords that change each other's meaning: two schemas that share a family cannot be laid over one another.
_FIELDS = {"additionalProperties", "patternProperties", "properties"}
_ITEMS = {"additionalItems", "items", "prefixItems"}
_COUNTED = {"contains", "maxContains", "minContains"}
_BRANCH = {"else", "if", "then"}
_FAMILIES = {keyword: min(family) for family in (_FIELDS, _ITEMS, _COUNTED, _BRANCH) for keyword in family}
_UNEVALUATED = {"unevaluatedItems", "unevaluatedProperties"}

# Where schemas live inside a schema.  Whatever is not listed is data: `enum`, `const`, `default`, `examples`, `x-*`.
_MAPS = {"dependencies", "dependentSchemas", "patternProperties", "properties"}
_NESTED = {"additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "not", "oneOf", "propertyNames"}
_SUBSCHEMAS = _NESTED | _ITEMS | _BRANCH | _UNEVALUATED
# Without meaning once nothing refers to them; repeated copies of an anchor would even be an error.
_DROPPED = {"$anchor", "$defs", "$dynamicAnchor", "$recursiveAnchor", "$ref", "definitions"}
# Never decide validity, so what stands beside a reference wins over what its target says.
_NOTES = {"$comment", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}


class CircularReference(ValueError):
    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__(f"Circular reference: {' -> '.join(path)}")
        self.path = path


class SchemaConverter:
    """Reads the schemas of an apcore `ModuleDescriptor`, or of a record with the same fields."""

    def __init__(self, refs: Literal["inline", "keep"] = "inline") -> None:
        self._self_contained = inline_refs if refs == "inline" else copy_json

    def convert_input_schema(self, descriptor: Any) -> dict[str, Any]:
        return self._ensure_object_type(self._self_contained(descriptor.input_schema or {}))

    def convert_output_schema(self, descriptor: Any) -> dict[str, Any]:
        """The schema as declared, whatever its type; empty when the module declares none."""
        return self._self_contained(descriptor.output_schema or {})

    def _ensure_object_type(self, schema: dict[str, Any]) -> dict[str, Any]:
        declared = schema.get("type")
        if declared == "object":
            return schema
        if not schema:
            return {"type": "object", "properties": {}}
        # Arguments are always an object, so of `["object", "null"]` only the first can be meant.
        if declared is None or "object" in declared:
            return {**schema, "type": "object"}
        raise ValueError(f"The root of an input schema must be an object, not {declared!r}")


def inline_refs(schema: dict[str, Any]) -> dict[str, Any]:
    """A copy of `schema` without `$ref` and `$defs`; see the module's docstring for what is followed."""
    try:
        inlined = _Inliner().schema(schema, schema, ((id(schema), "#"),))
    except RecursionError:
        raise ValueError("The schema is nested too deeply") from None
    # `true` and `false` are schemas too, and a root reference may lead to one.
    return inlined if isinstance(inlined, dict) else {} if inlined else {"not": {}}


def copy_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_json(item) for item in value]
    return value


# The targets being expanded, outermost first: identity to recognise them, name to speak of them.
_Trail = tuple[tuple[int, str], ...]


class _Inliner:
    def __init__(self) -> None:
        self.followed = 0

    def schema(self, node: Any, document: dict[str, Any], trail: _Trail) -> Any:
        if isinstance(node, list):
            return [self.schema(item, document, trail) for item in node]
        if not isinstance(node, dict):
            return node
        if _is_document(node):
            document = node
        inlined: dict[str, Any] = {}
        for keyword, value in node.items():
            if keyword in _SUBSCHEMAS:
                inlined[keyword] = self.schema(value, document, trail)
            elif keyword in _MAPS and isinstance(value, dict):
                inlined[keyword] = {name: self.schema(item, document, trail) for name, item in value.items()}
            elif keyword in ("$dynamicRef", "$recursiveRef"):
                raise ValueError(f"Unsupported reference: {keyword} {value!r}")
            elif keyword not in _DROPPED and (keyword != "$id" or len(trail) == 1):
                inlined[keyword] = copy_json(value) if isinstance(value, dict | list | tuple) else value
        return conjoin(self.target(node["$ref"], document, trail), inlined) if "$ref" in node else inlined

    def target(self, ref: Any, document: dict[str, Any], trail: _Trail) -> Any:
        name = _name(ref)
        node, document = _look_up(ref, name, document)
        seen = [identity for identity, _ in trail]
        if id(node) in seen:
            raise CircularReference((*(step for _, step in trail[seen.index(id(node)) :]), name))
        if len(trail) > MAX_CHAIN:
            raise ValueError(f"Maximum reference depth of {MAX_CHAIN} exceeded at {name}")
        self.followed += 1
        if self.followed > MAX_REFERENCES:
            raise ValueError(f"More than {MAX_REFERENCES} references to inline")
        return self.schema(node, document, (*trail, (id(node), name)))


def _name(ref: Any) -> str:
    """`A` for `#/$defs/A`; any other reference speaks for itself."""
    match str(ref).split("/"):
        case ["#", "$defs" | "definitions", name]:
            return _unescape(name)
    return str(ref)


def _look_up(ref: Any, name: str, document: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The node a pointer leads to, and the document that node belongs to."""
    node: Any = document
    start, *steps = str(ref).split("/")
    if start.startswith("#") and start != "#":
        node = _anchored(document, start[1:])
    elif start != "#":
        raise KeyError(name)
    for step in map(_unescape, steps):
        if isinstance(node, dict) and step in node:
            node = node[step]
        elif isinstance(node, list) and step.isdecimal() and int(step) < len(node):
            node = node[int(step)]
        else:
            raise KeyError(name)
        if _is_document(node):
            document = node
    if not isinstance(node, dict | bool):
        raise KeyError(name)
    return node, document


def _anchored(node: Any, anchor: str) -> Any:
    """The schema that bears an anchor.  Anchors are rare, so the search is plain and nothing is remembered."""
    if isinstance(node, dict) and anchor in (node.get("$anchor"), node.get("$dynamicAnchor")):
        return node
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    found = (_anchored(child, anchor) for child in children if not _is_document(child))
    return next((node for node in found if node is not None), None)


def _is_document(node: Any) -> bool:
    """Whether a schema has its own `$id`: pointers and anchors inside it start from there."""
    return isinstance(node, dict) and isinstance(node.get("$id"), str)


def _unescape(step: str) -> str:
    return unquote(step).replace("~1", "/").replace("~0", "~")


def conjoin(target: Any, beside: dict[str, Any]) -> Any:
    """One schema that accepts what both accept; flat where that is safe, an `allOf` where the two meet."""
    if not beside:
        return target
    if isinstance(target, dict) and not _meet(target, beside):
        return target | beside
    return {**beside, "allOf": [*beside.get("allOf", ()), target]}


def _meet(target: dict[str, Any], beside: dict[str, Any]) -> bool:
    theirs, ours = _asserting(target), _asserting(beside)
    if ours and not _UNEVALUATED.isdisjoint(theirs | ours):
        return True
    if target.get("type") == beside.get("type"):
        ours.discard("type")
    return not theirs.isdisjoint(ours)


def _asserting(schema: dict[str, Any]) -> set[str]:
    """The keywords that decide validity, those of one family under one name."""
    return {_FAMILIES.get(key, key) for key in schema if key not in _NOTES and not key.startswith("x-")}
