"""The command: exit codes and messages as specified."""

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.requirements import requirement
from tests.server.clients import PATIENCE, ROOT, environment, http_client, sse_connection
from tests.server.test_stdio import SLOW, Process, running, wait_for

EXAMPLES = "examples/extensions"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "apcore_mcp", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(),
        cwd=ROOT,
        timeout=60,
        check=False,
    )


REFUSALS = [
    (("--extensions-dir", "no/such/dir"), 1, "Error: extensions directory does not exist: no/such/dir"),
    (("--extensions-dir", "pyproject.toml"), 1, "Error: extensions path is not a directory: pyproject.toml"),
    (("--extensions-dir", EXAMPLES, "--port", "0"), 1, "Error: port must be between 1 and 65535"),
    (("--extensions-dir", EXAMPLES, "--port", "70000"), 1, "Error: port must be between 1 and 65535"),
    (("--extensions-dir", EXAMPLES, "--name", ""), 1, "Error: server name must not be empty"),
    (("--extensions-dir", EXAMPLES, "--name", "x" * 256), 1, "Error: name must not exceed 255 characters"),
    (("--extensions-dir", EXAMPLES, "--version", ""), 1, "Error: version must not be empty"),
    (("--extensions-dir", EXAMPLES, "--role", "admin"), 1, "Error: --role needs --identity"),
    (("serve", "examples"), 1, "examples holds no tools.json; build it with `apcore-mcp build`"),
    (("--extensions-dir", EXAMPLES, "--port", "abc"), 2, "Error: Invalid value for '--port'"),
    (("--extensions-dir", EXAMPLES, "--transport", "websocket"), 2, "'stdio', 'streamable-http', 'sse'"),
    (("--extensions-dir", EXAMPLES, "--log-level", "LOUD"), 2, "'DEBUG', 'INFO', 'WARNING', 'ERROR'"),
    ((), 2, "Error: Missing option '--extensions-dir'"),
    (("--name", "x", "serve", "generated"), 2, "Error: The options of 'serve' belong after its name."),
]


@requirement("FR-CLI-001", "FR-CLI-002", "FR-CLI-003", "FR-CLI-004", "FR-CLI-005", "FR-CLI-006", "FR-CLI-008")
@pytest.mark.parametrize(("arguments", "code", "message"), REFUSALS, ids=[message for _, _, message in REFUSALS])
def test_a_wrong_argument_ends_with_its_code_and_one_line(arguments: tuple[str, ...], code: int, message: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    if code == 1:
        assert len(done.stderr.splitlines()) == 1


@requirement("FR-CLI-007")
@pytest.mark.parametrize("command", [(), ("serve",)])
def test_help_shows_every_option_with_its_default(command: tuple[str, ...]) -> None:
    done = run(*command, "--help")
    assert done.returncode == 0
    shown = " ".join(done.stdout.split())
    documented = ("--extensions-dir", "--transport", "--host", "--port", "--name", "--version", "--log-level", "--help")
    assert [option for option in documented if option not in shown] == []
    for default in ("stdio", "127.0.0.1", "8000", "INFO"):
        assert f"default: {default}" in shown


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def http_process(*arguments: str) -> Iterator[tuple[Process, str]]:
    port = free_port()
    with running("-m", "apcore_mcp", *arguments, "--port", str(port)) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url, process)
        yield process, url


def wait_until_healthy(url: str, process: Process) -> None:
    import time

    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/health").status_code == 200:
                return
        assert process.popen.poll() is None, process.stderr()
        assert time.monotonic() < deadline, process.stderr()
        time.sleep(0.02)


@requirement("FR-CLI-003", "FR-CLI-004", "FR-CLI-005", "FR-SERVER-002", "FR-TRANSPORT-003", "NFR-REL-001")
@pytest.mark.anyio
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_streamable_http_serves_until_a_signal_even_with_a_client_connected(number: int) -> None:
    options = ("--transport", "streamable-http", "--name", "shop", "--version", "9.9")
    with http_process("--extensions-dir", EXAMPLES, *options) as (process, url):
        async with http_client(url) as client:
            assert client.server["serverInfo"] == {"name": "shop", "version": "9.9"}
            assert "catalogue.search" in await client.tool_names()
            process.popen.send_signal(number)
            assert process.popen.wait(5) == 0
            assert "Traceback" not in process.stderr()


@requirement("NFR-REL-001")
@pytest.mark.anyio
async def test_a_call_over_http_that_is_in_flight_when_the_signal_comes_is_answered(tmp_path: Path) -> None:
    extensions = tmp_path / "extensions"
    extensions.mkdir()
    (extensions / "slow.py").write_text(SLOW, encoding="utf-8")
    started = tmp_path / "started"
    options = ("--extensions-dir", str(extensions), "--transport", "streamable-http")
    with http_process(*options) as (process, url):
        async with http_client(url) as client:
            # The client validates a result by the tool's schema, and would list the tools for it afterwards.
            await client.tools()
            call = asyncio.create_task(client.call("slow", {"seconds": 1, "started": str(started)}))
            await asyncio.to_thread(wait_for, started)
            process.popen.send_signal(signal.SIGTERM)
            assert (await call)["structuredContent"] == {"slept": 1}
            assert process.popen.wait(5) == 0


@requirement("FR-SERVER-003", "FR-TRANSPORT-004", "FR-CLI-003", "NFR-REL-001")
@pytest.mark.anyio
async def test_sse_still_works_and_says_that_it_is_deprecated() -> None:
    with http_process("--extensions-dir", EXAMPLES, "--transport", "sse") as (process, url):
        async with sse_connection(url) as client:
            assert "catalogue.search" in await client.tool_names()
            assert '"total": 1' in await client.text("catalogue.search", {"query": "woolf"})
        assert httpx.get(f"{url}/sse", headers={"Host": "evil.example"}).status_code == 421
        process.popen.send_signal(signal.SIGTERM)
        assert process.popen.wait(5) == 0
        assert "WARNING:apcore_mcp.serving:SSE transport is deprecated; use streamable-http instead" in process.stderr()


@requirement("FR-SERVER-002", "FR-TRANSPORT-003", "FR-CLI-008")
def test_a_port_in_use_is_an_oserror_and_exit_code_2_with_one_line() -> None:
    from apcore import Registry

    from apcore_mcp import serve

    with socket.socket() as occupant:
        occupant.bind(("127.0.0.1", 0))
        occupant.listen()
        port = occupant.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            serve(Registry(), transport="streamable-http", port=port)
        options = ("--transport", "streamable-http", "--port", str(port), "--log-level", "ERROR")
        done = run("--extensions-dir", EXAMPLES, *options)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1


@requirement("FR-CLI-001", "FR-SERVER-006")
def test_a_directory_without_modules_is_served_with_a_warning(tmp_path: Path) -> None:
    done = run("--extensions-dir", str(tmp_path))
    assert done.returncode == 0
    assert "WARNING:apcore_mcp.serving:No modules registered; server starting with zero tools" in done.stderr
    assert "apcore-mcp server started: 0 tools registered, transport=stdio" in done.stderr


@requirement("NFR-REL-002")
def test_a_file_that_cannot_be_loaded_costs_its_own_modules(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def broken(:", encoding="utf-8")
    (tmp_path / "fine.py").write_text((ROOT / EXAMPLES / "customers" / "find.py").read_text("utf-8"), encoding="utf-8")
    (tmp_path / "_shop").symlink_to(ROOT / EXAMPLES / "_shop")
    done = run("--extensions-dir", str(tmp_path))
    assert "broken.py:1 is not offered: SyntaxError" in done.stderr
    assert "1 tools registered" in done.stderr


@requirement("FR-CLI-006")
def test_the_log_level_of_the_command_decides_what_is_logged(tmp_path: Path) -> None:
    assert run("--extensions-dir", str(tmp_path), "--log-level", "ERROR").stderr == ""
    assert "DEBUG" in run("--extensions-dir", str(tmp_path), "--log-level", "DEBUG").stderr


def test_a_command_of_a_package_that_is_not_installed_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from apcore_mcp import cli

    monkeypatch.setitem(cli.COMMANDS, "elsewhere", "no_such_package.commands:elsewhere")
    result = CliRunner().invoke(cli.command, ["elsewhere"])
    assert result.exit_code == 2
    assert "No such command 'elsewhere'" in result.output


SERVING_ONLY = """
import sys
from apcore_mcp.cli import main
try:
    main(["serve", sys.argv[1], "--log-level", "ERROR"])
finally:
    wrong = {"jinja2", "ruff", "apcore_compiler"} & {name.partition(".")[0] for name in sys.modules}
    assert not wrong, wrong
    assert "apcore" not in sys.modules, "a server that only lists its tools does without apcore"
    assert not {"mcp.client.stdio", "httpx._client"} & set(sys.modules), "and without what the SDK has for clients"
"""


def test_serving_a_build_imports_neither_compiler_nor_apcore_to_list_its_tools(generated: Path) -> None:
    with running("-c", SERVING_ONLY, str(generated)) as process:
        process.greet()
        assert len(process.ask("tools/list")["result"]["tools"]) == 14
        assert process.popen.stdin is not None
        process.popen.stdin.close()
        assert process.popen.wait(PATIENCE) == 0, process.stderr()
