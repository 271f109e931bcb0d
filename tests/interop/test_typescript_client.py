"""The official TypeScript client."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.interop.environments import HERE, Node, Python, run, serving
from tests.requirements import requirement


@pytest.fixture(scope="module", params=["stdio", "http"])
def seen(request: pytest.FixtureRequest, node: Node, sdk: Python) -> dict[str, Any]:
    # A script finds its packages beside itself.
    script = shutil.copy(HERE / "typescript_client.mjs", node.directory)
    server = [sdk.executable, str(HERE / "growing_server.py")]
    if request.param == "stdio":
        return observed(node.command(Path(script).name, *server))
    with serving(server) as url:
        return observed(node.command(Path(script).name, url))


def observed(command: list[str]) -> dict[str, Any]:
    done = run(command)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@requirement("NFR-COMPAT-004", "FR-EXT-001")
def test_the_client_sees_progress_increase(seen: dict[str, Any]) -> None:
    assert seen["progress"] == [["stocktake", done, 3] for done in (1, 2, 3)]


@requirement("NFR-COMPAT-004", "FR-EXT-002")
def test_the_client_is_asked_and_its_answer_counts(seen: dict[str, Any]) -> None:
    assert seen["questions"] == ["Refund 23.48 pounds for order B-1002? Reason given: Arrived damaged."]
    assert seen["refund"]["outcome"] == "refunded"


@requirement("NFR-COMPAT-004", "FR-RESOURCE-001")
def test_the_client_reads_the_documentation(seen: dict[str, Any]) -> None:
    assert seen["resources"] == ["docs://catalogue.search"]
    assert seen["page"].startswith("# Searching the catalogue")


@requirement("NFR-COMPAT-004", "FR-DYNAMIC-003")
def test_the_client_is_told_of_a_new_tool_and_finds_it(seen: dict[str, Any]) -> None:
    assert set(seen["after"]) - set(seen["before"]) == {"branch.opening_hours"}
