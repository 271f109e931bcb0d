import copy
import json
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, Field
from tests.requirements import requirement

from apcore_mcp.adapters.schema import CircularReference, SchemaConverter, inline_refs


def converted(schema: dict[str, Any]) -> dict[str, Any]:
    return SchemaConverter().convert_input_schema(SimpleNamespace(input_schema=schema))


def converted_output(schema: dict[str, Any]) -> dict[str, Any]:
    return SchemaConverter().convert_output_schema(SimpleNamespace(output_schema=schema))


class Point(BaseModel):
    """A place."""

    x: int
    y: int = 0


class Shape(BaseModel):
    centre: Point = Field(description="The middle")
    corners: list[Point] = []
    either: Point | str | None = None
    by_name: dict[str, Point] = {}


@requirement("FR-SCHEMA-001", "FR-SCHEMA-002")
def test_a_pydantic_schema_comes_out_self_contained_and_otherwise_intact() -> None:
    original = Shape.model_json_schema()
    untouched = copy.deepcopy(original)
    schema = converted(original)

    assert original == untouched
    assert "$ref" not in json.dumps(schema)
    assert "$defs" not in schema
    assert (schema["title"], schema["required"]) == ("Shape", ["centre"])
    assert list(schema["properties"]) == ["centre", "corners", "either", "by_name"]
    point = untouched["$defs"]["Point"]
    assert schema["properties"]["centre"] == {**point, "description": "The middle"}
    assert schema["properties"]["corners"]["items"] == point
    assert schema["properties"]["either"]["anyOf"][0] == point
    assert schema["properties"]["by_name"]["additionalProperties"] == point


@requirement("FR-SCHEMA-002")
def test_each_use_of_a_definition_gets_its_own_copy() -> None:
    original = {"properties": {"a": {"$ref": "#/$defs/T"}, "b": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"enum": [1]}}}
    schema = inline_refs(original)
    schema["properties"]["a"]["enum"].append(2)

    assert schema["properties"]["b"] == {"enum": [1]}
    assert original["$defs"]["T"] == {"enum": [1]}


@requirement("FR-SCHEMA-002")
def test_a_schema_without_references_comes_out_equal_but_not_shared() -> None:
    original: dict[str, Any] = {"type": "object", "properties": {"a": {"default": [1]}}, "$defs": {}}
    schema = inline_refs(original)
    assert schema == {"type": "object", "properties": {"a": {"default": [1]}}}
    schema["properties"]["a"]["default"].append(2)
    assert original["properties"]["a"]["default"] == [1]


@requirement("FR-SCHEMA-002")
@pytest.mark.parametrize(
    ("ref", "target"),
    [
        ("#/$defs/A", {"const": 1}),
        ("#/definitions/A", {"const": 2}),
        ("#/$defs/a~1b", {"const": 3}),
        ("#/$defs/a~0b", {"const": 4}),
        ("#/$defs/a%25b", {"const": 5}),
        ("#/$defs/list/oneOf/1", {"const": 6}),
        ("#/properties/plain", {"const": 7}),
        ("#/$defs/", {"const": 8}),
        ("#named", {"const": 9}),
        ("#/$defs/yes", True),
    ],
)
def test_every_way_to_point_inside_the_document_is_followed(ref: str, target: Any) -> None:
    document = {
        "properties": {"plain": {"const": 7}, "it": {"$ref": ref}},
        "definitions": {"A": {"const": 2}},
        "$defs": {
            "A": {"const": 1},
            "a/b": {"const": 3},
            "a~b": {"const": 4},
            "a%b": {"const": 5},
            "list": {"oneOf": [True, {"const": 6}]},
            "": {"const": 8},
            "anchored": {"$anchor": "named", "const": 9},
            "yes": True,
        },
    }
    assert inline_refs(document)["properties"]["it"] == target


@requirement("FR-SCHEMA-002")
def test_what_only_looks_like_a_reference_is_left_alone() -> None:
    look_alike = {"$ref": "#/$defs/nowhere"}
    schema = {
        "properties": {"$ref": {"type": "string"}, "$defs": {"type": "string"}},
        "default": look_alike,
        "const": look_alike,
        "enum": [look_alike],
        "examples": (look_alike,),
        "x-note": look_alike,
    }
    assert inline_refs(schema) == {**schema, "examples": [look_alike]}


@requirement("FR-SCHEMA-002")
@pytest.mark.parametrize(
    ("beside", "joined"),
    [
        ({"description": "ours"}, {"type": "string", "description": "ours"}),
        ({"maxLength": 3}, {"type": "string", "description": "theirs", "maxLength": 3}),
        ({"type": "string", "minLength": 1}, {"type": "string", "description": "theirs", "minLength": 1}),
        ({"type": "integer"}, {"type": "integer", "allOf": [{"type": "string", "description": "theirs"}]}),
    ],
)
def test_keywords_beside_a_reference_survive(beside: dict[str, Any], joined: dict[str, Any]) -> None:
    target = {"type": "string", "description": "theirs"}
    assert inline_refs({"$ref": "#/$defs/T", **beside, "$defs": {"T": target}}) == joined


@requirement("FR-SCHEMA-002")
def test_pointers_inside_an_embedded_document_start_from_it() -> None:
    inner = {"$id": "http://x/inner", "$ref": "#/$defs/T", "$defs": {"T": {"const": "inner"}}}
    outer = {"properties": {"a": inner, "b": {"$ref": "#/properties/a"}}, "$defs": {"T": {"const": "outer"}}}
    properties = inline_refs(outer)["properties"]
    assert (properties["a"]["const"], properties["b"]["const"]) == ("inner", "inner")


@requirement("FR-SCHEMA-001", "FR-SCHEMA-002")
@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}, "A -> B -> A"),
        ({"$ref": "#/$defs/N", "$defs": {"N": {"properties": {"n": {"$ref": "#/$defs/N"}}}}}, "N -> N"),
        ({"properties": {"me": {"$ref": "#"}}}, "# -> #"),
        ({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"not": {"$ref": "#"}}}}, "# -> A -> #"),
        ({"properties": {"a": {"items": {"$ref": "#/properties/a"}}}}, "#/properties/a -> #/properties/a"),
    ],
)
def test_a_circular_schema_is_refused_with_the_path(schema: dict[str, Any], path: str) -> None:
    with pytest.raises(ValueError, match=f"^Circular reference: {path}$") as caught:
        converted(schema)
    assert isinstance(caught.value, CircularReference)
    assert caught.value.path == tuple(path.split(" -> "))


@requirement("FR-SCHEMA-005")
def test_a_circular_output_schema_is_refused_too() -> None:
    with pytest.raises(ValueError, match="Circular reference: # -> #"):
        converted_output({"items": {"$ref": "#"}})


@requirement("FR-SCHEMA-001")
@pytest.mark.parametrize(
    ("ref", "name"),
    [
        ("#/$defs/Missing", "Missing"),
        ("#/definitions/Gone", "Gone"),
        ("#/properties/a/items", "#/properties/a/items"),
        ("#/required", "#/required"),
        ("#/required/7", "#/required/7"),
        ("#nowhere", "#nowhere"),
        ("http://example.com/schema.json", "http://example.com/schema.json"),
        (5, "5"),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(ref: Any, name: str) -> None:
    with pytest.raises(KeyError) as caught:
        converted({"properties": {"a": {"type": "string"}, "b": {"$ref": ref}}, "required": ["a"]})
    assert caught.value.args == (name,)


def chain(length: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"D{n}": {"properties": {"d": {"$ref": f"#/$defs/D{n + 1}"}}} for n in range(length)}
    definitions[f"D{length}"] = {"type": "string"}
    return {"$ref": "#/$defs/D1", "$defs": definitions}


@requirement("FR-SCHEMA-001", "FR-SCHEMA-002")
def test_thirty_two_references_in_a_chain_are_followed_and_one_more_is_refused() -> None:
    assert inline_refs(chain(32))
    with pytest.raises(ValueError, match="Maximum reference depth of 32 exceeded"):
        inline_refs(chain(33))


@requirement("FR-SCHEMA-002")
def test_nesting_without_references_does_not_count_towards_the_depth() -> None:
    schema: dict[str, Any] = {"$ref": "#/$defs/leaf"}
    for _ in range(60):
        schema = {"items": schema}
    assert inline_refs({**schema, "$defs": {"leaf": {"type": "string"}}})


def test_definitions_that_double_at_every_step_are_refused_in_time() -> None:
    definitions: dict[str, Any] = {f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 2} for n in range(30)}
    with pytest.raises(ValueError, match="More than 10000 references"):
        inline_refs({"$ref": "#/$defs/D0", "$defs": {**definitions, "D30": {}}})


def test_a_schema_nested_beyond_reason_is_a_value_error() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5_000):
        schema = {"items": schema}
    with pytest.raises(ValueError, match="nested too deeply"):
        inline_refs(schema)


@pytest.mark.parametrize("keyword", ["$dynamicRef", "$recursiveRef"])
def test_dynamic_references_are_refused_by_name(keyword: str) -> None:
    with pytest.raises(ValueError, match=r"Unsupported reference: \$\w+ '#node'"):
        inline_refs({"items": {keyword: "#node"}})


@requirement("FR-SCHEMA-001", "FR-SCHEMA-003")
@pytest.mark.parametrize(
    ("schema", "root"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "object", "properties": {}}, {"type": "object", "properties": {}}),
        ({"anyOf": [{"required": ["a"]}]}, {"type": "object", "anyOf": [{"required": ["a"]}]}),
        ({"type": ["object", "null"]}, {"type": "object"}),
        ({"$ref": "#/$defs/any", "$defs": {"any": True}}, {"type": "object", "properties": {}}),
    ],
)
def test_the_root_of_an_input_schema_is_an_object(schema: dict[str, Any], root: dict[str, Any]) -> None:
    assert converted(schema) == root


@requirement("FR-SCHEMA-003")
@pytest.mark.parametrize("declared", ["array", ["string", "null"]])
def test_an_input_schema_that_cannot_be_an_object_is_refused(declared: Any) -> None:
    with pytest.raises(ValueError, match="must be an object, not "):
        converted({"type": declared})


@requirement("FR-SCHEMA-005")
def test_an_output_schema_is_inlined_and_an_empty_one_stays_empty() -> None:
    assert converted_output({}) == {}
    assert converted_output({"type": "array", "items": {"$ref": "#/$defs/T"}, "$defs": {"T": {"type": "string"}}}) == {
        "type": "array",
        "items": {"type": "string"},
    }


@requirement("FR-SCHEMA-006", "NFR-SEC-003")
@pytest.mark.parametrize(
    "field",
    [
        *({"type": name} for name in ("string", "integer", "number", "boolean", "array", "object", "null")),
        {"type": ["string", "null"]},
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "properties": {"x": {"type": "object", "properties": {"y": {"type": "null"}}}}},
        {"enum": ["a", 1, None, {"b": []}]},
        {"const": {"a": [1]}},
        {"type": "string", "format": "date-time", "description": "when", "default": None, "x-sensitive": True},
    ],
)
def test_every_type_and_keyword_passes_through_unchanged(field: dict[str, Any]) -> None:
    assert converted({"properties": {"field": field}})["properties"]["field"] == field


def test_references_can_be_kept_for_recursive_schemas() -> None:
    tree = {"properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}, "$defs": {"unused": {}}}
    descriptor = SimpleNamespace(input_schema=tree, output_schema=tree)
    converter = SchemaConverter(refs="keep")
    assert converter.convert_input_schema(descriptor) == {"type": "object", **tree}
    assert converter.convert_output_schema(descriptor) == tree
    assert converter.convert_output_schema(descriptor)["properties"] is not tree["properties"]
