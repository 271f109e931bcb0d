"""The vocabulary of the contracts: small functions that write JSON Schema, and the shapes that tools share.

Schemas are closed, self-contained and free of references.  A name that recurs has one description everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from apcore_tree.engine.node import Json

__all__ = [
    "CHANGED",
    "FILTERS",
    "MUTATION",
    "PAGING",
    "VIEW_CHANGED",
    "array",
    "choice",
    "flag",
    "free_object",
    "integer",
    "node_id",
    "nullable",
    "opt",
    "page_of",
    "record",
    "text",
    "value",
]


class Opt(NamedTuple):
    """A property that may be absent."""

    schema: Json


def opt(schema: Json) -> Opt:
    return Opt(schema)


def record(description: str | None = None, /, **properties: Json | Opt) -> Json:
    """A closed object; properties are required unless wrapped in `opt`."""
    schema: Json = {"type": "object"}
    if description is not None:
        schema["description"] = description
    schema["properties"] = {
        name: given.schema if isinstance(given, Opt) else given for name, given in properties.items()
    }
    required = [name for name, given in properties.items() if not isinstance(given, Opt)]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


def _with_default(schema: Json, default: Any) -> Json:
    return schema if default is None else {**schema, "default": default}


def text(description: str, most: int | None = None, *, least: int = 0, pattern: str | None = None) -> Json:
    schema: Json = {"type": "string", "description": description}
    if least:
        schema["minLength"] = least
    if most is not None:
        schema["maxLength"] = most
    if pattern is not None:
        schema["pattern"] = pattern
    return schema


def integer(description: str, least: int | None = None, most: int | None = None, default: int | None = None) -> Json:
    schema: Json = {"type": "integer", "description": description}
    if least is not None:
        schema["minimum"] = least
    if most is not None:
        schema["maximum"] = most
    return _with_default(schema, default)


def flag(description: str, default: bool | None = None) -> Json:
    return _with_default({"type": "boolean", "description": description}, default)


def choice(description: str, *names: str, default: str | None = None) -> Json:
    return _with_default({"type": "string", "enum": list(names), "description": description}, default)


def array(description: str, items: Json, most: int | None = None, least: int = 0) -> Json:
    schema: Json = {"type": "array", "description": description, "items": items}
    if least:
        schema["minItems"] = least
    if most is not None:
        schema["maxItems"] = most
    return schema


def free_object(description: str, least: int = 0, most: int | None = None) -> Json:
    """An object whose properties are the user's own."""
    schema: Json = {"type": "object", "description": description, "additionalProperties": True}
    if least:
        schema["minProperties"] = least
    if most is not None:
        schema["maxProperties"] = most
    return schema


def value(description: str) -> Json:
    """Any JSON value."""
    return {"description": description}


def nullable(schema: Json) -> Json:
    return {**schema, "type": [schema["type"], "null"]}


def node_id(description: str) -> Json:
    return text(description, 128, least=1, pattern=r"^[A-Za-z0-9._:-]+$")


def property_path(description: str) -> Json:
    return text(description, 256, least=1)


def property_paths(description: str) -> Json:
    return array(description, property_path("Dotted property path, e.g. Address.Street."), 64)


MUTATION: dict[str, Opt] = {
    "versionToken": opt(text("The `version` last read; a stale or missing one is refused as a conflict.", 64)),
    "idempotencyKey": opt(
        text("A key of your choice; repeating the same call with it returns the first result.", 128, least=1)
    ),
}

PAGING: dict[str, Opt] = {
    "limit": opt(integer("Items per page.", 1, 200, 50)),
    "pageToken": opt(text("The `nextPage` of the page before.", 2048)),
    "consistency": opt(
        choice(
            "live: each page reads the present state; pinned: all pages read the state of the first.",
            "live",
            "pinned",
            default="live",
        )
    ),
}

FILTERS: dict[str, Opt] = {
    "includedProperties": opt(property_paths("Show only these payload properties and what is under them.")),
    "excludedProperties": opt(
        property_paths("Hide these payload properties; also $tags, $isExpanded, $childrenCount, $payloadType.")
    ),
}

VERSION = text("Version of the tree; pass it back as versionToken.")
VIEW_VERSION = text("Version of this session's view; pass it back as versionToken of view tools.")
NEXT_PAGE = opt(text("Pass it back as pageToken for the next page; absent on the last page."))
CHANGED_SINCE = flag("Whether the tree changed since the first page.")

_NODE: dict[str, Json | Opt] = {
    "nodeId": text("Id of the node."),
    "parentId": nullable(text("Id of the parent; null for the root.")),
    "name": opt(text("Display name, where the payload has one.")),
    "depth": integer("Distance from the root of the tree."),
    "payloadType": opt(text("Registered name of the payload's type.")),
    "payload": free_object("The payload's visible properties."),
    "childrenCount": opt(integer("Number of children.")),
    "isExpanded": opt(flag("Whether this session's view unfolds the node.")),
    "tags": opt(array("Tags of the node.", text("A tag."))),
    "version": integer("Revision that last changed the node."),
}

ROW = record("A node.", **_NODE)


def _stub(given: Json | Opt) -> Opt:
    return given if isinstance(given, Opt) else opt(given)


# On later pages of a nested result the ancestors are stubs, so only the id is sure to be there.
NODE_VIEW = record(
    "A node with the children of this page.",
    nodeId=_NODE["nodeId"],
    partial=opt(flag("True for an ancestor repeated from an earlier page, without its other fields.")),
    **{name: _stub(given) for name, given in _NODE.items() if name != "nodeId"},
    children=opt(array("Children, in order; each of the same shape as this node.", free_object("A node."))),
)

PATH_ITEM = record(
    "A step of the path.",
    nodeId=text("Id of the node."),
    name=opt(text("Display name.")),
    depth=integer("Distance from the root."),
)
PATH = array("The path from the root to the node, both included.", PATH_ITEM)

HIT = record("A matching node and where it is.", node=ROW, path=PATH)

CHANGED: dict[str, Json | Opt] = {
    "version": VERSION,
    "changedIds": array("Ids of the nodes that changed, at most 200.", text("Id of a node.")),
    "changedCount": integer("Number of nodes that changed."),
}

VIEW_CHANGED: dict[str, Json | Opt] = {
    "viewVersion": VIEW_VERSION,
    "version": VERSION,
    "changedCount": integer("1 if the session changed, else 0."),
}


def page_of(item: Json, description: str, **more: Json | Opt) -> Json:
    return record(
        None,
        **more,
        items=array(description, item),
        nextPage=NEXT_PAGE,
        changedSinceFirstPage=CHANGED_SINCE,
        version=VERSION,
    )
