"""The example: what is committed is current, and what its README shows is true."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.agents.servers import until
from tests.server.clients import Client, http_client, listening

from apcore_agents.serving import with_agents
from apcore_runtime import load

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "agents"


def environment(**more: str) -> dict[str, str]:
    known = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return known | {"PARCELS_TOKEN": "a-token-for-this-example"} | more


def apcore_mcp(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "apcore_mcp", *arguments]
    return subprocess.run(
        command, cwd=EXAMPLE, env=environment(), capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture(scope="module")
def time_server_environment() -> Path:
    """Where the third party's server is installed: apart, since it pins a version of the SDK."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "apcore-mcp-tests" / "mcp-server-time"
    if not (cache / "bin" / "mcp-server-time").exists():
        python = str(cache / "bin" / "python")
        for command in (
            [sys.executable, "-m", "venv", str(cache)],
            [python, "-m", "pip", "install", "-qq", "mcp-server-time==2026.10.19"],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
            if done.returncode:
                reason = f"mcp-server-time cannot be installed here: {done.stderr.strip().splitlines()[-1]}"
                (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return cache / "bin"


@pytest.fixture
def time_server(time_server_environment: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PATH", f"{time_server_environment}{os.pathsep}{os.environ['PATH']}")
    found = shutil.which("mcp-server-time")
    assert found is not None
    return found


@pytest.fixture
def carrier_port() -> Iterator[None]:
    """The port of the parcel service, which another run of these tests on the same machine may be using."""
    import fcntl

    with (Path(tempfile.gettempdir()) / "apcore-mcp-example-8765.lock").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_the_committed_build_is_current() -> None:
    result = apcore_mcp("check", "../extensions", "-o", "generated")
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_lock_is_what_the_server_says(time_server: str, tmp_path: Path) -> None:
    copy = tmp_path / "agents"
    shutil.copytree(EXAMPLE, copy)
    command = [sys.executable, "-m", "apcore_mcp", "lock", "--yes"]
    result = subprocess.run(
        command, cwd=copy, env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert (copy / "mcp.lock.json").read_bytes() == (EXAMPLE / "mcp.lock.json").read_bytes()


@pytest.mark.usefixtures("carrier_port", "time_server")
def test_the_three_agents_do_what_the_readme_says() -> None:
    command = [sys.executable, "run.py"]
    result = subprocess.run(
        command, cwd=EXAMPLE, env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr
    for line in (
        "librarian: catalogue.postage, catalogue.quote, catalogue.search, mcp__time__convert_time",
        "  orders.cancel -> TOOL_NOT_FOUND: Module not found: orders.cancel (outcome: not_started)",
        "  http.parcels.collect -> APPROVAL_DENIED: The call was not approved (outcome: not_started)",
        "'for': 'Bearer ***'",
        "'summary': 'The Waves (2 in stock)'",
        "mcp__time__get_current_time -> {'timezone': 'Europe/London'",
    ):
        assert line in result.stdout
    assert "a-token-for-this-example" not in result.stdout + result.stderr


def test_the_commands_of_the_readme_answer_as_shown() -> None:
    explained = apcore_mcp("explain", "bookkeeper", "orders.cancel")
    expected = "bookkeeper orders.cancel: no\n  no entry in tools of agents/bookkeeper.md matches it\n"
    assert (explained.stdout, explained.returncode) == (expected, 1)
    assert apcore_mcp("agents", "diff", "generated", "generated").stdout == ""
    assert "customers.erase: no\n" in apcore_mcp("explain", "order-desk", "customers.erase").stdout
    assert "APC611 sub-agent-exceeds-parent (error)" in apcore_mcp("rules").stdout


def test_a_change_of_grants_shows_as_the_readme_says(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    copy = tmp_path / "examples" / "agents"
    profile = copy / "agents" / "bookkeeper.md"
    profile.write_text(profile.read_text(encoding="utf-8").replace("orders.find", "orders.*"), encoding="utf-8")
    run = [sys.executable, "-m", "apcore_mcp"]
    for arguments in (["build", "../extensions", "-o", "after"], ["agents", "diff", "generated", "after"]):
        result = subprocess.run(
            [*run, *arguments], cwd=copy, env=environment(), capture_output=True, text=True, check=False, timeout=60
        )
        assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [f"+ bookkeeper: orders.{name}" for name in ("cancel", "create", "refund")]


def test_one_agent_is_served_over_stdio() -> None:
    async def work() -> None:
        arguments = ["-m", "apcore_mcp", "serve", "generated", "--agent", "librarian", "--log-level", "ERROR"]
        # Without the third party's server its tools are withheld, and no others.
        path = str(Path(sys.executable).parent)
        parameters = StdioServerParameters(
            command=sys.executable, args=arguments, env=environment(PATH=path), cwd=str(EXAMPLE)
        )
        async with AsyncExitStack() as stack:
            streams = await stack.enter_async_context(stdio_client(parameters))
            client = await Client().open(stack, *streams)
            assert client.server["serverInfo"]["name"] == "librarian"
            assert await client.tool_names() == ["catalogue.postage", "catalogue.quote", "catalogue.search"]
            assert json.loads(await client.text("catalogue.search", {"query": "Woolf"}))["total"] == 1
            assert "Module not found" in await client.text("orders.find", {})

    asyncio.run(asyncio.wait_for(work(), 60))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agent", "ghost"], "there is no agent 'ghost'; there are bookkeeper, librarian, order-desk"),
        (["--agent", "*"], "there is no agent '*'"),
        (["--agent", "librarian", "--port", "0"], "port must be between 1 and 65535"),
    ],
)
def test_an_agent_that_cannot_be_served_is_named(arguments: list[str], message: str) -> None:
    result = apcore_mcp("serve", "generated", *arguments)
    assert result.returncode == 1
    assert message in result.stderr


def test_agents_are_served_over_http_and_stop_when_told() -> None:
    from apcore_host.process import bind

    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "apcore_mcp", "serve", "generated", "--agent", "*"]
    command += ["--transport", "streamable-http", "--port", str(port)]
    process = subprocess.Popen(command, cwd=EXAMPLE, env=environment(), stderr=subprocess.PIPE, text=True)
    lines: list[str] = []
    reading = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    reading.start()

    async def work() -> None:
        await until(lambda: any("serves bookkeeper, librarian, order-desk" in line for line in lines))
        async with httpx.AsyncClient() as web:
            for _ in range(100):
                try:
                    response = await web.get(f"http://127.0.0.1:{port}/agents/librarian/health")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
            assert response.json()["status"] == "ok"
            assert (await web.get(f"http://127.0.0.1:{port}/mcp")).status_code == 404
        async with http_client(f"http://127.0.0.1:{port}/agents/bookkeeper") as client:
            assert "reports.sales" in await client.tool_names()

    try:
        asyncio.run(asyncio.wait_for(work(), 60))
    finally:
        process.terminate()
        assert process.wait(10) == 0
        reading.join(5)
        if process.stderr:
            process.stderr.close()


def test_agents_can_stand_beside_a_server_of_ones_own() -> None:
    from apcore_host.options import ServeOptions

    async def own(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"mine"})

    async def work() -> None:
        options = ServeOptions(transport="streamable-http")
        async with with_agents(own, load(EXAMPLE / "generated"), options) as app, listening(app) as url:
            async with httpx.AsyncClient() as web:
                assert (await web.get(f"{url}/anything")).text == "mine"
            async with http_client(f"{url}/agents/librarian") as client:
                assert "catalogue.search" in await client.tool_names()

    asyncio.run(asyncio.wait_for(work(), 60))
