"""The tree beside other tree libraries, and its calls beside apcore's usual pipeline.

    python benchmarks/tree.py

Needs anytree, nutree and bigtree.  Every figure is a ratio measured in this run, to the best ordered peer or to the
usual pipeline; absolute times are shown only to make the ratios plausible.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).parent))

from apcore import Context, Executor, Identity, Registry  # noqa: E402
from tree_calls import CachedGetSubtree, PydanticGetNode, PydanticSearch, load_pages  # noqa: E402
from tree_peers import COUNT, PEERS, properties  # noqa: E402

from apcore_tree import Settings, build_service, tree_acl, tree_executor  # noqa: E402
from apcore_tree.engine.documents import dump_tree_json, tree_json  # noqa: E402
from apcore_tree.engine.history import Mark  # noqa: E402
from apcore_tree.engine.node import Payload, select, walk  # noqa: E402
from apcore_tree.engine.payload_types import PayloadTypes  # noqa: E402
from apcore_tree.engine.predicates import compile_condition  # noqa: E402
from apcore_tree.engine.tree import Tree, common_ancestor  # noqa: E402

BARS = {
    "build": 1.0,
    "bulk load": 0.2,
    "find": 0.6,
    "subtree": 0.8,
    "move": 1.0,
    "common ancestor": 0.8,
    "copy": 0.75,
    "export": 0.4,
    "export again": 0.15,
    "snapshot": 0.001,
    "read a node": 0.05,
    "search a leaf": 0.05,
    "page of 1000": 0.05,
}

# What each of ours is measured against, where the peers call it differently.
AGAINST = {"bulk load": "build", "export again": "export", "snapshot": "copy all"}


def best(work: Callable[[], Any], times: int = 5, inner: int = 1) -> float:
    """The least time of several tries, in seconds."""
    found = []
    for _ in range(times):
        gc.collect()
        start = time.perf_counter()
        for _ in range(inner):
            work()
        found.append((time.perf_counter() - start) / inner)
    return min(found)


class Ours:
    """The engine behind the same names as the peers."""

    name = "apcore_tree"

    def __init__(self) -> None:
        self.types = PayloadTypes()

    def build(self) -> None:
        tree = Tree("object", properties(0))
        add, nodes = tree.add, [tree.root]
        for number in range(1, COUNT):
            nodes.append(add(nodes[(number - 1) // 10], "object", properties(number)))
        self.tree, self.nodes = tree, nodes

    def rows(self) -> list[tuple[Any, ...]]:
        return [
            (
                node.id,
                node.parent.id if node.parent else None,
                node.order,
                node.payload.id,
                node.payload.data,
            )
            for node in walk(self.tree.root)
        ]

    def load(self, rows: list[tuple[Any, ...]]) -> None:
        Tree().load(((i, p, o, Payload(k, "object", d, 1), None, 1) for i, p, o, k, d in rows), 1)

    def find(self, wanted: int) -> int:
        holds = compile_condition({"path": "V", "op": "eq", "value": wanted}, self.types)
        return len(select(self.tree.root, holds))

    def subtree(self, at: int) -> Any:
        return tree_json(self.nodes[at], self.types)

    def move(self, node: int, parent: int) -> None:
        self.tree.move(self.nodes[node], self.nodes[parent])

    def common_ancestor(self, one: int, other: int) -> Any:
        return common_ancestor((self.nodes[one], self.nodes[other]))

    def copy(self, at: int, parent: int) -> None:
        self.tree.copy(self.nodes[at], self.nodes[parent])

    def export(self) -> str:
        return dump_tree_json(self.tree.root, self.types)

    def forget_texts(self) -> None:
        for node in walk(self.tree.root):
            node.payload.replace(node.payload.data)

    def snapshot(self) -> None:
        mark = Mark(self.tree.revision)
        self.tree.history.push(mark)
        self.tree.history.fold(mark)


def measure(library: Any) -> dict[str, float]:
    """One library's times; what changes the tree comes last."""
    found = {"build": best(library.build, 5)}
    assert library.find(77) == 20
    found["find"] = best(lambda: library.find(77), 7)
    found["subtree"] = best(lambda: library.subtree(11), 7, 5)
    found["common ancestor"] = best(lambda: library.common_ancestor(50_000, 93_000), 7, 500)
    if isinstance(library, Ours):
        found["export"] = min(_cold_export(library) for _ in range(3))
        found["export again"] = best(library.export, 3)
        rows = library.rows()
        found["bulk load"] = best(lambda: library.load(rows), 5)
        found["snapshot"] = best(library.snapshot, 5, 100)
    else:
        found["export"] = best(library.export, 3)
        found["copy all"] = best(library.copy_all, 2)
    parents = iter(range(500, 600))
    found["copy"] = best(lambda: library.copy(11, next(parents)), 7)
    there = iter(range(20_000, 100_000))
    found["move"] = best(lambda: library.move(next(there), 3), 5, 500)
    return found


def _cold_export(library: Ours) -> float:
    library.forget_texts()
    return best(library.export, 1)


# -- calls


def per_call(executor: Executor, module_id: str, inputs: dict[str, Any], calls: int) -> float:
    reader = Identity("bench", roles=("reader",))

    async def run() -> None:
        for _ in range(calls):
            await executor.call_async(module_id, inputs, Context.create(identity=reader))

    return best(lambda: asyncio.run(run()), 5) / calls


def measure_calls() -> dict[str, tuple[float, float]]:
    """Ours and the usual pipeline's, for two small calls and for a page of a thousand nodes."""
    service = build_service(settings=Settings(rate_limit=None))
    load_pages(service)
    lean = tree_executor(service)
    registry = Registry()
    registry.register("tree.get_node", PydanticGetNode(service))
    registry.register("tree.search_advanced", PydanticSearch(service))
    registry.register("tree.get_subtree", CachedGetSubtree(service))
    usual = Executor(registry, acl=tree_acl())
    small = {"nodeId": "root"}
    search = {"rootId": "n1999", "predicates": {"predicates": [{"path": "V", "op": "gt", "value": 5}]}}
    page = {"nodeId": "root", "paging": {"pageSize": 1000}, "format": "flat"}
    found = {
        name: (per_call(lean, module_id, inputs, calls), per_call(usual, module_id, inputs, calls // 4))
        for name, module_id, inputs, calls in (
            ("read a node", "tree.get_node", small, 400),
            ("search a leaf", "tree.search_advanced", search, 400),
            ("page of 1000", "tree.get_subtree", page, 12),
        )
    }
    lean.close()
    usual.close()
    return found


def report(name: str, ours: float, other: float, against: str) -> None:
    ratio, bar = ours / other, BARS[name]
    verdict = "reached" if ratio <= bar else "MISSED"
    print(f"{name:<16} {ours * 1e3:>10.4f} {other * 1e3:>10.4f} {ratio:>9.4f} {bar:>7} {verdict:<8} {against}")


def main() -> None:
    logging.disable(logging.CRITICAL)
    print(f"{COUNT} nodes, ten children each, three properties; milliseconds, best of several tries\n")
    print(f"{'operation':<16} {'ours':>10} {'other':>10} {'ratio':>9} {'bar':>7} {'':<8} against")
    ours = measure(Ours())
    peers = {}
    for peer in PEERS:
        peers[peer.name] = measure(peer())
        gc.collect()
    for name in BARS:
        key = AGAINST.get(name, name)
        if name in ours:
            against = min(peers, key=lambda peer: peers[peer][key])
            report(name, ours[name], peers[against][key], f"{against}, {key}" if key != name else against)
    for name, (lean, usual) in measure_calls().items():
        report(name, lean, usual, "apcore's usual pipeline")


if __name__ == "__main__":
    main()
