"""The configuration snippets of the documentation, tried as they are written."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.interop.environments import ROOT, Node, Python, run, serving
from tests.interop.test_inspector import INSPECTOR
from tests.requirements import requirement

PAGES = ("README.md", "examples/clients/README.md")
PROJECT = ("/path/to/shop", "${workspaceFolder}")


def snippets() -> list[Any]:
    found = []
    for page in PAGES:
        blocks = re.findall(r"^```json\n(.+?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        configurations = [block for block in blocks if re.search(r'"(mcpServers|servers)"', block)]
        found += [pytest.param(block, id=f"{page}-{number}") for number, block in enumerate(configurations, 1)]
    return found


@pytest.fixture
def project(sdk: Python, generated: Path, tmp_path: Path) -> Path:
    """A project that is laid out as the snippets take it to be."""
    if os.name == "nt":
        pytest.skip("the snippets name the scripts as they are called elsewhere")
    (tmp_path / ".venv").symlink_to(sdk.directory)
    (tmp_path / "generated").symlink_to(generated)
    return tmp_path


@pytest.mark.parametrize("snippet", snippets())
@requirement("NFR-COMPAT-004")
def test_a_client_with_this_configuration_finds_the_tools(
    node: Node, sdk: Python, project: Path, generated: Path, snippet: str
) -> None:
    for variable in PROJECT:
        snippet = snippet.replace(variable, str(project))
    configuration = json.loads(snippet)
    servers = configuration.get("mcpServers") or configuration["servers"]
    if "url" not in servers["bookshop"]:
        return found(node, project, servers)
    assert servers["bookshop"]["url"] == "http://127.0.0.1:8000/mcp"
    with serving(sdk.serve(generated)) as url:
        found(node, project, {"bookshop": servers["bookshop"] | {"url": url}})


def found(node: Node, project: Path, servers: dict[str, Any]) -> None:
    file = project / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    options = ("--config", str(file), "--server", "bookshop", "--method", "tools/list", "--quiet", "--format", "json")
    done = run(node.command(INSPECTOR, "--cli", *options), cwd=project)
    assert done.returncode == 0, done.stderr
    names = [tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]]
    assert "catalogue.search" in names
