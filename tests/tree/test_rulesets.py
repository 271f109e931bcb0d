"""Validation and linting."""

from __future__ import annotations

import pytest
from tests.tree.conftest import House
from tests.tree.surfaces import Direct, make_service

from apcore_tree import NotFound, PayloadType, Ruleset

ROOM = PayloadType("Room", schema={"type": "object", "properties": {"Size": {"type": "integer"}}})
STRICT = Ruleset(
    "strict",
    payload_schemas={"Room": {"type": "object", "properties": {"Size": {"maximum": 50}}}},
    required={"Room": ("Owner", "Address.City")},
    allowed_children={"Room": ("object",)},
    max_depth=2,
    max_children=2,
    unique_by="Name",
)


@pytest.fixture
def call() -> Direct:
    return Direct(make_service(payload_types=(ROOM,), rulesets=(STRICT,)))


def room(call: Direct, parent: str, name: str, **data: object) -> str:
    props = {"Name": name, **data}
    added = call.change("add_child", parentNodeId=parent, payloadType="Room", payloadProps=props)
    return str(added["nodeId"])


def test_a_good_tree_is_valid(house: House) -> None:
    for ruleset in ("structure", "default"):
        result = house.call("validate_tree", rulesetId=ruleset)
        assert (result["valid"], result["items"], result["summary"]) == (True, [], {"error": 0, "warning": 0})


def test_every_rule_finds_its_fault(call: Direct) -> None:
    top = room(call, "root", " Hall ", Size=60, Owner="Ann", Address={"City": "Rome"})
    inner = room(call, top, "Nook", Address={"City": ""})
    call.add(top, "Nook")
    call.add(top, "Third")
    deep = call.add(inner, "Deep")
    found = {
        (item["ruleId"], item["nodeId"], item["path"]) for item in call("validate_tree", rulesetId="strict")["items"]
    }
    assert found == {
        ("text-untrimmed", top, "/Name"),
        ("schema-violated", top, "/Size"),
        ("children-exceeded", top, ""),
        ("child-not-allowed", top, ""),
        ("sibling-duplicate", top, ""),
        ("required-missing", inner, "/Owner"),
        ("required-missing", inner, "/Address/City"),
        ("depth-exceeded", deep, ""),
    }


def test_violations_come_in_pages_with_one_summary(call: Direct) -> None:
    for number in range(3):
        room(call, "root", str(number))
    first = call("validate_tree", rulesetId="strict", limit=4)
    second = call("validate_tree", rulesetId="strict", limit=4, pageToken=first["nextPage"])
    assert first["summary"] == second["summary"] == {"error": 7, "warning": 0}
    assert (len(first["items"]), len(second["items"]), "nextPage" in second) == (4, 3, False)


def test_a_subtree_is_validated_alone(call: Direct) -> None:
    bad, good = room(call, "root", "bad"), call.add("root", "good")
    assert call("validate_tree", rulesetId="strict", rootNodeId=good)["valid"] is True
    assert call("validate_tree", rulesetId="strict", rootNodeId=bad)["valid"] is False


def test_a_payload_is_linted_with_pointers_and_messages(call: Direct) -> None:
    node = room(call, "root", "x ", Size=99, Owner="Ann", Address={"City": "Rome"})
    result = call("lint_payload", nodeId=node, rulesetId="strict")
    assert result["valid"] is False
    assert [(issue["severity"], issue["path"]) for issue in result["issues"]] == [
        ("error", "/Size"),
        ("warning", "/Name"),
    ]
    assert call("lint_payload", nodeId=node, rulesetId="default")["valid"] is True
    assert call("lint_payload", nodeId=node, rulesetId="structure")["issues"] == []


def test_an_unknown_ruleset_is_not_found(call: Direct) -> None:
    with pytest.raises(NotFound) as missing:
        call("validate_tree", rulesetId="lax")
    assert "strict" in missing.value.details["suggestion"]


def test_a_stored_type_that_is_no_longer_registered_is_reported(tmp_path: object) -> None:
    place = f"sqlite:{tmp_path}/tree.db"
    call = Direct(make_service(place, payload_types=(ROOM,)))
    node = room(call, "root", "x")
    call.service.close()
    again = Direct(make_service(place))
    items = again("validate_tree", rulesetId="structure")["items"]
    assert [(item["ruleId"], item["nodeId"]) for item in items] == [("type-unknown", node)]
    again.service.close()
