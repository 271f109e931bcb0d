"""A compiled server answers as the live one does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.requirements import requirement
from tests.server.clients import ROOT, connected, environment
from tests.server.test_stdio import Process, running

from apcore_runtime import load

EXAMPLES = ROOT / "examples" / "extensions"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("catalogue.search", {"query": "woolf"}),
    ("catalogue.search", {"query": 5, "limit": 0}),
    ("catalogue.postage", {}),
    ("catalogue.quote", {}),
    ("catalogue.supplier_feed", {}),
    ("customers.erase", {"customer_id": "C-1", "basis": "customer_request"}),
    ("customers.find", {"text": "a"}),
    ("customers.find", {"text": "ad"}),
    ("customers.update_contact", {"customer_id": "nobody"}),
    ("customers.verify", {"customer_id": "C-1", "security_phrase": "x"}),
    ("orders.cancel", {"order_id": 1}),
    ("orders.create", {}),
    ("orders.find", {}),
    ("orders.refund", {}),
    ("reports.sales", {}),
    ("reports.stocktake", {}),
    ("no.such.tool", {}),
]


def answers(*arguments: str) -> tuple[bytes, list[dict[str, Any]]]:
    """The raw tool list and the results of every call, without what differs from call to call."""
    with running("-m", "apcore_mcp", *arguments, "--log-level", "ERROR") as process:
        process.greet()
        process.send({"jsonrpc": "2.0", "id": "list", "method": "tools/list"})
        assert process.popen.stdout is not None
        listed = process.popen.stdout.readline()
        return listed, [call(process, name, given) for name, given in CALLS]


def call(process: Process, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = process.ask("tools/call", name=name, arguments=arguments)["result"]
    meta = result.get("_meta", {})
    meta.pop("traceparent", None)
    meta.get("apcore/error", {}).pop("traceId", None)
    return result


def test_the_compiled_and_the_live_server_answer_with_the_same_bytes(generated: Path) -> None:
    compiled = answers("serve", str(generated), "--extensions-dir", str(EXAMPLES))
    live = answers("--extensions-dir", str(EXAMPLES))
    assert compiled[0] == live[0]
    assert compiled[1] == live[1]
    assert sorted({name for name, _ in CALLS} - {"no.such.tool"}) == [
        tool["name"] for tool in json.loads(live[0])["result"]["tools"]
    ]


@pytest.mark.anyio
async def test_http_lists_what_stdio_lists(generated: Path) -> None:
    async with connected(load(generated, EXAMPLES)) as client:
        assert await client.tools() == json.loads(load(generated).tools_list())["tools"]
        assert '"total": 1' in await client.text("catalogue.search", {"query": "woolf"})


@requirement("FR-FILTER-001", "FR-FILTER-002", "FR-FILTER-003")
@pytest.mark.anyio
async def test_filters_hold_for_a_compiled_server(generated: Path) -> None:
    surface = load(generated, EXAMPLES)
    async with connected(surface, prefix="catalogue.", tags=["read"]) as client:
        names = await client.tool_names()
        assert "catalogue.search" in names
        assert [name for name in names if not name.startswith("catalogue.")] == []
        assert await client.text("orders.find") == "Module not found: orders.find"
        assert [resource["uri"] for resource in await client.resources()] == ["docs://catalogue.search"]
    async with connected(surface, prefix="orders.") as client:
        assert await client.resources() == []
        with pytest.raises(Exception, match="Resource not found"):
            await client.read("docs://catalogue.search")


def test_the_generated_package_serves_itself(generated: Path) -> None:
    command = [sys.executable, "-m", "generated", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=generated.parent, check=False)
    assert done.returncode == 0, done.stderr
    assert "Serve the compiled directory GENERATED." in done.stdout


def test_a_source_file_that_changed_since_the_build_is_noticed_when_it_is_loaded(
    generated: Path, tmp_path: Path
) -> None:
    import shutil

    moved = tmp_path / "extensions"
    shutil.copytree(EXAMPLES, moved)
    with (moved / "catalogue" / "search.py").open("a", encoding="utf-8") as source:
        source.write("\n# A later thought.\n")
    with running("-m", "apcore_mcp", "serve", str(generated), "--extensions-dir", str(moved)) as process:
        process.greet()
        assert process.ask("tools/list")["result"]["tools"]
        assert "has changed since the build" not in process.stderr()
        assert process.ask("tools/call", name="catalogue.search", arguments={})["result"]["isError"] is False
        assert "catalogue/search.py has changed since the build" in process.stderr()


@requirement("FR-EXEC-007", "NFR-SEC-002")
@pytest.mark.anyio
async def test_a_compiled_tool_whose_module_is_gone_is_an_error_without_paths(generated: Path, tmp_path: Path) -> None:
    async with connected(load(generated, tmp_path)) as client:
        assert len(await client.tool_names()) == 14
        result = await client.call("catalogue.search")
    assert result["isError"] is True
    assert result["content"][0]["text"] in ("Internal error occurred", "Module error: MODULE_LOAD_ERROR")
    assert str(tmp_path) not in str(result)
