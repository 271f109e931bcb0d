"""Documents: the tree as nested JSON (tree-json, view-json) and as flat rows, out and in.

Nested documents are limited in depth, because JSON parsers are; flat rows carry any tree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from apcore_tree.engine.node import Json, Node, walk
from apcore_tree.engine.payload_types import PayloadTypes
from apcore_tree.errors import InvalidArgument

__all__ = ["MAX_LEVELS", "MAX_NODES", "Incoming", "dump_tree_json", "flat_rows", "nest", "read_document", "tree_json"]

MAX_LEVELS = 100
MAX_NODES = 50_000
MAX_BYTES = 8 * 1024 * 1024
NODE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)

_STRUCTURAL = ("NodeId", "PayloadType", "Children", "Payload")
_VIEW_ONLY = ("IsExpanded", "ChildrenCount")


# -- out


def tree_json(root: Node, types: PayloadTypes) -> tuple[Json, int]:
    """The subtree as nested objects, and its size."""
    top = _tree_json_head(root, types)
    count, level = 1, [(root, top)]
    for _ in range(MAX_LEVELS):
        below: list[tuple[Node, Json]] = []
        for node, made in level:
            if node.children:
                heads = made["Children"] = [_tree_json_head(child, types) for child in node.children]
                below.extend(zip(node.children, heads, strict=True))
        count += len(below)
        if count > MAX_NODES:
            raise _too_many()
        if not below:
            return top, count
        level = below
    raise _too_deep()


def _tree_json_head(node: Node, types: PayloadTypes) -> Json:
    payload = node.payload
    kind, data = types.of(payload), payload.copy_data()
    if kind.sensitive:
        data = kind.mask(data)
    if kind.self_payload:
        return {"NodeId": node.id, "PayloadType": payload.type, **data, "Children": []}
    return {"NodeId": node.id, "PayloadType": payload.type, "Payload": data, "Children": []}


def nest(items: Iterator[tuple[Node, int]], make: Callable[[Node], Json], key: str = "Children") -> tuple[Json, int]:
    """Turn `(node, depth)` in document order into nested objects."""
    open_objects: list[Json] = []
    count = 0
    for node, depth in items:
        if depth >= MAX_LEVELS:
            raise _too_deep()
        count += 1
        if count > MAX_NODES:
            raise _too_many()
        made = make(node)
        del open_objects[depth:]
        if open_objects:
            open_objects[-1].setdefault(key, []).append(made)
        open_objects.append(made)
    return open_objects[0], count


def view_json_head(node: Node, expanded: bool, data: Json) -> Json:
    """A node of view-json: payload properties inline, unless they would pose as structure."""
    head: Json = {"NodeId": node.id, "PayloadType": node.payload.type}
    taken = {*_STRUCTURAL, *_VIEW_ONLY}
    clashing = {name: value for name, value in data.items() if name in taken}
    head.update((name, value) for name, value in data.items() if name not in taken)
    if clashing:
        head["Payload"] = clashing
    head["IsExpanded"] = expanded
    head["ChildrenCount"] = len(node.children)
    return head


def flat_rows(root: Node, types: PayloadTypes) -> list[Json]:
    rows: list[Json] = []
    for node in walk(root):
        if len(rows) == MAX_NODES:
            raise _too_many()
        rows.append(
            {
                "nodeId": node.id,
                "parentId": None if node is root or node.parent is None else node.parent.id,
                "payloadType": node.payload.type,
                "payload": types.of(node.payload).mask(node.payload.copy_data()),
            }
        )
    return rows


def dump_tree_json(root: Node, types: PayloadTypes) -> str:
    """The subtree as tree-json text of any depth and size, written without building the objects.

    Nothing is masked: this is the owner's full copy, not an agent's.
    """
    inline = frozenset(name for name in types.names if types[name].self_payload)
    chunks = [_open_node(root, inline)]
    write = chunks.append
    stack = [iter(root.children)]
    comma = ""
    while stack:
        for node in stack[-1]:
            payload = node.payload
            if payload.type in inline:
                opened = _open_node(node, inline)
            else:
                text = payload._text or payload.text()
                opened = f'{{"NodeId":"{node.id}","PayloadType":"{payload.type}","Payload":{text},"Children":['
            if node.children:
                write(comma + opened)
                stack.append(iter(node.children))
                comma = ""
                break
            write(f"{comma}{opened}]}}")
            comma = ","
        else:
            write("]}")
            stack.pop()
            comma = ","
    return "".join(chunks)


def _open_node(node: Node, inline: frozenset[str]) -> str:
    """A node up to its children."""
    text = node.payload.text()
    head = f'{{"NodeId":"{node.id}","PayloadType":"{node.payload.type}",'
    if node.payload.type not in inline:
        return f'{head}"Payload":{text},"Children":['
    return f'{head}{text[1:-1]},"Children":[' if len(text) > 2 else f'{head}"Children":['


# -- in


@dataclass
class Incoming:
    """A node of a document; `parent` is the index of its parent in the list, which holds parents first."""

    node_id: str | None
    parent: int | None
    type: str | None
    data: Json


def read_document(document: Any, types: PayloadTypes) -> list[Incoming]:
    """Read tree-json (with or without the view root), flat rows, or either as text."""
    parsed = _parse(document) if isinstance(document, str) else document
    if isinstance(parsed, dict) and "RootNodeId" in parsed and "View" in parsed:
        parsed = parsed["View"]
    if isinstance(parsed, list):
        return _read_rows(parsed)
    if isinstance(parsed, dict):
        return _read_nested(parsed, types)
    raise _shape("a document is a tree-json object or a list of flat rows")


def _parse(text: str) -> Any:
    if len(text) > MAX_BYTES:
        raise InvalidArgument(f"A document has at most {MAX_BYTES} characters", field="json")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidArgument(
            f"Nested documents have at most {MAX_LEVELS} levels", field="json", suggestion="use flat rows"
        ) from None
    except ValueError as error:
        raise InvalidArgument(f"The document is not JSON: {error}", field="json") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _read_nested(root: Json, types: PayloadTypes) -> list[Incoming]:
    found: list[Incoming] = []
    stack: list[tuple[Any, int | None, int]] = [(root, None, 0)]
    while stack:
        item, parent, depth = stack.pop()
        if depth >= MAX_LEVELS:
            raise InvalidArgument(
                f"Nested documents have at most {MAX_LEVELS} levels", field="json", suggestion="use flat rows"
            )
        if not isinstance(item, dict):
            raise _shape("every node is an object")
        children = item.get("Children", [])
        if not isinstance(children, list):
            raise _shape("'Children' is a list")
        _append(found, Incoming(item.get("NodeId"), parent, item.get("PayloadType"), _data_of(item, types)))
        at = len(found) - 1
        stack.extend((child, at, depth + 1) for child in reversed(children))
    return found


def _data_of(item: Json, types: PayloadTypes) -> Json:
    name = item.get("PayloadType")
    if isinstance(name, str) and name in types.names and types[name].self_payload:
        return {key: value for key, value in item.items() if key not in _STRUCTURAL}
    data = item.get("Payload", {})
    if not isinstance(data, dict):
        raise _shape("'Payload' is an object")
    return data


def _read_rows(rows: list[Any]) -> list[Incoming]:
    """Rows name their parents by id; a parent comes before its children."""
    found: list[Incoming] = []
    index: dict[str, int] = {}
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("payload", {}), dict):
            raise _shape("a row is an object {nodeId, parentId, payloadType, payload}")
        parent_id = row.get("parentId")
        if parent_id is not None and parent_id not in index:
            if found:
                raise _shape(f"the parent {parent_id!r} comes before its children")
            parent_id = None
        if parent_id is None and found:
            raise _shape("a document has one root")
        parent = None if parent_id is None else index[parent_id]
        _append(found, Incoming(row.get("nodeId"), parent, row.get("payloadType"), row.get("payload", {})))
        if isinstance(row.get("nodeId"), str):
            index[row["nodeId"]] = len(found) - 1
    if not found:
        raise _shape("the document is empty")
    return found


def _append(found: list[Incoming], node: Incoming) -> None:
    if node.node_id is not None and not (isinstance(node.node_id, str) and NODE_ID.fullmatch(node.node_id)):
        raise _shape("a node id has 1 to 128 letters, digits or '._:-'")
    if node.type is not None and not isinstance(node.type, str):
        raise _shape("a payload type is a text")
    if len(found) == MAX_NODES:
        raise _too_many()
    found.append(node)


def _shape(what: str) -> InvalidArgument:
    return InvalidArgument(f"The document has the wrong shape: {what}", field="json", reason="shape")


def _too_deep() -> InvalidArgument:
    return InvalidArgument(
        f"Nested documents have at most {MAX_LEVELS} levels", reason="depth", suggestion='use format "flat"'
    )


def _too_many() -> InvalidArgument:
    return InvalidArgument(
        f"A document has at most {MAX_NODES} nodes", maxBatch=MAX_NODES, suggestion="work on smaller subtrees"
    )
