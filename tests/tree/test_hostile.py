"""Input that means harm gets a clear refusal, never a crash and never an `internal`."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tree.conftest import House
from tests.tree.surfaces import Direct, ThroughExecutor, make_service, outcome

from apcore_tree import InvalidArgument, NotFound, PayloadType, TreeError
from apcore_tree.tools.catalogue import TOOLS


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        2**70,
        nested(80),
        {"a": nested(200)},
        "\ud800",
        {"\udfff": 1},
        {"": 1},
        "***REDACTED***",
    ],
    ids=lambda value: ascii(value)[:20],
)
@pytest.mark.parametrize("surface", [Direct, ThroughExecutor])
def test_a_value_that_json_cannot_carry_everywhere_is_refused(surface: type[Direct], value: Any) -> None:
    call = surface(make_service())
    with pytest.raises(InvalidArgument):
        call.change("update_payload_property", nodeId="root", propertyName="x", newValue=value)
    with pytest.raises(InvalidArgument):
        call.change("add_child", parentNodeId="root", payloadType="object", payloadProps={"x": value})
    assert len(call.service.tree.nodes) == 1


@pytest.mark.parametrize("name", ["__proto__", "constructor", "NodeId", "Children", "\u202e", "\u0000", "a" * 256])
def test_odd_property_names_are_only_names(name: str) -> None:
    call = Direct(make_service())
    node = call.change("add_child", parentNodeId="root", payloadType="object", payloadProps={name: "v"})["nodeId"]
    assert call("get_node", nodeId=node)["node"]["payload"] == {name: "v"}
    document = call("export_view", rootNodeId=node, includeViewRoot=False)["document"]
    assert document["NodeId"] == node
    assert document.get(name) == "v" or document["Payload"][name] == "v"


def test_a_name_that_only_looks_structural_cannot_pose_as_structure() -> None:
    call = Direct(make_service(payload_types=(PayloadType("Self", self_payload=True),)))
    for name in ("NodeId", "nodeID", "ＮodeId"):
        with pytest.raises(InvalidArgument):
            call.change("add_child", parentNodeId="root", payloadType="Self", payloadProps={name: "root"})


@pytest.mark.parametrize("node_id", ["", "a b", "a/b", "../x", "x" * 129, "é", "a\n", None, 5, {"$ref": "#"}])
def test_an_odd_id_is_refused(node_id: Any) -> None:
    call = Direct(make_service())
    with pytest.raises(InvalidArgument):
        call.change("add_child", parentNodeId="root", payloadType="object", payloadProps={}, nodeId=node_id)
    with pytest.raises((InvalidArgument, NotFound)):
        call("get_node", nodeId=node_id)


def test_a_hundred_thousand_siblings_are_many_but_fine() -> None:
    call = Direct(make_service())
    for batch in range(2):
        rows = [{"nodeId": "wide", "parentId": None, "payloadType": "object", "payload": {}}]
        rows += [
            {"nodeId": f"w{batch}-{n}", "parentId": "wide", "payloadType": "object", "payload": {"n": n}}
            for n in range(49_999)
        ]
        call.change("import_merge", json=rows, strategy="skip", matchBy="nodeId")
    assert call("get_node", nodeId="wide")["node"]["childrenCount"] == 99_998
    call.change("move_node", nodeId="w1-49998", newParentId="wide", index=50_000)
    page = call("list_children", nodeId="wide", limit=200)
    page = call("list_children", nodeId="wide", limit=200, pageToken=page["nextPage"])
    assert page["items"][0]["nodeId"] == "w0-200"
    with pytest.raises(InvalidArgument) as refused:
        call("export_subtree", nodeId="wide", format="flat")
    assert refused.value.details["maxBatch"] == 50_000


def test_too_large_documents_are_refused() -> None:
    call = Direct(make_service())
    rows = [{"nodeId": "top", "parentId": None}] + [{"parentId": "top"} for _ in range(50_000)]
    with pytest.raises(InvalidArgument) as refused:
        call.change("import_merge", json=rows, strategy="upsert", matchBy="nodeId")
    assert refused.value.details["maxBatch"] == 50_000
    with pytest.raises(InvalidArgument):
        call.change("import_merge", json=" " * (8 * 1024 * 1024 + 1), strategy="upsert", matchBy="nodeId")


@pytest.mark.parametrize("query", ["(" * 2001, "a" * 2000, "a=1 and " * 249 + "a=1", "/" + "*/" * 999, "//**" * 500])
def test_long_queries_end(query: str) -> None:
    call = Direct(make_service())
    call.add("root", "x")
    kind, answer = outcome(call, "select_nodes", queryDsl=query)
    assert answer == "invalid_argument" if kind == "error" else len(answer["items"]) <= 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None, database=None)
@given(
    name=st.sampled_from(sorted(TOOLS)),
    junk=st.dictionaries(st.sampled_from(["nodeId", "rootNodeId", "filters", "patch", "json", "limit", "x"]), JSON),
    values=st.lists(JSON, min_size=8, max_size=8),
)
def test_junk_never_reaches_the_inside(name: str, junk: dict[str, Any], values: list[Any]) -> None:
    call = Direct(make_service())
    properties = TOOLS[name].input_schema["properties"]
    arguments = {**dict(zip(properties, values, strict=False)), **junk}
    for attempt in (arguments, {key: value for key, value in arguments.items() if key in properties}):
        assert outcome(call, name, **attempt)[1] != "internal"
    assert set(call.service.tree.nodes) == {"root"} or name in ("add_child", "import_merge")


def test_arguments_that_are_no_object_are_refused(house: House) -> None:
    for arguments in ([], None, "x", 5):
        with pytest.raises(InvalidArgument):
            house.call.service.call("get_node", arguments, house.call.caller)  # type: ignore[arg-type]


def test_a_tool_that_does_not_exist_is_not_found(house: House) -> None:
    with pytest.raises(TreeError) as missing:
        house.call("drop_table")
    assert missing.value.code == "not_found"
