"""`export`: the tools as each provider's API takes them."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import TypeAdapter
from tests.adapters.strict_rules import violations
from tests.compiler.running import EXAMPLES, extensions, invoke, run
from tests.requirements import requirement

from apcore_compiler.commands import export
from apcore_compiler.emit.tools import PROVIDERS

UNTYPED = """\
from apcore import module


@module(id="desk.label", description="Label things.")
def label(labels: dict[str, str]) -> dict[str, int]:
    return {"labelled": len(labels)}
"""


def exported(provider: str, *arguments: object) -> Any:
    result = invoke(export, EXAMPLES, "--format", provider, *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@requirement("FR-OPENAI-001", "FR-SCHEMA-004")
def test_openai_takes_the_tools_for_chat_completions() -> None:
    chat = pytest.importorskip("openai.types.chat")
    parameter = TypeAdapter(chat.ChatCompletionFunctionToolParam)
    tools = exported("openai")
    # Equal after reading: the type knows every field, and leaves none out.
    assert [parameter.validate_python(tool, strict=True) for tool in tools] == tools
    assert len(tools) == 14


@requirement("FR-OPENAI-001")
def test_openai_takes_the_tools_for_responses() -> None:
    responses = pytest.importorskip("openai.types.responses")
    tools = [responses.FunctionTool.model_validate(tool, strict=True) for tool in exported("openai-responses")]
    assert {tool.type for tool in tools} == {"function"}
    # Stated for every tool: the API takes a tool that says nothing for a strict one.
    assert all(tool.strict in (True, False) for tool in tools)
    assert [tool.model_extra for tool in tools] == [{}] * 14


def test_anthropic_gets_name_description_and_input_schema() -> None:
    for tool in exported("anthropic"):
        assert set(tool) == {"name", "description", "input_schema"}
        assert tool["input_schema"]["type"] == "object"
        jsonschema.Draft202012Validator.check_schema(tool["input_schema"])
        assert tool["name"].replace("-", "").replace("_", "").isalnum()
        assert len(tool["name"]) <= 64


def test_gemini_gets_function_declarations_with_json_schema() -> None:
    document = exported("gemini")
    assert list(document) == ["functionDeclarations"]
    for declaration in document["functionDeclarations"]:
        assert set(declaration) == {"name", "description", "parametersJsonSchema"}
        assert "$ref" not in json.dumps(declaration)


@requirement("FR-SERVER-011", "FR-ANNOT-001", "FR-ANNOT-002", "FR-ANNOT-003", "FR-ANNOT-004", "FR-ANNOT-006")
def test_mcp_gets_the_result_of_tools_list() -> None:
    tools = {tool["name"]: tool for tool in exported("mcp")["tools"]}
    assert len(tools) == 14
    erase = tools["customers.erase"]
    assert erase["annotations"] == {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": False,
    }
    assert erase["_meta"] == {"apcore/requiresApproval": True}
    assert tools["reports.sales"]["_meta"] == {"apcore/streaming": True}


@requirement("FR-OPENAI-002")
def test_every_provider_gets_every_tool_under_the_same_name() -> None:
    names = {
        "openai": [tool["function"]["name"] for tool in exported("openai")],
        "openai-responses": [tool["name"] for tool in exported("openai-responses")],
        "anthropic": [tool["name"] for tool in exported("anthropic")],
        "gemini": [tool["name"] for tool in exported("gemini")["functionDeclarations"]],
        "mcp": [tool["name"].replace(".", "-") for tool in exported("mcp")["tools"]],
    }
    assert names.keys() == PROVIDERS.keys()
    assert len({tuple(listed) for listed in names.values()}) == 1


@requirement("FR-OPENAI-003")
@pytest.mark.parametrize(
    ("flags", "strict"), [((), [True, None]), (("--strict",), [True, True]), (("--no-strict",), [None, None])]
)
def test_strict_is_left_to_the_compiler_or_forced(
    flags: tuple[str, ...], strict: list[bool | None], tmp_path: Path
) -> None:
    source = extensions(tmp_path, label=UNTYPED)
    result = invoke(export, source, "--format", "openai", *flags)
    functions = [tool["function"] for tool in json.loads(result.stdout)]
    assert [function.get("strict") for function in functions] == strict
    assert ("strict-lossy" in result.stderr) == (flags != ("--no-strict",))
    if not flags:
        assert violations(functions[0]["parameters"]) == []
        assert functions[1]["parameters"]["properties"]["labels"]["additionalProperties"] == {"type": "string"}


@requirement("FR-OPENAI-004", "FR-ANNOT-007")
def test_annotations_are_embedded_when_asked() -> None:
    (tool,) = exported("openai", "--embed-annotations", "--prefix", "customers.erase")
    suffix = "\n\n[Annotations: destructive=true, requires_approval=true, open_world=false]"
    assert tool["function"]["description"].endswith(suffix)


@requirement("FR-OPENAI-006", "FR-OPENAI-007")
def test_filters_hold_for_exports() -> None:
    tools = exported("openai", "--tags", "write", "--prefix", "customers.")
    assert [tool["function"]["name"] for tool in tools] == ["customers-erase", "customers-update_contact"]


def test_an_export_to_a_file_is_the_export_to_a_pipe(tmp_path: Path) -> None:
    printed = run("export", EXAMPLES, "--format", "mcp", encoding="utf-8")
    assert printed.returncode == 0
    assert invoke(export, EXAMPLES, "--format", "mcp", "-o", tmp_path / "tools.json").exit_code == 0
    assert (tmp_path / "tools.json").read_text(encoding="utf-8") == printed.stdout


def test_output_at_import_does_not_reach_the_export(tmp_path: Path) -> None:
    loud = "import sys\nprint('hello')\nsys.stdout.write('world')\n" + UNTYPED
    result = run("export", extensions(tmp_path, label=loud), "--format", "mcp")
    assert len(json.loads(result.stdout)["tools"]) == 2
    assert result.stderr.startswith("hello\nworld")


def test_findings_go_beside_the_export_and_decide_its_exit_code(tmp_path: Path) -> None:
    result = invoke(export, extensions(tmp_path, helper="x = 1\n"), "--format", "mcp")
    assert result.exit_code == 1
    assert [tool["name"] for tool in json.loads(result.stdout)["tools"]] == ["desk.greet"]
    assert "module-load-failed" in result.stderr
