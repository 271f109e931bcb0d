"""The SQLite store: what it keeps, what it survives, and what happens when it fails."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.tree.surfaces import UNLIMITED, Direct, everything, make_service

import apcore_tree
from apcore_tree import AuditQuery, Forbidden, Internal, InvalidArgument, TreeService, build_service, open_store
from apcore_tree.store import SQLiteStore


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'tree.db'}"


def test_a_reopened_tree_is_the_same_tree(place: str) -> None:
    call = Direct(make_service(place))
    branch = call.add("root", "branch", Text="ü \u2028 \U0001f600", Number=1.5, Nested={"a": [1, None, True]})
    call.change("tag_node", nodeId=branch, tags=["x", "y"])
    call.change("clone_node", nodeId=branch, targetParentId="root", mode="reference")
    call.change("add_child", parentNodeId="root", payloadType="object", payloadProps={"Name": "first"}, index=0)
    before, version = everything(call.service), call.service.version()
    call.service.close()
    again = make_service(place)
    assert everything(again) == before
    assert again.version() == version
    assert len(again.audit()) == 4
    again.close()


def test_an_answer_is_remembered_across_a_restart(place: str) -> None:
    call = Direct(make_service(place))
    first = call.change("tag_node", nodeId="root", tags=["x"], idempotencyKey="k")
    call.service.close()
    again = Direct(make_service(place))
    assert again.change("tag_node", nodeId="root", tags=["x"], idempotencyKey="k") == first
    again.service.close()


def test_a_second_opener_reads_only(place: str) -> None:
    first = make_service(place)
    second = Direct(make_service(place))
    with pytest.raises(Forbidden) as refused:
        second.change("tag_node", nodeId="root", tags=["x"])
    assert refused.value.details["reason"] == "read_only"
    assert second("get_status")["readOnly"] is True
    first.close()
    second.service.close()
    third = Direct(make_service(place))
    assert third.change("tag_node", nodeId="root", tags=["x"])["tags"] == ["x"]
    third.service.close()


def test_the_audit_in_the_file_cannot_be_changed(place: str) -> None:
    call = Direct(make_service(place))
    call.change("tag_node", nodeId="root", tags=["x"])
    call.service.close()
    file = sqlite3.connect(place.removeprefix("sqlite:"))
    for statement in ("UPDATE audit SET agent = 'x'", "DELETE FROM audit"):
        with pytest.raises(sqlite3.IntegrityError):
            file.execute(statement)
    file.close()


def test_a_restore_over_another_node_with_the_same_id_is_stored_whole(place: str) -> None:
    call = Direct(make_service(place))
    document = {"NodeId": "x", "PayloadType": "object", "Payload": {"Name": "old"}}
    call.change("import_merge", json=document, strategy="upsert", matchBy="nodeId")
    snapshot = call("snapshot_create", label="old")["snapshotId"]
    call.change("remove_node", nodeId="x")
    call.change("import_merge", json={**document, "Payload": {"Name": "new"}}, strategy="upsert", matchBy="nodeId")
    call.change("snapshot_restore", snapshotId=snapshot)
    held = everything(call.service)
    call.service.close()
    again = make_service(place)
    assert everything(again) == held
    assert again.tree.node("x").payload.data == {"Name": "old"}
    stored = again.store.load()
    assert stored is not None
    assert len(stored.payloads) == 2
    again.close()


@pytest.mark.parametrize("place", ["", "memory:x", "sqlite:", "redis://x"])
def test_a_place_that_is_no_store_is_refused(place: str) -> None:
    with pytest.raises(InvalidArgument):
        open_store(place)


def test_a_file_of_another_format_is_refused(place: str) -> None:
    make_service(place).close()
    file = sqlite3.connect(place.removeprefix("sqlite:"))
    file.execute("PRAGMA user_version=99")
    file.close()
    with pytest.raises(Forbidden) as refused:
        open_store(place)
    assert refused.value.details["reason"] == "format"
    # Nobody holds its lock.
    lock = sqlite3.connect(f"{place.removeprefix('sqlite:')}.lock", isolation_level=None, timeout=0)
    lock.execute("BEGIN EXCLUSIVE")
    lock.close()


def test_old_answers_are_dropped_now_and_then(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apcore_tree.store.sqlite._PRUNE_EVERY", 4)
    monkeypatch.setattr("apcore_tree.store.sqlite._ANSWERS_KEPT", 2)
    call = Direct(make_service(place))
    for number in range(4):
        call.change("tag_node", nodeId="root", tags=[f"t{number}"], idempotencyKey=f"k{number}")
    now = call.service.now()
    kept = [number for number in range(4) if call.service.store.remembered("ann", f"k{number}", now)]
    assert kept == [2, 3]
    call.service.close()


# -- failures


class FailingConnection(sqlite3.Connection):
    """A real connection that fails at the statement chosen, as a full or broken disk does."""

    fail_at: int | None = None
    count = 0

    def _tick(self) -> None:
        cls = FailingConnection
        if cls.fail_at is not None:
            cls.count += 1
            if cls.count > cls.fail_at:
                raise sqlite3.OperationalError("database or disk is full")

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if not sql.startswith(("ROLLBACK", "SELECT")):
            self._tick()
        return super().execute(sql, *args)

    def executemany(self, sql: str, *args: Any) -> sqlite3.Cursor:
        self._tick()
        return super().executemany(sql, *args)


def _failing_service(path: Path) -> TreeService:
    store = SQLiteStore(str(path), connect=lambda *args, **kw: sqlite3.connect(*args, factory=FailingConnection, **kw))
    return TreeService(store, settings=UNLIMITED)


@pytest.mark.parametrize("statement", range(8))
def test_a_failing_disk_leaves_the_tree_as_it_was(tmp_path: Path, statement: int) -> None:
    call = Direct(_failing_service(tmp_path / "tree.db"))
    branch = call.add("root", "branch")
    before, version = everything(call.service), call.service.version()
    FailingConnection.fail_at, FailingConnection.count = statement, 0
    try:
        with pytest.raises(Internal) as failed:
            call.change("copy_subtree", sourceId=branch, targetParentId=branch, mode="duplicate", idempotencyKey="k")
    finally:
        FailingConnection.fail_at = None
    assert failed.value.details["reason"] == "storage_failed"
    assert (everything(call.service), call.service.version()) == (before, version)
    with pytest.raises(Forbidden) as refused:
        call.add("root", "late")
    assert refused.value.details["reason"] == "storage_failed"
    call.service.close()
    again = make_service(f"sqlite:{tmp_path / 'tree.db'}")
    assert everything(again) == before
    again.close()


def test_a_failing_disk_leaves_the_session_as_it_was(tmp_path: Path) -> None:
    call = Direct(_failing_service(tmp_path / "tree.db"))
    view = call("get_view", rootNodeId="root")["viewVersion"]
    FailingConnection.fail_at, FailingConnection.count = 0, 0
    try:
        with pytest.raises(Internal):
            call.change("collapse_node", nodeId="root")
    finally:
        FailingConnection.fail_at = None
    shown = call("get_view", rootNodeId="root")
    assert shown["view"]["isExpanded"] is True
    assert shown["viewVersion"] == view
    call.service.close()


def test_a_busy_file_is_a_conflict_and_not_the_end(place: str) -> None:
    call = Direct(make_service(place))
    call.service.store._db.execute("PRAGMA busy_timeout=1")  # type: ignore[attr-defined]
    other = sqlite3.connect(place.removeprefix("sqlite:"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(apcore_tree.Conflict) as refused:
        call.change("tag_node", nodeId="root", tags=["x"])
    assert refused.value.details["reason"] == "storage_busy"
    other.execute("ROLLBACK")
    other.close()
    assert call.change("tag_node", nodeId="root", tags=["x"])["tags"] == ["x"]
    call.service.close()


# -- sudden death

WRITER = textwrap.dedent(
    """
    import sys
    from apcore_tree import Caller, Settings, build_service

    service = build_service(f"sqlite:{sys.argv[1]}", settings=Settings(rate_limit=None))
    caller = Caller("writer", roles=("editor",))
    number = len(service.tree.nodes)
    while True:
        result = service.call(
            "add_child",
            {
                "parentNodeId": "root", "payloadType": "object", "payloadProps": {"Name": str(number)},
                "versionToken": service.version(), "idempotencyKey": str(number),
            },
            caller,
        )
        print(result["nodeId"], flush=True)
        number += 1
    """
)


def _kill_a_writer(path: Path, acknowledged: int) -> list[str]:
    """Let a process write until it has acknowledged some changes, then kill it at once."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(apcore_tree.__file__).parents[1])},
    )
    assert process.stdout is not None
    seen = [process.stdout.readline().strip() for _ in range(acknowledged)]
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    # A line cut off by the kill was not acknowledged.
    complete = rest[: rest.rfind("\n") + 1].split()
    return seen + complete


def test_a_killed_process_loses_no_acknowledged_change(tmp_path: Path) -> None:
    path, acknowledged = tmp_path / "tree.db", set()
    for round_number in range(4):
        acknowledged.update(_kill_a_writer(path, 3 + round_number * 7))
        service = build_service(f"sqlite:{path}")
        ids = set(service.tree.nodes)
        assert acknowledged <= ids
        assert service.tree.revision == len(ids) - 1 == len(service.audit(AuditQuery(limit=10_000)))
        assert all(service.store.remembered("writer", str(number), 0.0) for number in range(1, len(ids)))
        check = sqlite3.connect(path)
        assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        check.close()
        service.close()
