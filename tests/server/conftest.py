import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.clients import ROOT, environment


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example modules, compiled."""
    pytest.importorskip("apcore_compiler.commands")
    out = tmp_path_factory.mktemp("build") / "generated"
    command = [sys.executable, "-m", "apcore_mcp", "build", "examples/extensions", "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return out
