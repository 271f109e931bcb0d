"""Raw MCP clients, so that what is timed is the server and not a client library."""

import http.client
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ARGUMENTS = {"customer": "ACME", "quantity": 3, "price": 2.5, "currency": "EUR"}
# Answers of a megabyte, read in the default 8 kB, would time the client.
READ_SIZE = 2**20
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


def clean_environment() -> dict[str, str]:
    """Without the variable that makes a server compile its sources anew at every start."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


class StdioClient:
    """Speaks to a server over pipes; `started` is when the process was spawned."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=READ_SIZE,
        )
        self._number = 0

    def __enter__(self) -> "StdioClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()  # type: ignore[union-attr]

    def send(self, message: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]

    def request_raw(self, method: str, params: dict[str, Any]) -> bytes:
        """Send a request and return the line that answers it."""
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params})
        marks = (b'"id":%d,' % self._number, b'"id": %d,' % self._number, b'"id":%d}' % self._number)
        while line := self.process.stdout.readline():  # type: ignore[union-attr]
            head, tail = line[:80], line[-80:]
            if any(mark in head or mark in tail for mark in marks):
                return line
        raise RuntimeError("the server closed its output")

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        answer = json.loads(self.request_raw(method, params))
        if "result" not in answer:
            raise RuntimeError(f"{method}: {answer}")
        result: dict[str, Any] = answer["result"]
        return result

    def initialize(self) -> None:
        self.request("initialize", INITIALIZE)
        self.send({"method": "notifications/initialized"})

    def resident_megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


class HttpClient:
    """Speaks streamable HTTP over one kept-alive connection."""

    def __init__(self, port: int, path: str = "/mcp", version: str = "2025-11-25") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._path, self._version = path, version
        self._session: str | None = None
        self._number = 0

    def close(self) -> None:
        self._connection.close()

    def post(self, method: str, params: dict[str, Any], *, notification: bool = False) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if not notification:
            message["id"] = self._number
        self._connection.request("POST", self._path, json.dumps(message), self._headers(method, params))
        response = self._connection.getresponse()
        body = response.read()
        self._session = response.getheader("mcp-session-id") or self._session
        if response.status in (307, 308):
            # Some servers send their clients from /mcp to /mcp/, once.
            self._path = urlsplit(response.getheader("location") or self._path).path
            return self.post(method, params, notification=notification)
        if response.status >= 400:
            raise RuntimeError(f"{method}: {response.status} {body[:200]!r}")
        return {} if notification else _answer(body)

    def _headers(self, method: str, params: dict[str, Any]) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if method != "initialize":
            headers["mcp-protocol-version"] = self._version
        if self._session:
            headers["mcp-session-id"] = self._session
        if self._version >= "2026":
            headers |= {"mcp-method": method} | ({"mcp-name": params["name"]} if "name" in params else {})
        return headers

    def initialize(self) -> None:
        if self._version < "2026":
            self.post("initialize", INITIALIZE)
            self.post("notifications/initialized", {}, notification=True)

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if self._version >= "2026":
            meta = "io.modelcontextprotocol/"
            params["_meta"] = {
                f"{meta}protocolVersion": self._version,
                f"{meta}clientInfo": INITIALIZE["clientInfo"],
                f"{meta}clientCapabilities": {},
            }
        return self.post("tools/call", params)


def _answer(body: bytes) -> dict[str, Any]:
    text = body.decode()
    if text.startswith("{"):
        return dict(json.loads(text))
    data = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
    return dict(json.loads(data[-1]))
