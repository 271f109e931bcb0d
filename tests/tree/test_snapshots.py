"""Snapshots, restores and differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.tree.conftest import House
from tests.tree.surfaces import UNLIMITED, Direct, make_service

from apcore_tree import Conflict, InvalidArgument, NotFound


def take(house: House, label: str, **more: Any) -> str:
    return str(house.call("snapshot_create", label=label, **more)["snapshotId"])


def test_a_restore_brings_back_structure_payloads_and_tags(house: House) -> None:
    house.call.change("tag_node", nodeId=house.table, tags=["x"])
    before = house.call("export_subtree", nodeId="root")["document"]
    snapshot = take(house, "before")
    house.call.change("remove_node", nodeId=house.kitchen)
    house.call.change("update_payload_property", nodeId=house.shed, propertyName="Size", newValue=7)
    after = take(house, "after")
    house.call.change("snapshot_restore", snapshotId=snapshot)
    assert house.call("export_subtree", nodeId="root")["document"] == before
    assert house.call("query_by_tag", tag="x")["items"][0]["nodeId"] == house.table
    house.call.change("snapshot_restore", snapshotId=after)
    assert house.call("snapshot_diff", a=after, b="current")["items"] == []
    assert house.call.change("snapshot_restore", snapshotId=after)["restoredCount"] == 0


def test_a_restore_conflicts_with_any_change_since_the_token(house: House) -> None:
    snapshot = take(house, "s")
    token = house.call.service.version().replace("t1.", "f1.", 1)
    house.call.change("tag_node", nodeId=house.shed, tags=["x"])
    with pytest.raises(Conflict):
        house.call("snapshot_restore", snapshotId=snapshot, versionToken=token)


def test_a_snapshot_may_remember_the_view(house: House) -> None:
    house.call.change("collapse_node", nodeId=house.house)
    snapshot = take(house, "folded", includeView=True)
    house.call.change("expand_all", rootNodeId="root")
    house.call.change("snapshot_restore", snapshotId=snapshot)
    assert house.call("get_view", rootNodeId=house.house)["view"]["isExpanded"] is False


def test_snapshots_are_listed_with_who_and_when() -> None:
    call = Direct(make_service(clock=lambda: 0.0))
    call("snapshot_create", label="one")
    call.add("root", "x")
    call("snapshot_create", label="two", versionToken=call.service.version())
    first, second = call("snapshot_list")["items"]
    assert (first["label"], first["createdAt"], first["createdBy"]) == ("one", "1970-01-01T00:00:00.000+00:00", "ann")
    assert first["touched"] == 2
    assert second["touched"] == 0
    page = call("snapshot_list", limit=1)
    assert call("snapshot_list", limit=1, pageToken=page["nextPage"])["items"] == [second]


def test_labels_are_unique_and_snapshots_limited() -> None:
    call = Direct(make_service(settings=replace(UNLIMITED, max_snapshots=2)))
    first = call("snapshot_create", label="a")["snapshotId"]
    with pytest.raises(Conflict) as refused:
        call("snapshot_create", label="a")
    assert refused.value.details["reason"] == "label_taken"
    call("snapshot_create", label="b")
    with pytest.raises(InvalidArgument) as full:
        call("snapshot_create", label="c")
    assert full.value.details["reason"] == "max_snapshots"
    call.service.drop_snapshot(first)
    assert call("snapshot_create", label="c")["label"] == "c"
    with pytest.raises(NotFound):
        call.service.drop_snapshot(first)
    with pytest.raises(Conflict):
        call("snapshot_create", label="d", versionToken="t1.other.0")


def test_a_diff_tells_every_kind_of_change_in_document_order(house: House) -> None:
    snapshot = take(house, "before")
    house.call.change("update_payload_property", nodeId=house.table, propertyName="Legs", newValue=3)
    house.call.change("move_node", nodeId=house.shed, newParentId=house.attic)
    house.call.change("move_before", nodeId=house.attic, siblingId=house.kitchen)
    house.call.change("remove_node", nodeId=house.chair)
    pond = house.call.add(house.garden, "Pond")
    result = house.call("snapshot_diff", a=snapshot, b="current")
    assert [(item["kind"], item["nodeId"]) for item in result["items"]] == [
        ("reordered", house.house),
        ("moved", house.shed),
        ("updated", house.table),
        ("added", pond),
        ("removed", house.chair),
    ]
    assert result["summary"] == {"added": 1, "removed": 1, "moved": 1, "reordered": 1, "updated": 1}
    reordered, moved, updated, added, removed = result["items"]
    assert moved["from"] == {"parentId": house.garden, "index": 0}
    assert moved["to"] == {"parentId": house.attic, "index": 0}
    assert updated["patch"] == [{"op": "replace", "path": "/Legs", "value": 3}]
    assert (added["path"], removed["path"]) == ("/root/Garden/Pond", "/root/House/Kitchen/Chair")
    assert "patch" not in reordered
    plain = house.call("snapshot_diff", a=snapshot, b="current", includePayload=False)["items"]
    assert all("patch" not in item for item in plain)
    backwards = house.call("snapshot_diff", a="current", b=snapshot)["summary"]
    assert backwards == {"added": 1, "removed": 1, "moved": 1, "reordered": 1, "updated": 1}


def test_a_diff_comes_in_pages(house: House) -> None:
    snapshot = take(house, "before")
    house.call.change("update_nodes", filter={"queryDsl": "Size exists"}, patch={"Size": 1})
    whole = house.call("snapshot_diff", a=snapshot, b="current")["items"]
    page = house.call("snapshot_diff", a=snapshot, b="current", limit=2)
    items = page["items"]
    while "nextPage" in page:
        page = house.call("snapshot_diff", a=snapshot, b="current", limit=2, pageToken=page["nextPage"])
        items += page["items"]
    assert items == whole
    assert len(whole) == 5


def test_a_missing_snapshot_is_not_found(house: House) -> None:
    with pytest.raises(NotFound):
        house.call("snapshot_diff", a="s-gone", b="current")
    with pytest.raises(NotFound):
        house.call.change("snapshot_restore", snapshotId="s-gone")


@pytest.mark.parametrize("match_by", ["name", "index"])
def test_two_subtrees_are_compared_by_place(house: House, match_by: str) -> None:
    copied = house.call.change("copy_subtree", sourceId=house.house, targetParentId="root", mode="duplicate")["idMap"]
    house.call.change("update_payload_property", nodeId=copied[house.table], propertyName="Legs", newValue=3)
    house.call.change("remove_node", nodeId=copied[house.attic])
    house.call.add(copied[house.kitchen], "Lamp")
    result = house.call("diff_subtree", aId=house.house, bId=copied[house.house], matchBy=match_by)
    assert result["summary"] == {"added": 1, "removed": 1, "moved": 0, "reordered": 0, "updated": 1}
    assert result["items"][0]["otherId"] == house.table


def test_equal_names_are_matched_by_their_count(house: House) -> None:
    for name in ("Leg", "Leg"):
        house.call.add(house.table, name)
    house.call.add(house.chair, "Leg")
    summary = house.call("diff_subtree", aId=house.table, bId=house.chair)["summary"]
    assert (summary["removed"], summary["added"]) == (1, 0)


def test_a_reordered_copy_is_a_reordering(house: House) -> None:
    copied = house.call.change("copy_subtree", sourceId=house.kitchen, targetParentId="root", mode="duplicate")["idMap"]
    house.call.change("move_before", nodeId=copied[house.chair], siblingId=copied[house.table])
    summary = house.call("diff_subtree", aId=house.kitchen, bId=copied[house.kitchen])["summary"]
    assert summary == {"added": 0, "removed": 0, "moved": 0, "reordered": 1, "updated": 0}


def test_a_subtree_is_compared_with_its_own_past(house: House) -> None:
    snapshot = take(house, "before")
    house.call.change("move_node", nodeId=house.table, newParentId=house.bath)
    house.call.change("remove_node", nodeId=house.attic)
    house.call.change("move_before", nodeId=house.bath, siblingId=house.kitchen)
    result = house.call("diff_subtree", aId=house.house, bId=house.house, aSnapshot=snapshot, matchBy="nodeId")
    assert [(item["kind"], item["nodeId"]) for item in result["items"]] == [
        ("reordered", house.house),
        ("moved", house.table),
        ("removed", house.attic),
    ]
    grown = house.call.add(house.shed, "Rake")
    result = house.call("diff_subtree", aId=house.garden, bId=house.garden, aSnapshot=snapshot, matchBy="nodeId")
    assert [(item["kind"], item["nodeId"]) for item in result["items"]] == [("added", grown)]
