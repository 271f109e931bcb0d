import json
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import AnyUrl, BaseModel, Field
from tests.adapters.strict_rules import violations
from tests.requirements import requirement

from apcore_mcp.adapters.schema import inline_refs
from apcore_mcp.adapters.strict import remove_nulls, to_strict


def strict_property(schema: dict[str, Any] | bool, *, required: bool = False) -> dict[str, Any]:
    """The strict form of one property of an otherwise empty object."""
    root = {"type": "object", "properties": {"it": schema}, "required": ["it"] if required else []}
    form: dict[str, Any] = to_strict(root).schema["properties"]["it"]
    return form


def departures(schema: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(departure.path, departure.keyword, departure.verdict) for departure in to_strict(schema).paths]


class Address(BaseModel):
    street: str
    zip_code: str | None = None


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Customer(BaseModel):
    name: str = Field(description="Full name", json_schema_extra={"x-sensitive": True})
    age: int = Field(3, ge=0)
    address: Address
    others: list[Address] = []
    colour: Colour = Colour.RED
    kind: Literal["person"] = "person"
    since: datetime | None = None


@requirement("FR-OPENAI-003")
def test_a_pydantic_model_becomes_closed_fully_required_and_nullable_where_it_was_optional() -> None:
    result = to_strict(Customer.model_json_schema())

    assert result.verdict == "exact"
    assert result.paths == ()
    address = {
        "title": "Address",
        "type": "object",
        "properties": {
            "street": {"title": "Street", "type": "string"},
            "zip_code": {"title": "Zip Code", "anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["street", "zip_code"],
        "additionalProperties": False,
    }
    assert result.schema == {
        "title": "Customer",
        "type": "object",
        "properties": {
            "name": {"title": "Name", "description": "Full name", "type": "string"},
            "age": {"title": "Age", "type": ["integer", "null"], "minimum": 0},
            "address": address,
            "others": {"title": "Others", "type": ["array", "null"], "items": address},
            "colour": {"title": "Colour", "type": ["string", "null"], "enum": ["red", "blue", None]},
            "kind": {"anyOf": [{"title": "Kind", "type": "string", "const": "person"}, {"type": "null"}]},
            "since": {"title": "Since", "anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
        },
        "required": ["name", "age", "address", "others", "colour", "kind", "since"],
        "additionalProperties": False,
    }
    assert violations(result.schema) == []


@requirement("FR-OPENAI-003")
@pytest.mark.parametrize(
    ("optional", "nullable"),
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": ["string", "integer"]}, {"type": ["string", "integer", "null"]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "null"}, {"type": "null"}),
        ({"enum": ["a", 1]}, {"enum": ["a", 1, None], "type": ["string", "integer", "null"]}),
        ({"enum": ["a", None]}, {"enum": ["a", None], "type": ["string", "null"]}),
        ({"type": ["string", "null"], "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"const": 1.5}, {"anyOf": [{"const": 1.5, "type": "number"}, {"type": "null"}]}),
        ({"const": None}, {"const": None, "type": "null"}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"allOf": [{"type": "string"}], "title": "T"}, {"type": ["string", "null"], "title": "T"}),
        ({"allOf": [{"allOf": [{"type": "string"}]}, {"minimum": 1}]}, {"type": ["string", "null"], "minimum": 1}),
    ],
)
def test_an_optional_property_accepts_null_exactly_once(optional: dict[str, Any], nullable: dict[str, Any]) -> None:
    assert strict_property(optional) == nullable


@requirement("FR-OPENAI-003")
@pytest.mark.parametrize(
    ("constraint", "sentence"),
    [
        ({"type": "string", "maxLength": 20}, "At most 20 characters."),
        ({"type": "string", "minLength": 1}, "1 or more characters."),
        ({"type": "string", "format": "uri"}, "Format: uri."),
        ({"type": "string", "pattern": "^(?!x)"}, "Matches the pattern `^(?!x)`."),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "No item appears twice."),
        ({"type": "object", "properties": {}, "minProperties": 1}, "1 or more properties."),
        ({"type": "object", "properties": {}, "maxProperties": 4}, "At most 4 properties."),
    ],
)
def test_a_constraint_without_strict_form_is_told_in_the_description(constraint: dict[str, Any], sentence: str) -> None:
    assert strict_property(constraint)["description"] == sentence
    assert strict_property({**constraint, "description": "A thing"})["description"] == f"A thing. {sentence}"
    result = to_strict({"properties": {"a/b~": {"description": "Ends.", **constraint}}})
    assert result.verdict == "widened"
    assert [(note.path, note.reason) for note in result.paths] == [("#/properties/a~1b~0", sentence)]
    assert result.schema["properties"]["a/b~"]["description"] == f"Ends. {sentence}"
    assert violations(result.schema) == []


@requirement("FR-OPENAI-003")
def test_constraints_that_strict_mode_knows_stay_in_the_schema() -> None:
    kept = {"type": "string", "pattern": "^a+$", "format": "uuid"}
    number = {"type": "number", "minimum": 1, "exclusiveMaximum": 5, "multipleOf": 0.5}
    many = {"type": "array", "items": kept, "minItems": 1, "maxItems": 2, "uniqueItems": False}
    result = to_strict({"properties": {"k": kept, "n": number, "m": many}, "required": ["k", "n", "m"]})

    assert result.verdict == "exact"
    without_flag = {key: value for key, value in many.items() if key != "uniqueItems"}
    assert result.schema["properties"] == {"k": kept, "n": number, "m": without_flag}


@requirement("FR-OPENAI-003")
def test_annotations_defaults_and_extensions_are_stripped_without_a_word() -> None:
    noise = {"default": "a", "examples": ["a"], "deprecated": True, "x-sensitive": True, "$comment": "c"}
    assert strict_property({"type": "string", **noise}, required=True) == {"type": "string"}
    assert to_strict({"properties": {"it": {"type": "string", **noise}}}).verdict == "exact"


@requirement("FR-OPENAI-003")
def test_one_of_becomes_any_of_and_its_branches_are_closed() -> None:
    branch = {"type": "object", "properties": {"a": {"type": "string", "default": ""}}}
    form = strict_property({"oneOf": [branch, {"type": "integer"}], "discriminator": {"propertyName": "a"}})
    closed = {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert form == {"anyOf": [closed, {"type": "integer"}, {"type": "null"}]}
    root = {"properties": {"it": {"oneOf": [branch]}}}
    assert departures(root) == [("#/properties/it", "oneOf", "widened")]


LOSSY: list[tuple[dict[str, Any] | bool, str]] = [
    (True, "type"),
    (False, "not"),
    ({}, "type"),
    ({"description": "anything"}, "type"),
    ({"type": "object"}, "additionalProperties"),
    ({"type": "object", "additionalProperties": True}, "additionalProperties"),
    ({"type": "object", "additionalProperties": {"type": "string"}}, "additionalProperties"),
    ({"type": "object", "properties": {}, "patternProperties": {"^a": {"type": "string"}}}, "patternProperties"),
    ({"type": "object", "properties": {}, "required": ["b"]}, "required"),
    ({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}}, "prefixItems"),
    ({"type": "string", "not": {"const": "a"}}, "not"),
    ({"type": "string", "if": {"const": "a"}, "then": {"maxLength": 1}}, "if"),
    ({"allOf": [{"type": "string", "maxLength": 3}, {"maxLength": 2}]}, "allOf"),
    ({"anyOf": [{"type": "string"}], "oneOf": [{"type": "string"}]}, "anyOf"),
    ({"properties": {"a": {"type": "string"}}, "anyOf": [{"properties": {}}]}, "anyOf"),
    ({"enum": [{"a": 1}]}, "additionalProperties"),
]


@requirement("FR-OPENAI-003")
@pytest.mark.parametrize(("schema", "keyword"), LOSSY)
def test_what_no_strict_schema_can_say_is_lossy_and_names_its_place(
    schema: dict[str, Any] | bool, keyword: str
) -> None:
    result = to_strict({"type": "object", "properties": {"it": schema}, "required": ["it"]})
    assert result.verdict == "lossy"
    assert ("#/properties/it", keyword) in [
        (note.path, note.keyword) for note in result.paths if note.verdict == "lossy"
    ]


def test_an_array_of_anything_is_lossy_at_its_items() -> None:
    assert departures({"properties": {"it": {"type": "array"}}}) == [("#/properties/it/items", "type", "lossy")]


@requirement("FR-OPENAI-003")
@pytest.mark.parametrize("root", [{"type": "array", "items": {"type": "string"}}, {"anyOf": [{"properties": {}}]}])
def test_a_root_that_is_not_simply_an_object_is_lossy(root: dict[str, Any]) -> None:
    assert ("#", "type", "lossy") in departures(root)


def test_a_module_without_parameters_is_exact() -> None:
    empty = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert to_strict({}).schema == to_strict({"type": "object"}).schema == empty
    assert to_strict({"type": "object"}).verdict == "exact"


def test_a_recursive_schema_is_lossy_and_left_as_it_is() -> None:
    tree = {"properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}
    result = to_strict(tree)
    assert result.schema == tree
    assert result.schema["properties"] is not tree["properties"]
    assert [(note.keyword, note.reason) for note in result.paths] == [("$ref", "a recursive reference (# -> #)")]


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def enum(count: int, length: int) -> dict[str, Any]:
    values = [str(number).zfill(length) for number in range(count)]
    return {"properties": {"e": {"type": "string", "enum": values}}, "required": ["e"]}


def named(count: int, length: int) -> dict[str, Any]:
    names = [str(number).zfill(length) for number in range(count)]
    return {"properties": {name: {"type": "string"} for name in names}, "required": names}


@requirement("FR-OPENAI-003")
@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        (nested(10), nested(11)),
        (enum(1_000, 4), enum(1_001, 4)),
        (enum(300, 50), enum(300, 51)),
        (enum(250, 61), enum(251, 61)),
        (named(5_000, 4), named(5_001, 4)),
        (named(1_200, 100), named(1_200, 101)),
    ],
    ids=["levels", "enum values", "characters in a long enum", "length of a long enum", "properties", "characters"],
)
def test_a_schema_over_a_published_limit_is_lossy(within: dict[str, Any], beyond: dict[str, Any]) -> None:
    assert to_strict(within).verdict == "exact"
    assert violations(to_strict(within).schema) == []
    assert to_strict(beyond).verdict == "lossy"
    assert "(at most" in to_strict(beyond).paths[-1].reason
    assert violations(to_strict(beyond).schema)


class Everything(BaseModel):
    amount: Decimal
    code: str = Field(min_length=1, json_schema_extra={"pattern": "^(?!x)"})
    link: AnyUrl
    unique: set[int]
    deep: list[list[Address | None]] | None = None
    tag: Literal["a", 1] = "a"


def test_common_pydantic_types_keep_every_published_rule() -> None:
    result = to_strict(Everything.model_json_schema())
    assert result.verdict == "widened"
    assert {note.keyword for note in result.paths} >= {"pattern", "format", "uniqueItems"}
    assert violations(result.schema) == []


LEAVES = st.one_of(
    st.builds(
        lambda extra: {"type": "string", **extra},
        st.fixed_dictionaries(
            {},
            optional={
                "maxLength": st.integers(1, 9),
                "minLength": st.integers(0, 1),
                "pattern": st.sampled_from(["^a", "(?=b)"]),
                "format": st.sampled_from(["uri", "date"]),
                "default": st.just("a"),
                "description": st.text(max_size=4),
            },
        ),
    ),
    st.sampled_from([{"type": "integer", "minimum": 0}, {"type": "boolean"}, {"type": "null"}, {"const": "k"}, True]),
    st.builds(lambda values: {"enum": values}, st.lists(st.sampled_from(["a", 1, None]), min_size=1, unique=True)),
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda item, extra: {"type": "array", "items": item, **extra}, inner, st.just({"uniqueItems": True})),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda branches: {"oneOf": branches}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda branch: {"allOf": [branch], "description": "d"}, inner),
        objects(inner),
    )


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    properties = draw(st.dictionaries(st.sampled_from(["a", "b", "c/d"]), inner, max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else []
    extra = draw(st.sampled_from([{}, {}, {"additionalProperties": False}, {"additionalProperties": True}]))
    return {"type": "object", "properties": properties, "required": required, **extra}


MODELS = objects(st.recursive(LEAVES, containers, max_leaves=8))


@requirement("FR-OPENAI-003")
@settings(max_examples=300, deadline=None)
@given(MODELS)
def test_every_exact_or_widened_schema_keeps_every_published_rule(schema: dict[str, Any]) -> None:
    untouched = json.dumps(schema)
    result = to_strict(schema)

    assert json.dumps(schema) == untouched
    if result.verdict != "lossy":
        assert violations(result.schema) == []
    for departure in result.paths:
        assert departure.path.startswith("#")
        assert departure.reason


def instance_of(draw: st.DrawFn, schema: Any) -> Any:
    """What a model may send: any value of a strict schema."""
    if "const" in schema or "enum" in schema:
        return draw(st.sampled_from(schema.get("enum", [schema.get("const")])))
    if "anyOf" in schema:
        return instance_of(draw, draw(st.sampled_from(schema["anyOf"])))
    types = schema["type"]
    match draw(st.sampled_from([types] if isinstance(types, str) else types)):
        case "object":
            return {name: instance_of(draw, field) for name, field in schema["properties"].items()}
        case "array":
            return [instance_of(draw, schema["items"]) for _ in range(draw(st.integers(0, 2)))]
        case "string":
            return "a"
        case "integer":
            return 1
        case "boolean":
            return True
    return None


EXACT_LEAVES = st.sampled_from(
    [
        {"type": "string", "pattern": "^a"},
        {"type": ["integer", "null"]},
        {"type": "null"},
        {"const": "k"},
        {"enum": [1, "b"]},
    ]
)


def exact_containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda branch: {"allOf": [branch]}, inner),
        closed_objects(inner),
    )


def closed_objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return objects(inner).map(lambda schema: {**schema, "additionalProperties": False})


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    schema = draw(closed_objects(st.recursive(EXACT_LEAVES, exact_containers, max_leaves=8)))
    result = to_strict(schema)
    assume(result.verdict == "exact")
    return schema, instance_of(draw, result.schema)


@settings(max_examples=300, deadline=None)
@given(calls())
def test_what_a_model_sends_to_an_exact_tool_is_valid_again_once_its_nulls_are_removed(
    call: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    schema, arguments = call
    original = json.dumps(arguments)
    cleaned = remove_nulls(arguments, schema)

    assert json.dumps(arguments) == original
    Draft202012Validator(schema).validate(cleaned)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"name": "x", "age": None}, {"name": "x"}),
        ({"address": {"street": "s", "zip_code": None}}, {"address": {"street": "s", "zip_code": None}}),
        ({"others": [{"street": None}], "colour": None, "kind": None}, {"others": [{"street": None}]}),
        ({"name": None}, {"name": None}),
        ({"since": None, "unknown": None}, {"since": None, "unknown": None}),
    ],
)
def test_only_nulls_that_stand_for_absent_properties_are_removed(
    arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert remove_nulls(arguments, inline_refs(Customer.model_json_schema())) == expected


def test_nulls_are_removed_through_the_alternative_that_the_value_belongs_to() -> None:
    cat = {"type": "object", "properties": {"kind": {"const": "cat"}, "age": {"type": "number"}}, "required": ["kind"]}
    dog = {"type": "object", "properties": {"kind": {"const": "dog"}, "age": {"type": ["integer", "null"]}}}
    schema: dict[str, Any] = {
        "properties": {
            "pets": {"type": "array", "items": {"oneOf": [cat, dog]}},
            "one": {"anyOf": [{"type": "string"}, cat, {"type": "null"}]},
            "both": {"allOf": [cat], "type": "object"},
            "free": {"type": "object", "additionalProperties": {"type": "array", "items": cat}},
        }
    }
    arguments = {
        "pets": [{"kind": "cat", "age": None}, {"kind": "dog", "age": None}, {"kind": "bird", "age": None}],
        "one": {"kind": "cat", "age": None},
        "both": {"kind": "cat", "age": None},
        "free": {"x": [{"kind": "cat", "age": None}], "y": None},
    }
    assert remove_nulls(arguments, schema) == {
        "pets": [{"kind": "cat"}, {"kind": "dog", "age": None}, {"kind": "bird", "age": None}],
        "one": {"kind": "cat"},
        "both": {"kind": "cat"},
        "free": {"x": [{"kind": "cat"}], "y": None},
    }
    assert remove_nulls({"one": {"kind": "cat", "age": 3}}, schema) == {"one": {"kind": "cat", "age": 3}}
