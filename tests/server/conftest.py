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
    # Not in the repository, whose settings would compile the tree in as well.
    directory = tmp_path_factory.mktemp("build")
    out = directory / "generated"
    command = [sys.executable, "-m", "apcore_mcp", "build", str(ROOT / "examples" / "extensions"), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=directory, check=False)
    assert done.returncode == 0, done.stderr
    return out
