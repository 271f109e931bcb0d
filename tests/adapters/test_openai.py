import json
import logging
import subprocess
import sys
import time
from typing import Any

import pytest
from apcore import Executor, ModuleAnnotations, Registry
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from tests.adapters.strict_rules import violations
from tests.requirements import requirement

from apcore_mcp.adapters.names import openai_name
from apcore_mcp.adapters.openai import (
    anthropic_tool,
    gemini_tool,
    openai_responses_tool,
    openai_tool,
    to_openai_tools,
)
from apcore_mcp.adapters.schema import SchemaConverter
from apcore_mcp.adapters.selection import validate_filters
from apcore_mcp.adapters.tools import to_mcp_tool


class Size(BaseModel):
    width: int
    height: int = 0


class Resize(BaseModel):
    path: str = Field(description="Which file", json_schema_extra={"x-sensitive": True})
    size: Size
    note: str | None = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


def module(schema: Any = Resize, **attributes: Any) -> Any:
    def execute(self: Any, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        return inputs

    members = {"description": "Do it.", "input_schema": schema, "output_schema": schema, "execute": execute}
    return type("Example", (), members | attributes)()


def registry_with(**modules: Any) -> Registry:
    registry = Registry()
    for name, instance in modules.items():
        registry.register(name.replace("__", "."), instance)
    return registry


RECURSIVE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}


def names(tools: list[dict[str, Any]]) -> list[str]:
    return [tool["function"]["name"] for tool in tools]


@requirement("FR-OPENAI-001", "FR-OPENAI-005", "FR-SCHEMA-004")
def test_a_registry_becomes_a_list_of_function_tools() -> None:
    registry = registry_with(image__resize=module(), simple=module({}))
    resize, simple = to_openai_tools(registry)

    assert list(resize) == ["type", "function"]
    assert list(resize["function"]) == ["name", "description", "parameters"]
    assert names([resize, simple]) == ["image-resize", "simple"]
    mcp = to_mcp_tool(registry.get_definition("image.resize"), SchemaConverter())
    assert resize["function"]["parameters"] == mcp["inputSchema"]
    assert simple == {
        "type": "function",
        "function": {"name": "simple", "description": "Do it.", "parameters": {"type": "object", "properties": {}}},
    }
    assert json.loads(json.dumps([resize, simple])) == [resize, simple]


@requirement("FR-OPENAI-001")
@pytest.mark.parametrize("count", [0, 1, 100])
def test_there_is_one_tool_per_module(count: int) -> None:
    registry = registry_with(**{f"m{number}": module() for number in range(count)})
    assert len(to_openai_tools(registry)) == count


@requirement("FR-EXEC-006")
def test_an_executor_stands_for_its_registry() -> None:
    registry = registry_with(image__resize=module())
    assert to_openai_tools(Executor(registry=registry)) == to_openai_tools(registry)


@requirement("FR-OPENAI-001")
def test_anything_else_is_a_type_error_that_says_what_came() -> None:
    with pytest.raises(TypeError, match=r"^Expected Registry or Executor instance, got str$"):
        to_openai_tools("registry")  # type: ignore[arg-type]


@requirement("FR-OPENAI-001")
def test_a_module_that_cannot_be_converted_costs_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    registry = registry_with(bad=module(RECURSIVE), good=module(), worse=module({"type": "array"}))
    with caplog.at_level(logging.WARNING, logger="apcore_mcp"):
        tools = to_openai_tools(registry)

    assert names(tools) == ["good"]
    assert [(record.name, record.levelname) for record in caplog.records] == [
        ("apcore_mcp.adapters.openai", "WARNING")
    ] * 2
    assert "Skipped module 'bad': CircularReference: Circular reference: # -> #" in caplog.text
    assert "Skipped module 'worse': ValueError: The root of an input schema must be an object" in caplog.text


@requirement("FR-OPENAI-001")
def test_a_module_that_vanishes_meanwhile_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    class Racing(Registry):
        def get_definition(self, module_id: str, version_hint: str | None = None) -> Any:
            self.unregister("gone")
            return super().get_definition(module_id, version_hint)

    registry = Racing()
    registry.register("gone", module())
    assert to_openai_tools(registry) == []
    assert "Skipped module 'gone'" in caplog.text


@requirement("FR-OPENAI-003")
def test_strict_tools_say_so_and_keep_every_published_rule() -> None:
    (tool,) = to_openai_tools(registry_with(image__resize=module()), strict=True)
    function = tool["function"]
    assert function["strict"] is True
    assert violations(function["parameters"]) == []
    assert function["parameters"]["properties"]["size"]["required"] == ["width", "height"]
    assert "x-sensitive" not in json.dumps(function)


@requirement("FR-OPENAI-003")
def test_an_open_object_is_closed_under_strict_and_a_warning_says_so(caplog: pytest.LogCaptureFixture) -> None:
    (tool,) = to_openai_tools(registry_with(x=module(Open)), strict=True)
    assert tool["function"]["strict"] is True
    assert tool["function"]["parameters"]["additionalProperties"] is False
    warning = "Schema for module 'x' uses additionalProperties: true, which is incompatible with strict mode"
    assert caplog.records[0].getMessage() == f"{warning} (at #)"
    assert caplog.records[0].levelname == "WARNING"


@requirement("FR-OPENAI-004")
def test_annotations_are_appended_only_when_asked_for() -> None:
    registry = registry_with(
        a=module(annotations=ModuleAnnotations(readonly=True)),
        b=module(annotations=ModuleAnnotations()),
        c=module(),
    )
    embedded = [tool["function"]["description"] for tool in to_openai_tools(registry, embed_annotations=True)]
    assert embedded == ["Do it.\n\n[Annotations: readonly=true]", "Do it.", "Do it."]
    assert {tool["function"]["description"] for tool in to_openai_tools(registry)} == {"Do it."}


@pytest.fixture
def tagged() -> Registry:
    return registry_with(
        api__a=module(tags=["public", "image"]), api__b=module(tags=["public"]), own__c=module(tags=["public"])
    )


@requirement("FR-OPENAI-006", "FR-OPENAI-007", "FR-FILTER-003")
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["api-a", "api-b", "own-c"]),
        ({"tags": ["image"]}, ["api-a"]),
        ({"tags": ["public", "image"]}, ["api-a"]),
        ({"tags": ["nonexistent"]}, []),
        ({"prefix": "api."}, ["api-a", "api-b"]),
        ({"prefix": "nonexistent."}, []),
        ({"tags": ["public"], "prefix": "own."}, ["own-c"]),
        ({"tags": ["image"], "prefix": "own."}, []),
    ],
)
def test_filters_narrow_the_list_together(tagged: Registry, filters: dict[str, Any], expected: list[str]) -> None:
    assert names(to_openai_tools(tagged, **filters)) == expected


@requirement("FR-OPENAI-006", "FR-OPENAI-007")
def test_empty_filter_values_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^Tag values must not be empty$"):
        to_openai_tools(Registry(), tags=["image", ""])
    with pytest.raises(ValueError, match=r"^prefix must not be empty$"):
        to_openai_tools(Registry(), prefix="")
    validate_filters([], None)


@requirement("FR-OPENAI-005")
def test_exporting_needs_no_provider_package() -> None:
    script = "import sys, apcore_mcp.adapters.openai; sys.exit(bool({'openai', 'mcp'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@requirement("FR-OPENAI-001", "FR-OPENAI-005")
@pytest.mark.parametrize("strict", [True, False])
def test_the_openai_package_accepts_the_tools(strict: bool) -> None:
    chat = pytest.importorskip("openai.types.chat")
    responses = pytest.importorskip("openai.types.responses")
    tools = to_openai_tools(registry_with(image__resize=module(), simple=module({})), strict=strict)

    for tool in tools:
        assert TypeAdapter(chat.ChatCompletionToolParam).validate_python(tool) == tool
        flat = openai_responses_tool(*(tool["function"][key] for key in ("name", "description", "parameters")), strict)
        assert TypeAdapter(responses.FunctionToolParam).validate_python(flat) == flat


def test_each_provider_gets_the_shape_it_documents() -> None:
    schema = {"type": "object", "properties": {}}
    assert openai_tool("n", "d", schema, strict=True)["function"]["strict"] is True
    assert "strict" not in openai_tool("n", "d", schema)["function"]
    assert openai_responses_tool("n", "d", schema, False) == {
        "type": "function",
        "name": "n",
        "description": "d",
        "parameters": schema,
        "strict": False,
    }
    assert anthropic_tool("n", "d", schema) == {"name": "n", "description": "d", "input_schema": schema}
    assert gemini_tool("n", "d", schema) == {"name": "n", "description": "d", "parametersJsonSchema": schema}


def test_a_module_id_too_long_for_a_tool_name_is_shortened() -> None:
    module_id = "a" * 40 + "." + "b" * 40
    (tool,) = to_openai_tools(registry_with(**{module_id.replace(".", "__"): module()}))
    assert tool["function"]["name"] == openai_name(module_id)
    assert len(tool["function"]["name"]) == 64


@requirement("NFR-PERF-001")
def test_a_hundred_modules_with_ten_properties_are_converted_within_a_hundred_milliseconds() -> None:
    fields: dict[str, Any] = {f"p{number}": (str, Field(description="A property")) for number in range(10)}
    wide = create_model("Wide", **fields)
    registry = registry_with(**{f"m{number}": module(wide) for number in range(100)})
    descriptors = [registry.get_definition(module_id) for module_id in registry.list()]
    converter = SchemaConverter()

    started = time.process_time()
    tools = [to_mcp_tool(descriptor, converter) for descriptor in descriptors]
    assert time.process_time() - started < 0.1
    assert len(tools) == 100
