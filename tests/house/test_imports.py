"""The packages know each other in one direction only."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"

OURS = {path.name for path in SRC.iterdir() if path.is_dir() and not path.name.endswith(".egg-info")}
BUILD_ONLY = {"jinja2", "markupsafe", "ruff"}

# What a package may import of ours, and of the libraries that stand on one side of the seam.
MAY_IMPORT = {
    "apcore_runtime": set(),
    "apcore_host": {"apcore_runtime"},
    "apcore_mcp": {"apcore_runtime", "apcore_host", "apcore_openai", "mcp", "click"},
    "apcore_openai": {"apcore_runtime", "apcore_host", "apcore_mcp"},
    "apcore_compiler": {"apcore_runtime", "apcore_mcp", "apcore_openai", "click", *BUILD_ONLY},
    "apcore_agents": {"apcore_runtime", "apcore_host", "apcore_mcp", "apcore_openai", "mcp", "click"},
    "apcore_tree": set(),
}
WATCHED = OURS | BUILD_ONLY | {"mcp", "mcp_types", "click"}


def imports_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return names


def packages_of(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports_of(path)}


@pytest.mark.parametrize("package", sorted(OURS))
def test_a_package_imports_only_what_lies_below_it(package: str) -> None:
    allowed = MAY_IMPORT[package] | {package}
    if "mcp" in allowed:
        allowed.add("mcp_types")
    wrong = {
        str(path.relative_to(SRC)): bad
        for path in (SRC / package).rglob("*.py")
        if (bad := (packages_of(path) & WATCHED) - allowed)
    }
    assert wrong == {}


def test_only_the_server_knows_the_mcp_sdk() -> None:
    outside = [path for path in (SRC / "apcore_mcp").rglob("*.py") if "server" not in path.relative_to(SRC).parts]
    assert outside
    assert [path for path in outside if packages_of(path) & {"mcp", "mcp_types"}] == []


def test_only_the_command_line_knows_click() -> None:
    users = {path.name for path in (SRC / "apcore_mcp").rglob("*.py") if "click" in packages_of(path)}
    assert users <= {"cli.py"}


def test_the_compiler_uses_the_adapters_and_no_other_part_of_the_server_package() -> None:
    used = {name for path in (SRC / "apcore_compiler").rglob("*.py") for name in imports_of(path)}
    ours = {name for name in used if name.startswith("apcore_mcp")}
    assert ours
    assert {name for name in ours if name != "apcore_mcp" and not name.startswith("apcore_mcp.adapters")} == set()
