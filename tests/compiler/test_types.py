"""Generated types take every value that the schema takes."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema
from pydantic import TypeAdapter, ValidationError
from tests.golden.real_files import CASES
from tests.golden.test_golden import compiled

from apcore_compiler.compile import analyse
from apcore_compiler.emit.server import emit_server
from apcore_compiler.program import Program
from apcore_compiler.settings import Settings
from apcore_compiler.snapshot import ModuleRecord, Snapshot

CASES_WITH_TYPES = [
    "nested_models",
    "unions",
    "literals",
    "optional_and_default",
    "odd_property_names",
    "plain_schemas",
]


def input_types(program: Program) -> dict[str, TypeAdapter[Any]]:
    """The annotation of each tool's arguments, as pydantic understands it."""
    adapters = {}
    for artifact in emit_server(program):
        if artifact.path == "server/__init__.py":
            continue
        # Before Python 3.12 pydantic reads this TypedDict only.
        source = artifact.text.replace("from typing import", "from typing_extensions import")
        namespace: dict[str, Any] = {"__name__": "generated"}
        exec(compile(source, artifact.path, "exec"), namespace)
        for tool in program.tools:
            if tool.record.module_id in namespace["TOOLS"]:
                annotation = namespace[tool.names.function].__annotations__["arguments"]
                adapters[tool.record.module_id] = TypeAdapter(annotation)
    return adapters


@pytest.mark.parametrize("case", CASES_WITH_TYPES)
def test_values_that_a_schema_generates_fit_the_type(case: str) -> None:
    program = compiled(case).program
    types = input_types(program)

    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        for tool in program.tools:
            types[tool.record.module_id].validate_python(data.draw(from_schema(tool.mcp["inputSchema"])))

    check()


def takes(schema: dict[str, Any], value: Any) -> bool:
    """Whether the type generated for `schema` takes a value that the schema takes."""
    jsonschema.Draft202012Validator(schema).validate(value)
    record = ModuleRecord(module_id="desk.say", description="Say.", input_schema=schema)
    program, _ = analyse(Snapshot((record,)), Settings(), CASES)
    try:
        input_types(program)["desk.say"].validate_python(value)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"id": {"type": "string"}}, "additionalProperties": {"type": "integer"}}, {"id": "a", "x": 1}),
        ({"patternProperties": {"^s": {"type": "string"}}, "additionalProperties": {"type": "integer"}}, {"s": "", "x": 1}),
        ({"patternProperties": {"^s": {"type": "string"}}, "additionalProperties": False}, {"s": ""}),
        ({"properties": {"a": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"b": "x"}),
        ({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "string"}}}]}, {"b": "x"}),
        ({"properties": {"x": {"enum": [1, True, None, "1", 1.5]}}}, {"x": 1.5}),
        ({"properties": {"x": {"type": ["string", "null"], "enum": ["a", None]}}}, {"x": None}),
        ({"properties": {"x": {"type": "number"}}}, {"x": 1}),
        ({"properties": {"": {"type": "string"}}}, {"": "nameless"}),
        ({"properties": {"x": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}}}, {"x": ["a", 1]}),
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_value_that_the_schema_takes_is_never_refused(schema: dict[str, Any], value: dict[str, Any]) -> None:
    assert takes({"type": "object", **schema}, value)
