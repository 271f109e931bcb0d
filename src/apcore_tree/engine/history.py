"""Undo maps: how snapshots, rollback and pinned reads see the past without copying the tree.

A `Mark` remembers, for every record changed after it, what the record was.  Marks form a chain, oldest first; the
value at a mark is the first hit in its own map and those of its successors, else the live record.  Writers save a
record before they change it, so a reader without the lock is right if it reads the live record first and the chain
second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apcore_tree.engine.node import Json, Node, Payload

__all__ = ["History", "Mark", "NodeRecord", "PayloadRecord", "Relabelling", "record_of", "record_of_payload"]


class NodeRecord(NamedTuple):
    node: Node
    parent: Node | None
    children: tuple[Node, ...]
    order: int
    payload: Payload
    tags: frozenset[str] | None
    changed: int


class PayloadRecord(NamedTuple):
    payload: Payload
    type: str
    data: Json
    changed: int
    users: tuple[Node, ...]


class Relabelling(NamedTuple):
    """Siblings that got new order keys: a cursor issued before finds its place by the old ones."""

    revision: int
    old: list[int]
    new: list[int]


@dataclass(eq=False)
class Mark:
    """A moment to which the tree can be read, compared or taken back."""

    revision: int
    id: str = ""
    label: str | None = None
    created_at: str = ""
    created_by: str = ""
    view: Any = None
    nodes: dict[str, NodeRecord | None] = field(default_factory=dict)
    payloads: dict[int, PayloadRecord] = field(default_factory=dict)
    stamps: list[tuple[Node, int]] = field(default_factory=list)
    relabellings: list[tuple[str, Relabelling]] = field(default_factory=list)

    @property
    def touched(self) -> int:
        return len(self.nodes) + len(self.payloads)


def record_of(node: Node) -> NodeRecord:
    return NodeRecord(node, node.parent, tuple(node.children), node.order, node.payload, node.tags, node.changed)


def record_of_payload(payload: Payload) -> PayloadRecord:
    return PayloadRecord(payload, payload.type, payload.data, payload.changed, payload.each_user())


class History:
    """The chain of marks.  The list is replaced, never changed, so that readers may hold it."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []

    def push(self, mark: Mark) -> None:
        self.marks = [*self.marks, mark]

    def pop(self, mark: Mark) -> None:
        """Take a mark out and forget what it remembered: its changes were taken back."""
        self.marks = [other for other in self.marks if other is not mark]

    def fold(self, mark: Mark) -> None:
        """Take a mark out and leave its memory to its predecessor, before readers can miss it."""
        index = self.marks.index(mark)
        if index:
            earlier = self.marks[index - 1]
            for node_id, record in mark.nodes.items():
                earlier.nodes.setdefault(node_id, record)
            for payload_id, payload in mark.payloads.items():
                earlier.payloads.setdefault(payload_id, payload)
        self.pop(mark)

    def since(self, mark: Mark) -> Iterator[Mark]:
        marks = self.marks
        return iter(marks[marks.index(mark) :])

    def node_at(self, mark: Mark | None, node_id: str, live: Node | None) -> NodeRecord | None:
        """The node's record at the mark (None: now), or None when it did not exist."""
        now = None if live is None else record_of(live)
        if mark is not None:
            for later in self.since(mark):
                if node_id in later.nodes:
                    return later.nodes[node_id]
        return now

    def payload_at(self, mark: Mark | None, payload: Payload) -> PayloadRecord:
        now = record_of_payload(payload)
        if mark is not None:
            for later in self.since(mark):
                if payload.id in later.payloads:
                    return later.payloads[payload.id]
        return now
