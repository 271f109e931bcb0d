"""Nodes and payloads: plain records with slots, because a tree holds very many of them."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

__all__ = ["Json", "Node", "Payload", "ancestry", "depth_of", "is_within", "position", "walk"]

Json = dict[str, Any]

NO_CHILDREN: Any = ()

_NESTED = (dict, list)


def _make_encoder() -> Callable[[Any], str]:
    """The fastest encoder there is.  Payloads are checked before they come here, so all of them write the same."""
    try:
        dumps: Any = importlib.import_module("orjson").dumps
    except ImportError:
        return _make_c_encoder()
    return lambda value: cast(str, dumps(value).decode())


def _make_c_encoder() -> Callable[[Any], str]:
    """json builds its C encoder anew on every call, which costs more than the encoding; this one is made once."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
    escape = json.encoder.encode_basestring
    chunks = make(None, None, escape, None, ":", ",", False, False, False)
    return lambda value: "".join(chunks(value, 0))


_encode = _make_encoder()


class Payload:
    """What a node says.  Several nodes may share one; `data` is replaced, never changed in place."""

    __slots__ = ("_text", "changed", "data", "id", "type", "users")

    def __init__(self, id: int, type: str, data: Json, changed: int = 0) -> None:
        self.id = id
        self.type = type
        self.data = data
        self.changed = changed
        # One user is by far the usual case, so a set is made only for the second.
        self.users: Node | set[Node] | None = None
        self._text: str | None = None

    def replace(self, data: Json) -> None:
        self.data = data
        self._text = None

    def join(self, node: Node) -> None:
        users = self.users
        if users is None:
            self.users = node
        elif isinstance(users, set):
            users.add(node)
        elif users is not node:
            self.users = {users, node}

    def leave(self, node: Node) -> None:
        users = self.users
        if isinstance(users, set):
            users.discard(node)
        elif users is node:
            self.users = None

    def each_user(self) -> tuple[Node, ...]:
        users = self.users
        if users is None:
            return ()
        return tuple(users) if isinstance(users, set) else (users,)

    def copy_data(self) -> Json:
        """The data as the caller's own: what leaves the tree can be changed without changing the tree."""
        for value in self.data.values():
            if value.__class__ in _NESTED:
                return cast(Json, copy_json(self.data))
        return dict(self.data)

    def text(self) -> str:
        """The data as JSON text, kept until the data changes."""
        if self._text is None:
            self._text = _encode(self.data)
        return self._text


class Node:
    """A place in the tree.

    `changed` is the revision that last changed the node's own record (place, children, tags); `newest` is the
    greatest revision anywhere in its subtree, payloads included.
    """

    __slots__ = ("changed", "children", "id", "newest", "order", "parent", "payload", "tags")

    def __init__(self, id: str, payload: Payload, revision: int = 0, order: int = 0) -> None:
        self.id = id
        self.payload = payload
        self.parent: Node | None = None
        # Most nodes are leaves; a list of its own comes with the first child.
        self.children: list[Node] = NO_CHILDREN
        self.order = order
        self.tags: frozenset[str] | None = None
        self.changed = revision
        self.newest = revision

    def __repr__(self) -> str:
        return f"Node({self.id!r})"


def copy_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value


def same_json(one: Any, other: Any) -> bool:
    """Equality as JSON sees it: unlike Python's, 1, 1.0 and true differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


def walk(root: Node) -> Iterator[Node]:
    """The subtree in document order, without recursion: trees may be deeper than the stack."""
    yield root
    # Iterators rather than nodes are stacked, so that a leaf costs neither a push nor a pop.
    stack = [iter(root.children)]
    while stack:
        for node in stack[-1]:
            yield node
            if node.children:
                stack.append(iter(node.children))
                break
        else:
            stack.pop()


def select(root: Node, holds: Callable[[Node], bool]) -> list[Node]:
    """The nodes of the subtree for which the predicate holds, in document order."""
    found = [root] if holds(root) else []
    stack = [iter(root.children)]
    while stack:
        for node in stack[-1]:
            if holds(node):
                found.append(node)
            if node.children:
                stack.append(iter(node.children))
                break
        else:
            stack.pop()
    return found


def ancestry(node: Node) -> list[Node]:
    """The path from the root to the node, both included."""
    path = []
    at: Node | None = node
    while at is not None:
        path.append(at)
        at = at.parent
    path.reverse()
    return path


def depth_of(node: Node) -> int:
    depth = 0
    at = node.parent
    while at is not None:
        depth += 1
        at = at.parent
    return depth


def is_within(node: Node, ancestor: Node) -> bool:
    """Whether the node lies in the ancestor's subtree; a node lies within itself."""
    at: Node | None = node
    while at is not None:
        if at.id == ancestor.id:
            return True
        at = at.parent
    return False


def position(node: Node, root: Node) -> list[int]:
    """Where the node stands below the root; such lists compare in document order."""
    orders = []
    at: Node | None = node
    while at is not None and at.id != root.id:
        orders.append(at.order)
        at = at.parent
    orders.reverse()
    return orders
