"""The server passes its tests on both majors of the MCP SDK, the one that is not installed in its own environment."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.requirements import requirement

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "apcore-mcp-tests"

INSTALLED = int(version("mcp").partition(".")[0])
OTHER = {1: "mcp>=2,<3", 2: "mcp>=1.23,<2"}[INSTALLED]
# What touches the SDK.
TESTS = ("tests/server", "tests/runtime", "tests/agents")


def run(*command: object, timeout: int = 600) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "APCORE_MCP_OTHER_SDK": "1"}
    return subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


@pytest.fixture(scope="module")
def other_python() -> Path:
    environment = CACHE / f"{OTHER.split(',')[0].replace('>=', '-')}-py{sys.version_info.major}{sys.version_info.minor}"
    python = environment / "bin" / "python"
    if not python.exists():
        created = run(sys.executable, "-m", "venv", environment)
        assert created.returncode == 0, created.stderr
    installed = run(python, "-m", "pip", "install", "-qq", "-e", f"{ROOT}[dev]", OTHER)
    assert installed.returncode == 0, installed.stderr
    return python


@requirement("NFR-COMPAT-003")
def test_the_server_works_on_the_other_major_too(other_python: Path) -> None:
    major = run(other_python, "-c", "from importlib.metadata import version; print(version('mcp').split('.')[0])")
    assert int(major.stdout) != INSTALLED
    present = [path for path in TESTS if (ROOT / path).is_dir()]
    result = run(other_python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *present)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]
