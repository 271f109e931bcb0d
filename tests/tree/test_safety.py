"""Roles, read-only mode, guards, limits, tokens, idempotency and the audit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.tree.conftest import House
from tests.tree.surfaces import EDITOR, READER, UNLIMITED, Direct, ThroughExecutor, make_service

from apcore_tree import (
    AuditQuery,
    Caller,
    Conflict,
    Forbidden,
    InvalidArgument,
    NotFound,
    PayloadType,
    RateLimited,
    Settings,
    tree_acl,
)
from apcore_tree.store.protocol import chained
from apcore_tree.tools.catalogue import TOOLS

ARTIFACT = PayloadType("Artifact", self_payload=True, read_only=frozenset({"Serial"}))
SECRETIVE = PayloadType("Account", sensitive=frozenset({"Pin"}))


# -- roles and read-only mode


@pytest.mark.parametrize("surface", [Direct, ThroughExecutor])
@pytest.mark.parametrize("name", [name for name, tool in TOOLS.items() if not tool.reads])
def test_a_reader_cannot_call_a_tool_that_changes(surface: type[Direct], name: str) -> None:
    with pytest.raises(Forbidden) as refused:
        surface(make_service(), READER)(name)
    assert refused.value.details["reason"] == "role"


def test_somebody_without_a_role_cannot_even_read() -> None:
    with pytest.raises(Forbidden):
        Direct(make_service(), Caller("nobody"))("get_status")


def test_readers_may_fold_where_the_deployment_says_so() -> None:
    settings = replace(UNLIMITED, session_tools_for_readers=True)
    service = make_service(settings=settings)
    assert Direct(service, READER).change("collapse_node", nodeId="root")["isExpanded"] is False


def test_the_access_list_decides_like_the_service() -> None:
    acl = tree_acl()
    for name, tool in TOOLS.items():
        readers = [rule for rule in acl.rules if tool.module_id in rule.targets]
        assert bool(readers) == tool.reads, name


@pytest.mark.parametrize(
    ("settings", "caller"),
    [(replace(UNLIMITED, read_only=True), EDITOR), (UNLIMITED, replace(EDITOR, read_only=True))],
)
def test_read_only_mode_beats_the_editor_role(settings: Settings, caller: Caller) -> None:
    call = Direct(make_service(settings=settings), caller)
    with pytest.raises(Forbidden) as refused:
        call.change("tag_node", nodeId="root", tags=["x"])
    assert refused.value.details["reason"] == "read_only"
    assert call("get_status")["readOnly"] is True


# -- guards


@pytest.mark.parametrize("name", ["NodeId", "Children", "Parent", "PayloadType", "nodeid", "ＮｏｄｅＩｄ", "Parent.x"])
def test_structural_names_are_guarded_on_self_payload_nodes(name: str) -> None:
    call = Direct(make_service(payload_types=(ARTIFACT,)))
    added = call.change("add_child", parentNodeId="root", payloadType="Artifact", payloadProps={"Name": "a"})
    with pytest.raises(InvalidArgument) as refused:
        call.change("update_payload_property", nodeId=added["nodeId"], propertyName=name, newValue=1)
    assert refused.value.details["reason"] == "guarded"


def test_other_types_may_own_a_property_called_parent(house: House) -> None:
    house.call.change("update_payload_property", nodeId=house.shed, propertyName="Parent", newValue="x")
    assert house.call("get_node", nodeId=house.shed)["node"]["payload"]["Parent"] == "x"
    assert house.call("get_node", nodeId=house.shed)["node"]["parentId"] == house.garden


def test_a_patch_applies_what_it_may_and_reports_the_rest() -> None:
    call = Direct(make_service(payload_types=(ARTIFACT,)))
    node = call.change("add_child", parentNodeId="root", payloadType="Artifact", payloadProps={"Serial": 1})["nodeId"]
    result = call.change("update_payload", nodeId=node, patch={"Serial": 2, "NodeId": "x", "Colour": "red"})
    assert result["applied"] == ["Colour"]
    assert {item["property"]: item["reason"] for item in result["rejected"]} == {
        "Serial": "read_only",
        "NodeId": "guarded",
    }
    with pytest.raises(InvalidArgument):
        call.change("update_payload", nodeId=node, patch={"Serial": 2, "Colour": "blue"}, strict=True)
    assert call("get_node", nodeId=node)["node"]["payload"] == {"Serial": 1, "Colour": "red"}


def test_a_patch_that_is_only_valid_together_is_applied_together() -> None:
    schema = {"type": "object", "dependentRequired": {"Width": ["Height"], "Height": ["Width"]}}
    call = Direct(make_service(payload_types=(PayloadType("Box", schema=schema),)))
    node = call.change("add_child", parentNodeId="root", payloadType="Box", payloadProps={})["nodeId"]
    assert call.change("update_payload", nodeId=node, patch={"Width": 1, "Height": 2})["rejected"] == []
    rejected = call.change("update_payload", nodeId=node, patch={"Depth": 3, "": 4})["rejected"]
    assert rejected == [{"property": "", "reason": "name"}]


def test_sensitive_properties_are_masked_and_cannot_be_searched() -> None:
    call = Direct(make_service(payload_types=(SECRETIVE,)))
    data = {"Name": "savings", "Pin": "1234"}
    node = call.change("add_child", parentNodeId="root", payloadType="Account", payloadProps=data)["nodeId"]
    assert call("get_node", nodeId=node)["node"]["payload"]["Pin"] == "***REDACTED***"
    assert "1234" not in str(call("export_subtree", nodeId="root"))
    assert "1234" not in str(call("export_view", rootNodeId="root"))
    for path in ("Pin", "pin", "ＰＩＮ"):
        hits = call("search", rootNodeId="root", filters=[{"path": path, "op": "contains", "value": "1"}])
        assert hits["items"] == []
    changed = call.change("update_payload_property", nodeId=node, propertyName="Pin", newValue="9")
    assert changed["previous"] == "***REDACTED***"
    with pytest.raises(InvalidArgument):
        call.change("update_payload_property", nodeId=node, propertyName="Pin", newValue="***REDACTED***")


def test_a_near_miss_in_a_property_name_is_refused_with_the_right_one(house: House) -> None:
    with pytest.raises(InvalidArgument) as refused:
        house.call.change("update_payload_property", nodeId=house.table, propertyName="colour", newValue="x")
    assert refused.value.details["suggestion"] == "Colour"


# -- limits


def test_an_agent_over_its_rate_is_told_how_long_to_wait() -> None:
    service = make_service(settings=Settings(rate_limit="3/hour"))
    ann, bob = Direct(service), Direct(service, READER)
    for _ in range(3):
        ann("get_status")
    with pytest.raises(RateLimited) as refused:
        ann("get_status")
    assert 0 < refused.value.details["retryAfter"] <= 3600
    assert bob("get_status")["nodeCount"] == 1


@pytest.mark.parametrize("rate", ["", "many", "10", "10/fortnight", "-1/minute"])
def test_a_rate_that_is_none_is_refused_at_once(rate: str) -> None:
    with pytest.raises(InvalidArgument):
        make_service(settings=Settings(rate_limit=rate))


def test_the_rate_is_counted_once_through_the_executor() -> None:
    call = ThroughExecutor(make_service(settings=Settings(rate_limit="2/hour")))
    call("get_status")
    call("get_status")
    with pytest.raises(RateLimited) as refused:
        call("get_status")
    assert refused.value.details["retryAfter"] > 0


def test_too_many_ids_are_refused_with_the_largest_batch(house: House) -> None:
    with pytest.raises(InvalidArgument) as refused:
        house.call("get_common_ancestor", nodeIds=["root"] * 101)
    assert refused.value.details["maxBatch"] == 100
    assert "at most 100" in refused.value.details["suggestion"]


def test_a_bulk_update_that_matches_too_many_suggests_a_narrower_filter() -> None:
    call = Direct(make_service())
    rows = [{"nodeId": "top", "parentId": None, "payloadType": "object", "payload": {}}]
    rows += [{"nodeId": f"r{n}", "parentId": "top", "payloadType": "object", "payload": {}} for n in range(501)]
    call.change("import_merge", json=rows, strategy="upsert", matchBy="nodeId")
    with pytest.raises(InvalidArgument) as refused:
        call.change("update_nodes", filter={"queryDsl": 'under "top"'}, patch={"x": 1})
    assert refused.value.details["maxBatch"] == 500


def test_a_tree_has_a_largest_size() -> None:
    call = Direct(make_service(settings=replace(UNLIMITED, max_nodes=2)))
    call.add("root", "a")
    with pytest.raises(InvalidArgument) as refused:
        call.add("root", "b")
    assert refused.value.details["reason"] == "max_nodes"


# -- version tokens


def test_a_change_without_a_token_is_a_conflict_that_names_the_version(house: House) -> None:
    with pytest.raises(Conflict) as refused:
        house.call("remove_node", nodeId=house.shed)
    assert refused.value.details["currentVersion"] == house.call.service.version()


@pytest.mark.parametrize("token", ["t1.other0.3", "t1.{epoch}.999", "f1.other0.3", "t1.{epoch}.2"])
def test_tokens_of_other_times_are_conflicts(house: House, token: str) -> None:
    with pytest.raises(Conflict):
        house.call("remove_node", nodeId=house.shed, versionToken=token.format(epoch=house.call.service.tree.epoch))


@pytest.mark.parametrize("token", ["", "999", "t1.abc", "x1.abc.1", "t1.abc.-1", "t1.abc.١"])
def test_a_token_that_cannot_be_read_is_invalid(house: House, token: str) -> None:
    with pytest.raises(InvalidArgument):
        house.call("remove_node", nodeId=house.shed, versionToken=token)


def test_a_view_version_does_not_stand_for_the_tree(house: House) -> None:
    token = house.call("get_status")["viewVersion"]
    assert house.call("collapse_node", nodeId=house.house, versionToken=token)["changedCount"] == 1
    with pytest.raises(InvalidArgument):
        house.call("remove_node", nodeId=house.shed, versionToken=token)
    with pytest.raises(Conflict) as refused:
        house.call("expand_node", nodeId=house.house, versionToken=token)
    assert refused.value.details["currentViewVersion"].startswith("v1.")


def test_two_agents_with_strict_tokens_conflict_once(house: House) -> None:
    service = house.call.service
    version = service.version()
    ann, ben = Direct(service), Direct(service, replace(EDITOR, id="ben"))
    ann("tag_node", nodeId=house.table, tags=["a"], versionToken=version)
    with pytest.raises(Conflict):
        ben("tag_node", nodeId=house.shed, tags=["b"], versionToken=version)


def test_two_agents_on_disjoint_branches_never_conflict_with_footprint_tokens() -> None:
    service = make_service(settings=replace(UNLIMITED, tokens="footprint"))
    ann, ben = Direct(service), Direct(service, replace(EDITOR, id="ben"))
    left, right = ann.add("root", "left"), ann.add("root", "right")
    tokens = {left: service.version(), right: service.version()}
    for turn in range(20):
        for agent, branch in ((ann, left), (ben, right)):
            added = agent(
                "add_child",
                parentNodeId=branch,
                payloadType="object",
                payloadProps={"Name": str(turn)},
                versionToken=tokens[branch],
            )
            result = agent(
                "update_payload_property",
                nodeId=added["nodeId"],
                propertyName="V",
                newValue=turn,
                versionToken=added["version"],
            )
            tokens[branch] = result["version"]
    assert len(service.tree.nodes) == 43


@pytest.mark.parametrize(
    ("tool", "arguments", "disturbance"),
    [
        ("add_child", {"parentNodeId": "{kitchen}", "payloadType": "object", "payloadProps": {}}, "kitchen"),
        ("update_payload_property", {"nodeId": "{table}", "propertyName": "x", "newValue": 1}, "table"),
        ("update_payload", {"nodeId": "{table}", "patch": {"x": 1}}, "table"),
        ("remove_node", {"nodeId": "{kitchen}"}, "table"),
        ("move_node", {"nodeId": "{table}", "newParentId": "{garden}"}, "garden"),
        ("move_node", {"nodeId": "{table}", "newParentId": "{garden}"}, "kitchen"),
        ("move_before", {"nodeId": "{chair}", "siblingId": "{table}"}, "kitchen"),
        ("move_after", {"nodeId": "{table}", "siblingId": "{chair}"}, "table"),
        ("sort_children", {"parentId": "{kitchen}", "byProp": "Name", "direction": "asc"}, "chair"),
        ("copy_subtree", {"sourceId": "{kitchen}", "targetParentId": "{garden}", "mode": "duplicate"}, "chair"),
        ("clone_node", {"nodeId": "{table}", "targetParentId": "{garden}"}, "table"),
        ("tag_node", {"nodeId": "{table}", "tags": ["x"]}, "table"),
        ("import_merge", {"json": {"NodeId": "{kitchen}"}, "strategy": "upsert", "matchBy": "nodeId"}, "chair"),
    ],
)
def test_a_footprint_token_conflicts_only_with_what_the_change_rests_on(
    house: House, tool: str, arguments: dict[str, Any], disturbance: str
) -> None:
    ids = house._asdict()
    asked = _filled(arguments, ids)
    token = house.call.service.version().replace("t1.", "f1.", 1)
    house.call.change("update_payload_property", nodeId=ids[disturbance], propertyName="Touched", newValue=True)
    with pytest.raises(Conflict) as refused:
        house.call(tool, **asked, versionToken=token)
    assert refused.value.details["changedIds"]
    token = house.call.service.version().replace("t1.", "f1.", 1)
    house.call.change("update_payload_property", nodeId=house.attic, propertyName="Touched", newValue=True)
    assert house.call(tool, **asked, versionToken=token)["version"]


def _filled(value: Any, ids: dict[str, Any]) -> Any:
    if isinstance(value, str):
        return value.format(**ids)
    if isinstance(value, dict):
        return {key: _filled(item, ids) for key, item in value.items()}
    return value


def test_a_shared_payload_changes_every_node_that_shows_it(house: House) -> None:
    twin = house.call.change("clone_node", nodeId=house.table, targetParentId=house.garden, mode="reference")["nodeId"]
    token = house.call.service.version().replace("t1.", "f1.", 1)
    house.call.change("update_payload_property", nodeId=twin, propertyName="Colour", newValue="green")
    assert house.call("get_node", nodeId=house.table)["node"]["payload"]["Colour"] == "green"
    with pytest.raises(Conflict):
        house.call("tag_node", nodeId=house.table, tags=["x"], versionToken=token)


# -- idempotency


def test_an_honest_retry_gets_the_first_answer_although_its_token_is_stale(house: House) -> None:
    asked = {"parentNodeId": house.attic, "payloadType": "object", "payloadProps": {"Name": "box"}}
    token = house.call.service.version()
    first = house.call("add_child", **asked, versionToken=token, idempotencyKey="k")
    house.call.change("tag_node", nodeId=house.shed, tags=["later"])
    count = len(house.call.service.tree.nodes)
    assert house.call("add_child", **asked, versionToken=token, idempotencyKey="k") == first
    assert len(house.call.service.tree.nodes) == count


def test_a_key_belongs_to_one_request_of_one_agent(house: House) -> None:
    house.call.change("tag_node", nodeId=house.shed, tags=["x"], idempotencyKey="k")
    with pytest.raises(InvalidArgument) as refused:
        house.call.change("tag_node", nodeId=house.shed, tags=["y"], idempotencyKey="k")
    assert refused.value.details["reason"] == "idempotency_key_reused"
    other = Direct(house.call.service, replace(EDITOR, id="ben"))
    assert other.change("tag_node", nodeId=house.shed, tags=["y"], idempotencyKey="k")["tags"] == ["x", "y"]


def test_a_failure_is_not_remembered(house: House) -> None:
    with pytest.raises(NotFound):
        house.call.change("tag_node", nodeId="gone", tags=["x"], idempotencyKey="k")
    assert house.call.change("tag_node", nodeId=house.shed, tags=["x"], idempotencyKey="k")["tags"] == ["x"]


def test_an_answer_is_forgotten_in_the_end() -> None:
    times = [1000.0]
    service = make_service(clock=lambda: times[0])
    call = Direct(service)
    call.change("tag_node", nodeId="root", tags=["x"], idempotencyKey="k")
    times[0] += 25 * 3600
    assert call.change("tag_node", nodeId="root", tags=["y"], idempotencyKey="k")["tags"] == ["x", "y"]


def test_a_repeated_session_change_is_not_made_twice(house: House) -> None:
    first = house.call.change("toggle_node", nodeId=house.house, idempotencyKey="k")
    assert house.call.change("toggle_node", nodeId=house.house, idempotencyKey="k") == first
    assert first["isExpanded"] is False


def test_a_repeated_bulk_update_resumes_after_what_it_has_done(house: House) -> None:
    asked = {"filter": {"nodeIds": [house.table, house.chair]}, "patch": {"Legs": 3}}
    first = house.call.change("update_nodes", **asked, idempotencyKey="k")
    assert first["updated"] == 2
    # As if the process had died before the answer to the whole was stored.
    house.call.service.store._answers["ann"].pop("k")  # type: ignore[attr-defined]
    house.call.change("update_payload_property", nodeId=house.table, propertyName="Legs", newValue=9)
    again = house.call.change("update_nodes", **asked, idempotencyKey="k")
    assert again["results"] == first["results"]
    assert house.call("get_node", nodeId=house.table)["node"]["payload"]["Legs"] == 9


def test_a_bulk_update_reports_each_node_for_itself() -> None:
    call = Direct(make_service(payload_types=(ARTIFACT,)))
    good = call.add("root", "good")
    bad = call.change("add_child", parentNodeId="root", payloadType="Artifact", payloadProps={"Serial": 1})["nodeId"]
    result = call.change("update_nodes", filter={"nodeIds": [bad, good]}, patch={"Serial": 2})
    assert [(item["nodeId"], item["outcome"]) for item in result["results"]] == [(bad, "failed"), (good, "updated")]
    assert result["results"][0]["code"] == "invalid_argument"
    assert result["changedIds"] == [good]


def test_a_dry_run_changes_nothing(house: House) -> None:
    before = house.call.service.version()
    result = house.call("update_nodes", filter={"queryDsl": "Legs exists"}, patch={"Legs": 1}, dryRun=True)
    assert (result["matched"], result["updated"]) == (2, 0)
    document = {"NodeId": house.house, "Payload": {}, "Children": []}
    merged = house.call("import_merge", json=document, strategy="replace", matchBy="nodeId", dryRun=True)
    assert merged["removed"] == 5
    assert house.call.service.version() == before == merged["version"]


# -- the audit


def test_every_change_is_audited_and_so_is_every_failure(house: House) -> None:
    service = house.call.service
    start = len(service.audit(AuditQuery(limit=1000)))
    house.call.change("tag_node", nodeId=house.shed, tags=["x"])
    house.call("get_node", nodeId=house.shed)
    with pytest.raises(NotFound):
        house.call.change("tag_node", nodeId="gone", tags=["x"])
    with pytest.raises(InvalidArgument):
        house.call("tag_node", nodeId=house.shed)
    with pytest.raises(Forbidden):
        Direct(service, READER).change("remove_node", nodeId=house.shed)
    told = [
        (entry.agent, entry.operation, entry.outcome, entry.code) for entry in service.audit(AuditQuery(limit=1000))
    ]
    assert told[start:] == [
        ("ann", "tag_node", "success", None),
        ("ann", "tag_node", "failure", "not_found"),
        ("ann", "tag_node", "failure", "invalid_argument"),
        ("bob", "remove_node", "failure", "forbidden"),
    ]


def test_the_audit_can_be_asked(house: House) -> None:
    service = house.call.service
    house.call.change("tag_node", nodeId=house.shed, tags=["x"])
    entries = service.audit(AuditQuery(operation="tag_node", agent="ann", outcome="success"))
    assert [entry.targets for entry in entries] == [(house.shed,)]
    assert entries[0].revision_after == entries[0].revision_before + 1
    assert service.audit(AuditQuery(after=entries[0].sequence)) == []
    assert service.audit(AuditQuery(agent="nobody")) == []


def test_the_audit_is_a_chain(house: House) -> None:
    entries = house.call.service.audit(AuditQuery(limit=1000))
    previous = ""
    for entry in entries:
        assert chained(entry, entry.sequence, previous).hash == entry.hash
        previous = entry.hash
    forged = entries[0]._replace(agent="somebody else")
    assert chained(forged, 1, "").hash != entries[0].hash
