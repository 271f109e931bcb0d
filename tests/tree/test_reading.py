"""Nodes, views, subtrees, paths and their pages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.tree.conftest import House
from tests.tree.surfaces import EDITOR, UNLIMITED, Direct, ThroughExecutor, make_service

from apcore_tree import Conflict, InvalidArgument, NotFound, PayloadType


def names(result: dict[str, Any]) -> list[str]:
    rows = result.get("rows") or result.get("items") or []
    return [row["name"] if "name" in row else row["node"]["name"] for row in rows]


def every_page(call: Direct, tool: str, size: str, **arguments: Any) -> list[dict[str, Any]]:
    pages = [call(tool, **arguments)]
    while "nextPage" in pages[-1]:
        pages.append(call(tool, **arguments, pageToken=pages[-1]["nextPage"]))
    return pages


# -- single nodes


def test_a_node_tells_its_place_payload_and_version(house: House) -> None:
    house.call.change("tag_node", nodeId=house.kitchen, tags=["warm", "big"])
    assert house.call("get_node", nodeId=house.kitchen)["node"] == {
        "nodeId": house.kitchen,
        "parentId": house.house,
        "name": "Kitchen",
        "depth": 2,
        "payloadType": "object",
        "payload": {"Name": "Kitchen", "Size": 20, "Address": {"Street": "High St", "City": "Bath"}},
        "childrenCount": 2,
        "tags": ["big", "warm"],
        "version": 9,
    }


def test_what_a_caller_does_to_a_result_does_not_reach_the_tree(house: House) -> None:
    node = house.call("get_node", nodeId=house.kitchen)["node"]
    node["payload"]["Address"]["City"] = "Rome"
    node["payload"]["Name"] = "Cave"
    payload = house.call("get_node", nodeId=house.kitchen)["node"]["payload"]
    assert (payload["Name"], payload["Address"]["City"]) == ("Kitchen", "Bath")


def test_what_a_caller_does_to_its_arguments_does_not_reach_the_tree(house: House) -> None:
    given = {"Name": "Box", "Inside": ["a"]}
    box = house.call.change("add_child", parentNodeId=house.attic, payloadType="object", payloadProps=given)["nodeId"]
    given["Inside"].append("b")  # type: ignore[attr-defined]
    assert house.call("get_node", nodeId=box)["node"]["payload"]["Inside"] == ["a"]


@pytest.mark.parametrize(
    ("included", "excluded", "shown"),
    [
        (["Address"], [], {"Address": {"Street": "High St", "City": "Bath"}}),
        (["Address.City"], [], {"Address": {"City": "Bath"}}),
        (["address.city"], [], {"Address": {"City": "Bath"}}),
        ([], ["Address"], {"Name": "Kitchen", "Size": 20}),
        (["Address"], ["Address.City"], {"Address": {"Street": "High St"}}),
        (["Nothing"], [], {}),
        ([], ["Size", "Address.Street"], {"Name": "Kitchen", "Address": {"City": "Bath"}}),
    ],
)
def test_property_filters_keep_and_drop_paths(
    house: House, included: list[str], excluded: list[str], shown: dict[str, Any]
) -> None:
    filters = {"includedProperties": included, "excludedProperties": excluded}
    assert house.call("get_node", nodeId=house.kitchen, **filters)["node"]["payload"] == shown


def test_property_filters_reach_into_lists(house: House) -> None:
    house.call.change(
        "update_payload_property", nodeId=house.shed, propertyName="Tools", newValue=[{"Kind": "saw", "Age": 3}, 1]
    )
    node = house.call("get_node", nodeId=house.shed, includedProperties=["Tools.Kind"])["node"]
    assert node["payload"] == {"Tools": [{"Kind": "saw"}]}
    node = house.call("get_node", nodeId=house.shed, excludedProperties=["Tools.Kind"])["node"]
    assert node["payload"]["Tools"] == [{"Age": 3}, 1]


def test_structural_fields_can_be_hidden(house: House) -> None:
    house.call.change("tag_node", nodeId=house.shed, tags=["x"])
    hidden = ["$tags", "$childrenCount", "$payloadType"]
    node = house.call("get_node", nodeId=house.shed, excludedProperties=hidden)["node"]
    assert set(node) == {"nodeId", "parentId", "name", "depth", "payload", "version"}


def test_session_filters_hold_until_a_call_brings_its_own(house: House) -> None:
    house.call.change("set_filters", scope="node", included=["Size"], excluded=[])
    assert house.call("get_node", nodeId=house.bath)["node"]["payload"] == {"Size": 8}
    assert house.call("get_view", rootNodeId=house.bath)["view"]["payload"] == {"Name": "Bath", "Size": 8}
    own = house.call("get_node", nodeId=house.bath, includedProperties=["Name"])
    assert own["node"]["payload"] == {"Name": "Bath"}
    other = Direct(house.call.service, replace(EDITOR, id="ben"))
    assert other("get_node", nodeId=house.bath)["node"]["payload"] == {"Name": "Bath", "Size": 8}
    house.call.change("set_filters", scope="all", included=[], excluded=["Name"])
    assert house.call("get_view", rootNodeId=house.bath)["view"]["payload"] == {"Size": 8}


def test_a_missing_node_is_not_found(house: House) -> None:
    for tool, argument in (("get_node", "nodeId"), ("get_view", "rootNodeId"), ("get_path", "nodeId")):
        with pytest.raises(NotFound):
            house.call(tool, **{argument: "gone"})


# -- subtrees and views


def test_the_depth_limit_is_the_depth_of_the_deepest_node_returned(house: House) -> None:
    assert names(house.call("get_subtree", nodeId=house.house, depthLimit=0, format="flat")) == ["House"]
    rows = names(house.call("get_subtree", nodeId=house.house, depthLimit=1, format="flat"))
    assert rows == ["House", "Kitchen", "Bath", "Attic"]


def test_a_subtree_nests_its_nodes(house: House) -> None:
    view = house.call("get_subtree", nodeId=house.kitchen, filters={"includedProperties": ["Legs"]})["view"]
    assert [child["payload"] for child in view["children"]] == [{"Legs": 4}, {"Legs": 4}]
    assert view["depth"] == 2


@pytest.mark.parametrize("tool", ["get_view", "get_subtree"])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pages_together_are_the_whole(house: House, tool: str, size: int) -> None:
    seen: list[str] = []
    token: dict[str, Any] = {}
    while True:
        if tool == "get_view":
            page = house.call(tool, rootNodeId="root", pageSize=size, format="flat", **token)
        else:
            page = house.call(tool, nodeId="root", paging={"pageSize": size, **token}, format="flat")
        assert page["count"] == len(page["rows"]) <= size
        seen += names(page)
        if "nextPage" not in page:
            break
        token = {"pageToken": page["nextPage"]}
    assert seen == ["root", "House", "Kitchen", "Table", "Chair", "Bath", "Attic", "Garden", "Shed"]


def test_a_later_nested_page_repeats_the_ancestors_as_stubs(house: House) -> None:
    first = house.call("get_view", rootNodeId="root", pageSize=4)
    second = house.call("get_view", rootNodeId="root", pageSize=4, pageToken=first["nextPage"])
    stub = second["view"]["children"][0]["children"][0]
    assert stub == {"nodeId": house.kitchen, "partial": True, "children": stub["children"]}
    assert [child["name"] for child in stub["children"]] == ["Chair"]


def test_a_folded_node_hides_its_children_from_views_only(house: House) -> None:
    house.call.change("collapse_node", nodeId=house.kitchen)
    assert "Table" not in names(house.call("get_view", rootNodeId="root", format="flat"))
    assert "Table" in names(house.call("get_subtree", nodeId="root", format="flat"))
    other = Direct(house.call.service, replace(EDITOR, session="other"))
    assert "Table" in names(other("get_view", rootNodeId="root", format="flat"))


def test_a_view_tells_how_it_was_made(house: House) -> None:
    result = house.call("get_view", rootNodeId=house.house, includeViewRoot=True, defaultExpanded=False)
    assert result["viewRoot"] == {
        "rootNodeId": house.house,
        "includedProperties": [],
        "excludedProperties": [],
        "defaultExpanded": False,
    }
    assert (result["count"], result["view"]["isExpanded"]) == (1, False)


def test_the_newest_of_rules_and_overrides_wins(house: House) -> None:
    def shown() -> list[str]:
        return names(house.call("get_view", rootNodeId="root", format="flat"))

    house.call.change("collapse_all", rootNodeId="root")
    assert shown() == ["root"]
    house.call.change("set_expansion_recursive", nodeId="root", expanded=True, maxDepth=2)
    assert shown() == ["root", "House", "Kitchen", "Bath", "Attic", "Garden", "Shed"]
    house.call.change("expand_node", nodeId=house.kitchen)
    assert "Table" in shown()
    house.call.change("collapse_all", rootNodeId=house.house)
    assert shown() == ["root", "House", "Garden", "Shed"]
    house.call.change("expand_all", rootNodeId="root")
    assert len(shown()) == 9
    unchanged = house.call.change("set_expansion_recursive", nodeId="root", expanded=False, maxDepth=0)
    assert (unchanged["changedCount"], len(shown())) == (0, 9)


def test_very_many_overrides_are_pruned_by_a_rule_above() -> None:
    call = Direct(make_service())
    ids = [call.add("root", str(number)) for number in range(300)]
    for node_id in ids:
        call.change("collapse_node", nodeId=node_id)
    branch = call.add("root", "branch")
    call.change("expand_all", rootNodeId=branch)
    call.change("remove_node", nodeId=ids[0])
    call.change("collapse_all", rootNodeId=branch)
    view = call.service.sessions.of("ann", "").view
    assert (len(view.overrides), view.is_expanded(call.service.tree.node(ids[1]))) == (299, False)


def test_a_toggle_is_undone_by_another(house: House) -> None:
    assert house.call.change("toggle_node", nodeId=house.house)["isExpanded"] is False
    assert house.call.change("toggle_node", nodeId=house.house)["isExpanded"] is True


def test_a_deep_tree_is_read_flat_and_refused_nested() -> None:
    call = Direct(make_service())
    rows = [{"nodeId": "d0", "parentId": None, "payloadType": "object", "payload": {}}]
    rows += [
        {"nodeId": f"d{n}", "parentId": f"d{n - 1}", "payloadType": "object", "payload": {}} for n in range(1, 10_000)
    ]
    call.change("import_merge", json=rows, strategy="upsert", matchBy="nodeId")
    with pytest.raises(InvalidArgument) as refused:
        call("get_subtree", nodeId="d0")
    assert "flat" in refused.value.details["suggestion"]
    with pytest.raises(InvalidArgument):
        call("export_subtree", nodeId="root")
    assert call("export_subtree", nodeId="root", format="flat")["count"] == 10_001
    assert len(call("get_path", nodeId="d9999")["path"]) == 10_001
    assert call("get_common_ancestor", nodeIds=["d9999", "d5000"])["nodeId"] == "d5000"
    assert call.change("remove_node", nodeId="d0")["removedCount"] == 10_000


# -- paths and ancestors


def test_a_path_leads_from_the_root_to_the_node(house: House) -> None:
    assert house.call("get_path", nodeId=house.bath)["path"] == [
        {"nodeId": "root", "name": "root", "depth": 0},
        {"nodeId": house.house, "name": "House", "depth": 1},
        {"nodeId": house.bath, "name": "Bath", "depth": 2},
    ]


@pytest.mark.parametrize(
    ("nodes", "nearest"),
    [
        (["table"], "table"),
        (["table", "chair"], "kitchen"),
        (["table", "kitchen"], "kitchen"),
        (["table", "bath"], "house"),
    ],
)
def test_the_nearest_common_ancestor_may_be_one_of_the_nodes(house: House, nodes: list[str], nearest: str) -> None:
    ids = house._asdict()
    assert house.call("get_common_ancestor", nodeIds=[ids[name] for name in nodes])["nodeId"] == ids[nearest]


def test_missing_nodes_are_all_named(house: House) -> None:
    with pytest.raises(NotFound) as missing:
        house.call("get_common_ancestor", nodeIds=["x", house.bath, "y"])
    assert missing.value.details["ids"] == ["x", "y"]


# -- children and page tokens


def test_children_come_in_order_page_by_page(house: House) -> None:
    pages = every_page(house.call, "list_children", "limit", nodeId=house.house, limit=2)
    assert [names(page) for page in pages] == [["Kitchen", "Bath"], ["Attic"]]


@pytest.mark.parametrize("token", ["", "x", "A" * 40, "é", "{valid}x", "{valid}"[:-2] + "AA"])
def test_a_forged_page_token_is_refused(house: House, token: str) -> None:
    valid = house.call("list_children", nodeId=house.house, limit=1)["nextPage"]
    forged = token.replace("{valid}", valid[:-4] + "AAAA")
    with pytest.raises(InvalidArgument) as refused:
        house.call("list_children", nodeId=house.house, limit=1, pageToken=forged)
    assert refused.value.details["field"] == "pageToken"


def test_a_page_token_belongs_to_its_query(house: House) -> None:
    token = house.call("list_children", nodeId=house.house, limit=1)["nextPage"]
    assert names(house.call("list_children", nodeId=house.house, limit=2, pageToken=token)) == ["Bath", "Attic"]
    with pytest.raises(InvalidArgument):
        house.call("list_children", nodeId=house.kitchen, limit=1, pageToken=token)


def test_live_pages_say_that_the_tree_has_changed(house: House) -> None:
    first = house.call("list_children", nodeId=house.house, limit=1)
    house.call.change("tag_node", nodeId=house.shed, tags=["x"])
    second = house.call("list_children", nodeId=house.house, limit=1, pageToken=first["nextPage"])
    assert (first["changedSinceFirstPage"], second["changedSinceFirstPage"]) == (False, True)


@pytest.mark.parametrize("surface", [Direct, ThroughExecutor])
def test_pinned_pages_show_the_state_of_the_first(surface: type[Direct]) -> None:
    call = surface(make_service())
    ids = [call.add("root", str(number)) for number in range(6)]
    first = call("list_children", nodeId="root", limit=2, consistency="pinned")
    call.change("remove_node", nodeId=ids[3])
    call.change("update_payload_property", nodeId=ids[4], propertyName="Name", newValue="new")
    call.change("add_child", parentNodeId="root", payloadType="object", payloadProps={"Name": "late"})
    call.change("move_node", nodeId=ids[5], newParentId=ids[0])
    second = call("list_children", nodeId="root", limit=9, consistency="pinned", pageToken=first["nextPage"])
    assert names(first) + names(second) == ["0", "1", "2", "3", "4", "5"]
    assert second["version"] == first["version"]
    assert call.service.tree.history.marks == []


def test_idle_pinned_pages_expire() -> None:
    times = [0.0]
    call = Direct(make_service(clock=lambda: times[0]))
    for number in range(3):
        call.add("root", str(number))
    page = call("list_children", nodeId="root", limit=1, consistency="pinned")
    times[0] = 61.0
    with pytest.raises(Conflict) as expired:
        call("list_children", nodeId="root", limit=1, consistency="pinned", pageToken=page["nextPage"])
    assert expired.value.details["reason"] == "pin_expired"


def test_a_session_pins_only_so_many_states() -> None:
    call = Direct(make_service(settings=replace(UNLIMITED, max_pins=2, max_sessions=1)))
    for number in range(3):
        call.add("root", str(number))
    pages = [call("list_children", nodeId="root", limit=1, consistency="pinned") for _ in range(3)]
    assert len(call.service.tree.history.marks) == 2
    with pytest.raises(Conflict):
        call("list_children", nodeId="root", limit=1, consistency="pinned", pageToken=pages[0]["nextPage"])
    Direct(call.service, replace(EDITOR, id="ben"))("get_status")
    assert call.service.tree.history.marks == []


# -- bookmarks


def test_bookmarks_belong_to_a_session_and_outlive_their_nodes(house: House) -> None:
    house.call.change("bookmark", nodeId=house.shed, label="tools")
    house.call.change("bookmark", nodeId=house.bath, label="a bath")
    house.call.change("remove_node", nodeId=house.shed)
    assert house.call("list_bookmarks")["items"] == [
        {"label": "a bath", "nodeId": house.bath, "exists": True, "path": "/root/House/Bath"},
        {"label": "tools", "nodeId": house.shed, "exists": False},
    ]
    pages = every_page(house.call, "list_bookmarks", "limit", limit=1)
    assert [page["items"][0]["label"] for page in pages] == ["a bath", "tools"]
    assert Direct(house.call.service, replace(EDITOR, id="ben"))("list_bookmarks")["items"] == []
    house.call.change("remove_bookmark", label="tools")
    with pytest.raises(NotFound):
        house.call.change("remove_bookmark", label="tools")


def test_a_label_moves_only_when_told_to(house: House) -> None:
    house.call.change("bookmark", nodeId=house.shed, label="x")
    with pytest.raises(Conflict) as refused:
        house.call.change("bookmark", nodeId=house.bath, label="x")
    assert refused.value.details["reason"] == "label_taken"
    moved = house.call.change("bookmark", nodeId=house.bath, label="x", overwrite=True)
    assert moved["changedCount"] == 1
    assert house.call.change("bookmark", nodeId=house.bath, label="x")["changedCount"] == 0


def test_names_come_from_the_property_that_the_type_says() -> None:
    call = Direct(make_service(payload_types=(PayloadType("Part", name_property="Code"),)))
    part = call.change("add_child", parentNodeId="root", payloadType="Part", payloadProps={"Code": "P-1"})["nodeId"]
    assert call("get_node", nodeId=part)["node"]["name"] == "P-1"
