"""Traversals in document order that can stop at a page's end and resume after it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from apcore_tree.engine.node import Node, walk
from apcore_tree.engine.source import Source
from apcore_tree.engine.view import Rules, View

__all__ = ["Cursor", "Everything", "Levels", "Visible", "nodes_after", "present_position", "walk_after"]

_order = attrgetter("order")


@dataclass(frozen=True)
class Cursor:
    """The last position handed out: order keys from the scope's root down, and the revision they were seen at."""

    position: list[int]
    seen: int


class Descent(Protocol):
    """How deep a traversal goes; the state is handed from a node to its children, None stops."""

    def start(self, root: Node) -> object: ...

    def below(self, node: Node, depth: int, state: object) -> object | None: ...


class Everything:
    def start(self, root: Node) -> object:
        return ()

    def below(self, node: Node, depth: int, state: object) -> object | None:
        return ()


class Levels:
    """Down to `limit` levels below the root."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit

    def start(self, root: Node) -> object:
        return ()

    def below(self, node: Node, depth: int, state: object) -> object | None:
        return () if self.limit is None or depth < self.limit else None


class Visible:
    """What a view shows: children of expanded nodes only.  The state is the rules handed down."""

    def __init__(self, view: View, limit: int | None, default: bool | None = None) -> None:
        self.view = view
        self.limit = limit
        self.default = default

    def start(self, root: Node) -> Rules:
        return self.view.inherited(root)

    def below(self, node: Node, depth: int, state: object) -> object | None:
        if self.limit is not None and depth >= self.limit:
            return None
        if not self.is_expanded(node, state):
            return None
        return self.view.handed_down(node, state)  # type: ignore[arg-type]

    def is_expanded(self, node: Node, state: object) -> bool:
        return self.view.state(node, state, self.default)  # type: ignore[arg-type]


Frame = tuple[Node, int, object]


def walk_after(source: Source, root: Node, descent: Descent, cursor: Cursor | None) -> Iterator[Frame]:
    """Yield `(node, depth below the root, state)`, beginning after the cursor.

    A removed or moved anchor does no harm: its keys still say where it stood.
    """
    state = descent.start(root)
    stack: list[Frame] = [(root, 0, state)] if cursor is None else _frames_after(source, root, descent, cursor)
    while stack:
        node, depth, state = stack.pop()
        yield node, depth, state
        below = descent.below(node, depth, state)
        if below is not None:
            stack.extend([(child, depth + 1, below) for child in reversed(node.children)])


def nodes_after(source: Source, root: Node, cursor: Cursor | None) -> Iterator[Node]:
    """Every node of the subtree, beginning after the cursor."""
    if cursor is None:
        yield from walk(root)
    else:
        for node, _, _ in reversed(_frames_after(source, root, Everything(), cursor)):
            yield from walk(node)


def present_position(source: Source, root: Node, cursor: Cursor) -> list[int]:
    """The cursor's position in the order keys of today."""
    node: Node | None = root
    orders: list[int] = []
    for order in cursor.position:
        if node is None:
            # Below a place that is gone no key decides anything any more.
            orders.append(order)
            continue
        order = source.translate(node.id, order, cursor.seen)
        orders.append(order)
        at = bisect_left(node.children, order, key=_order)
        found = at < len(node.children) and node.children[at].order == order
        node = node.children[at] if found else None
    return orders


def _frames_after(source: Source, root: Node, descent: Descent, cursor: Cursor) -> list[Frame]:
    stack: list[Frame] = []
    node, depth, state = root, 0, descent.start(root)
    for order in cursor.position:
        below = descent.below(node, depth, state)
        if below is None:
            return stack
        order = source.translate(node.id, order, cursor.seen)
        children = node.children
        later = bisect_right(children, order, key=_order)
        stack.extend([(child, depth + 1, below) for child in reversed(children[later:])])
        at = bisect_left(children, order, 0, later, key=_order)
        if at == later:
            return stack
        node, depth, state = children[at], depth + 1, below
    below = descent.below(node, depth, state)
    if below is not None:
        stack.extend([(child, depth + 1, below) for child in reversed(node.children)])
    return stack
