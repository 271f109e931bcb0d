"""The explorer's endpoints, with the bodies and status codes of section 3.15."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest
from apcore import ModuleAnnotations
from tests.requirements import requirement
from tests.server.clients import ROOT, environment, http_server
from tests.server.modules import Add, raising, registry_of, returning

from apcore_runtime import load

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def explorer(source: Any = None, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    modules = registry_of(
        math__add=Add(),
        broken=raising(RuntimeError("secret")),
        guarded=returning({}, annotations=ModuleAnnotations(requires_approval=True)),
    )
    options = {"explorer": True, **options}
    async with http_server(source or modules, **options) as url, httpx.AsyncClient(base_url=url) as http:
        yield http


@requirement("FR-EXPLORER-001", "FR-EXPLORER-005")
async def test_the_page_is_one_file_that_needs_nothing_else() -> None:
    async with explorer() as http:
        answer = await http.get("/explorer/")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)[^"']+""", answer.text) == []


@requirement("FR-EXPLORER-001")
async def test_the_explorer_is_off_unless_asked_for() -> None:
    async with explorer(explorer=False) as http:
        assert (await http.get("/explorer/")).status_code == 404
        assert (await http.get("/explorer/tools")).status_code == 404


@requirement("FR-EXPLORER-001")
async def test_a_build_brings_its_own_page(generated: Path) -> None:
    async with explorer(load(generated)) as http:
        assert (await http.get("/explorer/")).content == (generated / "explorer.html").read_bytes()


@requirement("FR-EXPLORER-005")
def test_the_packaged_page_is_what_a_build_without_modules_writes(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    command = [sys.executable, "-m", "apcore_mcp", "build", str(tmp_path / "nothing"), "-o", str(tmp_path / "out")]
    subprocess.run(command, check=True, capture_output=True, env=environment(), cwd=tmp_path)
    packaged = files("apcore_host").joinpath("explorer.html").read_bytes()
    assert packaged == (tmp_path / "out" / "explorer.html").read_bytes(), (
        "build an empty directory and copy its explorer.html to src/apcore_host"
    )


@requirement("FR-EXPLORER-002")
async def test_the_list_has_name_description_and_annotations() -> None:
    async with explorer() as http:
        answer = await http.get("/explorer/tools")
    assert answer.status_code == 200
    tools = answer.json()
    assert [tool["name"] for tool in tools] == ["broken", "guarded", "math.add"]
    assert tools[2] == {
        "name": "math.add",
        "description": "Add two numbers.",
        "annotations": {
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    }


@requirement("FR-EXPLORER-003")
async def test_the_detail_of_a_tool_has_its_schema_and_an_unknown_one_has_none() -> None:
    async with explorer() as http:
        found, missing = await http.get("/explorer/tools/math.add"), await http.get("/explorer/tools/nope")
    assert found.json()["inputSchema"]["required"] == ["a"]
    assert (missing.status_code, missing.json()) == (404, {"error": "Tool 'nope' not found"})


@requirement("FR-EXPLORER-004")
async def test_a_tool_runs_only_when_allowed_and_answers_with_its_result() -> None:
    call = {"a": 1, "b": 2}
    async with explorer() as http:
        refused = await http.post("/explorer/tools/math.add/call", json=call)
    async with explorer(allow_execute=True) as http:
        allowed = await http.post("/explorer/tools/math.add/call", json=call)
    assert (refused.status_code, refused.json()) == (403, {"error": "Tool execution is disabled"})
    assert (allowed.status_code, allowed.json()) == (200, {"result": {"total": 3}})


@requirement("FR-EXPLORER-004")
async def test_what_goes_wrong_has_the_documented_status() -> None:
    async with explorer(allow_execute=True) as http:
        invalid = await http.post("/explorer/tools/math.add/call", json={"a": "x"})
        missing = await http.post("/explorer/tools/foo/call", json={})
        broken = await http.post("/explorer/tools/broken/call", json={})
        guarded = await http.post("/explorer/tools/guarded/call", json={})
        no_object = await http.post("/explorer/tools/math.add/call", json=[1])
        no_json = await http.post(
            "/explorer/tools/math.add/call", content="{", headers={"Content-Type": "application/json"}
        )
        large = await http.post("/explorer/tools/math.add/call", json={"a": "x" * 5 * 2**20})
    assert large.status_code == 413
    assert invalid.status_code == 400
    assert invalid.json()["error"].startswith("Input validation failed:")
    assert (missing.status_code, missing.json()) == (404, {"error": "Tool 'foo' not found"})
    assert (broken.status_code, broken.json()) == (500, {"error": "Internal error occurred"})
    # Nobody at a browser can be asked, so nothing that wants approval runs from there.
    assert (guarded.status_code, guarded.json()) == (500, {"error": "Module error: APPROVAL_DENIED"})
    assert (no_object.status_code, no_json.status_code) == (400, 400)


async def test_another_site_can_neither_read_nor_run_anything() -> None:
    headers = {"Origin": "https://evil.example"}
    async with explorer(allow_execute=True) as http:
        assert (await http.get("/explorer/tools", headers=headers)).status_code == 403
        assert (await http.post("/explorer/tools/math.add/call", json={"a": 1}, headers=headers)).status_code == 403
        assert (await http.get("/explorer/", headers={"Host": "evil.example"})).status_code == 421
        form = await http.post(
            "/explorer/tools/math.add/call", content='{"a": 1}', headers={"Content-Type": "text/plain"}
        )
        assert form.status_code == 415


@requirement("FR-EXPLORER-006")
@pytest.mark.parametrize("prefix", ["/custom", "/custom/"])
async def test_the_prefix_moves_every_endpoint(prefix: str) -> None:
    async with explorer(explorer_prefix=prefix, allow_execute=True) as http:
        for path in ("/custom/", "/custom/tools", "/custom/tools/math.add"):
            assert (await http.get(path)).status_code == 200
        assert (await http.post("/custom/tools/math.add/call", json={"a": 1})).json() == {"result": {"total": 2}}
        assert (await http.get("/explorer/")).status_code == 404


@requirement("FR-EXPLORER-001")
def test_on_stdio_the_explorer_is_ignored(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "apcore_mcp", "--extensions-dir", str(tmp_path), "--explorer"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, env=environment(), cwd=ROOT, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"")
