"""Adding, moving, copying, sorting and updating, at their edges."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tree.conftest import House
from tests.tree.surfaces import Direct, make_service

from apcore_tree import Conflict, InvalidArgument, NotFound, PayloadType


def children(house: House, node_id: str) -> list[str]:
    return [item["name"] for item in house.call("list_children", nodeId=node_id)["items"]]


def test_a_child_goes_where_its_index_says(house: House) -> None:
    for index, name in ((0, "first"), (1, "second"), (5, "last")):
        house.call.change(
            "add_child", parentNodeId=house.house, payloadType="object", payloadProps={"Name": name}, index=index
        )
    assert children(house, house.house) == ["first", "second", "Kitchen", "Bath", "Attic", "last"]
    with pytest.raises(InvalidArgument) as refused:
        house.call.change("add_child", parentNodeId=house.house, payloadType="object", payloadProps={}, index=7)
    assert refused.value.details["field"] == "index"


def test_an_id_of_ones_own_must_be_free(house: House) -> None:
    asked: dict[str, Any] = {"parentNodeId": "root", "payloadType": "object", "payloadProps": {}}
    assert house.call.change("add_child", **asked, nodeId="my:own-id.1")["nodeId"] == "my:own-id.1"
    with pytest.raises(Conflict) as refused:
        house.call.change("add_child", **asked, nodeId="my:own-id.1")
    assert refused.value.details["reason"] == "id_taken"


def test_only_registered_types_with_fitting_payloads_are_accepted() -> None:
    schema = {"type": "object", "properties": {"Size": {"type": "integer"}}, "required": ["Size"]}
    call = Direct(make_service(payload_types=(PayloadType("Room", schema=schema),)))
    with pytest.raises(InvalidArgument) as refused:
        call.change("add_child", parentNodeId="root", payloadType="Rom", payloadProps={})
    assert "Room" in refused.value.details["suggestion"]
    with pytest.raises(InvalidArgument) as refused:
        call.change("add_child", parentNodeId="root", payloadType="Room", payloadProps={"Size": "x"})
    assert (refused.value.details["field"], refused.value.details["reason"]) == ("Size", "schema")
    room = call.change("add_child", parentNodeId="root", payloadType="Room", payloadProps={"Size": 1})["nodeId"]
    with pytest.raises(InvalidArgument):
        call.change("update_payload_property", nodeId=room, propertyName="Size", newValue=None)


def test_the_root_stays_where_it_is(house: House) -> None:
    with pytest.raises(InvalidArgument):
        house.call.change("remove_node", nodeId="root")
    with pytest.raises(InvalidArgument):
        house.call.change("move_node", nodeId="root", newParentId=house.house)


def test_a_node_with_children_is_removed_only_when_told_so(house: House) -> None:
    with pytest.raises(Conflict) as refused:
        house.call.change("remove_node", nodeId=house.kitchen, recursive=False)
    assert refused.value.details["reason"] == "has_children"
    assert house.call.change("remove_node", nodeId=house.kitchen)["removedCount"] == 3
    with pytest.raises(NotFound):
        house.call("get_node", nodeId=house.table)


def test_a_node_cannot_become_its_own_descendant(house: House) -> None:
    with pytest.raises(InvalidArgument):
        house.call.change("move_node", nodeId=house.house, newParentId=house.table)
    with pytest.raises(InvalidArgument):
        house.call.change("move_node", nodeId=house.house, newParentId=house.house)


def test_a_move_that_moves_nothing_is_no_new_version(house: House) -> None:
    before = house.call.service.version()
    result = house.call.change("move_node", nodeId=house.bath, newParentId=house.house, index=1)
    assert (result["version"], result["changedCount"], result["index"]) == (before, 0, 1)
    same = house.call.change("update_payload_property", nodeId=house.bath, propertyName="Size", newValue=8)
    assert same["version"] == before
    changed = house.call.change("update_payload_property", nodeId=house.bath, propertyName="Size", newValue=8.0)
    assert changed["version"] != before


def test_siblings_are_placed_before_and_after_each_other(house: House) -> None:
    assert house.call.change("move_before", nodeId=house.attic, siblingId=house.kitchen)["index"] == 0
    assert children(house, house.house) == ["Attic", "Kitchen", "Bath"]
    assert house.call.change("move_after", nodeId=house.attic, siblingId=house.bath)["index"] == 2
    assert children(house, house.house) == ["Kitchen", "Bath", "Attic"]
    for stranger in (house.shed, house.attic, "root"):
        with pytest.raises(InvalidArgument):
            house.call.change("move_before", nodeId=house.attic, siblingId=stranger)


def test_children_are_sorted_stably_with_missing_values_last(house: House) -> None:
    house.call.add(house.house, "Nook")
    result = house.call.change("sort_children", parentId=house.house, byProp="Size", direction="desc")
    assert (result["count"], result["moved"]) == (4, 3)
    assert children(house, house.house) == ["Attic", "Kitchen", "Bath", "Nook"]
    again = house.call.change("sort_children", parentId=house.house, byProp="Size", direction="desc")
    assert (again["moved"], again["changedCount"]) == (0, 0)
    house.call.change("sort_children", parentId=house.house, byProp="$name", direction="asc")
    assert children(house, house.house) == ["Attic", "Bath", "Kitchen", "Nook"]


def test_a_duplicate_is_independent_and_a_reference_is_not(house: House) -> None:
    copied = house.call.change(
        "copy_subtree", sourceId=house.kitchen, targetParentId=house.garden, mode="duplicate", index=0
    )
    shared = house.call.change("copy_subtree", sourceId=house.kitchen, targetParentId=house.garden, mode="reference")
    assert copied["copiedCount"] == shared["copiedCount"] == 3
    house.call.change("update_payload_property", nodeId=house.table, propertyName="Colour", newValue="green")

    def colour(node_id: str) -> str:
        return str(house.call("get_node", nodeId=node_id)["node"]["payload"]["Colour"])

    assert colour(copied["idMap"][house.table]) == "red"
    assert colour(shared["idMap"][house.table]) == "green"
    assert children(house, house.garden) == ["Kitchen", "Shed", "Kitchen"]


def test_a_subtree_can_be_copied_into_itself(house: House) -> None:
    result = house.call.change("copy_subtree", sourceId=house.kitchen, targetParentId=house.kitchen, mode="duplicate")
    assert result["copiedCount"] == 3
    assert children(house, house.kitchen) == ["Table", "Chair", "Kitchen"]


def test_a_clone_has_no_children(house: House) -> None:
    clone = house.call.change("clone_node", nodeId=house.kitchen, targetParentId=house.garden)["nodeId"]
    node = house.call("get_node", nodeId=clone)["node"]
    assert (node["name"], node["childrenCount"]) == ("Kitchen", 0)


def test_a_shared_payload_lives_as_long_as_somebody_shows_it(house: House) -> None:
    clone = house.call.change("clone_node", nodeId=house.table, targetParentId="root", mode="reference")["nodeId"]
    house.call.change("remove_node", nodeId=house.table)
    assert house.call("get_node", nodeId=clone)["node"]["payload"]["Colour"] == "red"


def test_a_nested_property_is_written_without_touching_its_neighbours(house: House) -> None:
    result = house.call.change(
        "update_payload_property", nodeId=house.kitchen, propertyName="Address.City", newValue="Rome"
    )
    assert result["previous"] == "Bath"
    made = house.call.change("update_payload_property", nodeId=house.bath, propertyName="A.B.C", newValue=1)
    assert "previous" not in made
    assert house.call("get_node", nodeId=house.kitchen)["node"]["payload"]["Address"] == {
        "Street": "High St",
        "City": "Rome",
    }
    assert house.call("get_node", nodeId=house.bath)["node"]["payload"]["A"] == {"B": {"C": 1}}
    with pytest.raises(InvalidArgument):
        house.call.change("update_payload_property", nodeId=house.bath, propertyName="Size.Inner", newValue=1)


@pytest.mark.parametrize(
    "wanted",
    [
        {"filters": [{"path": "Legs", "op": "eq", "value": 4}]},
        {"predicates": {"predicates": [{"path": "Legs", "op": "gt", "value": 3}]}},
        {"queryDsl": "Legs exists"},
    ],
)
def test_a_bulk_update_finds_its_nodes_in_every_way(house: House, wanted: dict[str, Any]) -> None:
    result = house.call.change("update_nodes", filter=wanted, rootNodeId=house.house, patch={"Legs": 3})
    assert (result["matched"], result["updated"]) == (2, 2)
    assert result["changedIds"] == [house.table, house.chair]


def test_a_bulk_update_takes_exactly_one_filter(house: House) -> None:
    for wanted in ({}, {"queryDsl": "#x", "nodeIds": ["root"]}):
        with pytest.raises(InvalidArgument):
            house.call.change("update_nodes", filter=wanted, patch={"x": 1})
    with pytest.raises(NotFound):
        house.call.change("update_nodes", filter={"nodeIds": ["gone"]}, patch={"x": 1})


def test_very_many_insertions_into_one_gap_keep_their_order() -> None:
    call = Direct(make_service())
    call.add("root", "last")
    for number in range(200):
        call.change(
            "add_child",
            parentNodeId="root",
            payloadType="object",
            payloadProps={"Name": str(number)},
            index=number // 2,
        )
    orders = [child.order for child in call.service.tree.root.children]
    assert orders == sorted(set(orders))
    assert call.service.tree.relabelled
