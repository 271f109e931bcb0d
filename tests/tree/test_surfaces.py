"""One trace, several surfaces: the service, the executor and a SQLite file answer alike, step by step."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test
from tests.tree.machine import EXAMPLES, PICK, Traces, examples
from tests.tree.surfaces import READER, Direct, ThroughExecutor, everything, make_service, outcome


class AllSurfaces(Traces):
    @initialize()
    def begin(self) -> None:
        super().begin()
        self.folder = Path(tempfile.mkdtemp())
        self.stored = Direct(make_service(f"sqlite:{self.folder / 'tree.db'}"))
        self.executed = ThroughExecutor(make_service())
        for other in (self.stored, self.executed):
            other.service.tree.epoch = self.surface.service.tree.epoch
        self.surface.service.now = self.executed.service.now = self.stored.service.now = lambda: 0.0

    def act(self, tool: str, **arguments: Any) -> dict[str, Any] | None:
        answers = [outcome(each, tool, **arguments) for each in (self.surface, self.stored, self.executed)]
        answers = [(kind, _without_secrets(answer)) for kind, answer in answers]
        assert answers[0] == answers[1] == answers[2]
        kind, answer = answers[0]
        return answer if kind == "ok" else None

    @rule(node=PICK, name=st.sampled_from(["V", "NodeId", "", "a..b"]))
    def set_odd_properties(self, node: int, name: str) -> None:
        self.change("update_payload", nodeId=self.pick(node), patch={name: 1, "Fine": 2})

    @rule(node=PICK, expanded=st.booleans(), levels=st.none() | st.integers(0, 3))
    def fold(self, node: int, expanded: bool, levels: int | None) -> None:
        arguments = {} if levels is None else {"maxDepth": levels}
        self.change("set_expansion_recursive", nodeId=self.pick(node), expanded=expanded, **arguments)
        self.act("get_view", rootNodeId="root", format="flat")

    @rule(node=PICK, key=st.sampled_from("kl"))
    def retry(self, node: int, key: str) -> None:
        """The same key with the same or another request."""
        self.change("tag_node", nodeId=self.pick(node), tags=["r"], idempotencyKey=key)

    @rule(tool=st.sampled_from(["get_node", "remove_node", "expand_node"]), node=PICK)
    def call_as_a_reader(self, tool: str, node: int) -> None:
        surfaces = (self.surface, self.stored, self.executed)
        for each in surfaces:
            each.caller = READER
        self.act(tool, nodeId=self.pick(node))
        for each in surfaces:
            each.caller = type(self.surface)(self.surface.service).caller

    @rule()
    def reopen(self) -> None:
        """Snapshots and sessions die with the process, so they are dropped everywhere."""
        before = everything(self.stored.service)
        epoch, ids = self.surface.service.tree.epoch, self.stored.service._new_ids
        self.stored.service.close()
        self.stored = Direct(make_service(f"sqlite:{self.folder / 'tree.db'}", new_ids=ids))
        self.stored.service.now = lambda: 0.0
        self.stored.service.tree.epoch = epoch
        assert everything(self.stored.service) == before
        for snapshot_id in self.snapshots:
            self.surface.service.drop_snapshot(snapshot_id)
            self.executed.service.drop_snapshot(snapshot_id)
        self.snapshots.clear()
        for each in (self.surface, self.executed):
            each.service.sessions._by_key.clear()
        self._same_counters()

    def _same_counters(self) -> None:
        """A new process goes on counting payloads from the greatest one stored."""
        last = max(node.payload.id for node in self.stored.service.tree.nodes.values())
        for each in (self.surface, self.stored, self.executed):
            each.service.tree._payloads_made = max(last, each.service.tree._payloads_made)
        most = max(each.service.tree._payloads_made for each in (self.surface, self.stored, self.executed))
        for each in (self.surface, self.stored, self.executed):
            each.service.tree._payloads_made = most

    @invariant()
    def memory_and_file_hold_the_same(self) -> None:
        held = everything(self.surface.service)
        assert everything(self.stored.service) == held
        assert everything(self.executed.service) == held
        stored = self.stored.service.store.load()
        assert stored is not None
        assert stored.revision == self.surface.service.tree.revision
        assert {row.id: (row.parent, row.order, row.payload, list(row.tags), row.changed) for row in stored.nodes} == {
            node_id: (row[0], row[2], row[3], row[7], row[8]) for node_id, row in held.items()
        }
        assert {row.id for row in stored.payloads} == {row[3] for row in held.values()}

    @invariant()
    def the_audits_agree(self) -> None:
        told = [
            [(entry.operation, entry.agent, entry.outcome, entry.code, entry.targets) for entry in each.service.audit()]
            for each in (self.surface, self.stored, self.executed)
        ]
        assert told[0] == told[1] == told[2]

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.stored.service.close()
            self.executed.close()
            shutil.rmtree(self.folder)


def _without_secrets(answer: Any) -> Any:
    """Page tokens are signed by each process, view versions belong to each session."""
    if not isinstance(answer, dict):
        return answer
    return {name: value for name, value in answer.items() if name not in ("nextPage", "viewVersion")}


def test_service_executor_and_file_answer_alike() -> None:
    run_state_machine_as_test(AllSurfaces, settings=examples(max(EXAMPLES // 5, 10), 25))
    assert EXAMPLES > 0
