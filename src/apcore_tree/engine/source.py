"""Where reads take their nodes from: the live tree, or the tree as it was at a mark.

A pinned node answers to the same names as a live one, so every read works on both.  Pinned reads need no lock.
"""

from __future__ import annotations

from typing import cast

from apcore_tree.engine.history import Mark, NodeRecord, PayloadRecord
from apcore_tree.engine.node import Json, Node, copy_json
from apcore_tree.engine.tree import Tree
from apcore_tree.errors import NotFound

__all__ = ["Live", "Pinned", "Source"]


class Live:
    """The tree as it is; the caller holds the lock."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.root = tree.root
        self.revision = tree.revision
        self.pinned = False

    def node(self, node_id: str) -> Node:
        return self.tree.node(node_id)

    def find(self, node_id: str) -> Node | None:
        return self.tree.nodes.get(node_id)

    def translate(self, parent_id: str, order: int, seen: int) -> int:
        return self.tree.translate(parent_id, order, seen, self.revision)


class Pinned:
    """The tree as it was at a mark, whatever writers do meanwhile."""

    def __init__(self, tree: Tree, mark: Mark) -> None:
        self.tree = tree
        self.mark = mark
        self.revision = mark.revision
        self.pinned = True
        # Each node is looked up once: a record copies its children, and every child asks for its parent.
        self._seen: dict[str, Node | None] = {}
        self.root = self.view_of(tree.root)

    def node(self, node_id: str) -> Node:
        found = self.find(node_id)
        if found is None:
            raise NotFound(f"There is no node {node_id!r}", ids=[node_id])
        return found

    def find(self, node_id: str) -> Node | None:
        return self._look_up(node_id, self.tree.nodes.get(node_id))

    def view_of(self, node: Node) -> Node:
        found = self._look_up(node.id, node)
        assert found is not None, "a record at the mark refers only to nodes of that time"
        return found

    def _look_up(self, node_id: str, live: Node | None) -> Node | None:
        if node_id not in self._seen:
            record = self.tree.history.node_at(self.mark, node_id, live)
            self._seen[node_id] = None if record is None else cast(Node, _PinnedNode(self, record))
        return self._seen[node_id]

    def translate(self, parent_id: str, order: int, seen: int) -> int:
        return self.tree.translate(parent_id, order, seen, self.revision)


Source = Live | Pinned


class _PinnedPayload:
    __slots__ = ("changed", "data", "id", "type")

    def __init__(self, record: PayloadRecord) -> None:
        self.id = record.payload.id
        self.type = record.type
        self.data = record.data
        self.changed = record.changed

    def copy_data(self) -> Json:
        return cast(Json, copy_json(self.data))


class _PinnedNode:
    __slots__ = ("_children", "_record", "_source", "changed", "id", "order", "payload", "tags")

    def __init__(self, source: Pinned, record: NodeRecord) -> None:
        self._source = source
        self._record = record
        self._children: list[Node] | None = None
        self.id = record.node.id
        self.order = record.order
        self.tags = record.tags
        self.changed = record.changed
        self.payload = _PinnedPayload(source.tree.history.payload_at(source.mark, record.payload))

    @property
    def parent(self) -> Node | None:
        parent = self._record.parent
        return None if parent is None else self._source.view_of(parent)

    @property
    def children(self) -> list[Node]:
        if self._children is None:
            self._children = [self._source.view_of(child) for child in self._record.children]
        return self._children

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _PinnedNode) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)
