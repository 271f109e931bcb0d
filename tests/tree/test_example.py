"""The example runs both ways as its README says, and two agents at once lose nothing of each other's work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compiler.running import EXAMPLES, REPOSITORY, invoke

from apcore_compiler.commands import build

FOLDER = REPOSITORY / "examples" / "tree"
OVERTAKEN = re.compile(r"(made anew: )(\d+)")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the tools of the present sources in `generated`."""
    directory = tmp_path_factory.mktemp("example")
    result = invoke(build, EXAMPLES, "-o", directory / "generated", "--with", "tree")
    assert result.exit_code == 0, result.output
    return directory


def run(script: str, *path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [REPOSITORY / "src", *path]))}
    command = [sys.executable, "-W", "error", str(FOLDER / script)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("script", ["through_stubs.py", "over_mcp.py"])
def test_two_agents_edit_one_bill_of_materials(script: str, place: Path) -> None:
    done = run(script, place)
    assert done.returncode == 0, done.stderr
    overtaken = OVERTAKEN.search(done.stdout)
    assert overtaken is not None
    assert int(overtaken[2]) >= 1
    shown = (FOLDER / "README.md").read_text(encoding="utf-8").partition("over_mcp.py\nroot\n")[2].partition("```")[0]
    assert OVERTAKEN.sub(r"\1", done.stdout).startswith(OVERTAKEN.sub(r"\1", f"root\n{shown}"))


def test_the_audit_has_what_each_agent_did_and_was_refused(place: Path) -> None:
    audited = [line for line in run("through_stubs.py", place).stdout.splitlines() if line.startswith("audited")]
    assert [re.sub(r", \d+ refused", "", line) for line in audited] == [
        "audited: pricing, 7 changes made",
        "audited: design, 4 changes made",
        "audited: visitor, 0 changes made",
    ]
    assert audited[2].endswith("1 refused")


def test_without_compiled_tree_tools_the_example_says_how_to_get_them(tmp_path: Path) -> None:
    (tmp_path / "generated").mkdir()
    (tmp_path / "generated" / "__init__.py").touch()
    done = run("over_mcp.py", tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("apcore-mcp build examples/extensions -o generated --with tree\n")
