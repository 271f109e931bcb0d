"""What the README says is so; `pytest --snapshot-update` rewrites the tables it can know itself."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.house.code_lines import package_lines

from apcore_compiler.rules import RULES, agent_rules

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

PURPOSE = {
    "apcore_agents": "tool pool, lock, agent profiles, HTTP tools, secrets, failure events",
    "apcore_compiler": "source -> snapshot -> program -> artifacts; checks and diagnostics",
    "apcore_host": "what a server needs beside MCP: streams, signals, options, approvals, masking",
    "apcore_mcp": "the adapter: schemas, annotations, names; the MCP server; the `apcore-mcp` command",
    "apcore_openai": "the OpenAI side: strict mode, tool files, the dispatcher for tool calls",
    "apcore_runtime": "what generated code imports: `ToolSpec`, modules loaded at their first call",
    "apcore_tree": "the hierarchical tree engine and its agent tools",
}


def rules_table() -> str:
    rules = (*RULES, *agent_rules())
    rows = [f"| {rule.code} | `{rule.slug}` | {rule.severity.value} | {rule.why} |" for rule in rules]
    return "\n".join(["| code | rule | level | why |", "|---|---|---|---|", *rows])


def sizes_table() -> str:
    packages = sorted(path for path in (ROOT / "src").iterdir() if (path / "__init__.py").is_file())
    rows = [f"| `{path.name}` | {PURPOSE[path.name]} | {package_lines(path):,} |" for path in packages]
    return "\n".join(["| package | what lives there | code lines |", "|---|---|---|", *rows])


@pytest.mark.parametrize(("name", "table"), [("rules", rules_table), ("sizes", sizes_table)])
def test_tables_are_current(name: str, table: object, request: pytest.FixtureRequest) -> None:
    text = README.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    current = pattern.sub(lambda match: f"{match[1]}{table()}\n{match[2]}", text)  # type: ignore[operator]
    assert pattern.search(text)
    if request.config.getoption("update_snapshots"):
        README.write_text(current, encoding="utf-8")
    else:
        assert text == current


def commands() -> list[str]:
    return re.findall(r"^python3 -m venv .*$", README.read_text(encoding="utf-8"), re.MULTILINE)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert len(commands()) == 2
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1] == commands()[1]


def test_the_first_command_builds_and_serves_on_a_fresh_copy(tmp_path: Path) -> None:
    copy = tmp_path / "apcore-mcp"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache", "generated"))
    # Over stdio, which ends by itself when its input does.
    command, _, _ = commands()[0].partition(" --transport")
    requests = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
         "clientInfo": {"name": "readme", "version": "1"}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]  # fmt: skip
    lines = "".join(json.dumps({"jsonrpc": "2.0", **request}) + "\n" for request in requests)
    command = command.replace("python3", sys.executable, 1)
    result = subprocess.run(
        command, shell=True, cwd=copy, input=lines, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    # What the build has to remark comes first.
    sent = [json.loads(line) for line in result.stdout.splitlines() if line.startswith('{"jsonrpc"')]
    answers = {answer.get("id"): answer for answer in sent}
    expected = (ROOT / "generated" / "tools.json").read_text(encoding="utf-8")
    assert answers[2]["result"]["tools"] == json.loads(expected)["tools"]
