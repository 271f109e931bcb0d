"""Tools for snapshots in memory and for differences."""

from __future__ import annotations

from collections import Counter
from typing import Any

from apcore_tree.calls import Call, Change, Read
from apcore_tree.engine.diff import KINDS, Difference, compare_states, compare_subtrees
from apcore_tree.engine.history import Mark
from apcore_tree.engine.node import Json, Node
from apcore_tree.engine.source import Pinned
from apcore_tree.errors import Conflict, InvalidArgument, NotFound
from apcore_tree.tools.schema import (
    CHANGED,
    MUTATION,
    PAGING,
    array,
    choice,
    flag,
    free_object,
    integer,
    node_id,
    nullable,
    opt,
    page_of,
    record,
    text,
)
from apcore_tree.tools.tool import Kind, Tool

__all__ = ["TOOLS"]

_CURRENT = "current"


def _snapshots(call: Call) -> list[Mark]:
    return [mark for mark in call.tree.history.marks if mark.label is not None]


def _snapshot(call: Call, snapshot_id: str) -> Mark:
    for mark in _snapshots(call):
        if mark.id == snapshot_id:
            return mark
    raise NotFound(f"There is no snapshot {snapshot_id!r}", suggestion="snapshot_list names them")


def _state(call: Call, snapshot_id: str) -> Mark | None:
    return None if snapshot_id == _CURRENT else _snapshot(call, snapshot_id)


def snapshot_create(call: Change) -> Json:
    taken, label = _snapshots(call), call["label"]
    if any(mark.label == label for mark in taken):
        raise Conflict(f"The label {label!r} is taken", reason="label_taken", suggestion="choose another label")
    if len(taken) >= call.settings.max_snapshots:
        raise InvalidArgument(
            f"At most {call.settings.max_snapshots} snapshots are kept",
            reason="max_snapshots",
            suggestion="have the operator drop old ones",
        )
    mark = Mark(
        call.tree.revision,
        id=f"s-{call.service.new_id()}",
        label=label,
        created_at=call.service.timestamp(),
        created_by=call.caller.id,
        view=call.session.view.copy() if call["includeView"] else None,
    )
    call.afterwards(lambda: call.tree.history.push(mark))
    return {"snapshotId": mark.id, "label": label}


def snapshot_list(call: Read) -> Json:
    marks = [(index, mark) for index, mark in enumerate(_snapshots(call))]

    def shape(mark: Mark) -> Json:
        return {
            "id": mark.id,
            "label": mark.label,
            "version": call.service.version(mark.revision),
            "createdAt": mark.created_at,
            "createdBy": mark.created_by,
            "touched": mark.touched,
        }

    return call.keyed_page(marks, shape)


def snapshot_restore(call: Change) -> Json:
    mark = _snapshot(call, call["snapshotId"])
    call.expect(subtrees=[call.tree.root])
    view = mark.view
    if view is not None:
        call.afterwards(lambda: setattr(call.session, "view", view.copy()))
    return {"restoredCount": call.tree.restore(mark)}


def snapshot_diff(call: Read) -> Json:
    found = compare_states(call.tree, _state(call, call["a"]), _state(call, call["b"]))
    return _document(call, found, call["includePayload"])


def diff_subtree(call: Read) -> Json:
    left, right = _side(call, "aId", "aSnapshot"), _side(call, "bId", "bSnapshot")
    return _document(call, compare_subtrees(left, right, call["matchBy"], call.types), True)


def _side(call: Read, node_argument: str, snapshot_argument: str) -> Node:
    snapshot_id = call.get(snapshot_argument, _CURRENT)
    if snapshot_id == _CURRENT:
        return call.source.node(call[node_argument])
    return Pinned(call.tree, _snapshot(call, snapshot_id)).node(call[node_argument])


def _document(call: Read, found: list[Difference], include_payload: bool) -> Json:
    counts = Counter(item.kind for item in found)
    entries: list[tuple[Any, Difference]] = [([item.position, KINDS.index(item.kind)], item) for item in found]
    entries.sort(key=lambda entry: entry[0])
    page = call.keyed_page(entries, lambda item: item.describe(call.types, include_payload))
    return {"summary": {kind: counts[kind] for kind in KINDS}, **page}


_PLACE = record(
    "A place in the tree.",
    parentId=nullable(text("Id of the parent.")),
    index=integer("Position among the siblings."),
)
_DIFFERENCE = record(
    "One difference.",
    kind=choice("What happened to the node.", *KINDS),
    nodeId=text("Id of the node."),
    path=text("Names from the root to the node."),
    otherId=opt(text("Id of the corresponding node on the first side, where it differs.")),
    to=opt(_PLACE),
    patch=opt(array("Change of the payload as a JSON Patch (RFC 6902).", free_object("An operation."))),
    **{"from": opt(_PLACE)},
)
_DIFF = page_of(
    _DIFFERENCE,
    "The differences of this page: document order of the second side, then what was removed.",
    summary=record("How many of each kind.", **{kind: integer(f"Nodes {kind}.") for kind in KINDS}),
)
_STATE_ID = "Snapshot id, or current."

TOOLS = (
    Tool(
        "snapshot_create",
        Kind.CHANGE,
        "Remember the present state of the tree under a label. Snapshots live in memory only.",
        record(
            None,
            label=text("A label that no other snapshot has.", 128, least=1),
            includeView=opt(flag("Also remember this session's folding.", False)),
            **MUTATION,
        ),
        record(None, **CHANGED, snapshotId=text("Id of the snapshot."), label=text("The label.")),
        snapshot_create,
        token_optional=True,
    ),
    Tool(
        "snapshot_list",
        Kind.READ,
        "List the snapshots, oldest first.",
        record(None, **PAGING),
        page_of(
            record(
                "A snapshot.",
                id=text("Id of the snapshot."),
                label=text("Its label."),
                version=text("Version of the tree at that time."),
                createdAt=text("When it was taken, ISO 8601."),
                createdBy=text("Id of the agent that took it."),
                touched=integer("Records changed between this snapshot and the next."),
            ),
            "The snapshots of this page.",
        ),
        snapshot_list,
        idempotent=True,
        paginated=True,
    ),
    Tool(
        "snapshot_restore",
        Kind.CHANGE,
        "Bring the tree back to a snapshot, as a change of its own that can be undone by another restore.",
        record(None, snapshotId=text("Id of the snapshot.", 128, least=1), **MUTATION),
        record(None, **CHANGED, restoredCount=integer("Records brought back.")),
        snapshot_restore,
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "snapshot_diff",
        Kind.READ,
        "Compare two snapshots, or a snapshot and the current tree.",
        record(
            None,
            a=text(f"First side. {_STATE_ID}", 128, least=1),
            b=text(f"Second side. {_STATE_ID}", 128, least=1),
            includePayload=opt(flag("Also return how payloads changed.", True)),
            **PAGING,
        ),
        _DIFF,
        snapshot_diff,
        idempotent=True,
        paginated=True,
    ),
    Tool(
        "diff_subtree",
        Kind.READ,
        "Compare two subtrees, of now or of snapshots; their roots correspond to each other.",
        record(
            None,
            aId=node_id("Root of the first side."),
            bId=node_id("Root of the second side."),
            matchBy=opt(choice("How nodes correspond.", "name", "index", "nodeId", default="name")),
            aSnapshot=opt(text(f"State of the first side. {_STATE_ID}", 128, least=1)),
            bSnapshot=opt(text(f"State of the second side. {_STATE_ID}", 128, least=1)),
            **PAGING,
        ),
        _DIFF,
        diff_subtree,
        idempotent=True,
        paginated=True,
        long=True,
    ),
)
