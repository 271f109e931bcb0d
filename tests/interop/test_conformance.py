"""The MCP conformance suite, against one server for each major of the SDK.

Both releases of the suite run, the second at each revision of the protocol that the server speaks.  Scenarios of
features that the server does not have are listed here with the reason; every other scenario passes: no check
fails, warns or is skipped.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.environments import HERE, Node, Python, run, serving
from tests.requirements import requirement

NOT_APPLICABLE = {
    "a module returns a JSON object, and never an image, audio or an embedded resource": {
        "tools-call-image",
        "tools-call-audio",
        "tools-call-embedded-resource",
        "tools-call-mixed-content",
    },
    "resources are the documentation of modules, at docs://, and have no templates; the suite reads test:// by name": {
        "resources-read-text",
        "resources-read-binary",
        "resources-templates-read",
    },
    "documentation does not change while it is served, so there is nothing to subscribe to": {
        "resources-subscribe",
        "resources-unsubscribe",
    },
    "there are no prompts": {
        "prompts-list",
        "prompts-get-simple",
        "prompts-get-with-args",
        "prompts-get-embedded-resource",
        "prompts-get-with-image",
        "input-required-result-non-tool-request",
    },
    "there are no completions": {"completion-complete"},
    "logs go to stderr and not to clients": {"logging-set-level", "tools-call-with-logging"},
    "a module asks the user, never the client's model or for its roots": {
        "tools-call-sampling",
        "input-required-result-basic-sampling",
        "input-required-result-basic-list-roots",
        "input-required-result-multiple-input-requests",
        "input-required-result-capability-check",
    },
    "the suite prescribes the key of a question, which the protocol leaves to the server": {
        "input-required-result-basic-elicitation",
        "input-required-result-ignore-extra-params",
    },
    "a stream that broke off is not taken up again": {"server-sse-polling"},
    "tasks are an extension": {
        "tasks-lifecycle",
        "tasks-capability-negotiation",
        "tasks-wire-fields",
        "tasks-request-state-removal",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-dispatch-and-envelope",
        "tasks-status-notifications",
        "tasks-required-task-error",
        "tasks-mrtr-composition",
    },
}

# Single checks of scenarios that otherwise pass.
CHECKS_NOT_APPLICABLE = {
    "no module demands a capability; one that asks a client who cannot be asked gets no answer": {
        "server-stateless:sep-2575-server-rejects-undeclared-capability",
        "server-stateless:sep-2575-missing-capability-http-400",
    },
    "there are no prompts": {
        "caching:sep-2549-prompts-list-caching-hints",
        "server-stateless:sep-2575-server-sends-prompts-list-changed-on-subscription",
    },
    "the tools of a compiled server do not change; the second test has one whose tools do": {
        "server-stateless:sep-2575-server-sends-subscription-ack",
        "server-stateless:sep-2575-server-tags-subscription-id",
        "server-stateless:sep-2575-server-honors-notification-filter",
        "server-stateless:sep-2575-server-sends-tools-list-changed-on-subscription",
    },
}

RUNS = {
    "0.1": ("conformance-0.1", "--suite", "all"),
    "0.2 at 2025-11-25": ("conformance-0.2", "--requirements", "2025-11-25"),
    "0.2 at 2026-07-28": ("conformance-0.2", "--requirements", "2026-07-28"),
}


@pytest.fixture(scope="module")
def url(sdk: Python, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all runs."""
    directory = tmp_path_factory.mktemp("conformance")
    out = directory / "generated"
    (directory / "apcore-mcp.toml").write_text('refs = "keep"', encoding="utf-8")
    build = [sdk.executable, "-m", "apcore_mcp", "build", str(HERE / "conformance_extensions"), "-o", str(out)]
    built = run([*build, "--config", str(directory / "apcore-mcp.toml")])
    assert built.returncode == 0, built.stderr
    with serving(sdk.serve(out)) as url:
        yield url


@pytest.mark.parametrize("release", RUNS)
@requirement("NFR-COMPAT-004", "FR-TRANSPORT-003", "FR-EXT-001", "FR-EXT-002", "FR-RESOURCE-001")
def test_every_scenario_that_applies_passes(node: Node, sdk: Python, url: str, release: str, tmp_path: Path) -> None:
    if release.endswith("2026-07-28") and sdk.name == "mcp-1":
        pytest.skip("mcp 1.x does not know this revision")
    package, *options = RUNS[release]
    done = run(node.command(f"node_modules/{package}/dist/index.js", "server", "--url", url, *options, "-o", tmp_path))
    ran = dict(results(tmp_path))
    assert len(ran) > 30, done.stdout + done.stderr

    scenarios = set().union(*NOT_APPLICABLE.values()) & ran.keys()
    checks = {check for check in set().union(*CHECKS_NOT_APPLICABLE.values()) if scenario_of(check) in ran}
    faults = {fault for scenario, found in ran.items() for fault in faults_of(scenario, found)}
    # What is sent must be well formed, whatever it is about.
    excused = {
        fault for fault in faults if scenario_of(fault) in scenarios and not fault.endswith(":wire-schema-valid")
    }
    assert faults - excused - checks == set()
    # What has come to pass leaves the lists.
    assert scenarios - set(map(scenario_of, faults)) == set()
    assert checks - faults == set()


@requirement("NFR-COMPAT-004", "FR-DYNAMIC-003")
def test_a_server_that_follows_its_modules_tells_those_who_listen(node: Node, sdk: Python, tmp_path: Path) -> None:
    if sdk.name == "mcp-1":
        pytest.skip("mcp 1.x has no subscriptions to the list of tools")
    extensions = str(HERE / "conformance_extensions")
    with serving([sdk.executable, "-m", "apcore_mcp", "--extensions-dir", extensions, "--dynamic"]) as url:
        arguments = ("server", "--url", url, "--scenario", "server-stateless", "-o", tmp_path)
        run(node.command("node_modules/conformance-0.2/dist/index.js", *arguments))
    checks = {check["id"]: check["status"] for check in dict(results(tmp_path))["server-stateless"]}
    assert {name: status for name, status in checks.items() if "subscription" in name or "filter" in name} == {
        "sep-2575-server-sends-subscription-ack": "SUCCESS",
        "sep-2575-server-tags-subscription-id": "SUCCESS",
        "sep-2575-server-honors-notification-filter": "SUCCESS",
        "sep-2575-server-sends-tools-list-changed-on-subscription": "SUCCESS",
        # There are no prompts.
        "sep-2575-server-sends-prompts-list-changed-on-subscription": "SKIPPED",
    }


def results(directory: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for file in directory.glob("*/checks.json"):
        match = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT.*", file.parent.name)
        assert match is not None, file.parent.name
        yield match[1], json.loads(file.read_text(encoding="utf-8"))


def faults_of(scenario: str, checks: list[dict[str, Any]]) -> set[str]:
    """The checks that did not go well; a scenario that checked nothing did not pass either."""
    faults = {f"{scenario}:{check['id']}" for check in checks if check["status"] not in ("SUCCESS", "INFO")}
    succeeded = any(check["status"] == "SUCCESS" and check["id"] != "wire-schema-valid" for check in checks)
    return faults if faults or succeeded else {f"{scenario}:nothing-checked"}


def scenario_of(check: str) -> str:
    return check.partition(":")[0]
