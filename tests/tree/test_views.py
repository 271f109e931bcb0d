"""Folding by rules against folding node by node."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apcore_tree.engine import view as view_module
from apcore_tree.engine.node import Node, walk
from apcore_tree.engine.source import Live
from apcore_tree.engine.tree import Tree
from apcore_tree.engine.view import View
from apcore_tree.engine.walking import Visible, walk_after

SHAPES = st.lists(st.integers(0, 30), min_size=1, max_size=25)
STEPS = st.lists(
    st.tuples(st.integers(0, 30), st.booleans(), st.none() | st.integers(0, 4), st.booleans()), max_size=20
)


def _grown(parents: list[int]) -> list[Node]:
    tree = Tree()
    nodes = [tree.root]
    for parent in parents:
        nodes.append(tree.add(nodes[parent % len(nodes)], "object", {}))
    return nodes


def _within(node: Node, levels: int | None) -> list[Node]:
    if levels == 0:
        return []
    below = None if levels is None else levels - 1
    return [node, *(each for child in node.children for each in _within(child, below))]


@settings(max_examples=300, deadline=None, database=None)
@given(parents=SHAPES, steps=STEPS, default=st.booleans(), prune=st.sampled_from([0, 256]))
def test_rules_say_what_every_node_would_say_for_itself(
    parents: list[int], steps: list[Any], default: bool, prune: int
) -> None:
    nodes = _grown(parents)
    tree = Tree()
    tree.root, tree.nodes = nodes[0], {node.id: node for node in nodes}
    view, naive = View(default), {node.id: default for node in nodes}
    usual, view_module._PRUNE_ABOVE = view_module._PRUNE_ABOVE, prune
    try:
        for number, expanded, levels, alone in steps:
            node = nodes[number % len(nodes)]
            if alone:
                view.set(node, expanded)
                naive[node.id] = expanded
            else:
                view.set_below(node, expanded, levels, tree)
                naive.update((each.id, expanded) for each in _within(node, levels))
    finally:
        view_module._PRUNE_ABOVE = usual
    assert {node.id: view.is_expanded(node) for node in nodes} == naive
    shown = [node.id for node, _, _ in walk_after(Live(tree), nodes[0], Visible(view, None), None)]
    assert shown == [node.id for node in walk(nodes[0]) if _is_shown(node, naive)]


def _is_shown(node: Node, naive: dict[str, bool]) -> bool:
    parent = node.parent
    return parent is None or (naive[parent.id] and _is_shown(parent, naive))
