"""The explorer page in a real Chromium, opened from disk or served with the endpoint bodies of FR-EXPLORER."""

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, sync_playwright

from apcore_compiler.emit.quoting import render

CSP = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]

Json = dict[str, Any]
Answer = Callable[[str, Json], tuple[int, Any]]


def _cannot_run(reason: str) -> NoReturn:
    # A laptop without a browser may go on; a pipeline that promises this check may not.
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


# Not for the whole session: playwright keeps an event loop running, in which no other test could use asyncio.run.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        _cannot_run("the explorer tests need Chromium: apt-get install chromium, or set CHROMIUM to its path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page and everything it did that a reader cannot see."""

    page: Page
    requests: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    def refuse(self, dialog: Dialog) -> None:
        self.trouble.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def listen(self, message: ConsoleMessage) -> None:
        # The browser reports a request that the policy stopped only here.
        if "Content Security Policy" in message.text:
            self.trouble.append(message.text)

    def open(self, address: str, tool: str | None = None) -> Page:
        # By way of nowhere, because a new fragment alone does not load the page again.
        self.page.goto("about:blank")
        self.page.goto(address if tool is None else f"{address}#tool={tool}")
        return self.page


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    contexts = []

    def visit(width: int = 1280, height: int = 900, **options: Any) -> Visit:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        visit = Visit(context.new_page())
        visit.page.set_default_timeout(3_000)
        visit.page.on("request", lambda request: visit.requests.append(request.url))
        visit.page.on("dialog", visit.refuse)
        visit.page.on("pageerror", lambda error: visit.trouble.append(f"error: {error}"))
        visit.page.on("console", visit.listen)
        return visit

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture
def on_disk(tmp_path: Path) -> Callable[[Json], str]:
    """Write the page for some data and give its file:// address."""

    def write(data: Json) -> str:
        file = tmp_path / "explorer.html"
        file.write_text(render("explorer/explorer.html.j2", title=data["name"], data=data), encoding="utf-8")
        return file.as_uri()

    return write


@dataclass
class PageServer:
    """Serves the page and the four endpoints. `answer` says what a call returns; `calls` keeps what was asked."""

    data: Json
    tools: list[Json]
    answer: Answer
    calls: list[tuple[str, Json]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": self}))
        # Short, so that stopping the server does not hold up a test.
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/explorer/"

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def respond(self, method: str, path: str, body: bytes) -> tuple[int, str, Any]:
        tools = {tool["name"]: tool for tool in self.tools}
        parts = [unquote(part) for part in path.removeprefix("/explorer").strip("/").split("/")]
        match method, parts:
            case "GET", [""]:
                page = render("explorer/explorer.html.j2", title=self.data["name"], data=self.data)
                return 200, "text/html; charset=utf-8", page.encode()
            case "GET", ["tools"]:
                summary = ("name", "description", "annotations")
                return 200, "application/json", [{key: tool[key] for key in summary} for tool in self.tools]
            case "GET", ["tools", name] if name in tools:
                return 200, "application/json", tools[name]
            case "POST", ["tools", name, "call"] if name in tools:
                self.calls.append((name, json.loads(body)))
                status, answer = self.answer(name, json.loads(body))
                return status, "application/json", answer
        return 404, "application/json", {"error": f"Tool '{parts[-1]}' not found"}


class _Handler(BaseHTTPRequestHandler):
    site: PageServer

    def do_GET(self) -> None:
        self._respond("GET", b"")

    def do_POST(self) -> None:
        self._respond("POST", self.rfile.read(int(self.headers["Content-Length"])))

    def _respond(self, method: str, body: bytes) -> None:
        status, kind, content = self.site.respond(method, self.path, body)
        payload = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(payload)))
        self.send_header("Content-Security-Policy", CSP)
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def page_server() -> Iterator[Callable[..., PageServer]]:
    """Serve data; `tools` is what the live server lists, when that is not what the page carries."""
    servers: list[PageServer] = []

    def serve(data: Json, tools: list[Json] | None = None, answer: Answer | None = None) -> PageServer:
        server = PageServer(data, data["tools"] if tools is None else tools, answer or _echo)
        servers.append(server)
        return server

    yield serve
    for server in servers:
        server.stop()


def _echo(name: str, arguments: Json) -> tuple[int, Any]:
    return 200, {"result": {"tool": name, "arguments": arguments}}
