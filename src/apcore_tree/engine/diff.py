"""Differences between two states of the tree, and between two subtrees.

Items come in document order of the second side, then what was removed in document order of the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from apcore_tree.engine.history import Mark
from apcore_tree.engine.node import Json, Node, position, same_json, walk
from apcore_tree.engine.payload_types import PayloadTypes
from apcore_tree.engine.predicates import names_of
from apcore_tree.engine.source import Live, Pinned, Source
from apcore_tree.engine.tree import Tree

__all__ = ["KINDS", "Difference", "compare_states", "compare_subtrees"]

KINDS = ("added", "removed", "moved", "reordered", "updated")


@dataclass(frozen=True)
class Difference:
    """One change; `before` and `after` are the node on either side, where it is there."""

    kind: str
    before: Node | None
    after: Node | None
    position: list[int]

    def describe(self, types: PayloadTypes, include_payload: bool) -> Json:
        node = self.after if self.after is not None else self.before
        assert node is not None, "a difference is about a node"
        item: Json = {"kind": self.kind, "nodeId": node.id, "path": "/" + "/".join(names_of(node, types))}
        if self.before is not None and self.after is not None and self.before.id != self.after.id:
            item["otherId"] = self.before.id
        if self.kind in ("moved", "removed"):
            item["from"] = _place(self.before)
        if self.kind in ("moved", "added"):
            item["to"] = _place(self.after)
        if self.kind == "updated" and include_payload:
            item["patch"] = payload_patch(_visible(self.before, types), _visible(self.after, types))
        return item


def _visible(node: Node | None, types: PayloadTypes) -> Json:
    assert node is not None, "only a node on both sides is updated"
    return types.of(node.payload).mask(node.payload.data)


def _place(node: Node | None) -> Json:
    assert node is not None, "the side that names a place has the node"
    if node.parent is None:
        return {"parentId": None, "index": 0}
    return {"parentId": node.parent.id, "index": [child.id for child in node.parent.children].index(node.id)}


def payload_patch(before: Json, after: Json) -> list[Json]:
    """RFC 6902, for one payload: on whole trees such a patch costs far too much."""
    # Loaded with the first difference, which most processes never ask for.
    import jsonpatch

    return list(jsonpatch.make_patch(before, after))


def compare_states(tree: Tree, before: Mark | None, after: Mark | None) -> list[Difference]:
    """What changed between two marks (None: now), from the records touched between them."""
    left, right = _state(tree, before), _state(tree, after)
    found: list[Difference] = []
    for node_id in _touched(tree, before, after):
        found.extend(_compare_node(left.find(node_id), right.find(node_id), left, right))
    return sorted(found, key=lambda item: item.position)


def _state(tree: Tree, mark: Mark | None) -> Source:
    return Live(tree) if mark is None else Pinned(tree, mark)


def _touched(tree: Tree, before: Mark | None, after: Mark | None) -> set[str]:
    marks = tree.history.marks
    bounds = sorted(len(marks) if mark is None else marks.index(mark) for mark in (before, after))
    touched: set[str] = set()
    for mark in marks[bounds[0] : bounds[1]]:
        touched.update(mark.nodes)
        for payload in mark.payloads.values():
            touched.update(user.id for user in payload.users)
    return touched


def _compare_node(before: Node | None, after: Node | None, left: Source, right: Source) -> Iterator[Difference]:
    if after is None:
        if before is not None:
            yield Difference("removed", before, None, [1, *position(before, left.root)])
        return
    where = [0, *position(after, right.root)]
    if before is None:
        yield Difference("added", None, after, where)
        return
    if _parent_id(before) != _parent_id(after):
        yield Difference("moved", before, after, where)
    if _reordered([child.id for child in before.children], [child.id for child in after.children]):
        yield Difference("reordered", before, after, where)
    if _payload_differs(before, after):
        yield Difference("updated", before, after, where)


def _parent_id(node: Node) -> str | None:
    return None if node.parent is None else node.parent.id


def _payload_differs(before: Node, after: Node) -> bool:
    one, other = before.payload, after.payload
    return one.type != other.type or (one.data is not other.data and not same_json(one.data, other.data))


def _reordered(before: Iterable[Any], after: Iterable[Any]) -> bool:
    """Whether what stayed changed its order."""
    old, new = list(before), list(after)
    stayed = set(old) & set(new)
    return [key for key in old if key in stayed] != [key for key in new if key in stayed]


def compare_subtrees(left_root: Node, right_root: Node, match_by: str, types: PayloadTypes) -> list[Difference]:
    """Compare two subtrees; their roots correspond, whatever they are called."""
    by_id = match_by == "nodeId"
    found = _by_id(left_root, right_root) if by_id else _by_place(left_root, right_root, match_by, types)
    return sorted(found, key=lambda item: item.position)


def _by_id(left_root: Node, right_root: Node) -> Iterator[Difference]:
    left = {node.id: node for node in walk(left_root)}
    right = {node.id: node for node in walk(right_root)}
    for node_id, after in right.items():
        where, before = [0, *position(after, right_root)], left.get(node_id)
        if before is None:
            yield Difference("added", None, after, where)
        else:
            if node_id not in (left_root.id, right_root.id) and _parent_id(before) != _parent_id(after):
                yield Difference("moved", before, after, where)
            yield from _same_place(before, after, where)
    for node_id, before in left.items():
        if node_id not in right:
            yield Difference("removed", before, None, [1, *position(before, left_root)])


def _by_place(left_root: Node, right_root: Node, match_by: str, types: PayloadTypes) -> Iterator[Difference]:
    pairs = [(left_root, right_root)]
    while pairs:
        before, after = pairs.pop()
        yield from _same_place(before, after, [0, *position(after, right_root)], structure=False)
        old, new = _keyed(before.children, match_by, types), _keyed(after.children, match_by, types)
        if _reordered(old, new):
            yield Difference("reordered", before, after, [0, *position(after, right_root)])
        pairs.extend((old[key], new[key]) for key in new if key in old)
        for key in new.keys() - old.keys():
            for node in walk(new[key]):
                yield Difference("added", None, node, [0, *position(node, right_root)])
        for key in old.keys() - new.keys():
            for node in walk(old[key]):
                yield Difference("removed", node, None, [1, *position(node, left_root)])


def _same_place(before: Node, after: Node, where: list[int], structure: bool = True) -> Iterator[Difference]:
    if structure and _reordered([child.id for child in before.children], [child.id for child in after.children]):
        yield Difference("reordered", before, after, where)
    if _payload_differs(before, after):
        yield Difference("updated", before, after, where)


def _keyed(children: list[Node], match_by: str, types: PayloadTypes) -> dict[Any, Node]:
    """The children by index, or by name with a count for equal names."""
    if match_by == "index":
        return dict(enumerate(children))
    seen: Counter[str | None] = Counter()
    keyed: dict[Any, Node] = {}
    for child in children:
        name = types.name_of(child)
        keyed[name, seen[name]] = child
        seen[name] += 1
    return keyed
