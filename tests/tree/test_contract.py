"""The tools as their users see them: names, schemas, annotations, and that behaviour keeps to them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from apcore import Registry
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.tree.conftest import House
from tests.tree.surfaces import everything

import apcore_tree
from apcore_tree import build_service, definitions, register_tree
from apcore_tree.tools.catalogue import TOOLS
from apcore_tree.tools.tool import plain_check

# The tools and arguments that the requirements name; `?` marks what a caller may leave out.
SPECIFIED = """
get_node(nodeId, includedProperties?, excludedProperties?)
get_view(rootNodeId, includeViewRoot?, defaultExpanded?, includedProperties?, \
excludedProperties?, depthLimit?, pageSize?, pageToken?)
search(rootNodeId, filters, limit?, pageToken?)
list_children(nodeId, limit?, pageToken?)
expand_node(nodeId)
collapse_node(nodeId)
toggle_node(nodeId)
expand_all(rootNodeId)
collapse_all(rootNodeId)
add_child(parentNodeId, payloadType, payloadProps)
update_payload_property(nodeId, propertyName, newValue)
remove_node(nodeId)
move_node(nodeId, newParentId)
export_view(rootNodeId, includeViewRoot?)
import_view(viewJson, payloadTypes?, rootLookupStrategy?)
get_path(nodeId)
get_subtree(nodeId, depthLimit?, filters?, paging?)
get_common_ancestor(nodeIds)
search_advanced(rootId, predicates, sortBy?, limit?, pageToken?)
select_nodes(queryDsl)
copy_subtree(sourceId, targetParentId, mode)
clone_node(nodeId, targetParentId)
move_before(nodeId, siblingId)
move_after(nodeId, siblingId)
sort_children(parentId, byProp, direction, stable?)
update_payload(nodeId, patch)
update_nodes(filter, patch)
set_expansion_recursive(nodeId, expanded, maxDepth?)
set_filters(scope, included, excluded)
tag_node(nodeId, tags)
query_by_tag(tag)
bookmark(nodeId, label)
list_bookmarks()
remove_bookmark(label)
validate_tree(rulesetId)
lint_payload(nodeId, rulesetId)
snapshot_create(label)
snapshot_list()
snapshot_restore(snapshotId)
snapshot_diff(a, b)
diff_subtree(aId, bId)
export_subtree(nodeId, includeViewRoot?)
import_merge(json, strategy, matchBy)
"""

SIGNATURES = dict(line.rstrip(")").split("(", 1) for line in SPECIFIED.strip().splitlines())


def test_the_catalogue_is_the_specified_tools_and_the_status() -> None:
    assert len(SIGNATURES) == 43
    assert set(TOOLS) == {*SIGNATURES, "get_status"}


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_tool_takes_the_specified_arguments(name: str) -> None:
    schema = TOOLS[name].input_schema
    arguments = [argument for argument in SIGNATURES[name].split(", ") if argument]
    for argument in arguments:
        assert argument.rstrip("?") in schema["properties"]
    required = {argument for argument in arguments if not argument.endswith("?")}
    assert required == set(schema.get("required", []))


@pytest.mark.parametrize("name", TOOLS)
def test_schemas_are_closed_described_and_free_of_references(name: str) -> None:
    tool = TOOLS[name]
    assert 20 <= len(tool.description) <= 600
    for schema in (tool.input_schema, tool.output_schema):
        Draft202012Validator.check_schema(schema)
        assert "$ref" not in json.dumps(schema)
        for part in _objects(schema):
            assert isinstance(part["additionalProperties"], bool)
            for label, inner in part.get("properties", {}).items():
                assert inner.get("description", "").endswith("."), label
                assert "\n" not in inner["description"]


def _objects(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [part for item in schema for part in _objects(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), bool) else []
    return own + [part for item in schema.values() for part in _objects(item)]


@pytest.mark.parametrize("name", TOOLS)
def test_no_output_field_looks_like_a_secret(name: str) -> None:
    """Bridges mask such names by default, and a masked version or page is of no use."""
    fields = [label.lower() for part in _objects(TOOLS[name].output_schema) for label in part.get("properties", {})]
    for word in ("token", "auth", "session", "secret", "cookie", "credential"):
        assert not any(word in label for label in fields)


def test_definitions_are_the_same_in_every_process() -> None:
    script = (
        "import json, apcore_tree;"
        "print(json.dumps({k: [m.description, m.input_schema.model_json_schema(), m.output_schema.model_json_schema(),"
        " m.tags, m.version, repr(m.annotations)] for k, m in apcore_tree.definitions().items()}))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": str(Path(apcore_tree.__file__).parents[1]), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


def test_all_modules_are_registered_with_truthful_annotations() -> None:
    registry = Registry()
    register_tree(registry, build_service())
    assert registry.count == 44
    assert list(definitions()) == [tool.module_id for tool in TOOLS.values()]
    for name, tool in TOOLS.items():
        described = registry.get_definition(f"tree.{name}")
        assert described is not None
        assert described.input_schema == tool.input_schema
        assert "tree" in described.tags
        assert described.annotations is not None
        assert described.annotations.readonly == tool.reads
        assert described.annotations.open_world is False
        assert not (described.annotations.readonly and described.annotations.destructive)


def example_arguments(house: House) -> dict[str, dict[str, Any]]:
    """One call of every tool that succeeds on a fresh house."""
    call = house.call
    snapshot = call("snapshot_create", label="for the examples")["snapshotId"]
    call.change("bookmark", nodeId=house.shed, label="mark")
    view = call("export_view", rootNodeId="root")["document"]
    document = call("export_subtree", nodeId=house.garden)["document"]
    document["Payload"]["Size"] = 101
    condition = {"path": "Size", "op": "eq", "value": 8}
    return {
        "get_node": {"nodeId": house.shed},
        "get_view": {"rootNodeId": "root", "includeViewRoot": True, "pageSize": 3},
        "search": {"rootNodeId": "root", "filters": [condition]},
        "list_children": {"nodeId": house.house, "limit": 1},
        "expand_node": {"nodeId": house.house},
        "collapse_node": {"nodeId": house.house},
        "toggle_node": {"nodeId": house.house},
        "expand_all": {"rootNodeId": "root"},
        "collapse_all": {"rootNodeId": "root"},
        "add_child": {"parentNodeId": house.bath, "payloadType": "object", "payloadProps": {"Name": "Tap"}},
        "update_payload_property": {"nodeId": house.bath, "propertyName": "Size", "newValue": 9},
        "remove_node": {"nodeId": house.attic},
        "move_node": {"nodeId": house.chair, "newParentId": house.bath},
        "export_view": {"rootNodeId": "root"},
        "import_view": {"viewJson": view},
        "get_path": {"nodeId": house.shed},
        "get_subtree": {"nodeId": "root", "paging": {"pageSize": 4}, "format": "flat"},
        "get_common_ancestor": {"nodeIds": [house.table, house.shed]},
        "search_advanced": {"rootId": "root", "predicates": {"predicates": [condition]}, "sortBy": "Size"},
        "select_nodes": {"queryDsl": "Size > 5", "limit": 2},
        "copy_subtree": {"sourceId": house.garden, "targetParentId": house.bath, "mode": "reference"},
        "clone_node": {"nodeId": house.shed, "targetParentId": house.bath},
        "move_before": {"nodeId": house.garden, "siblingId": house.house},
        "move_after": {"nodeId": house.garden, "siblingId": house.house},
        "sort_children": {"parentId": house.house, "byProp": "Size", "direction": "desc"},
        "update_payload": {"nodeId": house.bath, "patch": {"Tiles": "blue", "": 3}},
        "update_nodes": {"filter": {"queryDsl": "Size exists"}, "patch": {"Measured": True}},
        "set_expansion_recursive": {"nodeId": "root", "expanded": False, "maxDepth": 2},
        "set_filters": {"scope": "all", "included": ["Name"], "excluded": []},
        "tag_node": {"nodeId": house.bath, "tags": ["wet"]},
        "query_by_tag": {"tag": "wet"},
        "bookmark": {"nodeId": house.bath, "label": "tub"},
        "list_bookmarks": {},
        "remove_bookmark": {"label": "mark"},
        "validate_tree": {"rulesetId": "default"},
        "lint_payload": {"nodeId": house.bath, "rulesetId": "default"},
        "snapshot_create": {"label": "another"},
        "snapshot_list": {},
        "snapshot_restore": {"snapshotId": snapshot},
        "snapshot_diff": {"a": snapshot, "b": "current"},
        "diff_subtree": {"aId": house.house, "bId": house.garden},
        "export_subtree": {"nodeId": "root", "format": "flat"},
        "import_merge": {"json": document, "strategy": "upsert", "matchBy": "nodeId"},
        "get_status": {},
    }


@pytest.mark.parametrize("name", TOOLS)
def test_a_result_keeps_to_its_schema_and_to_json(house: House, name: str) -> None:
    asked, call = example_arguments(house)[name], house.call
    result = call(name, **asked) if TOOLS[name].reads else call.change(name, **asked)
    Draft202012Validator(TOOLS[name].output_schema).validate(result)
    assert json.loads(json.dumps(result, allow_nan=False)) == result


@pytest.mark.parametrize("name", [name for name, tool in TOOLS.items() if tool.reads])
def test_a_reading_tool_leaves_everything_as_it_was(house: House, name: str) -> None:
    asked, call = example_arguments(house)[name], house.call
    before = everything(call.service), call("get_status"), len(call.service.audit())
    call(name, **asked)
    assert (everything(call.service), call("get_status"), len(call.service.audit())) == before


@pytest.mark.parametrize("name", [name for name, tool in TOOLS.items() if tool.idempotent and not tool.reads])
def test_an_idempotent_tool_does_nothing_more_the_second_time(house: House, name: str) -> None:
    asked, call = example_arguments(house)[name], house.call
    call.change(name, **asked)
    before = {key: value[:8] for key, value in everything(call.service).items()}
    try:
        call.change(name, **asked)
    except apcore_tree.NotFound:
        assert name in ("remove_node", "remove_bookmark")
    assert {key: value[:8] for key, value in everything(call.service).items()} == before


@settings(max_examples=300, deadline=None, database=None)
@given(
    schema=st.sampled_from([part for tool in TOOLS.values() for part in tool.input_schema["properties"].values()]),
    value=st.text(max_size=140) | st.integers(-2, 1100) | st.booleans() | st.none() | st.floats(0, 3) | st.just("asc"),
)
def test_the_short_way_accepts_only_what_the_schema_accepts(schema: dict[str, Any], value: Any) -> None:
    accepts = plain_check(schema)
    if accepts is not None and accepts(value):
        assert Draft202012Validator(schema).is_valid(value)
    elif accepts is not None and not isinstance(value, float):
        assert not Draft202012Validator(schema).is_valid(value)
