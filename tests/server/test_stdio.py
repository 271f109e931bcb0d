"""A server process on pipes: only messages on stdout, and a clean end."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from tests.requirements import requirement
from tests.server.clients import PATIENCE, ROOT, environment, stdio_connection

NOISY = """
import subprocess, sys, threading, os, logging
print("printed at import")
os.system("echo shouted by a child at import")
logging.getLogger("noisy").warning("logged at import")
from pydantic import BaseModel

class In(BaseModel):
    text: str = ""

class Out(BaseModel):
    text: str

class Noisy:
    input_schema = In
    output_schema = Out
    description = "Make noise."

    def execute(self, inputs, context):
        print("printed in a call", flush=True)
        sys.stdout.write("without a newline")
        threading.Thread(target=lambda: print("printed in a thread")).start()
        subprocess.run([sys.executable, "-c", "print('printed by a child')"], check=True)
        os.write(1, b"written to the descriptor")
        return {"text": inputs.get("text", "") or sys.stdin.read()}
"""

SLOW = """
import pathlib, time
from pydantic import BaseModel

class Any_(BaseModel):
    model_config = {"extra": "allow"}

class Slow:
    input_schema = Any_
    output_schema = Any_
    description = "Take a while."

    def execute(self, inputs, context):
        pathlib.Path(inputs["started"]).touch()
        time.sleep(inputs["seconds"])
        return {"slept": inputs["seconds"]}
"""


@pytest.fixture
def extensions(tmp_path: Path) -> Path:
    directory = tmp_path / "extensions"
    directory.mkdir()
    (directory / "noisy.py").write_text(NOISY, encoding="utf-8")
    (directory / "slow.py").write_text(SLOW, encoding="utf-8")
    return directory


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "init",
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


class Process:
    """The other end of a server's pipes, read line by line."""

    def __init__(self, *arguments: str, stdin: Any = subprocess.PIPE, stdout: Any = subprocess.PIPE) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `running`
        self.popen = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=stdin,
            stdout=stdout,
            stderr=self.errors,
            env=environment(),
            cwd=ROOT,
        )

    def send(self, message: dict[str, Any]) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(json.dumps(message).encode() + b"\n")
        self.popen.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.popen.stdout is not None
        line: dict[str, Any] = json.loads(self.popen.stdout.readline())
        return line

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.send({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        return self.receive()

    def greet(self) -> None:
        self.send(INITIALIZE)
        assert self.receive()["id"] == "init"
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def stderr(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode()


@contextlib.contextmanager
def running(*arguments: str, **streams: Any) -> Iterator[Process]:
    process = Process(*arguments, **streams)
    try:
        yield process
    finally:
        process.popen.kill()
        process.popen.wait()
        for stream in (process.popen.stdin, process.popen.stdout, process.errors):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


@requirement("FR-SERVER-001", "FR-TRANSPORT-001", "FR-CLI-001", "NFR-COMPAT-003")
@pytest.mark.anyio
async def test_the_sdks_own_client_lists_and_calls_over_stdio(extensions: Path) -> None:
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        arguments = ("-m", "apcore_mcp", "--extensions-dir", str(extensions))
        async with stdio_connection(*arguments, errors=nowhere) as client:
            assert await client.tool_names() == ["noisy", "slow"]
            assert await client.text("noisy", {"text": "x"}) == '{"text": "x"}'


@requirement("FR-TRANSPORT-001")
def test_nothing_but_messages_reaches_stdout_whatever_modules_do(extensions: Path) -> None:
    with running("-m", "apcore_mcp", "--extensions-dir", str(extensions)) as process:
        process.greet()
        # Reading stdin gives a module nothing, and takes nothing from the protocol.
        result = process.ask("tools/call", name="noisy", arguments={})["result"]
        assert result["structuredContent"] == {"text": ""}
        assert process.ask("ping") == {"jsonrpc": "2.0", "id": "ping", "result": {}}
        assert process.popen.stdin is not None
        process.popen.stdin.close()
        assert process.popen.stdout is not None
        assert process.popen.stdout.read() == b""
        assert process.popen.wait(PATIENCE) == 0
        shouted = ("import", "child at import", "in a call", "in a thread", "by a child", "the descriptor")
        assert [text for text in shouted if text not in process.stderr()] == []


@requirement("FR-TRANSPORT-002", "FR-SERVER-005", "FR-CLI-008")
def test_the_end_of_stdin_ends_the_server_cleanly(extensions: Path) -> None:
    with running("-m", "apcore_mcp", "--extensions-dir", str(extensions)) as process:
        process.greet()
        assert process.popen.stdin is not None
        process.popen.stdin.close()
        assert process.popen.wait(5) == 0
        assert "Traceback" not in process.stderr()


def test_requests_sent_before_the_end_of_stdin_are_answered(extensions: Path) -> None:
    with running("-m", "apcore_mcp", "--extensions-dir", str(extensions)) as process:
        process.greet()
        process.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "noisy", "arguments": {}}})
        assert process.popen.stdin is not None
        process.popen.stdin.close()
        assert process.receive()["id"] == 1
        assert process.popen.wait(5) == 0


@requirement("NFR-REL-001", "FR-SERVER-005", "FR-CLI-008")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_call_in_flight_finish(extensions: Path, tmp_path: Path, number: int) -> None:
    with running("-m", "apcore_mcp", "--extensions-dir", str(extensions)) as process:
        process.greet()
        started = tmp_path / "started"
        arguments = {"seconds": 1, "started": str(started)}
        process.send(
            {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "slow", "arguments": arguments}}
        )
        wait_for(started)
        process.popen.send_signal(number)
        assert process.receive()["result"]["structuredContent"] == {"slept": 1}
        assert process.popen.wait(5) == 0
        assert "Traceback" not in process.stderr()


@requirement("NFR-REL-001")
def test_a_call_that_never_ends_does_not_keep_the_server(extensions: Path, tmp_path: Path) -> None:
    with running("-m", "apcore_mcp", "--extensions-dir", str(extensions)) as process:
        process.greet()
        started = tmp_path / "started"
        arguments = {"seconds": 600, "started": str(started)}
        process.send(
            {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "slow", "arguments": arguments}}
        )
        wait_for(started)
        process.popen.send_signal(signal.SIGTERM)
        assert process.popen.wait(6) == 0


def wait_for(path: Path) -> None:
    async def appear() -> None:
        async with asyncio.timeout(PATIENCE):
            while not path.exists():
                await asyncio.sleep(0.01)

    asyncio.run(appear())


@pytest.mark.parametrize("line", [b"not json\n", b"\n", b'{"jsonrpc": "2.0"}\n', b"\xff\xfe\n", b"[]\n"])
def test_a_line_that_is_no_message_does_not_end_the_session(extensions: Path, line: bytes) -> None:
    with running("-m", "apcore_mcp", "--extensions-dir", str(extensions)) as process:
        process.greet()
        assert process.popen.stdin is not None
        process.popen.stdin.write(line)
        process.send({"jsonrpc": "2.0", "id": 7, "method": "ping"})
        answers = [process.receive()]
        while answers[-1].get("id") != 7:
            answers.append(process.receive())
        assert answers[-1]["result"] == {}


@requirement("FR-TRANSPORT-001")
def test_a_file_for_stdin_and_stdout_works_like_a_pipe(extensions: Path, tmp_path: Path) -> None:
    requests, answers = tmp_path / "requests", tmp_path / "answers"
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    requests.write_text("".join(json.dumps(message) + "\n" for message in (INITIALIZE, ping)), encoding="utf-8")
    source: IO[bytes]
    with requests.open("rb") as source, answers.open("wb") as sink:
        arguments = ("-m", "apcore_mcp", "--extensions-dir", str(extensions))
        with running(*arguments, stdin=source, stdout=sink) as process:
            assert process.popen.wait(PATIENCE) == 0
    assert [json.loads(line)["id"] for line in answers.read_text(encoding="utf-8").splitlines()] == ["init", 1]


SERVE_AND_GO_ON = """
from apcore import Registry
from apcore_mcp import serve

print("before")
assert serve(Registry(), on_shutdown=lambda: print("shutting down")) is None
print("after")
"""


@requirement("FR-SERVER-005", "FR-TRANSPORT-002")
def test_serve_returns_and_gives_the_streams_back() -> None:
    with running("-c", SERVE_AND_GO_ON) as process:
        assert process.popen.stdout is not None
        assert process.popen.stdout.readline() == b"before\n"
        process.greet()
        assert process.popen.stdin is not None
        process.popen.stdin.close()
        assert process.popen.stdout.read() == b"after\n"
        assert process.popen.wait(PATIENCE) == 0
        assert "shutting down" in process.stderr()


@requirement("FR-SERVER-001")
def test_without_standard_streams_there_is_an_error_and_no_server() -> None:
    script = "import os; from apcore import Registry; from apcore_mcp import serve; os.close(0); serve(Registry())"
    with running("-c", script) as process:
        assert process.popen.wait(PATIENCE) == 1
        assert "RuntimeError: stdin and stdout cannot be opened" in process.stderr()
