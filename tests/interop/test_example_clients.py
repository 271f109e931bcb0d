"""The scripts of `examples/clients`, each in an environment that has its package."""

import pytest
from tests.interop.environments import ROOT, Python, run
from tests.requirements import requirement

CLIENTS = ROOT / "examples" / "clients"
ASKED = "asked: Refund 23.48 pounds for order B-1002?"

# What a script must have seen, and the environments it runs in.
EXPECTED = {
    "mcp_1x": (("mcp-1",), ["catalogue.search", "progress: 2 of 2", ASKED, "# Searching the catalogue"]),
    "mcp_2x": (("mcp-2",), ["MCP 2026-07-28", "catalogue.search", "progress: 2 of 2", ASKED, "# Searching"]),
    "fastmcp_client": (("mcp-2",), ["catalogue.search", "found: The Waves", "progress: 2 of 2", ASKED, "# Searching"]),
    "langchain_tools": (("mcp-1",), ["catalogue-search", "tool message: call_1", "The Waves"]),
    "openai_agents": (("mcp-1", "mcp-2"), ["mcp_bookshop__catalogue_search", "The Waves"]),
    "openai_round_trip": (
        ("mcp-1", "mcp-2"),
        ["catalogue-search", "'tool_call_id': 'call_1'", "'call_id': 'call_2'", "The Waves", "Module not found"],
    ),
    "anthropic_round_trip": (("mcp-1", "mcp-2"), ["catalogue-search", "'tool_use_id': 'toolu_1'", "The Waves"]),
}


@pytest.mark.parametrize(
    ("script", "sdk"), [(script, name) for script, (names, _) in EXPECTED.items() for name in names], indirect=["sdk"]
)
@requirement("NFR-COMPAT-004")
def test_the_script_sees_what_it_came_for(script: str, sdk: Python) -> None:
    done = run([sdk.executable, str(CLIENTS / f"{script}.py")])
    assert done.returncode == 0, done.stderr
    assert [text for text in EXPECTED[script][1] if text not in done.stdout] == [], done.stdout


def test_every_script_is_run_and_in_the_table() -> None:
    scripts = {path.stem for path in CLIENTS.glob("*.py")}
    assert scripts == EXPECTED.keys()
    table = (CLIENTS / "README.md").read_text(encoding="utf-8")
    assert [script for script in scripts if f"]({script}.py)" not in table] == []
