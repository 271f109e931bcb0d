"""The tree libraries measured beside ours, each used as its own documentation uses it.

Every class builds the same tree: `COUNT` nodes, ten children each, three properties.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import anytree
import anytree.exporter
import anytree.importer
import anytree.search
import bigtree
import nutree
from nutree.common import DictWrapper

COUNT = 100_000


def properties(number: int) -> dict[str, Any]:
    return {"Name": f"node {number}", "V": number % (COUNT // 20), "Colour": "red"}


class AnyTree:
    name = "anytree"

    def build(self) -> None:
        make = anytree.AnyNode
        nodes = [make(**properties(0))]
        for number in range(1, COUNT):
            nodes.append(make(parent=nodes[(number - 1) // 10], **properties(number)))
        self.nodes = nodes

    def find(self, wanted: int) -> int:
        return len(anytree.search.findall(self.nodes[0], lambda node: wanted == node.V))

    def subtree(self, at: int) -> Any:
        return anytree.exporter.DictExporter().export(self.nodes[at])

    def move(self, node: int, parent: int) -> None:
        self.nodes[node].parent = self.nodes[parent]

    def common_ancestor(self, one: int, other: int) -> Any:
        return anytree.util.commonancestors(self.nodes[one], self.nodes[other])[-1]

    def copy(self, at: int, parent: int) -> None:
        """There is no copy in the library: new nodes, one by one."""
        stack = [(self.nodes[at], self.nodes[parent])]
        while stack:
            node, above = stack.pop()
            made = anytree.AnyNode(parent=above, Name=node.Name, V=node.V, Colour=node.Colour)
            stack.extend((child, made) for child in node.children)

    def export(self) -> str:
        return json.dumps(anytree.exporter.DictExporter().export(self.nodes[0]))

    def copy_all(self) -> Any:
        return anytree.importer.DictImporter().import_(anytree.exporter.DictExporter().export(self.nodes[0]))


class NuTree:
    name = "nutree"

    def build(self) -> None:
        self.tree: Any = nutree.Tree()
        nodes = [self.tree.add(DictWrapper(properties(0)), data_id=0)]
        for number in range(1, COUNT):
            nodes.append(nodes[(number - 1) // 10].add(DictWrapper(properties(number)), data_id=number))
        self.nodes = nodes

    def find(self, wanted: int) -> int:
        return len(self.tree.find_all(match=lambda node: node.data["V"] == wanted))

    def subtree(self, at: int) -> Any:
        return self.nodes[at].to_dict(mapper=DictWrapper.serialize_mapper)

    def move(self, node: int, parent: int) -> None:
        self.nodes[node].move_to(self.nodes[parent])

    def common_ancestor(self, one: int, other: int) -> Any:
        return self.nodes[one].get_common_ancestor(self.nodes[other])

    def copy(self, at: int, parent: int) -> None:
        self.nodes[at].copy_to(self.nodes[parent], deep=True)

    def export(self) -> str:
        return json.dumps(self.tree.to_dict_list(mapper=DictWrapper.serialize_mapper))

    def copy_all(self) -> Any:
        return self.tree.copy()


class BigTree:
    name = "bigtree"

    def build(self) -> None:
        make = bigtree.Node
        nodes = [make("0", **properties(0))]
        for number in range(1, COUNT):
            nodes.append(make(str(number), parent=nodes[(number - 1) // 10], **properties(number)))
        self.nodes = nodes

    def find(self, wanted: int) -> int:
        return len(list(bigtree.findall(self.nodes[0], lambda node: wanted == node.V)))

    def subtree(self, at: int) -> Any:
        return bigtree.tree_to_nested_dict(self.nodes[at], all_attrs=True)

    def move(self, node: int, parent: int) -> None:
        self.nodes[node].parent = self.nodes[parent]

    def common_ancestor(self, one: int, other: int) -> Any:
        """The ancestors of the one, against those of the other."""
        above = [*reversed(list(self.nodes[one].ancestors))]
        beside = [*reversed(list(self.nodes[other].ancestors))]
        return next(a for a, b in zip(reversed(above), reversed(beside), strict=False) if a is b)

    def copy(self, at: int, parent: int) -> None:
        """Its own copy takes the whole tree along, so the nodes are made one by one."""
        stack = [(self.nodes[at], self.nodes[parent])]
        while stack:
            node, above = stack.pop()
            made = bigtree.Node(f"c{node.name}", parent=above, Name=node.Name, V=node.V, Colour=node.Colour)
            stack.extend((child, made) for child in node.children)

    def export(self) -> str:
        return json.dumps(bigtree.tree_to_nested_dict(self.nodes[0], all_attrs=True))

    def copy_all(self) -> Any:
        return copy.deepcopy(self.nodes[0])


PEERS = (AnyTree, NuTree, BigTree)
