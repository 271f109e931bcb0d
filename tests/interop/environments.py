"""What the tests run against: other people's software, installed once into a cache outside the repository."""

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import tomllib
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CACHE = Path.home() / ".cache" / "apcore-mcp-interop"

INSTALLING = 600
PATIENCE = 60

# The clients that pin a major live beside that major; the others could live with either.
PACKAGES = {
    "mcp-1": ("mcp<2", "langchain-mcp-adapters", "openai-agents", "openai", "anthropic"),
    "mcp-2": ("mcp>=2,<3", "fastmcp>=4", "openai-agents", "openai", "anthropic"),
}


def unavailable(reason: str) -> NoReturn:
    """Locally a missing tool is no failure; in CI a test that does not run is."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass(frozen=True)
class Node:
    directory: Path

    @property
    def executable(self) -> Path:
        return self.directory / "node_modules" / "node" / "bin" / "node"

    def command(self, script: str, *arguments: str | Path) -> list[str]:
        return [str(self.executable), str(self.directory / script), *map(str, arguments)]


@dataclass(frozen=True)
class Python:
    """An environment with one major of the MCP SDK; the project is installed in it editable."""

    name: str
    directory: Path

    def __str__(self) -> str:
        return self.name

    @property
    def scripts(self) -> Path:
        return self.directory / ("Scripts" if os.name == "nt" else "bin")

    @property
    def executable(self) -> str:
        return str(self.scripts / "python")

    def serve(self, directory: Path, *options: str) -> list[str]:
        return [self.executable, "-m", "apcore_mcp", "serve", str(directory), *options]


def node() -> Node:
    npm = shutil.which("npm")
    if npm is None:
        unavailable("needs Node and npm, which are not on the PATH")
    wanted = (HERE / "package.json").read_text(encoding="utf-8")
    with _cached("node", wanted) as (directory, install):
        if install:
            shutil.copy(HERE / "package.json", directory)
            # By default npm tries for minutes before it says that there is no network.
            quickly = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
            _install([npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *quickly], directory)
    return Node(directory)


def python(name: str) -> Python:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = "\n".join([sys.version, str(ROOT), *project["dependencies"], *PACKAGES[name]])
    with _cached(name, wanted) as (directory, install):
        environment = Python(name, directory)
        if install:
            venv.create(directory, with_pip=True, clear=True)
            pip = [
                environment.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--retries=1",
            ]
            _install([*pip, "-e", str(ROOT), *PACKAGES[name]], ROOT)
    return environment


@contextmanager
def _cached(name: str, wanted: str) -> Iterator[tuple[Path, bool]]:
    """A directory, and whether it has still to be filled; it counts as filled when the block has ended well."""
    directory = CACHE / name
    filled = directory / ".filled"
    digest = hashlib.sha256(wanted.encode()).hexdigest()
    if filled.is_file() and filled.read_text(encoding="utf-8") == digest:
        yield directory, False
        return
    directory.mkdir(parents=True, exist_ok=True)
    filled.unlink(missing_ok=True)
    yield directory, True
    filled.write_text(digest, encoding="utf-8")


def _install(command: Sequence[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=INSTALLING, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        unavailable(f"cannot be installed here: {' '.join(errors[:3])}")


def run(command: Sequence[str], cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )


@contextmanager
def serving(command: Sequence[str]) -> Iterator[str]:
    """The URL of a server on a free port, which must end well when it is told to."""
    port = _free_port()
    process = subprocess.Popen(
        [*command, "--transport", "streamable-http", "--port", str(port)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    log: list[str] = []
    started = threading.Event()

    def follow() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            log.append(line)
            if "server started" in line:
                started.set()
        # The end of the log is the end of the server.
        started.set()

    following = threading.Thread(target=follow)
    following.start()
    try:
        assert started.wait(PATIENCE), "".join(log)
        assert process.poll() is None, "".join(log)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        following.join(PATIENCE)
        assert process.stderr is not None
        process.stderr.close()
    assert code == 0, "".join(log)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
