"""A tree as rows, and rows as a tree."""

from __future__ import annotations

import json
from collections.abc import Iterator

from apcore_tree.engine.history import Mark
from apcore_tree.engine.node import Node, Payload, walk
from apcore_tree.engine.tree import Tree
from apcore_tree.store.protocol import Commit, NodeRow, PayloadRow, Stored

__all__ = ["add_rows", "stored_form_of", "tree_of"]


def add_rows(commit: Commit, tree: Tree, mark: Mark) -> None:
    """Put every record that changed since the mark into the commit."""
    payloads: dict[int, Payload] = {record.payload.id: record.payload for record in mark.payloads.values()}
    for node_id, before in mark.nodes.items():
        node = tree.nodes.get(node_id)
        if node is not None:
            commit.nodes.append(_node_row(node))
            if before is None or before.payload is not node.payload:
                payloads[node.payload.id] = node.payload
        elif before is not None:
            commit.gone_nodes.append(node_id)
        if before is not None and (node is None or before.payload is not node.payload):
            payloads[before.payload.id] = before.payload
    for payload in payloads.values():
        if payload.users:
            commit.payloads.append(_payload_row(payload))
        else:
            commit.gone_payloads.append(payload.id)


def stored_form_of(tree: Tree) -> Stored:
    nodes = list(walk(tree.root))
    payloads = {node.payload.id: node.payload for node in nodes}
    return Stored(tree.epoch, tree.revision, list(map(_node_row, nodes)), list(map(_payload_row, payloads.values())))


def tree_of(stored: Stored, new_ids: Iterator[str]) -> Tree:
    payloads = {row.id: Payload(row.id, row.type, json.loads(row.text), row.changed) for row in stored.payloads}
    tree = Tree(epoch=stored.epoch, new_ids=new_ids)
    tree.load(
        (
            (row.id, row.parent, row.order, payloads[row.payload], frozenset(row.tags) or None, row.changed)
            for row in stored.nodes
        ),
        stored.revision,
    )
    return tree


def _node_row(node: Node) -> NodeRow:
    parent = None if node.parent is None else node.parent.id
    return NodeRow(node.id, parent, node.order, node.payload.id, tuple(sorted(node.tags or ())), node.changed)


def _payload_row(payload: Payload) -> PayloadRow:
    return PayloadRow(payload.id, payload.type, payload.text(), payload.changed)
