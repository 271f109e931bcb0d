"""A tree as one would write it in ten minutes: plain dictionaries, copies, no cleverness.  The engine must agree."""

from __future__ import annotations

import copy
import itertools
from typing import Any


class NaiveTree:
    def __init__(self) -> None:
        self.parent: dict[str, str | None] = {"root": None}
        self.children: dict[str, list[str]] = {"root": []}
        self.payload: dict[str, int] = {"root": 0}
        self.data: dict[int, dict[str, Any]] = {0: {"Name": "root"}}
        self.tags: dict[str, set[str]] = {"root": set()}
        self._payloads = itertools.count(1)

    def dump(self) -> dict[str, Any]:
        """Everything that an agent can see, by node."""
        return {
            node: (
                self.parent[node],
                tuple(self.children[node]),
                copy.deepcopy(self.data[self.payload[node]]),
                frozenset(self.tags[node]),
            )
            for node in self.subtree("root")
        }

    def frozen(self) -> tuple[Any, ...]:
        return copy.deepcopy((self.parent, self.children, self.payload, self.data, self.tags))

    def thaw(self, frozen: tuple[Any, ...]) -> None:
        self.parent, self.children, self.payload, self.data, self.tags = copy.deepcopy(frozen)

    def subtree(self, node: str) -> list[str]:
        found = [node]
        for child in self.children[node]:
            found += self.subtree(child)
        return found

    def add(self, node: str, parent: str, data: dict[str, Any], index: int | None = None) -> None:
        self.attach(node, parent, next(self._payloads), index)
        self.data[self.payload[node]] = copy.deepcopy(data)

    def attach(self, node: str, parent: str, payload: int, index: int | None = None) -> None:
        self.parent[node], self.children[node] = parent, []
        self.payload[node], self.tags[node] = payload, set()
        siblings = self.children[parent]
        siblings.insert(len(siblings) if index is None else index, node)

    def remove(self, node: str) -> None:
        gone = self.subtree(node)
        self.children[self.parent[node]].remove(node)  # type: ignore[index]
        for each in gone:
            del self.parent[each], self.children[each], self.payload[each], self.tags[each]

    def move(self, node: str, parent: str, index: int | None = None) -> None:
        self.children[self.parent[node]].remove(node)  # type: ignore[index]
        self.parent[node] = parent
        siblings = self.children[parent]
        siblings.insert(len(siblings) if index is None else index, node)

    def set(self, node: str, name: str, value: Any) -> None:
        self.data[self.payload[node]][name] = value

    def copy(self, source: str, parent: str, ids: dict[str, str], share: bool, index: int | None = None) -> None:
        for old in self.subtree(source):
            target = parent if old == source else ids[self.parent[old]]  # type: ignore[index]
            payload = self.payload[old] if share else next(self._payloads)
            if not share:
                self.data[payload] = copy.deepcopy(self.data[self.payload[old]])
            self.attach(ids[old], target, payload, index if old == source else None)
            self.tags[ids[old]] = set(self.tags[old])

    def sort(self, parent: str, name: str, descending: bool) -> None:
        valued = [child for child in self.children[parent] if name in self.data[self.payload[child]]]
        rest = [child for child in self.children[parent] if name not in self.data[self.payload[child]]]
        valued.sort(key=lambda child: self.data[self.payload[child]][name], reverse=descending)
        self.children[parent] = valued + rest

    def merge(self, document: dict[str, Any], parent: str, strategy: str, new_ids: list[str]) -> None:
        """Merge by node id; `new_ids` are those of created nodes, in document order."""
        node = document["NodeId"]
        if node in self.parent and (self.parent[node] == parent or parent == ""):
            if strategy == "upsert":
                self.data[self.payload[node]].update(document["Payload"])
            elif strategy == "replace":
                self.data[self.payload[node]] = copy.deepcopy(document["Payload"])
        else:
            node = new_ids.pop(0)
            self.add(node, parent, document["Payload"])
        document["Live"] = node
        for child in document["Children"]:
            self.merge(child, node, strategy, new_ids)
        if strategy != "skip":
            arrived = [child["Live"] for child in document["Children"]]
            others = [child for child in self.children[node] if child not in arrived]
            for child in others if strategy == "replace" else []:
                self.remove(child)
            self.children[node] = arrived + ([] if strategy == "replace" else others)
