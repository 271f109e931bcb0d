"""Generated types take every value that the schema takes."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import TypeAdapter, ValidationError

from apcore_compiler.compile import analyse
from apcore_compiler.emit.server import emit_server
from apcore_compiler.settings import Settings
from apcore_compiler.snapshot import ModuleRecord, Snapshot

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def arguments_of(schema: dict[str, Any]) -> TypeAdapter[Any]:
    """The annotation of a tool's arguments, as pydantic understands it."""
    record = ModuleRecord(module_id="desk.say", description="Say.", input_schema=schema)
    program, findings = analyse(Snapshot((record,)), Settings(), Path("out"))
    assert not findings.failed, findings.render("text")
    source = next(artifact.text for artifact in emit_server(program) if artifact.path == "server/desk.py")
    namespace: dict[str, Any] = {"__name__": "generated"}
    # Before Python 3.12 pydantic reads this TypedDict only.
    exec(source.replace("from typing import", "from typing_extensions import"), namespace)
    return TypeAdapter(namespace["say"].__annotations__["arguments"])


def is_refused(adapter: TypeAdapter[Any], value: Any) -> bool:
    try:
        adapter.validate_python(value)
    except ValidationError:
        return True
    return False


def array(*first: Any, then: Any) -> dict[str, Any]:
    return {"type": "array", "prefixItems": list(first), "items": then}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"id": TEXT}, "additionalProperties": WHOLE}, {"id": "a", "x": 1}),
        ({"patternProperties": {"^s": TEXT}, "additionalProperties": WHOLE}, {"s": "", "x": 1}),
        ({"patternProperties": {"^s": TEXT}, "additionalProperties": False}, {"s": ""}),
        ({"properties": {"a": WHOLE}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"b": "x"}),
        ({"properties": {"a": WHOLE}, "oneOf": [{"type": "object", "properties": {"b": TEXT}}]}, {"a": 1}),
        ({"allOf": [{"properties": {"a": WHOLE}}, {"properties": {"b": TEXT}}]}, {"a": 1, "b": "x"}),
        ({"properties": {"x": {"enum": [1, True, None, "1", 1.5]}}}, {"x": 1.5}),
        ({"properties": {"x": {"enum": [1, True]}}}, {"x": 1}),
        ({"properties": {"x": {"type": ["string", "null"], "enum": ["a", None]}}}, {"x": None}),
        ({"properties": {"x": {"const": {"a": 1}}}}, {"x": {"a": 1}}),
        ({"properties": {"x": {"type": "number"}}}, {"x": 1}),
        ({"properties": {"": TEXT}}, {"": "nameless"}),
        ({"properties": {"x": array(TEXT, then=WHOLE)}}, {"x": ["a", 1]}),
        ({"properties": {"x": array(TEXT, then=False)}}, {"x": ["a"]}),
        ({"properties": {"x": True}}, {"x": object}),
        ({"properties": {"list": {"type": "array", "items": TEXT}, "str": WHOLE}}, {"list": ["a"], "str": 1}),
    ],
    ids=str,
)
def test_a_value_that_the_schema_takes_is_never_refused(schema: dict[str, Any], value: dict[str, Any]) -> None:
    schema = {"type": "object", **schema}
    jsonschema.Draft202012Validator(schema).validate(value)
    assert not is_refused(arguments_of(schema), value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"x": TEXT}, "required": ["x"]}, {}),
        ({"properties": {"x": {"enum": ["a", "b"]}}}, {"x": "c"}),
        ({"properties": {"x": {"type": "array", "items": WHOLE}}}, {"x": ["a"]}),
        ({"properties": {"x": {"type": "object", "properties": {"y": WHOLE}, "required": ["y"]}}}, {"x": {}}),
        ({"properties": {"x": {"type": "object", "additionalProperties": WHOLE}}}, {"x": {"y": "z"}}),
        ({"properties": {"x": {"anyOf": [WHOLE, {"type": "null"}]}}}, {"x": "a"}),
    ],
    ids=str,
)
def test_a_type_says_no_less_than_it_can(schema: dict[str, Any], value: dict[str, Any]) -> None:
    schema = {"type": "object", **schema}
    assert not jsonschema.Draft202012Validator(schema).is_valid(value)
    assert is_refused(arguments_of(schema), value)
