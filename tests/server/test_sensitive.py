"""Which values are sensitive is said by the schema, wherever in it that is."""

from typing import Any

import jsonschema
import pytest
from tests.requirements import requirement

from apcore_host.sensitive import MASK, admit_mask, is_marked, mask, scrub, secrets_in

SECRET = {"type": "string", "x-sensitive": True}
PLACES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "a property": ({"properties": {"p": SECRET}}, {"p": "s3cret", "q": "open"}, {"p": MASK, "q": "open"}),
    "any other property": (
        {"properties": {"q": {}}, "additionalProperties": SECRET},
        {"p": "s3cret", "q": 1},
        {"p": MASK, "q": 1},
    ),
    "a pattern": ({"patternProperties": {"^p": SECRET}}, {"pin": "s3cret", "q": 1}, {"pin": MASK, "q": 1}),
    "an item": ({"properties": {"p": {"items": SECRET}}}, {"p": ["s3cret"]}, {"p": [MASK]}),
    "the first item": (
        {"properties": {"p": {"prefixItems": [SECRET], "items": {}}}},
        {"p": ["s3cret", 1]},
        {"p": [MASK, 1]},
    ),
    "a branch": ({"anyOf": [{"properties": {"p": SECRET}}, {}]}, {"p": "s3cret"}, {"p": MASK}),
    "a condition": ({"if": {}, "then": {"properties": {"p": SECRET}}}, {"p": "s3cret"}, {"p": MASK}),
    "a definition": (
        {"$defs": {"S": SECRET}, "properties": {"p": {"$ref": "#/$defs/S"}}},
        {"p": "s3cret"},
        {"p": MASK},
    ),
    "an object": ({"properties": {"p": {"x-sensitive": True}}}, {"p": {"in": ["s3cret"]}}, {"p": MASK}),
}


@requirement("NFR-SEC-002")
@pytest.mark.parametrize("place", PLACES)
def test_a_marked_value_is_found_wherever_the_mark_is(place: str) -> None:
    schema, value, masked = PLACES[place]
    assert is_marked(schema)
    assert mask(value, schema) == masked
    assert secrets_in(value, schema) == ["s3cret"]


def test_names_alone_make_nothing_sensitive() -> None:
    value = {"author": "Woolf", "nextPage": 2, "password": "shown"}
    assert not is_marked({"properties": {"password": {}}})
    assert mask(value, {"properties": {"password": {}}}) == value


def test_a_reference_to_itself_ends() -> None:
    schema = {"properties": {"next": {"$ref": "#"}, "key": SECRET}}
    assert mask({"next": {"next": {"key": "a"}, "key": "b"}}, schema) == {"next": {"next": {"key": MASK}, "key": MASK}}


def test_a_long_secret_is_taken_out_before_a_part_of_it() -> None:
    secrets = secrets_in({"a": "pass", "b": "password"}, {"additionalProperties": SECRET})
    assert scrub("the password", secrets) == f"the {MASK}"
    assert scrub("it's 'tis", secrets_in({"a": "it's"}, {"additionalProperties": SECRET})) == f"{MASK} 'tis"


def test_absence_is_no_secret() -> None:
    assert secrets_in({"a": None, "b": ""}, {"additionalProperties": SECRET}) == []
    assert mask({"a": None}, {"additionalProperties": SECRET}) == {"a": None}


@pytest.mark.parametrize(
    "secret",
    [
        {"type": "integer", "x-sensitive": True},
        {"type": "string", "maxLength": 4, "x-sensitive": True},
        {"type": "array", "items": {"type": "integer"}, "x-sensitive": True},
        {"enum": ["a", "b"], "x-sensitive": True},
        {"type": "string", "description": "Any text.", "x-sensitive": True},
    ],
)
def test_a_masked_result_fits_the_schema_that_clients_are_given(secret: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"pin": secret, "to": {"type": "string"}}, "required": ["pin"]}
    published = admit_mask(schema)
    for value in (1234, "abcd", [1], "a"):
        fits = jsonschema.Draft202012Validator(schema).is_valid({"pin": value})
        assert jsonschema.Draft202012Validator(published).is_valid({"pin": value}) is fits
    masked = mask({"pin": 1234, "to": "x"}, published)
    assert masked == {"pin": MASK, "to": "x"}
    jsonschema.validate(masked, published)
