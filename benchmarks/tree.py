"""The tree beside other tree libraries, and its calls beside apcore's usual pipeline.

    python benchmarks/tree.py

Needs anytree, nutree and bigtree.  Every figure is a ratio measured in this run, to the best ordered peer or to the
usual pipeline; absolute times are shown only to make the ratios plausible.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).parent))

from apcore import Context, Executor, Identity, Registry
from tree_calls import CachedGetSubtree, PydanticGetNode, PydanticSearch, load_pages
from tree_peers import COUNT, PEERS, properties

from apcore_tree import Settings, build_service, tree_acl, tree_executor
from apcore_tree.engine.documents import dump_tree_json, tree_json
from apcore_tree.engine.history import Mark
from apcore_tree.engine.node import Payload, select, walk
from apcore_tree.engine.payload_types import PayloadTypes
from apcore_tree.engine.predicates import compile_condition
from apcore_tree.engine.tree import Tree, common_ancestor

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

USUAL = "apcore's usual pipeline"
SEARCH = {"rootId": "n1999", "predicates": {"predicates": [{"path": "V", "op": "gt", "value": 5}]}}
PAGE = {"nodeId": "root", "paging": {"pageSize": 1000}, "format": "flat"}

# What each of ours is measured against, where the peers call it differently.
AGAINST = {"bulk load": "build", "export again": "export", "snapshot": "copy all"}


def taken(work: Callable[[], Any], inner: int = 1) -> float:
    """Seconds of processor time per run; other processes' turns do not count."""
    start = time.process_time()
    for _ in range(inner):
        work()
    return (time.process_time() - start) / inner


def race(
    runners: dict[str, Callable[[], Any]],
    rounds: int = 7,
    inner: int = 1,
    prepare: Callable[[], Any] = gc.collect,
) -> dict[str, float]:
    """The best time of each.  They take turns, so that a noisy moment does not hit one of them alone."""
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, work in runners.items():
            prepare()
            best[name] = min(best.get(name, math.inf), taken(work, inner))
    return best


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
        """As if no payload had been written before."""
        for node in self.nodes:
            node.payload._text = None
        gc.collect()

    def snapshot(self) -> None:
        mark = Mark(self.tree.revision)
        self.tree.history.push(mark)
        self.tree.history.fold(mark)


def race_builds() -> dict[str, dict[str, float]]:
    """Each builds in a heap that holds nothing else."""
    libraries = (Ours, *PEERS)
    built = race({library.name: lambda library=library: library().build() for library in libraries}, 9)  # type: ignore[misc]
    ours = Ours()
    ours.build()
    rows = ours.rows()
    return {"build": built, "bulk load": race({ours.name: lambda: ours.load(rows)}, 9)}


def race_libraries() -> dict[str, dict[str, float]]:
    """Times by operation and library; what changes the trees comes last."""
    ours, peers = Ours(), [peer() for peer in PEERS]
    everybody = [ours, *peers]
    for library in everybody:
        library.build()
        assert library.find(77) == 20
    # The trees stay; nobody shall pay for the collector's visits to the others'.
    gc.collect()
    gc.freeze()

    def all_of(work: Callable[[Any], Any]) -> dict[str, Callable[[], Any]]:
        return {library.name: lambda library=library: work(library) for library in everybody}  # type: ignore[misc]

    found = {
        "find": race(all_of(lambda library: library.find(77))),
        "subtree": race(all_of(lambda library: library.subtree(11)), inner=5),
        "common ancestor": race(all_of(lambda library: library.common_ancestor(50_000, 93_000)), inner=500),
        "export": race(all_of(lambda library: library.export()), 3, prepare=ours.forget_texts),
        "copy all": race({peer.name: peer.copy_all for peer in peers}, 2),
        "export again": race({ours.name: ours.export}, 5),
        "snapshot": race({ours.name: ours.snapshot}, inner=100),
    }
    targets = {library.name: iter(range(500, 600)) for library in everybody}
    found["copy"] = race(all_of(lambda library: library.copy(11, next(targets[library.name]))))
    moving = {library.name: iter(range(20_000, COUNT)) for library in everybody}
    found["move"] = race(all_of(lambda library: library.move(next(moving[library.name]), 3)), inner=500)
    gc.unfreeze()
    return found


# -- calls


def calls(executor: Executor, module_id: str, inputs: dict[str, Any], count: int) -> Callable[[], None]:
    reader = Identity("bench", roles=("reader",))

    async def run() -> None:
        for _ in range(count):
            await executor.call_async(module_id, inputs, Context.create(identity=reader))

    return lambda: asyncio.run(run())


def race_calls() -> dict[str, dict[str, float]]:
    """Ours and the usual pipeline's, for two small calls and for a page of a thousand nodes."""
    service = build_service(settings=Settings(rate_limit=None))
    load_pages(service)
    registry = Registry()
    registry.register("tree.get_node", PydanticGetNode(service))
    registry.register("tree.search_advanced", PydanticSearch(service))
    registry.register("tree.get_subtree", CachedGetSubtree(service))
    found = {}
    with tree_executor(service) as lean, Executor(registry, acl=tree_acl()) as usual:
        for name, module_id, inputs, count in (
            ("read a node", "tree.get_node", {"nodeId": "root"}, 100),
            ("search a leaf", "tree.search_advanced", SEARCH, 100),
            ("page of 1000", "tree.get_subtree", PAGE, 4),
        ):
            runners = {Ours.name: calls(lean, module_id, inputs, count), USUAL: calls(usual, module_id, inputs, count)}
            found[name] = {who: spent / count for who, spent in race(runners, 5).items()}
    return found


def report(name: str, ours: float, peers: dict[str, float], note: str) -> None:
    against = min(peers, key=lambda peer: peers[peer])
    ratio, bar = ours / peers[against], BARS[name]
    verdict = "reached" if ratio <= bar else "MISSED"
    figures = f"{ours * 1e3:>10.4f} {peers[against] * 1e3:>10.4f} {ratio:>9.4f} {bar:>7}"
    print(f"{name:<16} {figures} {verdict:<8} {against}{note}")


def main() -> None:
    logging.disable(logging.CRITICAL)
    print(
        f"{COUNT} nodes, ten children each, three properties; milliseconds of processor time, best of several tries\n"
    )
    print(f"{'operation':<16} {'ours':>10} {'other':>10} {'ratio':>9} {'bar':>7} {'':<8} against")
    found = {**race_builds(), **race_libraries(), **race_calls()}
    for name in BARS:
        against = AGAINST.get(name, name)
        peers = {peer: spent for peer, spent in found[against].items() if peer != Ours.name}
        report(name, found[name][Ours.name], peers, "" if against == name else f", {against}")


if __name__ == "__main__":
    main()
