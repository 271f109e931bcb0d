"""Inlining against the JSON-Schema-Test-Suite, and against schemas that Hypothesis makes up.

The suite is that of jsonschema 4.26.0's source distribution, `json/tests/draft2020-12`, unchanged.
"""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.requirements import requirement

from apcore_mcp.adapters.schema import CircularReference, inline_refs

SUITE = Path(__file__).parent / "json_schema_test_suite" / "draft2020-12"


def suite() -> Iterator[Any]:
    for file in sorted(SUITE.glob("*.json")):
        for case in json.loads(file.read_text(encoding="utf-8")):
            if isinstance(case["schema"], dict):
                yield pytest.param(case["schema"], case["tests"], id=f"{file.stem}: {case['description']}")


def keywords_named(keyword: str, value: Any) -> Iterator[Any]:
    """Every value of `keyword` anywhere in the JSON, data or not: deliberately blunter than the code under test."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key == keyword:
                yield item
            yield from keywords_named(keyword, item)
    elif isinstance(value, list):
        for item in value:
            yield from keywords_named(keyword, item)


def outcome(schema: dict[str, Any]) -> str:
    try:
        inline_refs(schema)
    except CircularReference as error:
        return f"circular {' -> '.join(error.path)}"
    except KeyError as error:
        return f"unresolved {error.args[0]}"
    except ValueError as error:
        return str(error)
    return "inlined"


@requirement("FR-SCHEMA-002")
@pytest.mark.parametrize(("schema", "tests"), list(suite()))
def test_every_instance_of_the_suite_is_valid_after_inlining_exactly_when_it_was_before(
    schema: dict[str, Any], tests: list[dict[str, Any]]
) -> None:
    untouched = json.dumps(schema)
    if outcome(schema) != "inlined":
        return  # What is refused, and why, is counted below.
    inlined = inline_refs(schema)

    assert json.dumps(schema) == untouched
    before, after = Draft202012Validator(schema), Draft202012Validator(inlined)
    for test in tests:
        assert after.is_valid(test["data"]) == before.is_valid(test["data"]), test["description"]
        if "$schema" not in schema or "json-schema.org" in schema["$schema"]:
            assert after.is_valid(test["data"]) == test["valid"], test["description"]


@requirement("FR-SCHEMA-002")
def test_the_suite_is_refused_only_for_circular_remote_or_dynamic_references() -> None:
    outcomes: Counter[str] = Counter()
    with_local_references = 0
    for schema, _ in (case.values for case in suite()):
        found = outcome(schema)
        refs = [ref for ref in keywords_named("$ref", schema) if isinstance(ref, str)]
        if found.startswith("unresolved "):
            name = found.removeprefix("unresolved ")
            assert not name.startswith("#"), f"a local reference was not followed: {name}"
            assert name in refs
        elif found not in ("inlined", "circular # -> #"):
            assert found.startswith("Unsupported reference: $dynamicRef")
        elif found == "inlined" and refs:
            with_local_references += 1
        outcomes[found.split(" ")[0]] += 1

    assert outcomes["inlined"] >= 310
    assert outcomes["circular"] >= 2
    assert with_local_references >= 29


NAMES = ("a", "b", "c")
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b", "ab"])
INSTANCES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "d"]), inner, max_size=3),
    max_leaves=6,
)
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["object", "array", "string", "integer", "null", ["object", "string"]]),
    "enum": st.lists(SCALARS, min_size=1, max_size=3),
    "const": SCALARS,
    "minimum": st.integers(-2, 2),
    "maxLength": st.integers(0, 2),
    "minItems": st.integers(0, 2),
    "minContains": st.integers(0, 2),
    "maxContains": st.integers(0, 2),
    "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
    "maxProperties": st.integers(0, 2),
    "title": st.sampled_from(["one", "two"]),
    "default": st.just({"$ref": "#/$defs/nowhere"}),
    "x-note": st.just({"$ref": "#/$defs/nowhere"}),
}
SINGLE = (
    *("additionalProperties", "contains", "else", "if", "items", "not"),
    *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
)
SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems")
KEYED = ("dependentSchemas", "properties")


def schemas(refs: list[str], depth: int) -> st.SearchStrategy[Any]:
    options: dict[str, st.SearchStrategy[Any]] = dict(PLAIN)
    if refs:
        options["$ref"] = st.sampled_from(refs)
    if depth:
        inner = st.deferred(lambda: schemas(refs, depth - 1))
        options |= dict.fromkeys(SINGLE, inner)
        options |= dict.fromkeys(SEVERAL, st.lists(inner, min_size=1, max_size=2))
        options |= dict.fromkeys(KEYED, st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=2))
        options["patternProperties"] = st.dictionaries(st.sampled_from(["^a", "b$"]), inner, min_size=1, max_size=1)
    # References are what is tried, so they are more likely than any other keyword.
    keywords = st.lists(st.sampled_from([*options, *["$ref"] * (8 if refs else 0)]), max_size=4, unique=True)
    return st.booleans() | keywords.flatmap(
        lambda names: st.fixed_dictionaries({name: options[name] for name in names})
    )


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Definitions that refer to earlier ones, with odd names, and a root that uses them."""
    definitions: dict[str, Any] = {}
    refs: list[str] = []
    for name, pointer in (("A", "A"), ("B/c", "B~1c"), ("D%e ~", "D%25e%20~0")):
        definitions[name] = draw(schemas(refs, 1))
        refs.append(f"#/$defs/{pointer}")
    root = draw(schemas(refs, 2))
    return {**root, "$defs": definitions} if isinstance(root, dict) else {"$ref": refs[-1], "$defs": definitions}


@requirement("FR-SCHEMA-002")
@settings(max_examples=200, deadline=None)
@given(documents(), st.lists(INSTANCES, min_size=1, max_size=12))
def test_references_with_siblings_accept_the_same_instances_when_inlined(
    schema: dict[str, Any], instances: list[Any]
) -> None:
    untouched = json.dumps(schema)
    inlined = inline_refs(schema)

    assert json.dumps(schema) == untouched
    before, after = Draft202012Validator(schema), Draft202012Validator(inlined)
    for instance in instances:
        assert after.is_valid(instance) == before.is_valid(instance), (inlined, instance)


# Small schemas, one of each keyword that minds its neighbours, and instances that tell them apart.
INTEGER = {"type": "integer"}
NEIGHBOURLY: dict[str, Any] = {
    "properties": {"a": INTEGER},
    "patternProperties": {"^b": INTEGER},
    "additionalProperties": False,
    "unevaluatedProperties": False,
    "dependentSchemas": {"a": {"properties": {"b": True}}},
    "required": ["a"],
    "prefixItems": [INTEGER],
    "items": {"type": "string"},
    "contains": {"const": "x"},
    "minContains": 2,
    "maxContains": 0,
    "unevaluatedItems": False,
    "if": {"required": ["b"]},
    "then": {"minProperties": 2},
    "else": {"maxProperties": 1},
    "anyOf": [{"properties": {"c": True}}, {"prefixItems": [True, True]}],
    "type": ["object", "array"],
    "const": 1,
    "enum": [True, {"a": 1}],
}
OBJECTS = [dict.fromkeys(names, value) for names in ("", "a", "b", "c", "ab", "abc") for value in (1, "x")]
ARRAYS = [[], [1], ["x"], [1, "x"], ["x", "x"], ["x", 1], [1, 1, "x"], [1, "x", "x"]]
TELLING = [*OBJECTS, *ARRAYS, 1, True, "x", None]


@requirement("FR-SCHEMA-002")
@pytest.mark.parametrize(("inside", "outside"), [(1, 1), (1, 2), (2, 1)])
def test_no_neighbouring_keywords_change_meaning_when_target_and_siblings_are_joined(inside: int, outside: int) -> None:
    targets = [dict(side) for side in combinations(NEIGHBOURLY.items(), inside)]
    siblings = [dict(side) for side in combinations(NEIGHBOURLY.items(), outside)]
    for target, beside in product(targets, siblings):
        schema = {"$ref": "#/$defs/A", **beside, "$defs": {"A": target}}
        # jsonschema takes a reference for an `allOf`, as the specification does; validators are dear to build.
        before, after = {**beside, "allOf": [*beside.get("allOf", []), target]}, inline_refs(schema)
        if before != after:
            old, new = Draft202012Validator(before), Draft202012Validator(after)
            assert [old.is_valid(item) for item in TELLING] == [new.is_valid(item) for item in TELLING], schema
