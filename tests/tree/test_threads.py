"""Many threads at once: changes are serial, pinned reads are consistent."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from apcore import Context, Identity
from tests.tree.surfaces import EDITOR, UNLIMITED, Direct, everything, make_service

from apcore_tree import Conflict, TreeError, tree_executor
from apcore_tree.engine import history as history_module
from apcore_tree.engine.history import Mark
from apcore_tree.engine.node import walk
from apcore_tree.engine.source import Pinned
from apcore_tree.engine.tree import Tree


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def _grown(count: int) -> Tree:
    tree, choose = Tree(), random.Random(1)
    nodes = [tree.root]
    for number in range(count):
        nodes.append(tree.add(choose.choice(nodes), "object", {"Name": str(number)}))
    return tree


def _state(nodes: Iterator[Any]) -> dict[str, Any]:
    return {
        node.id: (
            None if node.parent is None else node.parent.id,
            [child.id for child in node.children],
            node.payload.data,
            node.tags,
        )
        for node in nodes
    }


def _change_at_random(tree: Tree, choose: random.Random) -> None:
    nodes = list(tree.nodes.values())
    node, other = choose.choice(nodes), choose.choice(nodes)
    kind = choose.random()
    try:
        with tree.edit():
            if kind < 0.35:
                tree.move(node, other, 0)
            elif kind < 0.6:
                tree.put(node.payload, {"Name": "x", "V": kind})
            elif kind < 0.8:
                tree.add(other, "object", {"Name": "new"})
            elif kind < 0.9:
                tree.tag(node, frozenset({str(kind)}))
            elif len(nodes) > 200:
                tree.remove(node)
            if kind < 0.1:
                raise RuntimeError("taken back")
    except (TreeError, RuntimeError):
        pass


def _mismatches(rounds: int) -> int:
    """Read the whole tree pinned, without the lock, while a writer works; count the reads that differ."""
    tree, stop, found = _grown(300), threading.Event(), 0

    def write() -> None:
        choose = random.Random(2)
        while not stop.is_set():
            with tree.lock:
                _change_at_random(tree, choose)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(rounds):
            with tree.lock:
                mark = Mark(tree.revision)
                tree.history.push(mark)
                expected = _state(walk(tree.root))
            try:
                found += _state(walk(Pinned(tree, mark).root)) != expected
            except AssertionError:
                found += 1
            with tree.lock:
                tree.history.fold(mark)
    finally:
        stop.set()
        writer.join()
    return found


def test_pinned_reads_are_consistent_under_a_writer() -> None:
    assert _mismatches(60) == 0


def _name_read_during_a_change(monkeypatch: pytest.MonkeyPatch, look_up: Any) -> str:
    """Read a node pinned while a writer moves it, exactly between the reader's two steps."""
    tree = Tree()
    house, garden = tree.add(tree.root, "object", {"Name": "house"}), tree.add(tree.root, "object", {"Name": "garden"})
    node = tree.add(house, "object", {"Name": "x"})
    mark = Mark(tree.revision)
    tree.history.push(mark)
    source = Pinned(tree, mark)
    record_of = history_module.record_of

    def interrupted(live: Any) -> Any:
        if live is not node or node.parent is garden:
            return record_of(live)
        if look_up is not None:
            tree.move(node, garden)
            return record_of(live)
        record = record_of(live)
        tree.move(node, garden)
        return record

    monkeypatch.setattr(history_module, "record_of", interrupted)
    if look_up is not None:
        monkeypatch.setattr(history_module.History, "node_at", look_up)
    parent = source.node(node.id).parent
    assert parent is not None
    assert node.parent is garden
    return str(parent.payload.data["Name"])


def test_a_change_between_the_two_steps_of_a_pinned_read_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _name_read_during_a_change(monkeypatch, None) == "house"


def test_reading_the_chain_before_the_live_record_would_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def chain_first(history: Any, mark: Any, node_id: str, live: Any) -> Any:
        for later in history.since(mark):
            if node_id in later.nodes:
                return later.nodes[node_id]
        return history_module.record_of(live)

    assert _name_read_during_a_change(monkeypatch, chain_first) == "garden"


def test_changes_of_many_threads_are_serial(tmp_path: Any) -> None:
    """Every accepted change is one revision; the file holds what memory holds."""
    settings = replace(UNLIMITED, tokens="footprint")
    service = make_service(f"sqlite:{tmp_path}/tree.db", settings=settings)
    branches = [Direct(service).add("root", str(number)) for number in range(4)]
    before, conflicts = service.tree.revision, []

    def work(number: int) -> None:
        agent = Direct(service, replace(EDITOR, id=f"agent{number}"))
        for turn in range(25):
            target = branches[number] if turn % 5 else branches[0]
            try:
                agent.change(
                    "add_child", parentNodeId=target, payloadType="object", payloadProps={"Name": f"{number}-{turn}"}
                )
            except Conflict as conflict:
                conflicts.append(conflict)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    accepted = 100 - len(conflicts)
    assert service.tree.revision - before == accepted == len(service.tree.nodes) - 5
    held = everything(service)
    service.close()
    again = make_service(f"sqlite:{tmp_path}/tree.db")
    assert everything(again) == held
    again.close()


def test_long_reads_run_beside_changes_on_the_event_loop() -> None:
    service = make_service(settings=replace(UNLIMITED, unlocked_reads_above=100))
    call = Direct(service)
    rows = [{"nodeId": "top", "parentId": None, "payloadType": "object", "payload": {"Name": "top"}}]
    rows += [
        {"nodeId": f"r{n}", "parentId": "top", "payloadType": "object", "payload": {"Name": str(n)}}
        for n in range(2000)
    ]
    call.change("import_merge", json=rows, strategy="upsert", matchBy="nodeId")
    executor = tree_executor(service)
    editor = Identity("ann", roles=("editor",))

    async def both() -> tuple[Any, ...]:
        search = executor.call_async(
            "tree.select_nodes", {"queryDsl": "Name endswith '7'", "limit": 200}, Context.create(identity=editor)
        )
        tag = executor.call_async(
            "tree.update_payload_property",
            {"nodeId": "r7", "propertyName": "Name", "newValue": "x", "versionToken": service.version()},
            Context.create(identity=editor),
        )
        return await asyncio.gather(search, tag)

    found, changed = asyncio.run(both())
    # The search sees the tree either before or after the change, never halfway.
    assert len(found["items"]) in (199, 200)
    assert changed["changedIds"] == ["r7"]
    assert service.tree.history.marks == []
    executor.close()
