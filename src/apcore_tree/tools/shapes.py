"""Nodes as tools show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apcore_tree.calls import Call, Read
from apcore_tree.engine.documents import MAX_LEVELS
from apcore_tree.engine.node import Json, Node, ancestry, depth_of, position
from apcore_tree.engine.payload_types import PayloadTypes
from apcore_tree.engine.properties import PropertyFilter
from apcore_tree.engine.walking import Cursor, Descent, Visible, walk_after
from apcore_tree.errors import InvalidArgument

__all__ = ["Shaper", "breadcrumbs", "hit_of", "tree_page"]

Frame = tuple[Node, int, Any]


class Shaper:
    """Makes rows of nodes; what is the same for all of them is decided once."""

    def __init__(self, types: PayloadTypes, shown: PropertyFilter) -> None:
        self._types = types
        self._shown = shown
        self._with_type = shown.shows("$payloadType")
        self._with_count = shown.shows("$childrenCount")
        self._with_state = shown.shows("$isExpanded")
        self._with_tags = shown.shows("$tags")

    def row(self, node: Node, depth: int, expanded: bool | None = None) -> Json:
        payload = node.payload
        row: Json = {"nodeId": node.id, "parentId": None if node.parent is None else node.parent.id}
        name = self._types.name_of(node)
        if name is not None:
            row["name"] = name
        row["depth"] = depth
        if self._with_type:
            row["payloadType"] = payload.type
        row["payload"] = self.payload_of(node)
        if self._with_count:
            row["childrenCount"] = len(node.children)
        if expanded is not None and self._with_state:
            row["isExpanded"] = expanded
        if node.tags and self._with_tags:
            row["tags"] = sorted(node.tags)
        row["version"] = payload.changed if payload.changed > node.changed else node.changed
        return row

    def payload_of(self, node: Node) -> Json:
        kind, shown = self._types.of(node.payload), self._shown
        data = node.payload.copy_data()
        if not shown.everything:
            data = shown.apply(data)
        return kind.mask(data) if kind.sensitive else data


def breadcrumbs(node: Node, types: PayloadTypes) -> list[Json]:
    """The path from the root to the node."""
    steps = []
    for depth, each in enumerate(ancestry(node)):
        step: Json = {"nodeId": each.id}
        name = types.name_of(each)
        if name is not None:
            step["name"] = name
        step["depth"] = depth
        steps.append(step)
    return steps


def hit_of(call: Call, shaper: Shaper, node: Node) -> Json:
    path = breadcrumbs(node, call.types)
    return {"node": shaper.row(node, len(path) - 1), "path": path}


def tree_page(call: Read, root: Node, descent: Descent, shown: PropertyFilter, form: str) -> Json:
    """One page of a subtree, nested or flat, with the count of its nodes."""
    cursor = None if call.after is None else Cursor(call.after, call.seen)
    frames: list[Frame] = []
    more = False
    for frame in walk_after(call.source, root, descent, cursor):
        if len(frames) == call.limit:
            more = True
            break
        frames.append(frame)
    shaper, base = Shaper(call.types, shown), depth_of(root)

    def row(frame: Frame) -> Json:
        node, depth, state = frame
        expanded = descent.is_expanded(node, state) if isinstance(descent, Visible) else None
        return shaper.row(node, base + depth, expanded)

    result: Json = {"rows": [row(frame) for frame in frames]} if form == "flat" else _nested(frames, row, root)
    result["count"] = len(frames)
    last = frames[-1][0] if more else None
    result.update(call.ending(None if last is None else position(last, root)))
    return result


def _nested(frames: Iterable[Frame], row: Any, root: Node) -> Json:
    """Nest the rows; ancestors from earlier pages come back as stubs."""
    open_rows: list[Json] = []
    for frame in frames:
        node, depth, _ = frame
        if depth >= MAX_LEVELS:
            raise InvalidArgument(
                f"Nested results have at most {MAX_LEVELS} levels",
                reason="depth",
                suggestion='use format "flat" or a depthLimit',
            )
        if not open_rows and depth:
            _open_stubs(open_rows, node, root)
        del open_rows[depth:]
        made = row(frame)
        if open_rows:
            open_rows[-1].setdefault("children", []).append(made)
        open_rows.append(made)
    return {"view": open_rows[0]} if open_rows else {}


def _open_stubs(open_rows: list[Json], node: Node, root: Node) -> None:
    path = ancestry(node)[:-1]
    below = next(at for at, each in enumerate(path) if each.id == root.id)
    for each in path[below:]:
        stub: Json = {"nodeId": each.id, "partial": True}
        if open_rows:
            open_rows[-1]["children"] = [stub]
        open_rows.append(stub)
