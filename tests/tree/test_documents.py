"""Export and import: tree-json, view-json and flat rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.tree.conftest import House
from tests.tree.surfaces import Direct, make_service

from apcore_tree import Conflict, InvalidArgument, NotFound, PayloadType
from apcore_tree.engine import node as node_module
from apcore_tree.engine.documents import dump_tree_json

ARTIFACT = PayloadType("Artifact", self_payload=True)


def merge(call: Direct, document: Any, strategy: str = "upsert", by: str = "nodeId", **more: Any) -> dict[str, Any]:
    return call.change("import_merge", json=document, strategy=strategy, matchBy=by, **more)


def outline(call: Direct, node_id: str = "root") -> str:
    """The names of a subtree, as nested brackets."""
    document = call("export_subtree", nodeId=node_id)["document"]

    def text(item: dict[str, Any]) -> str:
        inner = " ".join(map(text, item["Children"]))
        return item["Payload"]["Name"] + (f"({inner})" if inner else "")

    return text(document)


def test_tree_json_has_a_fixed_shape(house: House) -> None:
    document = house.call("export_subtree", nodeId=house.garden)["document"]
    assert json.dumps(document) == json.dumps(
        {
            "NodeId": house.garden,
            "PayloadType": "object",
            "Payload": {"Name": "Garden", "Size": 100},
            "Children": [
                {
                    "NodeId": house.shed,
                    "PayloadType": "object",
                    "Payload": {"Name": "Shed", "Size": 6},
                    "Children": [],
                }
            ],
        }
    )
    wrapped = house.call("export_subtree", nodeId=house.garden, includeViewRoot=True)["document"]
    assert (wrapped["RootNodeId"], wrapped["View"]) == (house.garden, document)


def test_flat_rows_have_a_fixed_shape(house: House) -> None:
    assert house.call("export_subtree", nodeId=house.garden, format="flat")["rows"] == [
        {"nodeId": house.garden, "parentId": None, "payloadType": "object", "payload": {"Name": "Garden", "Size": 100}},
        {
            "nodeId": house.shed,
            "parentId": house.garden,
            "payloadType": "object",
            "payload": {"Name": "Shed", "Size": 6},
        },
    ]


def test_self_payload_nodes_are_written_inline_and_read_back() -> None:
    call = Direct(make_service(payload_types=(ARTIFACT,)))
    node = call.change("add_child", parentNodeId="root", payloadType="Artifact", payloadProps={"Name": "a"})["nodeId"]
    call.change("add_child", parentNodeId=node, payloadType="Artifact", payloadProps={})
    document = call("export_subtree", nodeId=node)["document"]
    assert list(document) == ["NodeId", "PayloadType", "Name", "Children"]
    call.change("remove_node", nodeId=node)
    assert merge(call, document)["created"] == 2
    assert call("export_subtree", nodeId=node)["document"] == document
    assert json.loads(dump_tree_json(call.service.tree.node(node), call.service.types)) == document


@pytest.mark.parametrize("form", ["nested", "flat", "text"])
def test_an_export_can_be_imported_into_an_empty_tree(house: House, form: str) -> None:
    exported = house.call("export_subtree", nodeId="root", format="flat" if form == "flat" else "nested")
    document = exported.get("document") or exported["rows"]
    other = Direct(make_service())
    merge(other, json.dumps(document) if form == "text" else document)
    assert other("export_subtree", nodeId="root")["document"] == house.call("export_subtree", nodeId="root")["document"]


def test_the_whole_tree_can_be_dumped_as_text(house: House) -> None:
    text = dump_tree_json(house.call.service.tree.root, house.call.service.types)
    assert json.loads(text) == house.call("export_subtree", nodeId="root")["document"]


# -- merging


def node(node_id: str | None, name: str, *children: dict[str, Any], **data: Any) -> dict[str, Any]:
    document: dict[str, Any] = {"PayloadType": "object", "Payload": {"Name": name, **data}, "Children": list(children)}
    return document if node_id is None else {"NodeId": node_id, **document}


def test_upsert_merges_payloads_and_keeps_other_children_after_the_incoming_ones(house: House) -> None:
    result = merge(house.call, node(house.house, "House", node(house.attic, "Attic", Size=31), node(None, "Cellar")))
    assert (result["created"], result["updated"], result["skipped"], result["removed"]) == (1, 1, 1, 0)
    assert outline(house.call, house.house) == "House(Attic Cellar Kitchen(Table Chair) Bath)"
    attic = house.call("get_node", nodeId=house.attic)["node"]["payload"]
    assert attic == {"Name": "Attic", "Size": 31, "Dusty": True}


def test_replace_overwrites_payloads_and_removes_other_children(house: House) -> None:
    result = merge(house.call, node(house.house, "Hut", node(house.attic, "Attic")), "replace")
    assert (result["updated"], result["removed"]) == (2, 4)
    assert outline(house.call) == "root(Hut(Attic) Garden(Shed))"
    assert house.call("get_node", nodeId=house.attic)["node"]["payload"] == {"Name": "Attic"}


def test_skip_only_adds_what_is_missing(house: House) -> None:
    result = merge(house.call, node(house.house, "Hut", node(None, "Cellar"), node(house.attic, "Loft")), "skip")
    assert (result["created"], result["skipped"], result["updated"]) == (1, 2, 0)
    assert outline(house.call, house.house) == "House(Kitchen(Table Chair) Bath Attic Cellar)"


def test_nodes_are_matched_by_path(house: House) -> None:
    document = node(None, "root", node(None, "House", node(None, "Bath", Size=9), node(None, "Porch")))
    result = merge(house.call, document, by="path")
    assert (result["created"], result["updated"]) == (1, 1)
    assert house.call("get_node", nodeId=house.bath)["node"]["payload"]["Size"] == 9


def test_a_document_goes_under_the_target_given(house: House) -> None:
    merge(house.call, node("box", "Box"), targetParentId=house.attic)
    assert outline(house.call, house.attic) == "Attic(Box)"
    again = merge(house.call, node("box", "Box"), targetParentId=house.attic)
    assert (again["created"], again["skipped"]) == (0, 1)
    elsewhere = merge(house.call, node("box", "Box"), targetParentId=house.shed)
    assert list(elsewhere["idMap"]) == ["box"]
    assert elsewhere["warnings"]


def test_a_document_without_a_counterpart_goes_under_the_root(house: House) -> None:
    merge(house.call, node("pond", "Pond"))
    merge(house.call, node(None, "Well"), by="path")
    assert outline(house.call) == "root(House(Kitchen(Table Chair) Bath Attic) Garden(Shed) Pond Well)"


@pytest.mark.parametrize(
    "document",
    [
        node("root", "root", node(None, "a"), node(None, "a")),
        node("root", "root", node(None, "twin")),
    ],
)
def test_an_ambiguous_path_is_refused(house: House, document: dict[str, Any]) -> None:
    house.call.add("root", "twin")
    house.call.add("root", "twin")
    with pytest.raises(InvalidArgument) as refused:
        merge(house.call, document, by="path")
    assert refused.value.details["reason"] == "ambiguous"


@pytest.mark.parametrize(
    "document",
    [
        "not json",
        '{"NodeId": NaN}',
        "[" * 5000,
        "3",
        [],
        [1],
        {"Children": {}},
        {"Children": [3]},
        {"NodeId": "a b"},
        {"NodeId": 5},
        {"PayloadType": 5},
        {"PayloadType": "Unheard"},
        {"Payload": []},
        {"Payload": {"x": "***REDACTED***"}},
        {"NodeId": "a", "Children": [{"NodeId": "b"}, {"NodeId": "b"}]},
        [{"nodeId": "a"}, {"nodeId": "b"}],
        [{"nodeId": "a"}, {"nodeId": "b", "parentId": "later"}],
        [{"nodeId": "a", "payload": 3}],
    ],
)
def test_a_malformed_document_is_refused_and_leaves_no_trace(house: House, document: Any) -> None:
    before = house.call("export_subtree", nodeId="root")["document"]
    with pytest.raises(InvalidArgument):
        merge(house.call, document)
    assert house.call("export_subtree", nodeId="root")["document"] == before


def test_upsert_does_not_change_a_type_but_replace_does() -> None:
    call = Direct(make_service(payload_types=(PayloadType("Room"),)))
    room = call.add("root", "room")
    document = {"NodeId": room, "PayloadType": "Room", "Payload": {"Name": "room"}}
    with pytest.raises(InvalidArgument):
        merge(call, document)
    merge(call, document, "replace")
    assert call("get_node", nodeId=room)["node"]["payloadType"] == "Room"


@pytest.mark.parametrize("strategy", ["upsert", "replace"])
def test_a_merge_does_not_change_what_is_set_at_creation_only(strategy: str) -> None:
    call = Direct(make_service(payload_types=(PayloadType("Part", read_only=frozenset({"Serial"})),)))
    part = call.change("add_child", parentNodeId="root", payloadType="Part", payloadProps={"Serial": 1})["nodeId"]
    for serial in (2, None):
        document = {"NodeId": part, "PayloadType": "Part", "Payload": {"Serial": serial, "Colour": "red"}}
        with pytest.raises(InvalidArgument) as refused:
            merge(call, document, strategy)
        assert refused.value.details["reason"] == "read_only"
    merge(call, {"NodeId": part, "PayloadType": "Part", "Payload": {"Serial": 1, "Colour": "red"}}, strategy)
    assert call("get_node", nodeId=part)["node"]["payload"] == {"Serial": 1, "Colour": "red"}


def test_a_merge_into_changed_ground_is_a_conflict(house: House) -> None:
    token = house.call.service.version().replace("t1.", "f1.", 1)
    house.call.add(house.garden, "Pond")
    with pytest.raises(Conflict):
        merge(house.call, node(house.garden, "Garden"), versionToken=token)
    with pytest.raises(NotFound):
        merge(house.call, node("x", "X"), targetParentId="gone")


# -- views


def test_view_json_shows_what_is_unfolded(house: House) -> None:
    house.call.change("collapse_node", nodeId=house.kitchen)
    house.call.change("update_payload_property", nodeId=house.bath, propertyName="NodeId", newValue="spoof")
    document = house.call("export_view", rootNodeId=house.house)["document"]
    assert list(document) == ["RootNodeId", "IncludedProperties", "ExcludedProperties", "DefaultExpanded", "View"]
    kitchen, bath, _ = document["View"]["Children"]
    assert (kitchen["IsExpanded"], kitchen["ChildrenCount"], "Children" in kitchen) == (False, 2, False)
    assert (bath["NodeId"], bath["Payload"]) == (house.bath, {"NodeId": "spoof"})
    bare = house.call("export_view", rootNodeId=house.house, includeViewRoot=False)["document"]
    assert bare == document["View"]


def test_an_exported_view_can_be_imported(house: House) -> None:
    house.call.change("collapse_node", nodeId=house.kitchen)
    house.call.change("set_filters", scope="view", included=[], excluded=["Size"])
    document = house.call("export_view", rootNodeId="root")["document"]
    house.call.change("expand_all", rootNodeId="root")
    house.call.change("set_filters", scope="all", included=[], excluded=[])
    house.call.change("remove_node", nodeId=house.shed)
    result = house.call.change("import_view", viewJson=json.dumps(document), payloadTypes=["object"])
    assert (result["applied"], result["unknown"]) == (6, [house.shed])
    again = house.call("export_view", rootNodeId="root")["document"]
    assert again["ExcludedProperties"] == ["Size"]
    assert again["View"]["Children"][0]["Children"][0]["IsExpanded"] is False


def test_the_root_of_a_view_is_looked_up_in_three_ways(house: House) -> None:
    folded = {"NodeId": "gone", "Name": "Garden", "IsExpanded": False}

    def imported(strategy: str) -> None:
        house.call.change("import_view", viewJson=folded, rootLookupStrategy=strategy)

    with pytest.raises(NotFound):
        imported("byId")
    imported("byPath")
    imported("currentRoot")
    view = house.call.service.sessions.of("ann", "").view
    tree = house.call.service.tree
    assert [view.is_expanded(tree.node(each)) for each in (house.garden, "root", house.house)] == [False, False, True]
    with pytest.raises(NotFound):
        house.call.change("import_view", viewJson={"Name": "Moat"}, rootLookupStrategy="byPath")
    house.call.add("root", "Garden")
    with pytest.raises(InvalidArgument):
        imported("byPath")


@pytest.mark.parametrize(
    "document",
    ["nope", "3", {"View": 3}, {}, {"NodeId": "root", "Children": 3}, {"NodeId": "root", "PayloadType": "Unheard"},
     {"RootNodeId": "root", "View": {}, "IncludedProperties": [3]}],
)  # fmt: skip
def test_a_malformed_view_is_refused_and_leaves_no_trace(house: House, document: Any) -> None:
    before = house.call("get_status")["viewVersion"]
    with pytest.raises(InvalidArgument):
        house.call.change("import_view", viewJson=document)
    assert house.call("get_status")["viewVersion"] == before


@pytest.mark.parametrize("accelerated", [False, True], ids=["without the C encoder", "with it"])
def test_every_encoder_writes_the_same_text(monkeypatch: pytest.MonkeyPatch, accelerated: bool) -> None:
    if not accelerated:
        monkeypatch.setattr("json.encoder.c_make_encoder", None)
    data = {
        "Text": 'ü "quoted" \u2028 \U0001f600 \t',
        "Numbers": [1, -2, 1.5, True, None],
        "Nested": {"a": {}, "b": []},
    }
    assert node_module._make_c_encoder()(data) == node_module._encode(data)
