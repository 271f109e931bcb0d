"""MCP Inspector, from the command line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.environments import Node, Python, run, serving
from tests.requirements import requirement

INSPECTOR = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"


@pytest.fixture(scope="module", params=["stdio", "http"])
def target(request: pytest.FixtureRequest, sdk: Python, generated: Path) -> Iterator[list[str]]:
    """How the Inspector is told where the server is."""
    if request.param == "stdio":
        yield sdk.serve(generated)
    else:
        with serving(sdk.serve(generated)) as url:
            yield [url]


@pytest.fixture(params=["legacy", "modern"])
def era(request: pytest.FixtureRequest, sdk: Python) -> str:
    era: str = request.param
    if era == "modern" and sdk.name == "mcp-1":
        pytest.skip("mcp 1.x has no revision without a handshake")
    return era


def inspect(node: Node, target: list[str], era: str, method: str, *options: str) -> Any:
    command = node.command(INSPECTOR, "--cli", *target, "--protocol-era", era, "--method", method, *options)
    done = run([*command, "--quiet", "--format", "json"])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["result"]


@requirement("NFR-COMPAT-004", "FR-SERVER-011")
def test_the_inspector_lists_the_tools_as_built_and_finds_no_fault_with_their_schemas(
    node: Node, target: list[str], era: str, generated: Path
) -> None:
    listed = inspect(node, target, era, "tools/list", "--strict")
    assert listed["tools"] == json.loads((generated / "tools.json").read_text(encoding="utf-8"))["tools"]


@requirement("NFR-COMPAT-004", "FR-EXEC-002")
def test_the_inspector_calls_a_tool(node: Node, target: list[str], era: str) -> None:
    arguments = ("--tool-name", "catalogue.search", "--tool-arg", "query=woolf")
    result = inspect(node, target, era, "tools/call", *arguments)
    assert result["structuredContent"]["hits"][0]["title"] == "The Waves"
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


@requirement("NFR-COMPAT-004", "FR-RESOURCE-001")
def test_the_inspector_reads_the_documentation(node: Node, target: list[str], era: str) -> None:
    assert inspect(node, target, era, "resources/templates/list")["resourceTemplates"] == []
    [resource] = inspect(node, target, era, "resources/list")["resources"]
    [page] = inspect(node, target, era, "resources/read", "--uri", resource["uri"])["contents"]
    assert page["text"].startswith("# Searching the catalogue")
